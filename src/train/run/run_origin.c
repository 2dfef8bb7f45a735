/* origin.json: what the recipe does not tell of how a run was begun. Which of its settings were options of a call, for
 * these need not be said again when the run is resumed, and so for settings that changed its recipe; a digest of the
 * teacher's weights or of the labels, for a run that goes on with others would not be the one that was stopped; and on
 * which device, in how many parts and on how many ranks, for others give other bits. Of runs of a time without this
 * file nothing of it is known. */
#include "base/fail.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "train/run/run.h"

#include <stdio.h>
#include <string.h>

static const char *const option_names[] = {
    "seed", "from", "steps", "precision", "labels", "captions"
}; /* by bit of ZN_SAID_.. */
enum { OPTIONS = sizeof option_names / sizeof *option_names };

static const char *source_of(const zn_recipe *k)
{
    return k->teacher[0] ? "teacher" : k->captions[0] ? "captions" : "labels";
}

/* ---- the file ---- */

static unsigned read_options(const zn_json_node *list)
{
    unsigned options = 0;
    ZN_JSON_EACH(name, list)
    for (int i = 0; i < OPTIONS; i++)
        if (zn_json_string(name) && strcmp(zn_json_string(name), option_names[i]) == 0)
            options |= 1u << i;
    return options;
}

/* One that does not fit is forgotten: it has to be given again. */
static void add_setting(zn_run_origin *o, const char *setting)
{
    const size_t used = strlen(o->settings), size = strlen(setting);
    if (used + size + 2 <= sizeof o->settings)
        snprintf(o->settings + used, sizeof o->settings - used, "%s\n", setting);
}

void zn_run_read_origin(zn_run *r)
{
    char path[ZN_RUN_PATH];
    zn_map map;
    zn_json doc;
    zn_run_origin *from = &r->origin;
    const zn_recipe *k = &r->recipe;
    *from = (zn_run_origin){ 0 };
    strcpy(from->name, k->teacher[0] ? k->teacher : k->captions[0] ? k->captions : k->labels);
    zn_run_path(r, "origin.json", path);
    if (zn_map_open(&map, path) != ZN_OK)
        return;
    if (zn_json_parse(&doc, map.bytes, map.size, path) == ZN_OK) {
        const zn_json_node *options = zn_json_get(doc.root, "options");
        const char *digest = zn_json_string(zn_json_get(doc.root, source_of(k)));
        from->tells_options = options != NULL;
        from->options = read_options(options);
        const char *device = zn_json_string(zn_json_get(doc.root, "device"));
        snprintf(from->digest, sizeof from->digest, "%s", digest ? digest : "");
        snprintf(from->device, sizeof from->device, "%s", device ? device : "");
        ZN_JSON_EACH(setting, zn_json_get(doc.root, "settings"))
        if (zn_json_string(setting))
            add_setting(from, zn_json_string(setting));
        zn_json_update_int(doc.root, "ranks", &from->ranks);
        zn_json_update_int(doc.root, "parts", &from->parts);
        zn_json_free(&doc);
    }
    zn_map_close(&map);
}

static void write_options(zn_json_out *text, unsigned options)
{
    const char *before = "";
    zn_json_out_format(text, "\"options\": [");
    for (int i = 0; i < OPTIONS; i++)
        if (options & 1u << i) {
            zn_json_out_format(text, "%s\"%s\"", before, option_names[i]);
            before = ", ";
        }
    zn_json_out_format(text, "], ");
}

static void write_settings(zn_json_out *text, const char *settings)
{
    char line[sizeof((zn_run_origin *)0)->settings];
    const char *before = "";
    zn_json_out_format(text, "\"settings\": [");
    for (const char *at = settings; *at; at += strcspn(at, "\n") + 1) {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        zn_json_out_format(text, "%s", before);
        zn_json_out_string(text, line);
        before = ", ";
    }
    zn_json_out_format(text, "], ");
}

zn_status zn_run_set_again(const zn_run *r, zn_recipe *recipe)
{
    char line[sizeof r->origin.settings];
    for (const char *at = r->origin.settings; *at; at += strcspn(at, "\n") + 1) {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        ZN_TRY(zn_recipe_set(line, recipe));
    }
    return zn_recipe_set_all(r->options.settings, recipe);
}

/* ---- ranks ---- */

/* Is the order in which this many ranks add up so many parts that of one alone? See zn_trainer_divide. */
static bool adds_like_one(int parts, int ranks)
{
    const int own = parts / ranks;
    return ranks == 1 || (own & (own - 1)) == 0;
}

zn_status zn_run_divide(const zn_run *r, const zn_recipe *recipe, int *parts, int *batch)
{
    const int had = r->origin.parts;
    zn_recipe k = *recipe;
    if (r->has_checkpoint && had && had % zn_ranks_count(r->options.ranks) == 0 && k.batch % had == 0)
        k.accumulate = had;
    return zn_trainer_divide(&k, r->options.ranks, parts, batch);
}

static void tell_other_order(const zn_run *r, int ranks, int parts)
{
    char sentence[ZN_RUN_PATH + 256];
    const zn_run_origin *had = &r->origin;
    if (!r->has_checkpoint || !had->parts || !had->ranks || !r->options.remark)
        return;
    if (parts == had->parts &&
        (ranks == had->ranks || (adds_like_one(parts, ranks) && adds_like_one(parts, had->ranks))))
        return;
    snprintf(sentence, sizeof sentence,
             "%s goes on with ranks: %d, where it had %d: gradients are added up in another order, so it will be like "
             "one that was never stopped but for rounding",
             r->options.folder, ranks, had->ranks);
    r->options.remark(r->options.user, sentence);
}

/* ---- device ---- */

const char *zn_run_device(const zn_run *r, const char *asked)
{
    return asked || !r->options.resume || !r->origin.device[0] ? asked : r->origin.device;
}

/* "cuda" and "cuda:1" are GPUs. */
static bool is_gpu(const char *device) { return strncmp(device, "cuda", 4) == 0; }

static void tell_other_device(const zn_run *r)
{
    char sentence[ZN_RUN_PATH + 160];
    const char *now = r->on_device, *had = r->origin.device;
    if (!r->has_checkpoint || !had[0] || is_gpu(now) == is_gpu(had) || !r->options.remark)
        return;
    snprintf(
        sentence, sizeof sentence,
        "%s goes on with --device %s, where it had %s: it will be like one that was never stopped but for rounding",
        r->options.folder, now, had);
    r->options.remark(r->options.user, sentence);
}

/* A run that was killed before its first checkpoint. */
static void tell_start(const zn_run *r)
{
    char sentence[ZN_RUN_PATH + 64];
    if (!r->options.resume || r->has_checkpoint || !r->options.remark)
        return;
    snprintf(sentence, sizeof sentence, "%s has no checkpoint yet: it starts again at its first step",
             r->options.folder);
    r->options.remark(r->options.user, sentence);
}

zn_status zn_run_note_origin(zn_run *r)
{
    char path[ZN_RUN_PATH];
    zn_json_out text = { 0 };
    const int ranks = zn_ranks_count(r->options.ranks), parts = r->trainer->parts;
    if (r->first == zn_run_steps_before(r, r->stage_count))
        return ZN_OK; /* nothing will be done */
    tell_start(r);
    tell_other_order(r, ranks, parts);
    tell_other_device(r);
    zn_json_out_format(&text, "{");
    if (!r->options.resume || r->origin.tells_options)
        write_options(&text, r->origin.options | r->said);
    for (const char *const *s = r->options.settings; s && *s && !r->options.resume; s++)
        add_setting(&r->origin, *s);
    if (r->origin.settings[0])
        write_settings(&text, r->origin.settings);
    if (r->digest[0])
        zn_json_out_format(&text, "\"%s\": \"%s\", ", source_of(&r->recipe), r->digest);
    zn_json_out_format(&text, "\"device\": \"%s\", \"ranks\": %d, \"parts\": %d}\n", r->on_device, ranks, parts);
    zn_run_path(r, "origin.json", path);
    const zn_status status = text.failed ? ZN_FAIL(ZN_ENOMEM, "out of memory for the origin of a run")
                                         : zn_file_write(path, text.bytes, text.size);
    zn_json_out_free(&text);
    return status;
}

/* ---- what a run learns from ---- */

static zn_status check_digest(const zn_run *r, const char *name)
{
    const zn_run_origin *had = &r->origin;
    const char *what = source_of(&r->recipe);
    if (!had->digest[0] || strcmp(had->digest, r->digest) == 0)
        return ZN_OK;
    if (strcmp(had->name, name) == 0)
        return ZN_FAIL(ZN_EINVALID,
                       "%s: a resumed run keeps its %s, and the contents of %s are not those it was begun with: put "
                       "them back, or begin a new run",
                       r->options.folder, what, name);
    return ZN_FAIL(ZN_EINVALID,
                   "%s: a resumed run keeps its %s, %s, and the contents of %s are others: leave that out, or begin a "
                   "new run",
                   r->options.folder, what, had->name, name);
}

zn_status zn_run_check_teacher(zn_run *r)
{
    const zn_model *m = r->teacher;
    zn_sha256 h;
    zn_sha256_start(&h);
    zn_sha256_add(&h, m->config.name, strlen(m->config.name) + 1);
    for (int i = 0; i < m->count; i++) {
        const zn_model_parameter *p = &m->parameters[i];
        zn_sha256_add(&h, p->name, strlen(p->name) + 1);
        zn_sha256_add(&h, p->shape.dim, sizeof *p->shape.dim * (size_t)p->shape.rank);
        zn_sha256_add(&h, p->data, sizeof *p->data * (size_t)zn_shape_count(p->shape));
    }
    zn_sha256_finish_hex(&h, r->digest);
    return check_digest(r, r->recipe.teacher);
}

zn_status zn_run_check_labels(zn_run *r)
{
    const zn_labels *l = r->on.labels;
    zn_sha256 h;
    zn_sha256_start(&h);
    for (int i = 0; i < l->count; i++)
        zn_sha256_add(&h, l->names[i], strlen(l->names[i]) + 1);
    for (int64_t i = 0; i < l->pictures; i++) {
        zn_sha256_add(&h, l->list[i].file, strlen(l->list[i].file) + 1);
        zn_sha256_add(&h, l->list[i].has, (size_t)l->count);
    }
    zn_sha256_finish_hex(&h, r->digest);
    return check_digest(r, r->recipe.labels);
}

zn_status zn_run_check_captions(zn_run *r)
{
    const zn_captions *c = r->said_of.captions;
    zn_sha256 h;
    zn_sha256_start(&h);
    for (int64_t i = 0; i < c->count; i++) {
        zn_sha256_add(&h, c->list[i].file, strlen(c->list[i].file) + 1);
        zn_sha256_add(&h, c->list[i].text, strlen(c->list[i].text) + 1);
    }
    zn_sha256_finish_hex(&h, r->digest);
    return check_digest(r, r->recipe.captions);
}
