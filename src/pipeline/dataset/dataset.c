/* Building data sets: photos are read, cut, scaled and compressed by all threads, a few at a time, and written in their
 * order by one, so that the file has the same bytes for any number of threads. Of several ranks each makes its slice of
 * the photos begun together, and rank 0 writes. */
#include <zenith/dataset.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/text.h"
#include "base/threads.h"
#include "io/dataset/dataset.h"
#include "pipeline/dataset/dataset_clips.h"
#include "pipeline/dataset/dataset_cut.h"
#include "pipeline/dataset/dataset_photos.h"
#include "train/ranks/parcel.h"

#include <stdio.h>
#include <string.h>

enum {
    SIZE = 256,
    QUALITY = 95,
    MAX_SIZE = 1 << 14,
    MAX_CROPS = 10000,
    MAX_FRAMES = 1024,
    AHEAD = 4,
    NAME_SIZE = 4096
};

/* What became of one photo. */
typedef struct made {
    zn_status status;
    char why[512];
    zn_pictures pictures; /* with room for builder.pictures */
} made;

typedef struct builder {
    zn_dataset_build_options o;
    int pictures; /* of each photo, at most */
    zn_photos photos;
    zn_pool *pool;
    zn_dataset_writer *writer;
    made *batch; /* photos begun together */
    int64_t batch_size, first;
    zn_dataset_build_result result;
} builder;

/* ---- one photo ---- */

static zn_status make_pictures(const builder *b, int64_t item, made *m)
{
    char name[NAME_SIZE];
    zn_image *photo;
    ZN_TRY(zn_photos_read(&b->photos, item, &photo));
    zn_photos_name(&b->photos, item, name, sizeof name);
    const zn_status status = zn_cut_photo(photo, name, &b->o, &m->pictures);
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
        zn_memory_free(m->pictures.bytes[i]);
        m->pictures.bytes[i] = NULL;
    }
}

/* Puts the pictures of a photo into the file, or skips it. */
static zn_status keep(builder *b, int64_t item, made *m)
{
    char photo[NAME_SIZE], name[NAME_SIZE + 16];
    zn_photos_name(&b->photos, item, photo, sizeof photo);
    if (m->status == ZN_ENOMEM)
        return ZN_FAIL(ZN_ENOMEM, "%s", m->why);
    for (int i = 0; i < m->pictures.count && m->status == ZN_OK; i++) {
        snprintf(name, sizeof name, b->o.crops ? "%s#%d" : "%s", photo, i);
        m->status = zn_dataset_writer_add(b->writer, name, m->pictures.bytes[i], m->pictures.sizes[i]);
        if (m->status == ZN_ELIMIT && i == 0)
            snprintf(m->why, sizeof m->why, "%s", zn_error_text());
        else
            ZN_TRY(m->status);
    }
    if (m->status == ZN_OK) {
        b->result.photos++;
        b->result.pictures += m->pictures.count;
        return ZN_OK;
    }
    b->result.skipped++;
    if (b->o.skipped)
        b->o.skipped(b->o.user, photo, m->why);
    return ZN_OK;
}

/* What this rank made of its photos, for rank 0. */
static void pack(const made *m, zn_parcel *p)
{
    zn_parcel_put(p, &m->status, sizeof m->status);
    zn_parcel_put(p, m->why, sizeof m->why);
    zn_parcel_put(p, &m->pictures.count, sizeof m->pictures.count);
    for (int i = 0; i < m->pictures.count && m->status == ZN_OK; i++)
        zn_parcel_put_bytes(p, m->pictures.bytes[i], m->pictures.sizes[i]);
}

/* The next photo of the parcel; its pictures stay in there. */
static zn_status unpack(const builder *b, zn_parcel *p, made *m)
{
    bool whole = zn_parcel_take(p, &m->status, sizeof m->status) && zn_parcel_take(p, m->why, sizeof m->why) &&
                 zn_parcel_take(p, &m->pictures.count, sizeof m->pictures.count) && m->pictures.count <= b->pictures;
    for (int i = 0; whole && i < m->pictures.count && m->status == ZN_OK; i++) {
        m->pictures.bytes[i] = (void *)(uintptr_t)zn_parcel_take_bytes(p, &m->pictures.sizes[i]);
        whole = m->pictures.bytes[i] != NULL;
    }
    return whole ? ZN_OK : ZN_FAIL(ZN_EFORMAT, "what the ranks sent is cut off");
}

/* Photos [first, first + now) as the ranks sent them. */
static zn_status keep_sent(builder *b, zn_parcel *p, int64_t first, int64_t now)
{
    made *m = &b->batch[0];
    zn_status status = ZN_OK;
    for (int64_t i = 0; i < now && status == ZN_OK; i++) {
        status = unpack(b, p, m);
        if (status == ZN_OK)
            status = keep(b, first + i, m);
    }
    memset(m->pictures.bytes, 0, sizeof *m->pictures.bytes * (size_t)b->pictures);
    return status;
}

/* Photos [first, first + now), over all ranks. */
static zn_status build_some(builder *b, int64_t first, int64_t now)
{
    zn_ranks *ranks = b->o.ranks;
    const int64_t share = b->batch_size, begin = share * zn_ranks_rank(ranks), left = now > begin ? now - begin : 0;
    const int64_t own = left < share ? left : share;
    zn_parcel p = { 0 };
    zn_status status = ZN_OK;
    b->first = first + begin;
    zn_pool_run(b->pool, own, 1, make_range, b, NULL, 0);
    for (int64_t i = 0; i < own; i++) {
        if (zn_ranks_count(ranks) > 1)
            pack(&b->batch[i], &p);
        else
            status = status == ZN_OK ? keep(b, b->first + i, &b->batch[i]) : status;
        clear(b, &b->batch[i]);
    }
    if (zn_ranks_count(ranks) > 1)
        status = zn_parcel_gather(&p, ranks);
    if (status == ZN_OK && p.bytes)
        status = keep_sent(b, &p, first, now);
    zn_parcel_free(&p);
    return zn_ranks_agree(ranks, status);
}

static zn_status build_all(builder *b)
{
    zn_ranks *ranks = b->o.ranks;
    const int64_t together = b->batch_size * zn_ranks_count(ranks);
    for (int64_t first = 0; first < b->photos.count; first += together) {
        const int64_t left = b->photos.count - first, now = left < together ? left : together;
        ZN_TRY(build_some(b, first, now));
        bool stop = b->o.progress && b->o.progress(b->o.user, (double)(first + now) / (double)b->photos.count);
        ZN_TRY(zn_ranks_any(ranks, &stop));
        if (stop)
            return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    }
    const bool empty = !zn_ranks_rank(ranks) && !b->result.pictures;
    return zn_ranks_agree(ranks, empty ? ZN_FAIL(ZN_ENOTFOUND, "%s: not one of %lld photos could be used", b->o.output,
                                                 (long long)b->photos.count)
                                       : ZN_OK);
}

/* ---- beginning and end ---- */

static zn_status check(builder *b)
{
    zn_dataset_build_options *o = &b->o;
    o->size = o->size ? o->size : SIZE;
    o->format = o->format ? o->format : "jpeg";
    if (!o->clips) /* each photo has a thread already */
        o->write.threads = 1;
    o->write.quality = o->write.quality ? o->write.quality : QUALITY;
    if (o->size < 1 || o->size > MAX_SIZE)
        return ZN_FAIL(ZN_EINVALID, "a size of %d is not in 1..%d", o->size, MAX_SIZE);
    if (o->crops < 0 || o->crops > MAX_CROPS)
        return ZN_FAIL(ZN_EINVALID, "%d crops: not in 0..%d", o->crops, MAX_CROPS);
    if (o->clips && (o->clips < 2 || o->clips > MAX_FRAMES || o->crops))
        return ZN_FAIL(ZN_EINVALID, "clips have 2 to %d frames and are not cropped", MAX_FRAMES);
    if (o->input_count < 1)
        return ZN_FAIL(ZN_EINVALID, "a data set needs a folder of images to be built from");
    const char *end = zn_ending(o->output, ".lmdb");
    if (!end || end == o->output)
        return ZN_FAIL(ZN_EINVALID, "%s: the name of a data set must end in .lmdb", o->output);
    b->pictures = o->crops ? o->crops : 1;
    return ZN_OK;
}

static zn_status prepare(builder *b)
{
    ZN_TRY(check(b));
    ZN_TRY(zn_photos_open(b->o.inputs, b->o.input_count, &b->photos));
    ZN_TRY(zn_pool_new(b->o.threads > 0 ? b->o.threads : zn_ranks_threads(b->o.ranks), &b->pool));
    b->batch_size = (int64_t)AHEAD * zn_pool_threads(b->pool);
    return zn_ranks_rank(b->o.ranks) ? ZN_OK : zn_dataset_writer_open(b->o.output, &b->writer);
}

/* The same number of photos on each rank, whatever threads it has. */
static zn_status prepare_batch(builder *b)
{
    ZN_TRY(zn_ranks_share(b->o.ranks, &b->batch_size, sizeof b->batch_size));
    b->batch = zn_calloc((size_t)b->batch_size, sizeof *b->batch);
    for (int64_t i = 0; b->batch && i < b->batch_size; i++) {
        b->batch[i].pictures.bytes = zn_calloc((size_t)b->pictures, sizeof(void *));
        b->batch[i].pictures.sizes = zn_calloc((size_t)b->pictures, sizeof(size_t));
        if (!b->batch[i].pictures.bytes || !b->batch[i].pictures.sizes)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for a data set");
    }
    return b->batch ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a data set");
}

static void finish(builder *b)
{
    zn_dataset_writer_free(b->writer);
    for (int64_t i = 0; b->batch && i < b->batch_size; i++) {
        zn_free(b->batch[i].pictures.bytes);
        zn_free(b->batch[i].pictures.sizes);
    }
    zn_free(b->batch);
    zn_pool_free(b->pool);
    zn_photos_close(&b->photos);
}

zn_status zn_dataset_build(const zn_dataset_build_options *options, zn_dataset_build_result *out)
{
    builder b = { .o = *options };
    const double start = zn_clock_ms();
    *out = (zn_dataset_build_result){ 0 };
    zn_status status;
    if (b.o.clips) {
        ZN_TRY(zn_ranks_agree(b.o.ranks, check(&b)));
        return zn_dataset_build_clips(&b.o, out);
    }
    ZN_TRY_DONE(zn_ranks_agree(b.o.ranks, prepare(&b)));
    ZN_TRY_DONE(zn_ranks_agree(b.o.ranks, prepare_batch(&b)));
    ZN_TRY_DONE(build_all(&b));
    ZN_TRY_DONE(zn_ranks_agree(b.o.ranks, b.writer ? zn_dataset_writer_commit(b.writer, &b.result.bytes) : ZN_OK));
    b.result.seconds = (zn_clock_ms() - start) * 1e-3;
    *out = b.result;
done:
    finish(&b);
    return status;
}
