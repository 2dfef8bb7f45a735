/* Cases of check_simd.c for what the Zenith networks mix pixels with: Walsh transforms and gates, tiles, whole blocks.
 */
#include "simd_case.h"

#include "kernels/gates.h"
#include "kernels/kernels.h"
#include "kernels/lite.h"
#include "kernels/lite_head.h"
#include "kernels/mix.h"
#include "kernels/simd.h"
#include "kernels/spectral.h"

#include <stdio.h>

static const int tile_sizes[][5] = { /* outer, n, pixels across, channels, P */
                                     { 1, 32, 1, 16, 32 }, { 2, 50, 1, 32, 32 },  { 1, 64, 5, 16, 32 },
                                     { 2, 7, 3, 5, 8 },    { 1, 128, 2, 70, 32 }, { 3, 20, 1, 12, 4 },
                                     { 1, 9, 2, 8, 2 },    { 1, 1, 2, 64, 16 },   { 2, 3, 1, 3, 1 },
                                     { 1, 5, 9, 24, 64 }
};

static void tile_mix(simd_case *c, int size)
{
    static zn_tile_mix_args a;
    const int *z = tile_sizes[size / 2];
    const int64_t inner = (int64_t)z[2] * z[3], count = z[0] * z[1] * inner, parameters = (int64_t)z[4] * z[3];
    a = (zn_tile_mix_args){ .x = simd_normal(count, 1),
                            .dy = simd_normal(count, 1),
                            .gate = simd_normal(parameters, 1),
                            .th = simd_normal(parameters, 0.2f),
                            .outer = z[0],
                            .n = z[1],
                            .inner = inner,
                            .channels = z[3],
                            .p = z[4],
                            .offset = size % 2 ? z[4] / 2 : 0 };
    snprintf(c->text, sizeof c->text, "[%d][%d][%d*%d], tiles of %d from %d", z[0], z[1], z[2], z[3], z[4], a.offset);
    c->args = &a;
    c->scratch = zn_tile_mix_scratch(&a);
    c->tolerance = 3e-6;
    c->units = zn_tile_mix_units(&a);
    if (c->kernel == ZN_SIMD_tile_mix_grad) {
        c->units = zn_sum_blocks(c->units);
        simd_output(c, &a.partial, c->units * 2 * parameters);
    }
    simd_output(c, &a.y, count);
}

static const int lite_sizes[][5] = { /* images, height, width, channels, inner channels */
                                     { 1, 8, 8, 64, 16 },     { 2, 16, 32, 16, 4 },    { 1, 1, 2, 32, 8 },
                                     { 1, 64, 16, 80, 20 },   { 1, 4, 64, 128, 32 },   { 1, 32, 4, 256, 64 },
                                     { 1, 2, 128, 64, 16 },   { 2, 64, 128, 64, 16 }, /* from here on with bands */
                                     { 1, 128, 64, 128, 32 }, { 1, 64, 64, 256, 64 },  { 1, 256, 64, 32, 16 },
#if defined(__aarch64__) /* where every length has passes of its own */
                                     { 1, 64, 512, 64, 16 },  { 1, 512, 64, 128, 32 }, { 1, 1024, 64, 64, 16 },
                                     { 1, 64, 256, 128, 32 }, { 1, 2, 1024, 64, 16 }
#endif
};

static void lite(simd_case *c, int size)
{
    static zn_lite_args a;
    const int *z = lite_sizes[size];
    const int64_t pixels = (int64_t)z[0] * z[1] * z[2];
    const bool rows = c->kernel == ZN_SIMD_lite_rows, expand = c->kernel == ZN_SIMD_lite_expand;
    a = (zn_lite_args){ .x = simd_normal(pixels * z[3], 1),
                        .w = simd_normal((int64_t)z[3] * z[4] / 4, 1),
                        .b = simd_normal(rows ? z[4] : z[3], 1),
                        .gate = simd_normal(rows ? z[2] : z[1], 1),
                        .n = z[0],
                        .h = z[1],
                        .wide = z[2],
                        .c = z[3],
                        .ci = z[4],
                        .groups = 4,
                        .band = zn_lite_band(z[1], z[2], z[4]) };
    const int64_t inside = a.band ? (int64_t)z[0] * z[2] / a.band * zn_lite_apart(&a) : pixels * z[4];
    a.t = simd_normal(inside, 1);
    snprintf(c->text, sizeof c->text, "%dx%dx%d, %d channels, %d inside", z[0], z[1], z[2], z[3], z[4]);
    c->args = &a;
    c->tolerance = 3e-6;
    c->scratch = zn_lite_scratch(&a);
    c->units = rows ? (int64_t)z[0] * z[1] : expand ? pixels : zn_lite_strips(&a);
    simd_output(c, &a.y, expand ? pixels * z[3] : inside);
    c->replaced = rows ? NULL : expand ? &a.x : &a.t;
}

static const int head_sizes[][5] = { /* images, height, width, channels in and out */
                                     { 1, 1, 1, 16, 8 },   { 2, 5, 7, 32, 16 },  { 1, 4, 50, 32, 16 },
                                     { 1, 6, 23, 64, 32 }, { 2, 3, 9, 128, 64 }, { 1, 3, 6, 256, 128 },
                                     { 1, 9, 5, 48, 24 },  { 3, 1, 2, 80, 20 },  { 1, 5, 37, 128, 64 }
};

static void lite_head(simd_case *c, int size)
{
    static zn_lite_head_args a;
    const int *z = head_sizes[size];
    const int64_t pixels = (int64_t)z[0] * z[1] * z[2];
    a = (zn_lite_head_args){ .x = simd_normal(pixels * z[3], 1),
                             .gain = simd_normal(z[3], 1),
                             .taps = simd_normal(9 * z[3], 1),
                             .w = simd_normal((int64_t)z[3] * z[4] / 4, 1),
                             .b = simd_normal(z[4], 1),
                             .eps = 1e-6f,
                             .n = z[0],
                             .h = z[1],
                             .wide = z[2],
                             .c = z[3],
                             .co = z[4],
                             .groups = 4 };
    snprintf(c->text, sizeof c->text, "%dx%dx%d, %d to %d channels", z[0], z[1], z[2], z[3], z[4]);
    c->args = &a;
    c->scratch = zn_lite_head_scratch(&a);
    c->units = (int64_t)z[0] * z[1];
    simd_output(c, &a.y, pixels * z[4]);
}

static const int linear_sizes[][4] = { /* rows, width, channels in and out */
                                       { 3, 5, 3, 64 },     { 2, 33, 64, 3 },    { 1, 17, 12, 20 },
                                       { 2, 3, 512, 256 },  { 1, 9, 4, 1024 },   { 1, 2, 1, 4 },
                                       { 2, 19, 256, 128 }, { 1, 16, 128, 256 }, { 2, 8, 256, 512 },
                                       { 1, 11, 192, 112 }, { 1, 7, 144, 512 },  { 1, 9, 64, 128 }
};

static void spectral_linear(simd_case *c, int size)
{
    static zn_spectral_linear_args a;
    const int *z = linear_sizes[size / 4];
    const int64_t pixels = (int64_t)z[0] * z[1];
    int d = 1;
    while (d < z[2] || d < z[3])
        d *= 2;
    int32_t *from = (int32_t *)simd_normal(4 * d, 1);
    for (int i = 0; i < 4 * d; i++) /* an odd factor permutes */
        from[i] = i < d ? i : (int32_t)((unsigned)(i % d) * 2654435761u % (unsigned)d);
    a = (zn_spectral_linear_args){ .x = simd_normal(pixels * z[2], 1),
                                   .s = simd_normal(4 * d, 0.1f),
                                   .bias = simd_normal(z[3], 1),
                                   .from = from,
                                   .wide = z[1],
                                   .cin = z[2],
                                   .cout = z[3],
                                   .d = d,
                                   .depth = 4,
                                   .shuffle_in = size % 2 && z[2] % 4 == 0,
                                   .shuffle_out = size / 2 % 2 && z[3] % 4 == 0 };
    snprintf(c->text, sizeof c->text, "%d rows of %d, %d->%d%s%s", z[0], z[1], z[2], z[3],
             a.shuffle_in ? ", unshuffled" : "", a.shuffle_out ? ", shuffled" : "");
    c->args = &a;
    c->tolerance = 3e-6;
    c->scratch = zn_spectral_linear_scratch(d, a.depth);
    c->units = z[0];
    simd_output(c, &a.y, pixels * z[3]);
}

static const int square_sizes[][5] = { /* images, height, width, channels, P */
                                       { 1, 32, 32, 16, 32 }, { 2, 20, 50, 8, 32 }, { 1, 40, 33, 20, 16 },
                                       { 1, 7, 9, 5, 8 },     { 1, 64, 3, 64, 4 },  { 1, 5, 1, 12, 2 },
                                       { 2, 48, 80, 32, 32 }, { 1, 5, 70, 16, 32 }, { 1, 70, 17, 48, 32 }
};

static void tile_square(simd_case *c, int size)
{
    static zn_tile_square_args a;
    const int *z = square_sizes[size / 2];
    const int64_t count = (int64_t)z[0] * z[1] * z[2] * z[3], parameters = (int64_t)z[4] * z[3];
    a = (zn_tile_square_args){ .x = simd_normal(count, 1),
                               .gate = { simd_normal(parameters, 1), simd_normal(parameters, 1) },
                               .th = { simd_normal(parameters, 0.2f), simd_normal(parameters, 0.2f) },
                               .n = z[0],
                               .h = z[1],
                               .wide = z[2],
                               .channels = z[3],
                               .p = z[4],
                               .offset = size % 2 ? z[4] / 2 : 0 };
    snprintf(c->text, sizeof c->text, "%dx%dx%dx%d, tiles of %d from %d", z[0], z[1], z[2], z[3], z[4], a.offset);
    c->args = &a;
    c->tolerance = 3e-6;
    c->scratch = zn_tile_square_scratch(&a);
    c->units = zn_tile_square_units(&a);
    simd_output(c, &a.y, count);
}

/* outer, n, inner; an even outer has the factor 1 */
static const int wht_sizes[][3] = { { 3, 1, 5 },     { 2, 2, 16 },    { 1, 64, 20 },    { 2, 512, 7 },  { 1, 8, 100 },
                                    { 5, 1, 1 },     { 7, 2, 1 },     { 3, 4, 1 },      { 2, 8, 1 },    { 2, 16, 1 },
                                    { 2, 32, 1 },    { 1, 256, 1 },   { 1, 4096, 1 },   { 1, 2048, 3 }, { 7, 2, 32 },
                                    { 8, 4, 16 },    { 9, 8, 16 },    { 6, 8, 32 },     { 5, 16, 48 },  { 8, 16, 16 },
                                    { 7, 32, 16 },   { 4, 32, 64 },   { 6, 64, 16 },    { 5, 64, 256 }, { 7, 128, 16 },
                                    { 4, 128, 32 },  { 2, 128, 256 }, { 2, 2, 512 },    { 3, 4, 768 },  { 2, 8, 1024 },
                                    { 3, 8, 512 },   { 1, 16, 1280 }, { 2, 32, 512 },   { 1, 32, 768 }, { 1, 64, 512 },
                                    { 2, 64, 768 },  { 131, 2, 1 },   { 130, 2, 1 },    { 70, 4, 1 },   { 67, 4, 1 },
                                    { 41, 8, 1 },    { 40, 8, 1 },    { 18, 16, 1 },    { 17, 16, 1 },  { 9, 32, 1 },
                                    { 8, 32, 1 },    { 6, 64, 1 },    { 5, 64, 1 },     { 4, 128, 1 },  { 1, 128, 512 },
                                    { 2, 256, 256 }, { 1, 512, 160 }, { 2, 1024, 144 }, { 1, 2048, 48 } };

static void wht(simd_case *c, int size)
{
    static zn_gate_grad_args a;
    const int *z = wht_sizes[size / 2];
    const int64_t count = (int64_t)z[0] * z[1] * z[2];
    a = (zn_gate_grad_args){ .t = { .x = simd_normal(count, 1),
                                    .gate = size % 2 ? simd_normal(z[1], 1) : NULL,
                                    .scale = z[0] % 2 ? 0.5f : 1,
                                    .outer = z[0],
                                    .n = z[1],
                                    .inner = z[2] },
                             .dy = simd_normal(count, 1) };
    snprintf(c->text, sizeof c->text, "[%d][%d][%d]%s", z[0], z[1], z[2], size % 2 ? ", gated" : "");
    c->args = c->kernel == ZN_SIMD_wht ? (const void *)&a.t : &a;
    c->tolerance = 3e-6;
    c->scratch = zn_wht_scratch(&a.t);
    c->units = zn_wht_units(&a.t);
    if (c->kernel == ZN_SIMD_wht) {
        simd_output(c, &a.t.y, count);
        c->replaced = &a.t.x;
    } else
        simd_output(c, &a.partial, c->units * z[1]);
}

#define SIZES(list) (int)(sizeof(list) / sizeof *(list))
const simd_family simd_mix_families[] = {
    { lite, ZN_SIMD_lite_rows, SIZES(lite_sizes) },
    { lite, ZN_SIMD_lite_columns, SIZES(lite_sizes) },
    { lite, ZN_SIMD_lite_expand, SIZES(lite_sizes) },
    { lite_head, ZN_SIMD_lite_head, SIZES(head_sizes) },
    { spectral_linear, ZN_SIMD_spectral_linear, 4 * SIZES(linear_sizes) },
    { tile_square, ZN_SIMD_tile_square, 2 * SIZES(square_sizes) },
    { wht, ZN_SIMD_wht, 2 * SIZES(wht_sizes) },
    { wht, ZN_SIMD_gate_grad, 2 * SIZES(wht_sizes) },
    { tile_mix, ZN_SIMD_tile_mix, 2 * SIZES(tile_sizes) },
    { tile_mix, ZN_SIMD_tile_mix_grad, 2 * SIZES(tile_sizes) },
    { NULL, 0, 0 },
};
