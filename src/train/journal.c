#include "train/journal.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/json.h"
#include "train/events.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zenith/restore.h>

struct zn_journal {
    char *folder;
    FILE *lines;
    zn_events *events;
    zn_journal_entry *entries;
    int64_t count, capacity;
    char sample[64]; /* file name of the last one, "" before the first */
};

enum { PATH_SIZE = 4096 };

static zn_status remember(zn_journal *j, const zn_journal_entry *e)
{
    if (j->count == j->capacity) {
        const int64_t capacity = j->capacity ? 2 * j->capacity : 256;
        zn_journal_entry *more = zn_realloc(j->entries, sizeof *more * (size_t)capacity);
        if (!more)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for the journal");
        j->entries = more;
        j->capacity = capacity;
    }
    j->entries[j->count++] = *e;
    return ZN_OK;
}

static const char *task_key(int task, char key[32])
{
    snprintf(key, 32, "psnr_%s", zn_task_name(ZN_TASK_DENOISE + task));
    return key;
}

static int entry_text(const zn_journal_entry *e, char *text, size_t size)
{
    int n = snprintf(text, size,
                     "{\"step\": %lld, \"loss\": %.9g, \"lr\": %.9g, \"images_per_second\": %.4g, "
                     "\"waited\": %.4f",
                     (long long)e->step, e->loss, e->lr, e->images_per_second, isnan(e->waited) ? 0 : e->waited);
    if (!isnan(e->psnr))
        n += snprintf(text + n, size - (size_t)n, ", \"psnr\": %.5f", e->psnr);
    char key[32];
    for (int i = 0; i < ZN_JOURNAL_TASKS; i++)
        if (!isnan(e->task_psnr[i]))
            n += snprintf(text + n, size - (size_t)n, ", \"%s\": %.5f", task_key(i, key), e->task_psnr[i]);
    return n + snprintf(text + n, size - (size_t)n, "}\n");
}

static double number(const zn_json_node *object, const char *name)
{
    double v;
    return zn_json_double(zn_json_get(object, name), &v) ? v : NAN;
}

/* Keeps the entries up to `step`; a half-written last line is dropped with the rest. */
static zn_status read_old(zn_journal *j, const char *path, int64_t step)
{
    zn_map map;
    if (zn_map_open(&map, path) != ZN_OK)
        return ZN_OK; /* a new run */
    zn_status status = ZN_OK;
    for (size_t at = 0; at < map.size && status == ZN_OK;) {
        const uint8_t *end = memchr(map.bytes + at, '\n', map.size - at);
        if (!end)
            break;
        zn_json doc;
        const size_t length = (size_t)(end - map.bytes) - at;
        if (zn_json_parse(&doc, map.bytes + at, length, path) == ZN_OK) {
            const zn_json_node *o = doc.root;
            zn_journal_entry e = { .step = (int64_t)number(o, "step"),
                                   .loss = number(o, "loss"),
                                   .lr = number(o, "lr"),
                                   .images_per_second = number(o, "images_per_second"),
                                   .waited = number(o, "waited"),
                                   .psnr = number(o, "psnr") };
            char key[32];
            for (int i = 0; i < ZN_JOURNAL_TASKS; i++)
                e.task_psnr[i] = number(o, task_key(i, key));
            if (e.step <= step)
                status = remember(j, &e);
            zn_json_free(&doc);
        }
        at += length + 1;
    }
    zn_map_close(&map);
    return status;
}

/* What is kept is put in place whole, so that a run cut off here loses nothing. */
static zn_status write_kept(const zn_journal *j, const char *path)
{
    zn_outfile out;
    ZN_TRY(zn_outfile_open(&out, path));
    for (int64_t i = 0; i < j->count; i++) {
        char text[512];
        zn_outfile_write(&out, text, (size_t)entry_text(&j->entries[i], text, sizeof text));
    }
    return zn_outfile_commit(&out);
}

zn_status zn_journal_open(const char *folder, int64_t step, zn_journal **out)
{
    zn_journal *j = zn_calloc(1, sizeof *j);
    char path[PATH_SIZE];
    *out = NULL;
    if (!j)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the journal");
    zn_status status;
    j->folder = zn_strdup(folder);
    if (!j->folder) {
        status = ZN_FAIL(ZN_ENOMEM, "out of memory for the journal");
        goto done;
    }
    snprintf(path, sizeof path, "%s/samples", folder);
    mkdir(path, 0777);
    zn_remove_temporaries(path);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    ZN_TRY_DONE(read_old(j, path, step));
    ZN_TRY_DONE(write_kept(j, path));
    j->lines = fopen(path, "a");
    if (!j->lines) {
        status = ZN_FAIL(ZN_EIO, "%s: %s", path, strerror(errno));
        goto done;
    }
    ZN_TRY_DONE(zn_events_open(folder, &j->events));
    *out = j;
    return ZN_OK;
done:
    zn_journal_close(j);
    return status;
}

void zn_journal_close(zn_journal *j)
{
    if (!j)
        return;
    if (j->lines)
        fclose(j->lines);
    zn_events_close(j->events);
    zn_free(j->entries);
    zn_free(j->folder);
    zn_free(j);
}

zn_status zn_journal_add(zn_journal *j, const zn_journal_entry *e)
{
    char text[512];
    entry_text(e, text, sizeof text);
    ZN_TRY(remember(j, e));
    if (fputs(text, j->lines) < 0 || fflush(j->lines))
        return ZN_FAIL(ZN_EIO, "%s/metrics.jsonl: %s", j->folder, strerror(errno));
    zn_events_scalar(j->events, "loss", e->step, e->loss);
    zn_events_scalar(j->events, "lr", e->step, e->lr);
    zn_events_scalar(j->events, "images_per_second", e->step, e->images_per_second);
    if (!isnan(e->psnr))
        zn_events_scalar(j->events, "psnr", e->step, e->psnr);
    char key[32];
    for (int i = 0; i < ZN_JOURNAL_TASKS; i++)
        if (!isnan(e->task_psnr[i]))
            zn_events_scalar(j->events, task_key(i, key), e->step, e->task_psnr[i]);
    return ZN_OK;
}

zn_status zn_journal_sample(zn_journal *j, int64_t step, const zn_image *picture)
{
    char path[PATH_SIZE];
    snprintf(j->sample, sizeof j->sample, "samples/step-%07lld.png", (long long)step);
    snprintf(path, sizeof path, "%s/%s", j->folder, j->sample);
    zn_events_image(j->events, "samples", step, picture);
    return zn_image_write(path, picture, NULL);
}

/* ---- report ---- */

/* An SVG curve of one quantity; log10 of it when `logarithmic`. */
static void curve(FILE *o, const zn_journal *j, const char *title, size_t offset, bool logarithmic)
{
    enum { W = 720, H = 220 };
    double lo = INFINITY, hi = -INFINITY;
    const double last = j->count ? (double)j->entries[j->count - 1].step : 1;
    for (int pass = 0; pass < 2; pass++) {
        if (pass)
            fprintf(o, "<h2>%s</h2>\n<svg viewBox='0 0 %d %d'><polyline points='", title, W, H);
        for (int64_t i = 0; i < j->count; i++) {
            double v = *(const double *)((const char *)&j->entries[i] + offset);
            v = logarithmic ? log10(v) : v;
            if (!isfinite(v))
                continue;
            lo = v < lo ? v : lo;
            hi = v > hi ? v : hi;
            if (pass)
                fprintf(o, "%.1f,%.1f ", 10 + (W - 20) * (double)j->entries[i].step / last,
                        H - 10 - (H - 20) * (v - lo) / (hi > lo ? hi - lo : 1));
        }
    }
    if (lo <= hi)
        fprintf(o, "'/><text x='12' y='20'>%.5g</text><text x='12' y='%d'>%.5g</text></svg>\n",
                logarithmic ? pow(10, hi) : hi, H - 14, logarithmic ? pow(10, lo) : lo);
    else
        fprintf(o, "'/></svg>\n");
}

zn_status zn_journal_report(zn_journal *j, const zn_recipe *recipe)
{
    char text[4096], path[PATH_SIZE];
    zn_outfile out;
    snprintf(path, sizeof path, "%s/report.html", j->folder);
    ZN_TRY(zn_outfile_open(&out, path));
    FILE *o = out.stream;
    const zn_journal_entry last = j->count ? j->entries[j->count - 1] : (zn_journal_entry){ 0 };
    fprintf(o,
            "<!doctype html><meta charset='utf-8'><title>%s</title>\n"
            "<style>body{font:16px sans-serif;max-width:760px;margin:2em auto;color:#222}"
            "svg{width:100%%;background:#f6f6f6}polyline{fill:none;stroke:#06c;stroke-width:1.5}"
            "text{font-size:12px;fill:#666}img{max-width:100%%}pre{background:#f6f6f6;padding:1em}</style>\n"
            "<h1>Training of %s</h1>\n<p>%lld steps. The model waited for pictures during %.2f %% of the time.</p>\n",
            recipe->model, recipe->model, (long long)last.step, 100 * last.waited);
    curve(o, j, "Loss (logarithmic)", offsetof(zn_journal_entry, loss), true);
    curve(o, j, "PSNR of held-out pictures, dB", offsetof(zn_journal_entry, psnr), false);
    curve(o, j, "Pictures per second", offsetof(zn_journal_entry, images_per_second), false);
    if (j->sample[0])
        fprintf(o, "<h2>Held-out pictures and what became of them</h2>\n<img src='%s'>\n", j->sample);
    zn_recipe_text(recipe, text, sizeof text);
    fprintf(o, "<h2>Recipe</h2>\n<pre>%s</pre>\n", text);
    return zn_outfile_commit(&out);
}
