/* CUDA: rotary position embeddings and tables of tokens. */
#include "cuda_case.h"

#include "kernels/kernels.h"
#include "kernels/lookup.h"
#include "kernels/rope.h"
#include "kernels/token.h"

#include <string.h>

/* Tables for `period` tokens. */
static void check_rope(int tokens, int period, int heads, int pairs, bool halves, bool back)
{
    zn_rng rng = zn_rng_new(41);
    const int64_t count = (int64_t)tokens * heads * 2 * pairs, angles = (int64_t)period * pairs;
    float *x = cuda_shared_normal(&rng, count, 1), *cosines = cuda_shared_normal(&rng, angles, 1),
          *sines = cuda_shared_normal(&rng, angles, 1);
    zn_rope_args a = { .x = x,
                       .cos = cosines,
                       .sin = sines,
                       .period = period,
                       .heads = heads,
                       .pairs = pairs,
                       .halves = halves,
                       .back = back };
    cuda_check("rope", zn_k_rope, tokens, &a, &a.y, NULL, count, 1e-6);
    cuda_shared_free(x);
    cuda_shared_free(cosines);
    cuda_shared_free(sines);
}

/* Ids of all kinds: repeated, outside the table on both sides. */
static void check_lookup(int64_t rows, int64_t count, int c)
{
    zn_rng rng = zn_rng_new(42);
    float *table = cuda_shared_normal(&rng, rows * c, 1), *dy = cuda_shared_normal(&rng, count * c, 1),
          *ids = cuda_shared_new(count, 0);
    for (int64_t i = 0; i < count; i++)
        ids[i] = (float)((i * 37 + i / 5) % (rows + 2) - 1);
    zn_device_send(cuda_device, ids, sizeof(float) * (size_t)count);
    zn_lookup_args a = {
        .table = zn_packed_floats(table, c), .ids = ids, .dy = dy, .rows = rows, .count = count, .c = c
    };
    if (strstr("lookup", cuda_filter))
        cuda_check("lookup", zn_k_lookup, count, &a, &a.y, NULL, count * c, 0);
    cuda_check("lookup_grad", zn_k_lookup_grad, (c + ZN_LOOKUP_STRIP - 1) / ZN_LOOKUP_STRIP, &a, &a.y, NULL, rows * c,
               0);
    cuda_shared_free(table);
    cuda_shared_free(dy);
    cuda_shared_free(ids);
}

/* Several steps in one; maps of `type`. */
static void check_gated_norm(int64_t tokens, int c, bool plus_one, bool adds, float limit, zn_type type)
{
    zn_rng rng = zn_rng_new(43);
    float *x = cuda_shared_normal(&rng, tokens * c, 1), *residual = cuda_shared_normal(&rng, tokens * c, 1),
          *w = cuda_shared_normal(&rng, c, 1), *scale = cuda_shared_normal(&rng, c, 1);
    float *const narrow = cuda_map_new(x, tokens * c, type), *const more = cuda_map_new(residual, tokens * c, type);
    float *want = fenced_new(tokens * c, false), *y = cuda_result_new(tokens * c);
    zn_gated_norm_args a = { .x = x,
                             .w = w,
                             .scale = scale,
                             .residual = adds ? residual : NULL,
                             .y = want,
                             .c = c,
                             .eps = 1e-5f,
                             .limit = limit,
                             .plus_one = plus_one };
    zn_k_gated_norm(&a, (zn_range){ 0, tokens, NULL });
    a.x = narrow, a.residual = adds ? more : NULL, a.y = y;
    a.x_type = a.residual_type = a.y_type = type;
    cuda_start(zn_k_gated_norm, tokens, &a);
    float *result = type == ZN_TYPE_F32 ? y : cuda_map_fetch(y, tokens * c, type);
    cuda_compare("gated_norm", result, want, tokens * c, type == ZN_TYPE_F32 ? 2e-6 : 1e-2);
    if (result != y)
        cuda_result_free(result);
    cuda_result_free(y);
    fenced_free(want);
    float *const all[] = { x, residual, w, scale, narrow, more };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
}

static void check_norm_rope(int tokens, int period, int heads, int pairs, bool halves, zn_type type)
{
    zn_rng rng = zn_rng_new(45);
    const int64_t count = (int64_t)tokens * heads * 2 * pairs, angles = (int64_t)period * pairs;
    float *x = cuda_shared_normal(&rng, count, 1), *cosines = cuda_shared_normal(&rng, angles, 1),
          *sines = cuda_shared_normal(&rng, angles, 1), *w = cuda_shared_normal(&rng, 2 * pairs, 1);
    float *const narrow = cuda_map_new(x, count, type), *want = fenced_new(count, false), *y = cuda_result_new(count);
    zn_norm_rope_args a = { .rope = { .x = x,
                                      .cos = cosines,
                                      .sin = sines,
                                      .y = want,
                                      .period = period,
                                      .heads = heads,
                                      .pairs = pairs,
                                      .halves = halves },
                            .w = w,
                            .eps = 1e-5f };
    zn_k_norm_rope(&a, (zn_range){ 0, tokens, NULL });
    a.rope.x = narrow, a.rope.y = y, a.rope.type = type;
    cuda_start(zn_k_norm_rope, tokens, &a);
    float *result = type == ZN_TYPE_F32 ? y : cuda_map_fetch(y, count, type);
    cuda_compare("norm_rope", result, want, count, type == ZN_TYPE_F32 ? 2e-6 : 1e-2);
    if (result != y)
        cuda_result_free(result);
    cuda_result_free(y);
    fenced_free(want);
    float *const all[] = { x, cosines, sines, w, narrow };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
}

static void check_silu_multiply(int64_t count)
{
    zn_rng rng = zn_rng_new(44);
    float *a = cuda_shared_normal(&rng, count, 2), *b = cuda_shared_normal(&rng, count, 1);
    zn_binary_args args = { .a = a, .b = b };
    cuda_check("silu_multiply", zn_k_silu_multiply, count, &args, &args.y, NULL, count, 1e-6);
    cuda_shared_free(a);
    cuda_shared_free(b);
}

void cuda_check_tokens(void)
{
    static const zn_type types[] = { ZN_TYPE_F32, ZN_TYPE_BF16, ZN_TYPE_F16 };
    for (int i = 0; i < 12 && strstr("gated_norm", cuda_filter); i++) {
        check_gated_norm(50, i % 4 < 2 ? 3840 : 70, i % 2, i / 2 % 2, 0, types[i / 4]);
        check_gated_norm(3, i % 4 < 2 ? 64 : 4096, i % 2, i / 2 % 2, 0.5f + (float)(i % 3), types[i / 4]);
    }
    for (int i = 0; i < 6 && strstr("norm_rope", cuda_filter); i++) {
        check_norm_rope(12, 4, 3, 8, i % 2, types[i / 2]);
        check_norm_rope(5, 5, 30, 64, i % 2, types[i / 2]);
        check_norm_rope(7, 7, 5, 16, i % 2, types[i / 2]);
    }
    if (strstr("silu_multiply", cuda_filter)) {
        check_silu_multiply(1000);
        check_silu_multiply(77);
    }
    for (int i = 0; i < 4 && strstr("rope", cuda_filter); i++) {
        check_rope(12, 4, 3, 8, i % 2, i / 2);
        check_rope(5, 5, 3, 7, i % 2, i / 2);
        check_rope(9, 9, 2, 32, i % 2, i / 2);
    }
    if (!strstr("lookup_grad", cuda_filter))
        return;
    check_lookup(11, 300, 70);
    check_lookup(3, 5, 8);
}
