/* data.jsonl: the pictures that a run is made with. A line for each set of them, with the step from which on it was
 * used; a second one is there only if the run was resumed with other pictures. */
#define _DEFAULT_SOURCE
#include "base/fail.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "train/run/run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct pictures {
    int64_t step; /* the first one */
    char path[PATH_MAX];
    int64_t count;
    char digest[65];
} pictures;

/* Names and sizes distinguish sets; where the folder lies does not matter. */
static void digest_of(const zn_dataset *set, char hex[65])
{
    const int64_t bytes = zn_dataset_bytes(set);
    zn_sha256 h;
    zn_sha256_start(&h);
    for (int64_t i = 0; i < zn_dataset_count(set); i++)
        zn_sha256_add(&h, zn_dataset_name(set, i), strlen(zn_dataset_name(set, i)) + 1);
    zn_sha256_add(&h, &bytes, sizeof bytes);
    zn_sha256_finish_hex(&h, hex);
}

/* Takes a line of a step before `end`; false for any other. */
static bool read_line(const char *line, size_t length, int64_t end, pictures *out)
{
    zn_json doc;
    out->step = end;
    if (zn_json_parse(&doc, line, length, "data.jsonl") != ZN_OK)
        return false;
    const char *path = zn_json_string(zn_json_get(doc.root, "path"));
    const char *digest = zn_json_string(zn_json_get(doc.root, "digest"));
    const bool good = zn_json_i64(zn_json_get(doc.root, "step"), &out->step) && out->step < end && path && digest &&
                      zn_json_i64(zn_json_get(doc.root, "pictures"), &out->count);
    snprintf(out->path, sizeof out->path, "%s", good ? path : "");
    snprintf(out->digest, sizeof out->digest, "%s", good ? digest : "");
    zn_json_free(&doc);
    return good;
}

/* Keeps the lines of steps that are done, and the last of them as `was`, which stays empty if there is none. Where
 * that line begins in the text is *last. */
static zn_status read_old(const char *path, int64_t end, pictures *was, zn_json_out *text, size_t *last)
{
    zn_map map;
    *was = (pictures){ 0 };
    *last = 0;
    const zn_status status = zn_map_open(&map, path);
    if (status != ZN_OK) /* a new run, or one of a time without this file; or it cannot be read */
        return status == ZN_ENOTFOUND ? ZN_OK : status;
    for (size_t at = 0; at < map.size;) {
        const char *line = (const char *)map.bytes + at, *over = memchr(line, '\n', map.size - at);
        if (!over || !read_line(line, (size_t)(over - line), end, was))
            break;
        *last = text->size;
        zn_json_out_raw(text, line, (size_t)(over - line) + 1);
        at += (size_t)(over - line) + 1;
    }
    zn_map_close(&map);
    return ZN_OK;
}

static int64_t count_held_out(const zn_run *r, int percent)
{
    int64_t held_out = 0;
    for (int64_t i = 0; i < zn_dataset_count(r->set); i++)
        held_out += zn_dataset_held_out(r->set, i, percent);
    return held_out;
}

static void add_line(const zn_run *r, const pictures *p, zn_json_out *text)
{
    const int64_t held_out = count_held_out(r, r->recipe.held_out);
    zn_json_out_format(text, "{\"step\": %lld, \"path\": ", (long long)p->step);
    zn_json_out_string(text, p->path);
    zn_json_out_format(text, ", \"pictures\": %lld, \"training\": %lld, \"held_out\": %lld, \"digest\": \"%s\"}\n",
                       (long long)p->count, (long long)(p->count - held_out), (long long)held_out, p->digest);
}

static void tell(const zn_run *r, const pictures *was, const pictures *now)
{
    char sentence[2 * PATH_MAX + 256];
    snprintf(sentence, sizeof sentence,
             "%s continues with other images than before: %lld in %s, where it had %lld in %s", r->options.folder,
             (long long)now->count, now->path, (long long)was->count, was->path);
    if (r->options.remark)
        r->options.remark(r->options.user, sentence);
}

/* Images are held out by a hash of their names: a small percentage of a few of them may be none. */
static void tell_none_held_out(const zn_run *r)
{
    char sentence[256], advice[64] = "";
    const int64_t count = zn_dataset_count(r->set);
    const int percent = r->recipe.held_out;
    if (percent <= 0 || count_held_out(r, percent) > 0 || !r->options.remark)
        return;
    for (int p = percent + 1; p <= 90 && !advice[0]; p++) {
        const int64_t held_out = count_held_out(r, p);
        if (held_out > 0 && held_out < count)
            snprintf(advice, sizeof advice, "; held_out: %d holds out %lld", p, (long long)held_out);
    }
    snprintf(sentence, sizeof sentence,
             "held_out: %d (percent) holds out none of %lld image%s, so nothing is evaluated%s", percent,
             (long long)count, count == 1 ? "" : "s", advice);
    r->options.remark(r->options.user, sentence);
}

/* Diffusion models are used on whole images of their size, but trained on crops: of much larger images on parts that
 * they are never asked for. The first image tells. */
static void tell_large(const zn_run *r)
{
    char sentence[256];
    zn_image *image;
    const int size = r->recipe.size;
    if (r->recipe.task != ZN_RECIPE_DIFFUSE || !r->options.remark || zn_dataset_count(r->set) < 1 ||
        zn_dataset_read(r->set, 0, &image) != ZN_OK) /* training will say what is wrong with it */
        return;
    const int width = image->width, height = image->height / zn_dataset_frames(r->set, 0);
    zn_image_free(image);
    if (2 * width <= 3 * size || 2 * height <= 3 * size)
        return;
    snprintf(
        sentence, sizeof sentence,
        "images such as %.80s (%dx%d) are cut to %dx%d, but the model is used on whole ones: 'zenith dataset build "
        "--size %d' scales them",
        zn_dataset_name(r->set, 0), width, height, size, size, size);
    r->options.remark(r->options.user, sentence);
}

zn_status zn_run_note_data(zn_run *r)
{
    char path[ZN_RUN_PATH];
    pictures was, now = { .step = r->first, .count = zn_dataset_count(r->set) };
    zn_json_out text = { 0 };
    size_t last;
    zn_status status = ZN_OK;
    if (r->first == zn_run_steps_before(r, r->stage_count))
        return ZN_OK; /* nothing will be done with them */
    if (!realpath(r->options.data, now.path))
        snprintf(now.path, sizeof now.path, "%s", r->options.data);
    digest_of(r->set, now.digest);
    zn_run_path(r, "data.jsonl", path);
    ZN_TRY(read_old(path, r->first, &was, &text, &last));
    const bool moved = strcmp(was.path, now.path) != 0, same = strcmp(was.digest, now.digest) == 0;
    if (!same || moved) {
        r->other_data = !same && was.digest[0] != 0;
        if (r->other_data)
            tell(r, &was, &now);
        if (!same) {
            tell_none_held_out(r);
            tell_large(r);
        }
        if (same) { /* the same images elsewhere: the next call finds them there */
            now.step = was.step;
            text.size = last;
        }
        add_line(r, &now, &text);
        status = text.failed ? ZN_FAIL(ZN_ENOMEM, "out of memory for the names of data")
                             : zn_file_write(path, text.bytes, text.size);
    }
    zn_json_out_free(&text);
    return status;
}

zn_status zn_run_recall_data(zn_run *r)
{
    char path[ZN_RUN_PATH];
    pictures was;
    zn_json_out text = { 0 };
    size_t last;
    zn_run_path(r, "data.jsonl", path);
    const zn_status status = read_old(path, INT64_MAX, &was, &text, &last);
    zn_json_out_free(&text);
    ZN_TRY(status);
    if (!was.path[0])
        return ZN_FAIL(ZN_ENOTFOUND, "%s does not tell which images it was trained on: name them with --data",
                       r->options.folder);
    if (!zn_exists(was.path))
        return ZN_FAIL(ZN_ENOTFOUND,
                       "the images that %s was trained on are gone from %s: say with --data where they "
                       "are now",
                       r->options.folder, was.path);
    snprintf(r->data, sizeof r->data, "%s", was.path);
    r->options.data = r->data;
    return ZN_OK;
}
