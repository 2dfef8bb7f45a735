/* Writes packed files. A few megabytes of rows at a time are read, packed by all threads and written. */
#include "pipeline/convert/pack.h"

#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "base/mlx.h"
#include "base/quant.h"
#include "base/text.h"
#include "base/threads.h"
#include "io/weights/writer.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = 1 << 23, MLX_GROUP = 32 };

typedef struct work {
    const zn_quantisation *how;
    const zn_pack_plan *plan;
    zn_pool *pool;
    zn_outfile *out;
    float *rows; /* one row for each thread */
    uint8_t *bytes;
    uint16_t *scales, *biases; /* of a whole matrix of MLX codes */
    double done, all;          /* elements */
} work;

/* Rows [begin,end) of an item, to be packed to `bytes`. */
typedef struct job {
    const zn_pack_item *item;
    const work *w;
    int64_t first;
    size_t row_bytes;
    atomic_int *bad; /* set if a number is not finite */
} job;

static void pack_mlx(const job *j, int64_t row, const float *x, uint8_t *out)
{
    enum { GROUPS = 64 };
    const zn_mlx_form form = { j->w->how->mlx_bits, MLX_GROUP };
    const int64_t groups = j->item->columns / MLX_GROUP;
    for (int64_t g = 0; g < groups; g += GROUPS) {
        float scales[GROUPS], biases[GROUPS];
        const int64_t n = groups - g < GROUPS ? groups - g : GROUPS;
        zn_mlx_from_f32(out + g * MLX_GROUP * form.bits / 8, scales, biases, x + g * MLX_GROUP, (size_t)(n * MLX_GROUP),
                        &form, ZN_F16);
        for (int64_t i = 0; i < n; i++) {
            j->w->scales[row * groups + g + i] = zn_f32_to_f16(scales[i]);
            j->w->biases[row * groups + g + i] = zn_f32_to_f16(biases[i]);
        }
    }
}

static void pack_rows(const void *args, zn_range r)
{
    const job *j = args;
    const zn_pack_item *t = j->item;
    float *x = r.scratch;
    for (int64_t i = r.begin; i < r.end; i++) {
        const int64_t row = j->first + i;
        uint8_t *out = j->w->bytes + (size_t)i * j->row_bytes;
        zn_packed_row(&t->part[row / t->rows], row % t->rows, 0, t->columns, x);
        float sum = 0;
        for (int64_t k = 0; k < t->columns; k++)
            sum += x[k] - x[k]; /* NaN if x is not finite */
        if (sum != 0 || isnan(sum)) {
            atomic_store(j->bad, 1);
            continue;
        }
        if (t->mlx)
            pack_mlx(j, row, x, out);
        else if (zn_dtype_block(t->dtype) > 1)
            zn_blocks_from_f32(out, t->dtype, x, (size_t)t->columns);
        else
            zn_from_f32(out, t->dtype, x, (size_t)t->columns);
    }
}

static size_t row_bytes_of(const zn_pack_item *t, int bits)
{
    return t->mlx ? (size_t)(t->columns * bits / 8)
                  : (size_t)t->columns / zn_dtype_block(t->dtype) * zn_dtype_size(t->dtype);
}

static zn_status tick(work *w, int64_t elements)
{
    w->done += (double)elements;
    return w->how->progress && w->how->progress(w->how->user, w->done / w->all)
               ? ZN_FAIL(ZN_ECANCELLED, "cancelled while packing weights")
               : ZN_OK;
}

/* Gives the pages of the rows that were read back, a chunk at a time: embeddings alone may be gigabytes. */
static void release(const zn_pack_plan *p, const zn_pack_item *t)
{
    for (int f = 0; f < p->files.count; f++)
        for (int i = 0; i < t->parts; i++)
            zn_map_release(&p->files.files[f]->map, t->part[i].data, t->part[i].row_bytes * (size_t)t->rows);
}

static zn_status write_item(work *w, const zn_pack_item *t)
{
    const size_t row_bytes = row_bytes_of(t, w->how->mlx_bits);
    const int64_t rows = t->rows * t->parts, most = (int64_t)(CHUNK / row_bytes) ? (int64_t)(CHUNK / row_bytes) : 1;
    atomic_int bad = 0;
    for (int64_t first = 0; first < rows; first += most) {
        const int64_t count = rows - first < most ? rows - first : most;
        const job j = { t, w, first, row_bytes, &bad };
        zn_pool_run(w->pool, count, 1, pack_rows, &j, w->rows, sizeof *w->rows * (size_t)t->columns);
        if (bad)
            return ZN_FAIL(ZN_ENUMERIC, "tensor '%s' has numbers that are not finite", t->name);
        zn_outfile_write(w->out, w->bytes, row_bytes * (size_t)count);
        release(w->plan, t);
        ZN_TRY(tick(w, count * t->columns));
    }
    if (t->mlx) {
        const size_t groups = (size_t)(rows * t->columns / MLX_GROUP);
        zn_outfile_write(w->out, w->scales, groups * sizeof *w->scales);
        zn_outfile_write(w->out, w->biases, groups * sizeof *w->biases);
    }
    return ZN_OK;
}

/* ---- headers ---- */

/* An item's tensors: one, or three of MLX codes. */
static int describe(const zn_pack_item *t, int bits, zn_arena *arena, zn_weight *out)
{
    zn_weight w = { .name = t->name, .dtype = t->dtype, .rank = t->rank };
    memcpy(w.shape, t->shape, sizeof w.shape);
    out[0] = w;
    if (!t->mlx)
        return 1;
    const int layer = (int)(strlen(t->name) - strlen("weight"));
    out[0].dtype = ZN_U32;
    out[0].shape[1] = t->columns * bits / 32;
    for (int i = 1; i < 3; i++) {
        out[i] = w;
        out[i].name = zn_arena_format(arena, "%.*s%s", layer, t->name, i == 1 ? "scales" : "biases");
        out[i].dtype = ZN_F16;
        out[i].shape[1] = t->columns / MLX_GROUP;
    }
    return 3;
}

static zn_status begin(const zn_pack_plan *p, const char *in, const char *path, const zn_quantisation *how,
                       zn_outfile *out)
{
    static const zn_metadata mlx = { "format", "mlx" };
    zn_weight *tensors;
    zn_arena arena = { 0 };
    zn_gguf_keys keys = { 0 };
    int64_t count = 0;
    ZN_TRY(zn_alloc_for("the list of tensors", 3 * p->count * sizeof *tensors, (void **)&tensors));
    for (size_t i = 0; i < p->count; i++)
        count += describe(&p->items[i], how->mlx_bits, &arena, tensors + count);
    zn_status status = arena.failed ? ZN_FAIL(ZN_ENOMEM, "out of memory: names of tensors") : ZN_OK;
    if (status == ZN_OK && how->mlx_bits)
        status = zn_safetensors_begin(out, path, tensors, count, &mlx, 1);
    else if (status == ZN_OK && (status = zn_pack_keys(p, in, how->dtype, &keys)) == ZN_OK)
        status = zn_gguf_begin(out, path, tensors, count, &keys);
    zn_json_out_free(&keys.bytes);
    zn_arena_free(&arena);
    zn_free(tensors);
    return status;
}

/* ---- buffers ---- */

static zn_status make_buffers(work *w, const zn_pack_plan *p)
{
    size_t columns = 1, groups = 1, row = CHUNK;
    for (size_t i = 0; i < p->count; i++) {
        const zn_pack_item *t = &p->items[i];
        const size_t own = row_bytes_of(t, w->how->mlx_bits), all = (size_t)(t->rows * t->parts * t->columns);
        columns = (size_t)t->columns > columns ? (size_t)t->columns : columns;
        row = own > row ? own : row;
        groups = t->mlx && all / MLX_GROUP > groups ? all / MLX_GROUP : groups;
        w->all += (double)all;
    }
    ZN_TRY(zn_alloc_for("rows", sizeof *w->rows * columns * (size_t)zn_pool_threads(w->pool), (void **)&w->rows));
    ZN_TRY(zn_alloc_for("packed rows", row, (void **)&w->bytes));
    ZN_TRY(zn_alloc_for("scales", sizeof *w->scales * groups, (void **)&w->scales));
    return zn_alloc_for("biases", sizeof *w->biases * groups, (void **)&w->biases);
}

static zn_status write_all(work *w, const zn_pack_plan *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const zn_pack_item *t = &p->items[i];
        ZN_TRY(write_item(w, t));
        if (!w->how->mlx_bits)
            zn_gguf_pad(w->out, row_bytes_of(t, 0) * (size_t)(t->rows * t->parts));
    }
    return ZN_OK;
}

static zn_status write_file(const zn_pack_plan *p, const char *in, const char *path, const zn_quantisation *how)
{
    zn_outfile out = { 0 };
    work w = { .how = how, .plan = p, .out = &out };
    zn_status status;
    ZN_TRY_DONE(zn_pool_new(how->threads, &w.pool));
    ZN_TRY_DONE(make_buffers(&w, p));
    ZN_TRY_DONE(begin(p, in, path, how, &out));
    status = write_all(&w, p);
    if (status == ZN_OK)
        status = zn_outfile_commit(&out);
    else
        zn_outfile_abandon(&out);
done:
    zn_free(w.rows);
    zn_free(w.bytes);
    zn_free(w.scales);
    zn_free(w.biases);
    zn_pool_free(w.pool);
    return status;
}

static zn_status check_request(const char *out, const zn_quantisation *how)
{
    if (how->mlx_bits && how->mlx_bits != 4 && how->mlx_bits != 8)
        return ZN_FAIL(ZN_EINVALID, "MLX codes of %d bits are not written; 4 and 8 are", how->mlx_bits);
    if (how->mlx_bits && !zn_ending(out, ".safetensors"))
        return ZN_FAIL(ZN_EINVALID, "MLX codes are written to .safetensors files, not to '%s'", out);
    if (!how->mlx_bits && !zn_ending(out, ".gguf"))
        return ZN_FAIL(ZN_EINVALID, "packed weights are written to .gguf files, not to '%s'", out);
    if (!how->mlx_bits && how->dtype != ZN_F32 && how->dtype != ZN_F16 && how->dtype != ZN_BF16 &&
        !zn_blocks_can_write(how->dtype))
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s is not written; F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K and Q6_K are",
                       zn_dtype_name(how->dtype));
    return ZN_OK;
}

zn_status zn_weights_quantise(const char *in, const char *out, const zn_quantisation *how)
{
    zn_pack_plan plan;
    if (!in || !out || !how)
        return ZN_FAIL(ZN_EINVALID, "zn_weights_quantise: in, out and how must not be NULL");
    ZN_TRY(check_request(out, how));
    zn_status status = zn_pack_plan_make(in, how, &plan);
    if (status == ZN_OK)
        status = write_file(&plan, in, out, how);
    zn_pack_plan_free(&plan);
    return status;
}
