/* Metrics by name: a table with a column for each, whose rows are the lines of metrics.jsonl. */
#include "train/record/journal_data.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/json.h"
#include "base/numbers.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SAMPLE_NAME "samples/step-%07lld.png"

enum { PATH_SIZE = 4096, LINE_SIZE = ZN_MAX_METRICS * 64 };

/* The column of a name, a new one if need be; -1 when there are too many or it is not a name that we write. */
static int column_of(zn_journal *j, const char *name)
{
    for (int i = 0; i < j->columns; i++)
        if (strcmp(j->names[i], name) == 0)
            return i;
    const size_t plain = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_/");
    if (j->columns == ZN_MAX_METRICS || name[plain] || plain >= ZN_METRIC_NAME)
        return -1;
    strcpy(j->names[j->columns], name);
    return j->columns++;
}

static zn_status new_entry(zn_journal *j, int64_t step, zn_journal_entry **out)
{
    if (!ZN_GROW(j->entries, j->capacity, j->count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the journal");
    zn_journal_entry *e = *out = &j->entries[j->count++];
    e->step = step;
    for (int i = 0; i < ZN_MAX_METRICS; i++)
        e->value[i] = NAN;
    return ZN_OK;
}

static void set_value(zn_journal *j, zn_journal_entry *e, const char *name, double value)
{
    const int column = column_of(j, name);
    if (column >= 0)
        e->value[column] = value;
}

static int entry_text(const zn_journal *j, const zn_journal_entry *e, char text[LINE_SIZE])
{
    const locale_t old = zn_numbers_begin();
    int n = snprintf(text, LINE_SIZE, "{\"step\": %lld", (long long)e->step);
    for (int i = 0; i < j->columns; i++)
        if (isfinite(e->value[i]))
            n += snprintf(text + n, (size_t)(LINE_SIZE - n), ", \"%s\": %.9g", j->names[i], e->value[i]);
    zn_numbers_end(old);
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
    zn_journal_entry *e = NULL;
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
    zn_status status = zn_map_open(&map, path);
    if (status != ZN_OK) /* a new run has none; one that cannot be read must not be replaced by nothing */
        return status == ZN_ENOTFOUND ? ZN_OK : status;
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

/* The newest sample of a step up to `step`, or none: a report that is written before the next one shows it. */
static void find_sample(zn_journal *j, const char *folder, int64_t step)
{
    DIR *d = opendir(folder);
    long long newest = -1;
    if (!d)
        return;
    for (const struct dirent *e; (e = readdir(d));) {
        char name[sizeof j->sample];
        const long long at = strncmp(e->d_name, "step-", 5) ? -1 : strtoll(e->d_name + 5, NULL, 10);
        if (at <= newest || at > step)
            continue;
        snprintf(name, sizeof name, SAMPLE_NAME, at);
        if (strcmp(strchr(name, '/') + 1, e->d_name) != 0)
            continue;
        newest = at;
        strcpy(j->sample, name);
    }
    closedir(d);
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
    find_sample(j, path, step);
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    ZN_TRY_DONE(read_old(j, path, step));
    ZN_TRY_DONE(write_kept(j, path));
    j->lines = fopen(path, "a");
    if (!j->lines) {
        status = ZN_FAIL(ZN_EIO, "%s: %s", path, strerror(errno));
        goto done;
    }
    ZN_TRY_DONE(zn_events_open(folder, step, &j->events));
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

double zn_journal_last(const zn_journal *j, const char *name)
{
    double last = NAN;
    for (int c = 0; c < j->columns; c++)
        for (int64_t i = 0; strcmp(j->names[c], name) == 0 && i < j->count; i++)
            last = isfinite(j->entries[i].value[c]) ? j->entries[i].value[c] : last;
    return last;
}

zn_status zn_journal_add(zn_journal *j, int64_t step, const zn_metric *metrics, int count)
{
    char text[LINE_SIZE];
    zn_journal_entry *e = NULL;
    ZN_TRY(new_entry(j, step, &e));
    for (int i = 0; i < count; i++)
        if (isfinite(metrics[i].value)) {
            set_value(j, e, metrics[i].name, metrics[i].value);
            ZN_TRY(zn_events_scalar(j->events, metrics[i].name, step, metrics[i].value));
        }
    entry_text(j, e, text);
    if (fputs(text, j->lines) < 0 || fflush(j->lines))
        return ZN_FAIL(ZN_EIO, "%s/metrics.jsonl: %s", j->folder, strerror(errno));
    return ZN_OK;
}

zn_status zn_journal_sample(zn_journal *j, int64_t step, const zn_image *picture)
{
    const zn_image_write_options writing = { .threads = 1 };
    char path[PATH_SIZE];
    snprintf(j->sample, sizeof j->sample, SAMPLE_NAME, (long long)step);
    snprintf(path, sizeof path, "%s/%s", j->folder, j->sample);
    ZN_TRY(zn_events_image(j->events, "samples", step, picture));
    return zn_image_write(path, picture, &writing);
}
