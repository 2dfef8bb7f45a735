/* Cases of check_simd.c for the Mamba layers: the selective scan, causal convolution. */
#include "simd_case.h"

#include "kernels/mix.h"
#include "kernels/scan.h"
#include "kernels/sequence.h"
#include "kernels/simd.h"

#include <stdio.h>

static const int scan_sizes[][4] = {
    /* sequences, length, channels, states */
    { 1, 1, 1, 1 },     { 2, 37, 32, 8 }, { 1, 64, 16, 16 },  { 1, 130, 83, 16 }, { 3, 65, 70, 5 },
    { 1, 200, 130, 4 }, { 2, 129, 9, 3 }, { 1, 66, 100, 18 }, { 1, 35, 36, 20 },
};

/* Together and apart, from 0 and from a state, with chunks of the CPU and of devices. */
static void scan(simd_case *c, int size)
{
    static zn_scan_args a;
    const int *z = scan_sizes[size / 8];
    const int64_t tokens = (int64_t)z[0] * z[1], map = tokens * z[2], few = tokens * z[3];
    a = (zn_scan_args){ .u = simd_normal(map, 1),
                        .dt = simd_normal(map, 2),
                        .b = simd_normal(few, 1),
                        .c = simd_normal(few, 1),
                        .a_log = simd_normal((int64_t)z[2] * z[3], 1),
                        .d = simd_normal(z[2], 1),
                        .bias = simd_normal(z[2], 1),
                        .first = size % 2 ? simd_normal((int64_t)z[0] * z[2] * z[3], 1) : NULL,
                        .dy = simd_normal(map, 1),
                        .sequences = z[0],
                        .length = z[1],
                        .channels = z[2],
                        .states = z[3],
                        .apart = size / 2 % 2,
                        .on_device = size / 4 % 2 };
    c->not_for_devices = !a.on_device;
    const bool ends = c->kernel == ZN_SIMD_scan_ends || c->kernel == ZN_SIMD_scan_grad_ends;
    a.apart |= ends;
    const int64_t cells = zn_scan_runs(&a) * zn_scan_blocks(&a) * zn_scan_cell(&a);
    const int64_t marks = zn_scan_marks(&a);
    a.marks = (float *)simd_normal(marks, 1);
    a.ends = (float *)simd_normal(cells, 1);
    snprintf(c->text, sizeof c->text, "%d of %d, %d channels, %d states%s%s%s", z[0], z[1], z[2], z[3],
             a.apart ? ", apart" : "", a.first ? ", from a state" : "", a.on_device ? ", chunks of a device" : "");
    c->args = &a;
    c->tolerance = 5e-6;
    c->scratch = c->kernel == ZN_SIMD_scan_grad ? zn_scan_grad_scratch(&a) : zn_scan_scratch(&a);
    c->units = zn_scan_runs(&a) * (c->kernel == ZN_SIMD_scan_grad ? zn_scan_groups(&a) : zn_scan_blocks(&a));
    if (c->kernel == ZN_SIMD_scan)
        simd_output(c, &a.y, map);
    if (c->kernel == ZN_SIMD_scan && !a.apart)
        simd_output(c, &a.marks, marks);
    if (ends) {
        simd_output(c, &a.decay, cells);
        simd_output(c, &a.ends, cells);
    }
    if (c->kernel == ZN_SIMD_scan_grad) {
        simd_output(c, &a.du, map);
        simd_output(c, &a.ddt, map);
        simd_output(c, &a.partial, zn_scan_runs(&a) * zn_scan_parameters(&a));
        simd_output(c, &a.partial_bc, 2 * zn_scan_groups(&a) * few);
        if (a.first && !a.apart)
            simd_output(c, &a.dfirst, (int64_t)z[0] * z[2] * z[3]);
    }
}

static const int conv_sizes[][4] = { /* sequences, length, channels, taps */
                                     { 1, 1, 1, 4 },   { 2, 37, 32, 4 }, { 3, 5, 19, 3 },
                                     { 1, 70, 67, 4 }, { 2, 2, 8, 7 },   { 4, 9, 20, 1 }
};

static void causal_conv(simd_case *c, int size)
{
    static zn_causal_conv_args a;
    const int *z = conv_sizes[size / 2];
    const int64_t tokens = (int64_t)z[0] * z[1], count = tokens * z[2], weights = (int64_t)z[3] * z[2];
    a = (zn_causal_conv_args){ .x = simd_normal(count, 1),
                               .dy = simd_normal(count, 1),
                               .w = simd_normal(weights, 1),
                               .bias = size % 2 ? NULL : simd_normal(z[2], 1),
                               .sequences = z[0],
                               .length = z[1],
                               .channels = z[2],
                               .taps = z[3],
                               .back = size % 2 };
    snprintf(c->text, sizeof c->text, "%d of %d, %d channels, %d taps%s", z[0], z[1], z[2], z[3],
             a.back ? ", back" : "");
    c->args = &a;
    c->units = c->kernel == ZN_SIMD_causal_conv ? tokens : zn_sum_blocks(tokens);
    if (c->kernel == ZN_SIMD_causal_conv)
        simd_output(c, &a.y, count);
    else
        simd_output(c, &a.partial, c->units * weights);
}

#define SIZES(list) (int)(sizeof(list) / sizeof *(list))
const simd_family simd_mamba_families[] = {
    { causal_conv, ZN_SIMD_causal_conv, 2 * SIZES(conv_sizes) },
    { causal_conv, ZN_SIMD_causal_conv_weight_grad, SIZES(conv_sizes) },
    { scan, ZN_SIMD_scan, 8 * SIZES(scan_sizes) },
    { scan, ZN_SIMD_scan_ends, 8 * SIZES(scan_sizes) },
    { scan, ZN_SIMD_scan_grad, 8 * SIZES(scan_sizes) },
    { scan, ZN_SIMD_scan_grad_ends, 8 * SIZES(scan_sizes) },
    { NULL, 0, 0 },
};
