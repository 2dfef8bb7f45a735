/* Convolutions that normalise what they read and measure what they write, against a scalar norm and a scalar
 * convolution. */
#include "conv_case.h"
#include "cuda_case.h"

#include "base/convert.h"
#include "base/cpu.h"
#include "kernels/norm_conv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct norm_case {
    int n, side, cin, cout;
    int split; /* channels of x; 0: all */
    bool up2, residual, modulated;
    zn_activation act;
} norm_case;

static float *rounded_new(zn_rng *rng, int64_t count, float mean, float scale)
{
    float *x = fenced_new(count, false);
    for (int64_t i = 0; i < count; i++)
        x[i] = zn_bf16_to_f32(zn_f32_to_bf16(mean + scale * zn_rng_normal(rng)));
    return x;
}

/* What is measured of channels [first, first + c) of a map with `all` of them, in blocks of pixels that follow each
 * other; on the device. */
static float *measured_new(const float *x, int64_t n, int64_t pixels, int all, int first, int c, int blocks)
{
    float *m = fenced_new(zn_measured_floats(n, blocks, c), false);
    const int64_t each = pixels / blocks;
    for (int64_t block = 0; block < n * blocks; block++)
        for (int i = 0; i < c; i++) {
            double sum = 0, square = 0;
            for (int64_t p = 0; p < each; p++)
                sum += (double)x[(block * each + p) * all + first + i];
            for (int64_t p = 0; p < each; p++) {
                const double off = (double)x[(block * each + p) * all + first + i] - sum / (double)each;
                square += off * off;
            }
            m[(2 * block) * c + i] = (float)(sum / (double)each);
            m[(2 * block + 1) * c + i] = (float)square;
        }
    float *shared = cuda_shared_copy(m, zn_measured_floats(n, blocks, c));
    fenced_free(m);
    return shared;
}

/* Mean and variance of each channel of each map, from what was measured in blocks. */
static void merge(const float *m, int64_t n, int64_t pixels, int blocks, int c, float *to)
{
    for (int64_t map = 0; map < n; map++)
        for (int i = 0; i < c; i++) {
            double mean = 0, square = 0;
            for (int b = 0; b < blocks; b++)
                mean += (double)m[((map * blocks + b) * 2) * c + i] / blocks;
            for (int b = 0; b < blocks; b++) {
                const double off = (double)m[((map * blocks + b) * 2) * c + i] - mean;
                square += (double)m[((map * blocks + b) * 2 + 1) * c + i] + off * off * (double)(pixels / blocks);
            }
            to[map * 2 * c + i] = (float)mean;
            to[(map * 2 + 1) * c + i] = (float)(square / (double)pixels);
        }
}

/* Some channels of a map. */
static float *part_new(const float *x, int64_t pixels, int all, int first, int c)
{
    float *part = fenced_new(pixels * c, false);
    for (int64_t p = 0; p < pixels; p++)
        memcpy(part + p * c, x + p * all + first, sizeof(float) * (size_t)c);
    float *shared = cuda_map_new(part, pixels * c, ZN_TYPE_BF16);
    fenced_free(part);
    return shared;
}

static void scalar_norm(zn_norm_args a, const float *x, float *y)
{
    float *scratch = fenced_new(zn_norm_scratch(&a), false);
    a.x = x;
    a.y = y;
    a.partial = scratch;
    a.table = a.partial + 2 * a.n * zn_norm_blocks(&a) * a.c;
    a.sums = a.table + 3 * a.n * a.c;
    cuda_reference(zn_k_norm_sums, a.n * zn_norm_blocks(&a), &a, 0);
    cuda_reference(zn_k_norm_merge, a.n * a.groups, &a, 0);
    cuda_reference(zn_k_norm_apply, a.n * a.pixels, &a, 0);
    for (int64_t i = 0; i < a.n * a.pixels * a.c; i++)
        y[i] = zn_bf16_to_f32(zn_f32_to_bf16(y[i]));
    fenced_free(scratch);
}

/* What was measured must be that of the result, as it was rounded. */
static void compare_measured(const char *name, float *measured, const float *y, const zn_conv_shape *s, int blocks)
{
    const int64_t floats = zn_measured_floats(s->n, blocks, s->cout), pixels = (int64_t)s->oh * s->ow;
    float *got = cuda_result_new(2 * (int64_t)s->n * s->cout), *want = fenced_new(2 * (int64_t)s->n * s->cout, false);
    zn_device_fetch(cuda_device, measured, sizeof(float) * (size_t)floats);
    cuda_must(zn_device_wait(cuda_device));
    merge(measured, s->n, pixels, blocks, s->cout, got);
    float *one = measured_new(y, s->n, pixels, s->cout, 0, s->cout, 1);
    merge(one, s->n, pixels, 1, s->cout, want);
    zn_device_send(cuda_device, got, sizeof(float) * 2 * (size_t)s->n * (size_t)s->cout);
    cuda_compare(name, got, want, 2 * (int64_t)s->n * s->cout, 1e-5);
    cuda_shared_free(one);
    cuda_result_free(got);
    fenced_free(want);
}

/* The norm alone. a: what the convolution gets, with maps on the device; x: all channels, as floats. */
static void check_alone(const char *name, zn_norm_conv_args a, const float *x)
{
    const int64_t pixels = a.n.n * a.n.pixels, count = pixels * a.n.c;
    const int own = a.n.more ? a.n.split : a.n.c;
    const float *const device_maps[] = { a.a.x, a.n.more };
    float *part = fenced_new(pixels * own, false), *rest = fenced_new(pixels * (a.n.c - own) + 1, false);
    float *want = fenced_new(count, false), *y = cuda_shared_new((count + 1) / 2, NAN);
    for (int64_t p = 0; p < pixels; p++) {
        memcpy(part + p * own, x + p * a.n.c, sizeof(float) * (size_t)own);
        memcpy(rest + p * (a.n.c - own), x + p * a.n.c + own, sizeof(float) * (size_t)(a.n.c - own));
    }
    a.n.x = part;
    a.n.more = a.n.more ? rest : NULL;
    a.n.y = want;
    cuda_reference(zn_k_norm_measured, a.n.n, &a, 0);
    a.n.x = device_maps[0];
    a.n.more = device_maps[1];
    a.n.y = y;
    a.n.x_type = a.n.y_type = ZN_TYPE_BF16;
    cuda_start(zn_k_norm_measured, a.n.n, &a);
    float *got = cuda_map_fetch(y, count, ZN_TYPE_BF16);
    cuda_compare(name, got, want, count, 5e-3);
    cuda_result_free(got);
    cuda_shared_free(y);
    fenced_free(want);
    fenced_free(part);
    fenced_free(rest);
}

static void check(const norm_case *c)
{
    enum { GROUPS = 32, MORE_BLOCKS = 2 };
    const int x_blocks = c->side > 32 ? 32 : 4;
    const zn_conv_shape s = conv_shape(c->n, c->side, c->side, c->cin, c->cout, 3, 1, 1, c->up2);
    const zn_conv_kernel *k = zn_conv_choose(
        &s, (zn_conv_wish){ .math = ZN_PRECISION_BF16, .whole = true, .cpu = ZN_CPU_CUDA | ZN_CPU_HOPPER });
    const int blocks = k->measures ? k->measures(&s) : 0, first = c->split ? c->split : c->cin;
    const int64_t pixels = (int64_t)c->side * c->side, count = c->n * pixels * c->cin;
    char name[160], text[96], other[192];
    conv_shape_text(&s, text, sizeof text);
    snprintf(name, sizeof name, "%s %s, normalised%s%s", k->name, text, c->split ? ", two maps" : "",
             c->residual ? ", residual" : "");
    snprintf(other, sizeof other, "%s, measured", name);
    if (!blocks) {
        cuda_fail(name, "no kernel for it");
        return;
    }
    zn_rng rng = zn_rng_new(61);
    conv_data d = conv_data_new(s, 62);
    float *x = rounded_new(&rng, count, 0.7f, 1.5f), *normed = fenced_new(count, false);
    float *numbers = cuda_shared_normal(&rng, 2 * (int64_t)c->cin + 3 * (int64_t)c->n * c->cin, 0.5f);
    const float *modulation = numbers + 2 * (int64_t)c->cin;
    zn_norm_args n = { .gamma = c->act == ZN_ACT_RELU ? NULL : numbers,
                       .beta = numbers + c->cin,
                       .scale = c->modulated ? modulation : NULL,
                       .shift = c->modulated ? modulation + c->cin : NULL,
                       .gain = c->modulated ? modulation + 2 * (int64_t)c->cin : NULL,
                       .scale_step = 3 * (int64_t)c->cin,
                       .shift_step = 3 * (int64_t)c->cin,
                       .gain_step = 3 * (int64_t)c->cin,
                       .n = c->n,
                       .pixels = pixels,
                       .c = c->cin,
                       .groups = GROUPS,
                       .eps = 1e-5f,
                       .act = c->act };
    if (n.gamma)
        scalar_norm(n, x, normed);
    else
        memcpy(normed, x, sizeof(float) * (size_t)count);
    for (int64_t i = 0; i < d.y_count; i++)
        d.residual[i] = zn_bf16_to_f32(zn_f32_to_bf16(d.residual[i]));
    memcpy(d.x, normed, sizeof(float) * (size_t)count);
    const conv_options o = { .bias = true, .residual = c->residual };
    const zn_conv_kernel *const *ref = zn_conv_kernels;
    while (ref[1])
        ref++;
    const zn_conv_args scalar = conv_args_of(&d, o, d.w, d.want);
    cuda_reference((*ref)->run, (*ref)->units(&s), &scalar, (*ref)->scratch_bytes(&s));

    float *map = part_new(x, c->n * pixels, c->cin, 0, first);
    float *beside = c->split ? part_new(x, c->n * pixels, c->cin, first, c->cin - first) : NULL;
    float *of_map = measured_new(x, c->n, pixels, c->cin, 0, first, x_blocks);
    float *of_beside = c->split ? measured_new(x, c->n, pixels, c->cin, first, c->cin - first, MORE_BLOCKS) : NULL;
    float *packed = cuda_shared_new((int64_t)(k->packed_bytes(&s) / sizeof(float)), NAN);
    float *bias = cuda_shared_copy(d.bias, s.cout), *residual = cuda_map_new(d.residual, d.y_count, ZN_TYPE_BF16);
    float *y = cuda_shared_new((d.y_count + 1) / 2, NAN);
    float *measured = cuda_shared_new(zn_measured_floats(s.n, blocks, s.cout), NAN);
    float *table = cuda_shared_new(zn_norm_conv_table(c->n, c->cin), NAN);
    float *room =
        cuda_shared_new((int64_t)((k->workspace_bytes ? k->workspace_bytes(&s, ZN_TYPE_BF16) : 0) / 4) + 1, 0);
    k->pack(&s, d.w, packed);
    zn_device_send(cuda_device, packed, k->packed_bytes(&s));
    zn_norm_conv_args a = { .a = { .s = s,
                                   .x = map,
                                   .packed = packed,
                                   .bias = bias,
                                   .residual = c->residual ? residual : NULL,
                                   .y = y,
                                   .x_type = ZN_TYPE_BF16,
                                   .residual_type = ZN_TYPE_BF16,
                                   .y_type = ZN_TYPE_BF16,
                                   .workspace = room },
                            .n = n,
                            .x = { of_map, x_blocks, first },
                            .more = { of_beside, MORE_BLOCKS, c->cin - first },
                            .measured = measured };
    a.n.more = beside;
    a.n.split = c->split;
    a.n.table = table;
    cuda_start(k->run_normed, s.n, &a);
    float *got = cuda_map_fetch(y, d.y_count, ZN_TYPE_BF16);
    compare_measured(other, measured, got, &s, blocks);
    cuda_compare(name, got, d.want, d.y_count, (double)k->tolerance);
    if (n.gamma) {
        snprintf(other, sizeof other, "%s: the norm alone", name);
        check_alone(other, a, x);
    }
    float *const all[] = { map, of_map, packed, bias, residual, y, measured, table, room, numbers };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    if (c->split) {
        cuda_shared_free(beside);
        cuda_shared_free(of_beside);
    }
    cuda_result_free(got);
    fenced_free(x);
    fenced_free(normed);
    conv_data_free(&d);
}

void cuda_check_norm_convs(void)
{
    static const norm_case cases[] = {
        /* n, side, cin, cout, split, up2, residual, modulated, act (RELU: not normalised) */
        { 1, 8, 128, 64, 0, false, false, false, ZN_ACT_SILU },
        { 1, 8, 512, 512, 0, false, true, true, ZN_ACT_SILU },
        { 1, 8, 1024, 512, 512, false, false, false, ZN_ACT_SILU },
        { 1, 16, 640, 384, 384, false, false, true, ZN_ACT_SILU },
        { 2, 16, 384, 384, 0, false, true, true, ZN_ACT_NONE },
        { 1, 32, 256, 256, 0, false, true, false, ZN_ACT_RELU },
        { 1, 64, 128, 128, 0, false, true, true, ZN_ACT_SILU },
        { 1, 64, 384, 128, 256, false, false, false, ZN_ACT_SILU },
        { 16, 8, 512, 512, 0, false, true, true, ZN_ACT_SILU },
        { 5, 32, 256, 128, 128, false, true, false, ZN_ACT_SILU },
        { 1, 128, 64, 64, 0, false, true, false, ZN_ACT_RELU },
        { 1, 128, 128, 128, 0, false, true, true, ZN_ACT_SILU },
        { 1, 8, 512, 512, 0, true, false, false, ZN_ACT_SILU },
        { 2, 32, 128, 128, 0, true, false, false, ZN_ACT_SILU },
        { 1, 64, 128, 128, 64, true, true, false, ZN_ACT_SILU },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases && cuda_runs(ZN_CPU_CUDA | ZN_CPU_HOPPER); i++)
        check(&cases[i]);
}
