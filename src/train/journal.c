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

enum { PATH_SIZE = 4096, NAME_SIZE = 32, LINE_SIZE = ZN_MAX_METRICS * 64 };

typedef struct entry {
    int64_t step;
    double value[ZN_MAX_METRICS]; /* by column; NaN: none */
} entry;

struct zn_journal {
    char *folder;
    FILE *lines;
    zn_events *events;
    char names[ZN_MAX_METRICS][NAME_SIZE]; /* of the columns */
    int columns;
    entry *entries;
    int64_t count, capacity;
    char sample[64]; /* file name of the last one, "" before the first */
};

/* The column of a name, a new one if need be; -1 when there are too many or it is not a name that we write. */
static int column_of(zn_journal *j, const char *name)
{
    for (int i = 0; i < j->columns; i++)
        if (strcmp(j->names[i], name) == 0)
            return i;
    const size_t plain = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_/");
    if (j->columns == ZN_MAX_METRICS || name[plain] || plain >= NAME_SIZE)
        return -1;
    strcpy(j->names[j->columns], name);
    return j->columns++;
}

static zn_status new_entry(zn_journal *j, int64_t step, entry **out)
{
    if (j->count == j->capacity) {
        const int64_t capacity = j->capacity ? 2 * j->capacity : 64;
        entry *more = zn_realloc(j->entries, sizeof *more * (size_t)capacity);
        if (!more)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for the journal");
        j->entries = more;
        j->capacity = capacity;
    }
    entry *e = *out = &j->entries[j->count++];
    e->step = step;
    for (int i = 0; i < ZN_MAX_METRICS; i++)
        e->value[i] = NAN;
    return ZN_OK;
}

static void set_value(zn_journal *j, entry *e, const char *name, double value)
{
    const int column = column_of(j, name);
    if (column >= 0)
        e->value[column] = value;
}

static int entry_text(const zn_journal *j, const entry *e, char text[LINE_SIZE])
{
    int n = snprintf(text, LINE_SIZE, "{\"step\": %lld", (long long)e->step);
    for (int i = 0; i < j->columns; i++)
        if (isfinite(e->value[i]))
            n += snprintf(text + n, (size_t)(LINE_SIZE - n), ", \"%s\": %.9g", j->names[i], e->value[i]);
    return n + snprintf(text + n, (size_t)(LINE_SIZE - n), "}\n");
}

static double number(const zn_json_node *object, const char *name)
{
    double v;
    return zn_json_double(zn_json_get(object, name), &v) ? v : NAN;
}

static zn_status read_line(zn_journal *j, const zn_json_node *o, int64_t last)
{
    const double step = number(o, "step");
    entry *e = NULL;
    if (!(step >= 0 && step <= (double)last))
        return ZN_OK;
    ZN_TRY(new_entry(j, (int64_t)step, &e));
    ZN_JSON_EACH(key, o)
    {
        const char *name = zn_json_string(key);
        if (name && strcmp(name, "step"))
            set_value(j, e, name, number(o, name));
    }
    return ZN_OK;
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
            status = read_line(j, doc.root, step);
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
        char text[LINE_SIZE];
        zn_outfile_write(&out, text, (size_t)entry_text(j, &j->entries[i], text));
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

zn_status zn_journal_add(zn_journal *j, int64_t step, const zn_metric *metrics, int count)
{
    char text[LINE_SIZE];
    entry *e = NULL;
    ZN_TRY(new_entry(j, step, &e));
    for (int i = 0; i < count; i++)
        if (isfinite(metrics[i].value)) {
            set_value(j, e, metrics[i].name, metrics[i].value);
            zn_events_scalar(j->events, metrics[i].name, step, metrics[i].value);
        }
    entry_text(j, e, text);
    if (fputs(text, j->lines) < 0 || fflush(j->lines))
        return ZN_FAIL(ZN_EIO, "%s/metrics.jsonl: %s", j->folder, strerror(errno));
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

static const char *title_of(const char *name)
{
    static const char *const titles[][2] = {
        { "loss", "Loss" },
        { "lr", "Learning rate" },
        { "psnr", "PSNR of held-out pictures, dB" },
        { "teacher_psnr", "PSNR of the teacher, dB" },
        { "decoder_psnr", "PSNR of the decoder to the teacher's picture, dB" },
        { "latent_error", "Square error of latents, % of their variance" },
        { "images_per_second", "Pictures per second" },
        { "psnr_denoise", "PSNR of denoised pictures, dB" },
        { "psnr_impulse", "PSNR of pictures freed of impulses, dB" },
        { "psnr_deblur", "PSNR of sharpened pictures, dB" },
    };
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        if (strcmp(titles[i][0], name) == 0)
            return titles[i][1];
    return name;
}

/* Losses fall by factors, so their curves are drawn by their logarithms when all are positive. */
static bool is_logarithmic(const zn_journal *j, int column)
{
    if (strncmp(j->names[column], "loss", 4) && strcmp(j->names[column], "latent_error"))
        return false;
    for (int64_t i = 0; i < j->count; i++)
        if (j->entries[i].value[column] <= 0)
            return false;
    return true;
}

/* An SVG curve of one column. */
static void curve(FILE *o, const zn_journal *j, int column)
{
    enum { W = 720, H = 220 };
    double lo = INFINITY, hi = -INFINITY;
    const bool logarithmic = is_logarithmic(j, column);
    const double last = j->count ? (double)j->entries[j->count - 1].step : 1;
    for (int pass = 0; pass < 2; pass++) {
        if (pass)
            fprintf(o, "<h2>%s%s</h2>\n<svg viewBox='0 0 %d %d'><polyline points='", title_of(j->names[column]),
                    logarithmic ? " (logarithmic)" : "", W, H);
        for (int64_t i = 0; i < j->count; i++) {
            double v = j->entries[i].value[column];
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

/* The last entry's share of the time spent waiting for pictures. */
static double waited(const zn_journal *j)
{
    for (int i = 0; i < j->columns && j->count; i++)
        if (strcmp(j->names[i], "waited") == 0 && isfinite(j->entries[j->count - 1].value[i]))
            return j->entries[j->count - 1].value[i];
    return 0;
}

zn_status zn_journal_report(zn_journal *j, const zn_recipe *recipe)
{
    char text[4096], path[PATH_SIZE];
    zn_outfile out;
    snprintf(path, sizeof path, "%s/report.html", j->folder);
    ZN_TRY(zn_outfile_open(&out, path));
    FILE *o = out.stream;
    fprintf(o,
            "<!doctype html><meta charset='utf-8'><title>%s</title>\n"
            "<style>body{font:16px sans-serif;max-width:760px;margin:2em auto;color:#222}"
            "svg{width:100%%;background:#f6f6f6}polyline{fill:none;stroke:#06c;stroke-width:1.5}"
            "text{font-size:12px;fill:#666}img{max-width:100%%}pre{background:#f6f6f6;padding:1em}</style>\n"
            "<h1>Training of %s</h1>\n<p>%lld steps. The model waited for pictures during %.2f %% of the time.</p>\n",
            recipe->model, recipe->model, (long long)(j->count ? j->entries[j->count - 1].step : 0), 100 * waited(j));
    for (int i = 0; i < j->columns; i++)
        if (strcmp(j->names[i], "stage") && strcmp(j->names[i], "waited"))
            curve(o, j, i);
    if (j->sample[0])
        fprintf(o, "<h2>Held-out pictures and what became of them</h2>\n<img src='%s'>\n", j->sample);
    zn_recipe_text(recipe, text, sizeof text);
    fprintf(o, "<h2>Recipe</h2>\n<pre>%s</pre>\n", text);
    return zn_outfile_commit(&out);
}
