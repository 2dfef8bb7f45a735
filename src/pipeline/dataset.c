/* Building data sets: photos are read, cut, scaled and compressed by all threads, a few at a time, and written in their
 * order by one, so that the file has the same bytes for any number of threads. */
#include <zenith/dataset.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/rng.h"
#include "base/threads.h"
#include "io/dataset/dataset.h"
#include "io/image/resize.h"

#include <stdio.h>
#include <string.h>

enum { SIZE = 256, QUALITY = 95, MAX_SIZE = 1 << 14, MAX_CROPS = 10000, AHEAD = 4, NAME_SIZE = 4096 };

typedef struct source {
    zn_dataset *set;
    char label[256]; /* put before its names; "" for a single one */
} source;

/* What became of one photo. */
typedef struct made {
    zn_status status;
    char why[512];
    void **bytes; /* [pictures] */
    size_t *sizes;
} made;

typedef struct builder {
    zn_dataset_build_options o;
    int pictures; /* of each photo */
    source *sources;
    int64_t count; /* photos of all sources */
    zn_pool *pool;
    zn_dataset_writer *writer;
    made *batch; /* photos begun together */
    int64_t batch_size, first;
    zn_dataset_build_result result;
} builder;

/* ---- one photo ---- */

static const zn_dataset *photo_of(const builder *b, int64_t item, int64_t *index, const char **label)
{
    const source *s = b->sources;
    for (; item >= zn_dataset_count(s->set); s++)
        item -= zn_dataset_count(s->set);
    *index = item;
    *label = s->label;
    return s->set;
}

static void photo_name(const builder *b, int64_t item, char *name, size_t size)
{
    int64_t index;
    const char *label;
    const zn_dataset *set = photo_of(b, item, &index, &label);
    snprintf(name, size, "%s%s%s", label, label[0] ? "/" : "", zn_dataset_name(set, index));
}

static int least(int a, int b) { return a < b ? a : b; }

/* A random whole number in [0, spare]. */
static int somewhere(zn_rng *rng, int spare) { return (int)(zn_rng_next(rng) % (uint64_t)(spare + 1)); }

/* The part of a photo that becomes a picture; rng NULL: the middle. */
static zn_region part_of(const zn_image *photo, int size, zn_rng *rng)
{
    const int side = least(photo->width, photo->height);
    zn_region r = { .width = least(photo->width, size), .height = least(photo->height, size) };
    if (side > size) {
        const double u = rng ? (double)zn_rng_uniform(rng) : 1;
        r.width = r.height = rng ? size + (int)(u * u * (side - size + 1)) : side;
    }
    r.x = rng ? somewhere(rng, photo->width - r.width) : (photo->width - r.width) / 2;
    r.y = rng ? somewhere(rng, photo->height - r.height) : (photo->height - r.height) / 2;
    return r;
}

static zn_status make_pictures(const builder *b, int64_t item, made *m)
{
    char name[NAME_SIZE];
    int64_t index;
    const char *label;
    zn_image *photo;
    const zn_dataset *set = photo_of(b, item, &index, &label);
    ZN_TRY(zn_dataset_read(set, index, &photo));
    photo_name(b, item, name, sizeof name);
    zn_rng rng = zn_rng_new(zn_seed_for(b->o.seed, name));
    zn_status status = ZN_OK;
    for (int i = 0; i < b->pictures && status == ZN_OK; i++) {
        const zn_region part = part_of(photo, b->o.size, b->o.crops ? &rng : NULL);
        zn_image *picture;
        status = zn_image_shrink(photo, part, least(part.width, b->o.size), least(part.height, b->o.size), &picture);
        if (status == ZN_OK)
            status = zn_image_write_memory(b->o.format, picture, &b->o.write, &m->bytes[i], &m->sizes[i]);
        zn_image_free(picture);
    }
    zn_image_free(photo);
    return status;
}

/* Body of the pool: photos [begin,end) of the batch. */
static void make_range(const void *args, zn_range range)
{
    const builder *b = args;
    for (int64_t i = range.begin; i < range.end; i++) {
        made *m = &b->batch[i];
        m->status = make_pictures(b, b->first + i, m);
        if (m->status != ZN_OK)
            snprintf(m->why, sizeof m->why, "%s", zn_error_text());
    }
}

/* ---- all of them ---- */

static void clear(const builder *b, made *m)
{
    for (int i = 0; i < b->pictures; i++) {
        zn_memory_free(m->bytes[i]);
        m->bytes[i] = NULL;
    }
}

/* Puts the pictures of a photo into the file, or skips it. */
static zn_status keep(builder *b, int64_t item, made *m)
{
    char photo[NAME_SIZE], name[NAME_SIZE + 16];
    photo_name(b, item, photo, sizeof photo);
    if (m->status == ZN_ENOMEM)
        return ZN_FAIL(ZN_ENOMEM, "%s", m->why);
    for (int i = 0; i < b->pictures && m->status == ZN_OK; i++) {
        snprintf(name, sizeof name, b->o.crops ? "%s#%d" : "%s", photo, i);
        m->status = zn_dataset_writer_add(b->writer, name, m->bytes[i], m->sizes[i]);
        if (m->status == ZN_ELIMIT && i == 0)
            snprintf(m->why, sizeof m->why, "%s", zn_error_text());
        else
            ZN_TRY(m->status);
    }
    if (m->status == ZN_OK) {
        b->result.photos++;
        b->result.pictures += b->pictures;
        return ZN_OK;
    }
    b->result.skipped++;
    if (b->o.skipped)
        b->o.skipped(b->o.user, photo, m->why);
    return ZN_OK;
}

static zn_status build_all(builder *b)
{
    for (b->first = 0; b->first < b->count; b->first += b->batch_size) {
        const int64_t left = b->count - b->first, now = left < b->batch_size ? left : b->batch_size;
        zn_pool_run(b->pool, now, 1, make_range, b, NULL, 0);
        zn_status status = ZN_OK;
        for (int64_t i = 0; i < now; i++) {
            status = status == ZN_OK ? keep(b, b->first + i, &b->batch[i]) : status;
            clear(b, &b->batch[i]);
        }
        ZN_TRY(status);
        if (b->o.progress && b->o.progress(b->o.user, (double)(b->first + now) / (double)b->count))
            return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    }
    if (!b->result.pictures)
        return ZN_FAIL(ZN_ENOTFOUND, "%s: not one of %lld photos could be used", b->o.output, (long long)b->count);
    return ZN_OK;
}

/* ---- beginning and end ---- */

/* Several sources keep their names apart by the last part of their paths, numbered where two are alike. */
static void label_sources(builder *b)
{
    for (int i = 0; b->o.input_count > 1 && i < b->o.input_count; i++) {
        char *label = b->sources[i].label, base[200];
        const char *path = b->o.inputs[i], *end = path + strlen(path);
        while (end > path + 1 && end[-1] == '/')
            end--;
        const char *begin = end;
        while (begin > path && begin[-1] != '/')
            begin--;
        snprintf(base, sizeof base, "%.*s", (int)(end - begin), begin);
        snprintf(label, sizeof b->sources[i].label, "%s", base);
        for (int k = 0, number = 2; k < i; k++)
            if (!strcmp(b->sources[k].label, label)) {
                snprintf(label, sizeof b->sources[i].label, "%s~%d", base, number++);
                k = -1; /* look again from the start */
            }
    }
}

static zn_status check(builder *b)
{
    zn_dataset_build_options *o = &b->o;
    o->size = o->size ? o->size : SIZE;
    o->format = o->format ? o->format : "jpeg";
    o->write.quality = o->write.quality ? o->write.quality : QUALITY;
    const size_t length = strlen(o->output);
    if (o->size < 1 || o->size > MAX_SIZE)
        return ZN_FAIL(ZN_EINVALID, "a size of %d is not in 1..%d", o->size, MAX_SIZE);
    if (o->crops < 0 || o->crops > MAX_CROPS)
        return ZN_FAIL(ZN_EINVALID, "%d crops: not in 0..%d", o->crops, MAX_CROPS);
    if (o->input_count < 1)
        return ZN_FAIL(ZN_EINVALID, "a data set needs a folder of pictures to be built from");
    if (length < 6 || strcmp(o->output + length - 5, ".lmdb"))
        return ZN_FAIL(ZN_EINVALID, "%s: the name of a data set must end in .lmdb", o->output);
    b->pictures = o->crops ? o->crops : 1;
    return ZN_OK;
}

static zn_status prepare(builder *b)
{
    ZN_TRY(check(b));
    b->sources = zn_calloc((size_t)b->o.input_count, sizeof *b->sources);
    if (!b->sources)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a data set");
    for (int i = 0; i < b->o.input_count; i++) {
        ZN_TRY(zn_dataset_open(b->o.inputs[i], &b->sources[i].set));
        b->count += zn_dataset_count(b->sources[i].set);
    }
    label_sources(b);
    ZN_TRY(zn_pool_new(b->o.threads, &b->pool));
    b->batch_size = (int64_t)AHEAD * zn_pool_threads(b->pool);
    b->batch = zn_calloc((size_t)b->batch_size, sizeof *b->batch);
    for (int64_t i = 0; b->batch && i < b->batch_size; i++) {
        b->batch[i].bytes = zn_calloc((size_t)b->pictures, sizeof(void *));
        b->batch[i].sizes = zn_calloc((size_t)b->pictures, sizeof(size_t));
        if (!b->batch[i].bytes || !b->batch[i].sizes)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for a data set");
    }
    if (!b->batch)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a data set");
    return zn_dataset_writer_open(b->o.output, &b->writer);
}

static void finish(builder *b)
{
    zn_dataset_writer_free(b->writer);
    for (int64_t i = 0; b->batch && i < b->batch_size; i++) {
        zn_free(b->batch[i].bytes);
        zn_free(b->batch[i].sizes);
    }
    zn_free(b->batch);
    zn_pool_free(b->pool);
    for (int i = 0; b->sources && i < b->o.input_count; i++)
        zn_dataset_close(b->sources[i].set);
    zn_free(b->sources);
}

zn_status zn_dataset_build(const zn_dataset_build_options *options, zn_dataset_build_result *out)
{
    builder b = { .o = *options };
    const double start = zn_clock_ms();
    *out = (zn_dataset_build_result){ 0 };
    zn_status status;
    ZN_TRY_DONE(prepare(&b));
    ZN_TRY_DONE(build_all(&b));
    ZN_TRY_DONE(zn_dataset_writer_commit(b.writer, &b.result.bytes));
    b.result.seconds = (zn_clock_ms() - start) * 1e-3;
    *out = b.result;
done:
    finish(&b);
    return status;
}
