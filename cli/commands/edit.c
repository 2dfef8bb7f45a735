/* zenith edit: strengthens or weakens an attribute of an image with the classifier of a diffusion autoencoder. Also
 * lists the attributes. */
#include "commands.h"
#include "options/model_names.h"
#include "options/values.h"
#include "session/diffusion.h"
#include "ui/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MOST: maximum number of amounts. Beyond USEFUL_AMOUNT no model of ours makes a good image. */
enum { STEPS = 100, MOST = 1000, USEFUL_AMOUNT = 2 };

typedef struct change {
    const options *o;
    double *amounts, *scores; /* scores: probability that each result shows the attribute, encoded again */
    double *asked;            /* the same of the condition that it was rendered from */
    zn_diffae_edit edit;      /* its attribute: the name in the classifier */
    int count, row;
} change;

/* ---- amounts ---- */

/* Returns 0 after reporting an error. */
static int read_amounts(change *c, const char *text)
{
    c->amounts = must_alloc(NULL, 3 * MOST * sizeof *c->amounts);
    c->scores = c->amounts + MOST;
    c->asked = c->scores + MOST;
    c->count = parse_amounts(text, c->amounts, MOST);
    if (!c->count)
        usage_error("edit", "--amount needs comma-separated numbers from -%d to %d, not '%s'", MOST_AMOUNT, MOST_AMOUNT,
                    text);
    return c->count;
}

/* Before minutes of work. */
static void remark_on_amounts(const change *c)
{
    double largest = 0;
    for (int i = 0; i < c->count; i++)
        largest = fabs(c->amounts[i]) > fabs(largest) ? c->amounts[i] : largest;
    if (fabs(largest) > USEFUL_AMOUNT)
        note(c->o, "--amount %g is far outside the useful range of about -1 to 1: the image will not look natural",
             largest);
}

/* ---- attributes ---- */

/* The bundled model that has this attribute, or NULL. `used` is the one that has not. */
static const char *bundled_with(const char *word, const char *used)
{
    static const char *const bundled[] = { DIFFUSION_MODEL, "diffae-pets" };
    const char *found = NULL;
    if (!word[strspn(word, "0123456789")])
        return NULL; /* a number means something else in each model */
    for (size_t i = 0; i < sizeof bundled / sizeof *bundled && !found; i++) {
        zn_model *model = NULL;
        zn_diffae *net = NULL;
        int row;
        if (strcmp(bundled[i], used) && zn_model_find(bundled[i], &model) == ZN_OK &&
            zn_diffae_new(model, NULL, &net) == ZN_OK && zn_diffae_find_attribute(net, word, &row) == ZN_OK)
            found = bundled[i];
        zn_diffae_free(net);
        zn_model_free(model);
    }
    return found;
}

/* After a failure of zn_diffae_find_attribute, whose sentence names the attributes that there are. */
static void complain_unknown(const session *s, const char *word)
{
    const zn_diffae *d = diffusion_net(s);
    char *why = must_copy(zn_error_text()), *model = s->o->model ? must_copy(s->o->model) : model_name(s->info->path);
    const char **names = must_alloc(NULL, (size_t)(zn_diffae_attribute_count(d) + 1) * sizeof *names);
    int count = 0;
    while ((names[count] = zn_diffae_attribute(d, count)) != NULL)
        count++;
    const char *near = nearest_word(word, names, count), *other = bundled_with(word, model);
    if (other)
        complain("%s has no attribute '%s', but %s has it: give --model %s", model, word, other, other);
    else if (near)
        complain("%s has no attribute '%s', did you mean '%s'?", model, word, near);
    else
        complain("%s: %s; --list prints all", model, why);
    free(names);
    free(model);
    free(why);
}

/* Reports an error and returns 0 if the requested attribute does not exist. */
static int find_attribute(change *c, const session *s)
{
    const zn_diffae *d = diffusion_net(s);
    if (zn_diffae_find_attribute(d, c->o->attribute, &c->row) != ZN_OK) {
        complain_unknown(s, c->o->attribute);
        return 0;
    }
    const char *name = zn_diffae_attribute(d, c->row);
    c->edit.attribute = name ? name : c->o->attribute;
    return 1;
}

/* Prints one attribute of a list: number, name (or the number again, which --attribute takes too) and, if there is an
 * image, the probability that it shows it. */
static void list_one(facts *f, int number, const char *name, const float *score)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    name = name ? name : text;
    if (!f->json && score)
        say("%3d  %5.1f %%  %s\n", number, 100 * (double)*score, name);
    else if (!f->json)
        say("%3d  %s\n", number, name);
    else {
        json_open(&f->out, NULL, '{');
        json_integer(&f->out, "number", number);
        json_text(&f->out, "attribute", name);
        if (score)
            json_real(&f->out, "score", (double)*score);
        json_close(&f->out, '}');
    }
}

/* Lists all attributes; scores may be NULL. */
static void list_all(const options *o, const zn_diffae *d, const float *scores)
{
    facts f;
    facts_begin(&f, o->json);
    if (f.json)
        json_open(&f.out, "attributes", '[');
    for (int i = 0; i < zn_diffae_attribute_count(d); i++)
        list_one(&f, i, zn_diffae_attribute(d, i), scores ? &scores[i] : NULL);
    if (f.json)
        json_close(&f.out, ']');
    facts_end(&f);
}

static int list(const options *o)
{
    session s = { 0 };
    int status = diffusion_open(&s, o, ZN_CLASSIFIER);
    float *scores = NULL;
    if (!status && o->file_count) {
        parts p = { 0 };
        scores = must_alloc(NULL, (size_t)zn_diffae_attribute_count(diffusion_net(&s)) * sizeof *scores);
        if (diffusion_read(&s, o->files[0], &p) != ZN_OK ||
            zn_diffae_judge(diffusion_net(&s), p.cond, scores) != ZN_OK) {
            complain_about(o->files[0]);
            status = EXIT_FAILURE;
        }
        parts_free(&p);
    }
    if (!status)
        list_all(o, diffusion_net(&s), scores);
    free(scores);
    session_close(&s);
    return status;
}

/* ---- the image ---- */

static zn_status judge_image(zn_diffae *net, const zn_image *picture, float *cond, float *scores)
{
    const zn_status status = zn_diffae_encode(net, picture, cond);
    return status == ZN_OK ? zn_diffae_judge(net, cond, scores) : status;
}

/* Renders image number i and computes its score. */
static zn_status render_one(change *c, diffusion *d, const parts *p, int i, zn_image **picture)
{
    zn_diffae *net = diffusion_net(d->s);
    const size_t width = (size_t)zn_diffae_width(net);
    const size_t classes = (size_t)zn_diffae_attribute_count(net);
    float *moved = must_alloc(NULL, (width + classes + zn_diffae_noise_size(net, 1)) * sizeof *moved),
          *scores = moved + width, *noise = scores + classes;
    const int goal_steps = zn_diffae_edit_steps(&c->edit, &c->amounts[i], 1);
    if (goal_steps)
        diffusion_stage(d, "imagine", goal_steps);
    zn_status status = zn_diffae_edit_by(net, &c->edit, p->cond, p->noise, c->amounts[i], moved, noise);
    if (status == ZN_OK)
        status = zn_diffae_judge(net, moved, scores);
    c->asked[i] = status == ZN_OK ? (double)scores[c->row] : 0;
    if (status == ZN_OK)
        status = diffusion_render(d, moved, noise, 0, picture);
    if (status == ZN_OK && p->picture->grey)
        zn_image_make_grey(*picture);
    if (status == ZN_OK && (status = judge_image(net, *picture, moved, scores)) != ZN_OK) {
        zn_image_free(*picture);
        *picture = NULL;
    }
    if (status == ZN_OK)
        c->scores[i] = (double)scores[c->row];
    free(moved);
    return status;
}

/* Reports an error and returns 0 if something is missing: checked before the slow inversion to noise. */
static int can_start(change *c, const session *s)
{
    if (!find_attribute(c, s))
        return 0;
    if (c->o->imagine && !s->info->has_latent_net) {
        complain("%s has no latent net, which --imagine needs: give its weights with --latent", s->info->path);
        return 0;
    }
    return 1;
}

static int make(void *self, diffusion *d, results *r)
{
    change *c = self;
    parts p = { 0 };
    int status = 0;
    if (!can_start(c, d->s))
        return EXIT_FAILURE;
    zn_status done = diffusion_take(d, c->o->files[0], &p);
    for (int i = 0; i < c->count && done == ZN_OK && !status; i++) {
        zn_image *picture = NULL;
        done = render_one(c, d, &p, i, &picture);
        if (done == ZN_OK)
            status = results_add(r, picture);
    }
    if (done != ZN_OK) {
        complain_about(c->o->files[0]);
        status = EXIT_FAILURE;
    }
    parts_free(&p);
    return status;
}

static void numbers(facts *f, const char *key, const double *values, int count)
{
    json_open(&f->out, key, '[');
    for (int i = 0; i < count; i++)
        json_real(&f->out, NULL, values[i]);
    json_close(&f->out, ']');
}

static void report(const void *self, facts *f)
{
    const change *c = self;
    fact_text(f, "input", c->o->files[0]);
    fact_text(f, "attribute", c->edit.attribute);
    if (c->o->imagine)
        fact_text(f, "way", "imagined");
    if (f->json) {
        numbers(f, "amounts", c->amounts, c->count);
        numbers(f, "scores", c->scores, c->count);
        numbers(f, "condition_scores", c->asked, c->count);
        return;
    }
    for (int i = 0; i < c->count; i++)
        say("%-15s %-8g %5.1f %%\n", i ? "" : "amount, score", c->amounts[i], 100 * c->scores[i]);
}

int edit_run(const options *o)
{
    if (o->list)
        return list(o);
    if (o->file_count != 1)
        return usage_error("edit", "needs an image");
    if (!o->attribute)
        return usage_error("edit", "--attribute is needed: --list prints them");
    options mine = *o;
    mine.amount = o->amount ? o->amount : o->imagine ? "1" : "0.3";
    change c = { .o = &mine, .edit = { .imagine = o->imagine, .seed = o->seed } };
    int status = EXIT_USAGE;
    if (read_amounts(&c, mine.amount)) {
        remark_on_amounts(&c);
        const diffusion_command all = { .expected = c.count,
                                        .steps = STEPS,
                                        .inversions = 1,
                                        .more = zn_diffae_edit_steps(&c.edit, c.amounts, c.count),
                                        .needs = ZN_CLASSIFIER,
                                        .make = make,
                                        .report = report,
                                        .self = &c };
        status = diffusion_run(&mine, &all);
    }
    free(c.amounts);
    zn_diffae_edit_clear(&c.edit);
    return status;
}
