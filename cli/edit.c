/* zenith edit: a picture with more or less of an attribute, by the classifier of a diffusion autoencoder; and what
 * attributes there are. */
#include "commands.h"
#include "diffusion.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { STEPS = 100, MOST = 1000 }; /* amounts */

typedef struct change {
    const options *o;
    const char *attribute; /* as the classifier calls it */
    double *amounts;
    int count;
} change;

/* ---- amounts ---- */

/* "-0.3,0,0.3"; 0 after saying that it is none. */
static int parse_amounts(change *c, const char *text)
{
    c->amounts = must_alloc(NULL, MOST * sizeof *c->amounts);
    for (const char *at = text; c->count < MOST;) {
        char *end;
        const double v = strtod(at, &end);
        if (end == at || !isfinite(v) || fabs(v) > 1e6 || (*end && *end != ','))
            break;
        c->amounts[c->count++] = v;
        if (!*end)
            return 1;
        at = end + 1;
    }
    usage_error("edit", "--amount needs numbers, parted by commas, not '%s'", text);
    return 0;
}

/* ---- attributes ---- */

static int attribute_count(const zn_diffae *d)
{
    int count = 0;
    while (zn_diffae_attribute(d, count))
        count++;
    return count;
}

/* The attribute as the classifier calls it, by its number or its name in any case of letters; otherwise the word
 * itself. */
static const char *attribute_like(const zn_diffae *d, const char *word)
{
    const char *name;
    for (int i = 0; (name = zn_diffae_attribute(d, i)); i++)
        if (!strcasecmp(name, word))
            return name;
    const int number = strspn(word, "0123456789") == strlen(word) && strlen(word) < 6 ? atoi(word) : -1;
    name = zn_diffae_attribute(d, number);
    return name ? name : word;
}

static void complain_unknown(const zn_diffae *d, const char *word)
{
    const int count = attribute_count(d);
    const char **names = must_alloc(NULL, (size_t)(count + 1) * sizeof *names);
    for (int i = 0; i < count; i++)
        names[i] = zn_diffae_attribute(d, i);
    const char *near = nearest_word(word, names, count);
    if (near)
        complain("there is no attribute '%s', did you mean '%s'?", word, near);
    else
        complain("there is no attribute '%s': --list names those there are", word);
    free(names);
}

static int list(const options *o)
{
    session s = { 0 };
    const int status = diffusion_open(&s, o, ZN_CLASSIFIER);
    if (!status) {
        facts f;
        const char *name;
        facts_begin(&f, o->json);
        if (f.json)
            json_open(&f.out, "attributes", '[');
        for (int i = 0; (name = zn_diffae_attribute(s.diffae, i)); i++) {
            if (f.json)
                json_text(&f.out, NULL, name);
            else
                say("%3d  %s\n", i, name);
        }
        if (f.json)
            json_close(&f.out, ']');
        facts_end(&f);
    }
    session_close(&s);
    return status;
}

/* ---- the picture ---- */

static int render_all(const change *c, diffusion *d, const parts *p, float *moved, results *r)
{
    int status = 0;
    for (int i = 0; i < c->count && !status; i++) {
        zn_image *picture = NULL;
        if (zn_diffae_move(d->s->diffae, p->cond, c->attribute, c->amounts[i], moved) == ZN_OK &&
            diffusion_render(d, moved, p->noise, &picture) == ZN_OK) {
            status = results_add(r, picture);
        } else {
            complain_about(c->o->files[0]);
            status = EXIT_FAILURE;
        }
    }
    return status;
}

static int make(void *self, diffusion *d, results *r)
{
    change *c = self;
    parts p = { 0 };
    int status = EXIT_FAILURE;
    float *moved = must_alloc(NULL, (size_t)zn_diffae_width(d->s->diffae) * sizeof *moved);
    memset(moved, 0, (size_t)zn_diffae_width(d->s->diffae) * sizeof *moved);
    c->attribute = attribute_like(d->s->diffae, c->o->attribute);
    /* An unknown attribute is told before the long way to the noise. */
    if (zn_diffae_move(d->s->diffae, moved, c->attribute, 0, moved) != ZN_OK)
        complain_unknown(d->s->diffae, c->o->attribute);
    else if (diffusion_take(d, c->o->files[0], &p) != ZN_OK)
        complain_about(c->o->files[0]);
    else
        status = render_all(c, d, &p, moved, r);
    free(moved);
    parts_free(&p);
    return status;
}

static void report(const void *self, facts *f)
{
    const change *c = self;
    fact_text(f, "input", c->o->files[0]);
    fact_text(f, "attribute", c->attribute);
    if (!f->json) {
        fact_text(f, "amount", c->o->amount);
        return;
    }
    json_open(&f->out, "amounts", '[');
    for (int i = 0; i < c->count; i++)
        json_real(&f->out, NULL, c->amounts[i]);
    json_close(&f->out, ']');
}

int edit_run(const options *o)
{
    if (o->list)
        return o->file_count ? usage_error("edit", "--list takes no file") : list(o);
    if (o->file_count != 1)
        return usage_error("edit", "needs a picture");
    if (!o->attribute)
        return usage_error("edit", "--attribute is needed: --list names those there are");
    options mine = *o;
    mine.amount = o->amount ? o->amount : "0.3";
    change c = { .o = &mine };
    int status = EXIT_USAGE;
    if (parse_amounts(&c, mine.amount)) {
        const diffusion_command all = { .expected = c.count,
                                        .columns = c.count,
                                        .steps = STEPS,
                                        .inversions = 1,
                                        .needs = ZN_CLASSIFIER,
                                        .make = make,
                                        .report = report,
                                        .self = &c };
        status = diffusion_run(&mine, &all);
    }
    free(c.amounts);
    return status;
}
