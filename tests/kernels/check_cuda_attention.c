/* CUDA: attention in all its plans: widths, many and few queries, less precision, rows too wide for tiles. The sizes of
 * check_simd.c are checked by check_cuda_simd.c. */
#include "cuda_case.h"

#include "kernels/attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct sizes {
    int samples, heads, share, queries, keys, width;
    bool causal;
    zn_precision math;
} sizes;

static int64_t row_count(const zn_attention_args *a, bool keys)
{
    return keys ? a->keys * a->heads / a->share : a->queries * a->heads;
}

/* Rows [samples][rows][heads][width]; `skip` floats of each row belong to nobody. */
static zn_rows rows_at(const zn_attention_args *a, float *data, bool keys, int64_t skip)
{
    const int64_t step = (keys ? a->heads / a->share : a->heads) * (int64_t)a->width + skip;
    return (zn_rows){ data, (keys ? a->keys : a->queries) * step, a->width, step };
}

static float *normal_rows(zn_rng *rng, const sizes *z, const zn_attention_args *a, bool keys, int64_t skip)
{
    const int64_t rows = keys ? a->keys : a->queries;
    return cuda_shared_normal(rng, z->samples * (row_count(a, keys) * a->width + rows * skip), 1);
}

static zn_attention_args args_of(const sizes *z)
{
    return (zn_attention_args){ .queries = z->queries,
                                .keys = z->keys,
                                .heads = z->heads,
                                .width = z->width,
                                .share = z->share,
                                .causal = z->causal,
                                .scale = 1 / sqrtf((float)z->width),
                                .math = z->math };
}

static void name_of(const char *kernel, const sizes *z, char *text, size_t size)
{
    snprintf(text, size, "%s of %d queries to %d keys, %d heads by %d of %d%s%s", kernel, z->queries, z->keys, z->heads,
             z->share, z->width, z->causal ? ", causal" : "",
             z->math == ZN_PRECISION_F32   ? ""
             : z->math == ZN_PRECISION_F16 ? ", f16"
                                           : ", bf16");
}

static void check_forward(const sizes *z, zn_attention_args a, int64_t count)
{
    char name[160];
    float *y = cuda_result_new(count), *want = fenced_new(count, false);
    const int64_t units = z->samples * (int64_t)z->heads * zn_attention_blocks(&a);
    a.y = rows_at(&a, want, false, 0);
    cuda_reference(zn_k_attention, units, &a, zn_attention_scratch(&a));
    a.y.data = y;
    cuda_start(zn_k_attention, units, &a);
    name_of("attention", z, name, sizeof name);
    cuda_compare(name, y, want, count, z->math == ZN_PRECISION_F32 ? 2e-6 : 1e-2);
    cuda_result_free(y);
    fenced_free(want);
}

/* The same with maps of 16 bits. q, k and v are rounded to them. */
static void check_narrow(const sizes *z, zn_attention_args a, int64_t count, int64_t shared)
{
    char name[160];
    const int64_t units = z->samples * (int64_t)z->heads * zn_attention_blocks(&a);
    float *y = cuda_result_new(count), *want = fenced_new(count, false);
    a.type = z->math == ZN_PRECISION_F16 ? ZN_TYPE_F16 : ZN_TYPE_BF16;
    float *const q = cuda_map_new(a.q.data, count, a.type), *const k = cuda_map_new(a.k.data, shared, a.type),
                 *const v = cuda_map_new(a.v.data, shared, a.type);
    float *const stats = cuda_shared_new((int64_t)(zn_attention_wide_bytes(&a) / sizeof(float)) + 1, NAN);
    a.y = rows_at(&a, want, false, 0);
    cuda_reference(zn_k_attention, units, &a, zn_attention_scratch(&a));
    a.stats = stats;
    a.q.data = q, a.k.data = k, a.v.data = v, a.y.data = y;
    cuda_start(zn_k_attention, units, &a);
    name_of("attention of 16-bit maps", z, name, sizeof name);
    float *result = cuda_map_fetch(y, count, a.type);
    cuda_compare(name, result, want, count, 1e-2);
    cuda_shared_free(stats);
    cuda_shared_free(q);
    cuda_shared_free(k);
    cuda_shared_free(v);
    cuda_result_free(result);
    cuda_result_free(y);
    fenced_free(want);
}

static void check_gradient(const sizes *z, zn_attention_args a, float *dy, int64_t count, int64_t shared)
{
    char name[160];
    float *stats = cuda_shared_new(zn_attention_stats(&a, z->samples), NAN);
    float *got[3], *want[3];
    for (int on_device = 0; on_device < 2; on_device++) {
        float **to = on_device ? got : want;
        for (int i = 0; i < 3; i++)
            to[i] = on_device ? cuda_result_new(i ? shared : count) : fenced_new(i ? shared : count, false);
        a.y = rows_at(&a, dy, false, 0);
        a.dq = rows_at(&a, to[0], false, 0);
        a.dk = rows_at(&a, to[1], true, 0);
        a.dv = rows_at(&a, to[2], true, 0);
        a.stats = stats;
        const int64_t units = z->samples * zn_attention_groups(&a);
        if (on_device)
            cuda_start(zn_k_attention_grad, units, &a);
        else
            cuda_reference(zn_k_attention_grad, units, &a, zn_attention_grad_scratch(&a));
    }
    name_of("attention_grad", z, name, sizeof name);
    for (int i = 0; i < 3; i++) {
        cuda_compare(name, got[i], want[i], i ? shared : count, z->math == ZN_PRECISION_F32 ? 3e-6 : 2e-2);
        cuda_result_free(got[i]);
        fenced_free(want[i]);
    }
    cuda_shared_free(stats);
}

static void check(const sizes *z, int64_t skip)
{
    zn_rng rng = zn_rng_new(21);
    zn_attention_args a = args_of(z);
    const int64_t count = z->samples * row_count(&a, false) * a.width,
                  shared = z->samples * row_count(&a, true) * a.width;
    float *q = normal_rows(&rng, z, &a, false, skip), *k = normal_rows(&rng, z, &a, true, skip),
          *v = normal_rows(&rng, z, &a, true, skip), *dy = normal_rows(&rng, z, &a, false, 0);
    a.q = rows_at(&a, q, false, skip);
    a.k = rows_at(&a, k, true, skip);
    a.v = rows_at(&a, v, true, skip);
    check_forward(z, a, count);
    if (z->math != ZN_PRECISION_F32 && zn_attention_narrow(z->width, 1024) && !skip)
        check_narrow(z, a, count, shared);
    check_gradient(z, a, dy, count, shared);
    float *const all[] = { q, k, v, dy };
    for (int i = 0; i < 4; i++)
        cuda_shared_free(all[i]);
}

void cuda_check_attention(void)
{
    static const sizes list[] = {
        { 1, 1, 1, 40, 70, 128, false, ZN_PRECISION_F32 },
        { 1, 1, 1, 33, 33, 130, true, ZN_PRECISION_F32 },
        { 1, 1, 1, 5, 40, 300, false, ZN_PRECISION_F32 },
        { 1, 1, 1, 3, 9, 520, true, ZN_PRECISION_F32 },
        { 1, 4, 2, 20, 33, 64, true, ZN_PRECISION_BF16 },
        { 1, 1, 1, 17, 40, 100, false, ZN_PRECISION_F16 },
        { 1, 2, 1, 140, 150, 72, true, ZN_PRECISION_F16 }, /* two blocks of queries and three tiles of keys */
        { 3, 2, 1, 130, 140, 16, true, ZN_PRECISION_F32 }, /* many queries, where the GPU is small */
        { 2, 1, 1, 3, 70, 128, false, ZN_PRECISION_BF16 },
        { 2, 2, 2, 33, 70, 136, true, ZN_PRECISION_BF16 }, /* wide rows */
        { 1, 1, 1, 9, 40, 264, false, ZN_PRECISION_F16 },
        { 1, 1, 1, 40, 67, 264, false, ZN_PRECISION_F16 },
        { 1, 1, 1, 20, 64, 512, false, ZN_PRECISION_BF16 },
        { 2, 3, 1, 21, 33, 144, true, ZN_PRECISION_F32 },
        { 3, 1, 1, 36, 36, 384, false, ZN_PRECISION_BF16 },
        { 2, 2, 2, 33, 70, 192, true, ZN_PRECISION_BF16 }, /* few keys */
        { 1, 1, 1, 12, 20, 192, false, ZN_PRECISION_BF16 },
        { 1, 1, 1, 17, 256, 256, false, ZN_PRECISION_F16 },
        /* not emulated */
        { 32, 1, 1, 256, 256, 384, false, ZN_PRECISION_BF16 },
        { 3, 2, 1, 3000, 3000, 136, false, ZN_PRECISION_F32 }, /* more scores than are kept at a time */
        { 2, 16, 4, 1030, 1100, 64, true, ZN_PRECISION_F32 },
        { 4, 8, 1, 1000, 77, 32, false, ZN_PRECISION_F32 },
        { 2, 16, 2, 700, 900, 128, true, ZN_PRECISION_BF16 },
        { 1, 30, 1, 1024, 1024, 128, false, ZN_PRECISION_F32 },
        { 1, 1, 1, 1100, 1100, 512, false, ZN_PRECISION_F32 },
        { 1, 1, 1, 300, 2048, 512, false, ZN_PRECISION_BF16 },
        { 1, 2, 1, 600, 600, 256, true, ZN_PRECISION_F32 },
        { 2, 2, 1, 700, 1024, 256, true, ZN_PRECISION_F16 },
        { 1, 3, 1, 300, 1500, 128, false,
          ZN_PRECISION_BF16 }, /* tiles of queries that two blocks share, with many keys */
        { 1, 30, 1, 640, 900, 128, false, ZN_PRECISION_BF16 }, /* some that they share, after others */
        { 1, 24, 1, 770, 1100, 64, true, ZN_PRECISION_F16 },
        { 1, 1, 1, 130, 25000, 136, false, ZN_PRECISION_BF16 }, /* rows of scores that shared memory does not hold */
        { 1, 1, 1, 130, 130, 512, false, ZN_PRECISION_BF16 },   /* the last block has none */
        { 1, 1, 1, 130, 130, 512, true, ZN_PRECISION_BF16 },
        { 1, 1, 1, 250, 250, 512, false, ZN_PRECISION_BF16 }, /* few keys, which thread blocks share */
    };
    for (size_t i = 0; i < sizeof list / sizeof *list && strstr("attention attention_grad", cuda_filter); i++)
        if (i < 18 || !cuda_is_emulated)
            check(&list[i], i % 3 == 1 ? 3 : 0); /* every third has rows that are not aligned */
}
