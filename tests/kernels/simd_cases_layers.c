/* Cases of check_simd.c for layers that several networks have: activations, grouped and depthwise convolution, norms,
 * shuffles. */
#include "simd_case.h"

#include "kernels/kernels.h"
#include "kernels/mix.h"
#include "kernels/simd.h"

#include <math.h>
#include <stdio.h>

static const int counts[] = { 1, 3, 16, 37, 1000 };

static void unary(simd_case *c, int size)
{
    static zn_unary_args a;
    const int64_t n = counts[size];
    a = (zn_unary_args){ .x = simd_normal(n, 3), .dy = simd_normal(n, 1), .a = 3 };
    snprintf(c->text, sizeof c->text, "%lld values", (long long)n);
    c->args = &a;
    c->units = n;
    simd_output(c, &a.y, n);
}

static const int grouped_sizes[][4] = { /* pixels, cin, cout, groups */
                                        { 1, 8, 4, 4 },      { 7, 32, 16, 4 },   { 100, 64, 32, 4 }, { 50, 128, 64, 4 },
                                        { 13, 256, 128, 4 }, { 9, 12, 20, 4 },   { 70, 6, 9, 3 },    { 21, 16, 64, 4 },
                                        { 300, 40, 8, 4 },   { 11, 128, 32, 4 }, { 5, 10, 10, 10 }
};

static void grouped(simd_case *c, int size)
{
    static zn_grouped_args a;
    const int *z = grouped_sizes[size / 2];
    const int64_t weights = (int64_t)z[1] * z[2] / z[3];
    a = (zn_grouped_args){ .x = simd_normal((int64_t)z[0] * z[1], 1),
                           .dy = simd_normal((int64_t)z[0] * z[2], 1),
                           .w = simd_normal(weights, 1),
                           .bias = size % 3 ? simd_normal(z[2], 1) : NULL,
                           .pixels = z[0],
                           .cin = z[1],
                           .cout = z[2],
                           .groups = z[3],
                           .interleave = size % 2 };
    snprintf(c->text, sizeof c->text, "%d pixels %d->%d in %d groups%s", z[0], z[1], z[2], z[3],
             size % 2 ? ", interleaved" : "");
    c->args = &a;
    c->scratch = zn_grouped_scratch(&a);
    c->units = c->kernel == ZN_SIMD_grouped_weight_grad ? zn_sum_blocks(z[0]) * z[3] : z[0];
    if (c->kernel == ZN_SIMD_grouped_weight_grad)
        simd_output(c, &a.partial, zn_sum_blocks(z[0]) * weights);
    else
        simd_output(c, &a.y, (int64_t)z[0] * (c->kernel == ZN_SIMD_grouped ? z[2] : z[1]));
}

static const int map_sizes[][4] = { { 1, 1, 1, 1 },   { 1, 2, 3, 5 },   { 2, 4, 1, 16 },
                                    { 1, 7, 70, 32 }, { 2, 70, 5, 20 }, { 1, 3, 130, 67 } };

static void depthwise(simd_case *c, int size)
{
    static zn_depthwise_args a;
    const int *z = map_sizes[size];
    const int64_t count = (int64_t)z[0] * z[1] * z[2] * z[3];
    a = (zn_depthwise_args){ .x = simd_normal(count, 1),
                             .dy = simd_normal(count, 1),
                             .w = simd_normal(9 * z[3], 1),
                             .n = z[0],
                             .h = z[1],
                             .wide = z[2],
                             .c = z[3],
                             .flip = size % 2,
                             .add_x = size % 3 == 0 };
    snprintf(c->text, sizeof c->text, "%dx%dx%dx%d", z[0], z[1], z[2], z[3]);
    c->args = &a;
    c->scratch = sizeof(float) * 9 * (size_t)z[3];
    const int64_t rows = (int64_t)z[0] * z[1];
    c->units = c->kernel == ZN_SIMD_depthwise ? rows : zn_sum_blocks(rows);
    if (c->kernel == ZN_SIMD_depthwise)
        simd_output(c, &a.y, count);
    else
        simd_output(c, &a.partial, zn_sum_blocks(rows) * 9 * z[3]);
}

/* Every other size with a limit that about half of the pixels reach. */
static const int norm_sizes[][2] = { { 1, 2 }, { 7, 5 }, { 100, 32 }, { 33, 67 }, { 9, 256 }, { 200, 12 } };

static void rms_norm(simd_case *c, int size)
{
    static zn_mix_args a;
    const int64_t pixels = norm_sizes[size][0], channels = norm_sizes[size][1], count = pixels * channels;
    a = (zn_mix_args){ .x = simd_normal(count, 1),
                       .dy = simd_normal(count, 1),
                       .w = simd_normal(channels, 1),
                       .pixels = pixels,
                       .c = (int)channels,
                       .eps = 1e-6f,
                       .most = size % 2 ? 1 : INFINITY };
    snprintf(c->text, sizeof c->text, "%d pixels of %d", norm_sizes[size][0], norm_sizes[size][1]);
    c->args = &a;
    c->units = c->kernel == ZN_SIMD_rms_norm ? pixels : zn_sum_blocks(pixels);
    simd_output(c, &a.y, count);
    if (c->kernel == ZN_SIMD_rms_norm_grad)
        simd_output(c, &a.partial, c->units * channels);
}

static const int shuffle_sizes[][4] = { /* rows, width of the small map, channels of the large, r */
                                        { 1, 1, 1, 2 }, { 3, 5, 7, 2 },  { 4, 9, 32, 2 },
                                        { 2, 3, 5, 4 }, { 2, 2, 18, 4 }, { 1, 2, 9, 3 }
};

static void shuffle(simd_case *c, int size)
{
    static zn_shuffle_args a;
    const int *z = shuffle_sizes[size];
    const int64_t count = (int64_t)z[0] * z[1] * z[2] * z[3] * z[3];
    a = (zn_shuffle_args){ .x = simd_normal(count, 1), .h = z[0], .w = z[1], .c = z[2], .r = z[3] };
    snprintf(c->text, sizeof c->text, "%dx%d, %d channels by %d", z[0], z[1], z[2], z[3]);
    c->args = &a;
    c->units = z[0];
    c->tolerance = 0;
    simd_output(c, &a.y, count);
}

#define SIZES(list) (int)(sizeof(list) / sizeof *(list))
const simd_family simd_layer_families[] = {
    { unary, ZN_SIMD_soft_clamp, SIZES(counts) },
    { unary, ZN_SIMD_gelu, SIZES(counts) },
    { unary, ZN_SIMD_gelu_grad, SIZES(counts) },
    { grouped, ZN_SIMD_grouped, 2 * SIZES(grouped_sizes) },
    { grouped, ZN_SIMD_grouped_grad, 2 * SIZES(grouped_sizes) },
    { grouped, ZN_SIMD_grouped_weight_grad, 2 * SIZES(grouped_sizes) },
    { depthwise, ZN_SIMD_depthwise, SIZES(map_sizes) },
    { depthwise, ZN_SIMD_depthwise_weight_grad, SIZES(map_sizes) },
    { rms_norm, ZN_SIMD_rms_norm, SIZES(norm_sizes) },
    { rms_norm, ZN_SIMD_rms_norm_grad, SIZES(norm_sizes) },
    { shuffle, ZN_SIMD_shuffle, SIZES(shuffle_sizes) },
    { shuffle, ZN_SIMD_unshuffle, SIZES(shuffle_sizes) },
    { NULL, 0, 0 },
};
