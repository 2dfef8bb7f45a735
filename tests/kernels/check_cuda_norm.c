/* CUDA: group norm and its gradient. The kernels of each run one after the other. */
#include "cuda_case.h"

#include "base/convert.h"
#include "kernels/mix.h"
#include "kernels/norm.h"
#include "kernels/pair.h"
#include "kernels/silu_norm.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct pass {
    zn_body body;
    int64_t units;
} pass;

static void run_all(const zn_norm_args *a, const pass *passes, int count, bool on_device)
{
    for (int i = 0; i < count; i++)
        if (on_device)
            cuda_start(passes[i].body, passes[i].units, a);
        else
            passes[i].body(a, (zn_range){ 0, passes[i].units, NULL });
}

static void run_forward(const zn_norm_args *a, bool on_device)
{
    const pass whole = { zn_k_group_norm, a->n * a->groups };
    run_all(a, &whole, 1, on_device);
}

static void run_gradient(const zn_norm_args *a, bool on_device)
{
    const pass passes[] = { { zn_k_norm_sums, a->n * zn_norm_blocks(a) },
                            { zn_k_norm_stats, a->n * a->groups },
                            { zn_k_norm_grad_sums, a->n * zn_norm_blocks(a) },
                            { zn_k_norm_grad_merge, a->n * a->groups },
                            { zn_k_norm_grad, a->n * a->pixels } };
    run_all(a, passes, 5, on_device);
}

/* type: of the maps; x and dy are rounded to it. */
static void check(int64_t n, int64_t pixels, int c, int groups, zn_activation act, bool modulated, zn_type type)
{
    zn_rng rng = zn_rng_new(10);
    char name[96];
    const bool narrow = type != ZN_TYPE_F32;
    const int64_t count = n * pixels * c;
    zn_norm_args a = { .n = n, .pixels = pixels, .c = c, .groups = groups, .eps = 1e-5f, .act = act };
    const int64_t partial = 2 * a.n * zn_norm_blocks(&a) * a.c;
    float *x = cuda_shared_normal(&rng, count, 2), *dy = cuda_shared_normal(&rng, count, 1);
    float *gamma = cuda_shared_normal(&rng, c, 1), *beta = cuda_shared_normal(&rng, c, 1);
    float *both = modulated ? cuda_shared_normal(&rng, n * 2 * c, 1) : NULL; /* scales, then shifts of each map */
    float *gain = modulated ? cuda_shared_normal(&rng, n * c, 1) : NULL;
    float *work = cuda_shared_new(partial + 3 * n * c, NAN), *sums = cuda_result_new(2 * n * c);
    float *y = cuda_result_new(count), *want = fenced_new(count, false), *want_sums = fenced_new(2 * n * c, false);
    float *const map_x = cuda_map_new(x, count, type), *const map_dy = cuda_map_new(dy, count, type);
    a.gamma = gamma, a.beta = beta, a.gain = gain, a.gain_step = c;
    a.scale = both, a.shift = both ? both + c : NULL, a.scale_step = a.shift_step = 2 * c;
    a.partial = work;
    a.table = a.partial + partial;
    for (int gradient = 0; gradient < 2; gradient++) {
        void (*const run)(const zn_norm_args *, bool) = gradient ? run_gradient : run_forward;
        a.x = x, a.dy = dy, a.y = want, a.sums = want_sums;
        a.x_type = a.dy_type = a.y_type = ZN_TYPE_F32;
        run(&a, false);
        a.x = map_x, a.dy = map_dy, a.y = y, a.sums = sums;
        a.x_type = a.dy_type = a.y_type = type;
        run(&a, true);
        snprintf(name, sizeof name, "%s of %d %smaps of %d pixels of %d channels", gradient ? "norm_grad" : "norm",
                 (int)n, narrow ? "16-bit " : "", (int)pixels, c);
        float *const result = narrow ? cuda_map_fetch(y, count, type) : y;
        cuda_compare(name, result, want, count, narrow ? 4e-3 : gradient ? 2e-6 : 1e-6);
        if (narrow)
            cuda_result_free(result);
        if (gradient)
            cuda_compare(name, sums, want_sums, 2 * n * c, 2e-6);
    }
    float *const all[] = { x, dy, gamma, beta, both, gain, work, map_x, map_dy };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    cuda_result_free(y);
    cuda_result_free(sums);
    fenced_free(want);
    fenced_free(want_sums);
}

/* ---- with modulation, SiLU and dropout ---- */

static void run_silu(const zn_silu_norm_args *a, bool gradient, bool on_device)
{
    const int64_t blocks = a->n * zn_silu_norm_blocks(a), groups = a->n * a->groups, pixels = a->n * a->pixels;
    const pass forward[] = { { zn_k_silu_norm_sums, blocks },
                             { zn_k_silu_norm_merge, groups },
                             { zn_k_silu_norm_apply, pixels } };
    const pass back[] = { { zn_k_silu_norm_grad_sums, blocks },
                          { zn_k_silu_norm_grad_merge, groups },
                          { zn_k_silu_norm_grad, pixels } };
    if (on_device && (!gradient || zn_silu_norm_is_whole(a))) {
        cuda_start(gradient ? zn_k_silu_norm_back : zn_k_silu_norm, groups, a);
        return;
    }
    for (int i = 0; i < 3; i++) {
        const pass *p = gradient ? &back[i] : &forward[i];
        if (on_device)
            cuda_start(p->body, p->units, a);
        else
            p->body(a, (zn_range){ 0, p->units, NULL });
    }
}

/* Compares maps of `type`, and the sums for parameters and modulations. mixed: dy is F32. */
static void check_silu(int64_t n, int64_t pixels, int c, int groups, bool modulated, zn_type type, bool mixed)
{
    zn_rng rng = zn_rng_new(11);
    const bool narrow = type != ZN_TYPE_F32;
    const int64_t count = n * pixels * c, each = n * c;
    char name[96];
    zn_silu_norm_args a = {
        .n = n, .pixels = pixels, .c = c, .groups = groups, .eps = 1e-5f, .share = 0.3f, .place = 7
    };
    const int64_t partial = 2 * n * zn_silu_norm_blocks(&a) * c;
    float *x = cuda_shared_normal(&rng, count, 2), *dy = cuda_shared_normal(&rng, count, 1),
          *more = cuda_shared_normal(&rng, count, 1), *gamma = cuda_shared_normal(&rng, c, 1),
          *beta = cuda_shared_normal(&rng, c, 1), *scale = cuda_shared_normal(&rng, each, 1),
          *shift = cuda_shared_normal(&rng, each, 1), *gain = cuda_shared_normal(&rng, each, 1),
          *seeds = cuda_shared_new(n, 12345), *work = cuda_shared_new(partial + 6 * each, NAN);
    for (int64_t i = 0; i < count; i++)
        x[i] += 3; /* means are not near 0 */
    float *const map_x = cuda_map_new(x, count, type), *const map_more = cuda_map_new(more, count, type),
                 *const map_dy = cuda_map_new(dy, count, mixed ? ZN_TYPE_F32 : type);
    float *y = cuda_result_new(count), *want = fenced_new(count, false);
    float *sums = cuda_result_new(5 * each), *want_sums = fenced_new(5 * each, false);
    memset(want_sums, 0, sizeof(float) * (size_t)(5 * each));
    a.gamma = gamma, a.beta = beta;
    a.partial = work;
    a.table = work + partial;
    a.line = a.table + 4 * each;
    if (modulated)
        a.scale = scale, a.shift = shift, a.gain = gain, a.seeds = seeds;
    for (int gradient = 0; gradient < 2; gradient++) {
        for (int on_device = 0; on_device < 2; on_device++) {
            float *to = on_device ? sums : want_sums;
            a.x = on_device ? map_x : x, a.dy = on_device ? map_dy : dy;
            a.more = !modulated ? NULL : on_device ? map_more : more;
            a.y = on_device ? y : want;
            a.x_type = a.y_type = a.more_type = on_device ? type : ZN_TYPE_F32;
            a.dy_type = on_device && !mixed ? type : ZN_TYPE_F32;
            a.sums = to, a.d_scale = to + 2 * each, a.d_shift = to + 3 * each, a.d_gain = to + 4 * each;
            run_silu(&a, gradient, on_device);
        }
        snprintf(name, sizeof name, "%s of %d %smaps of %d pixels of %d channels",
                 gradient ? "silu_norm_grad" : "silu_norm", (int)n, narrow ? "16-bit " : "", (int)pixels, c);
        float *const result = narrow ? cuda_map_fetch(y, count, type) : y;
        cuda_compare(name, result, want, count, narrow ? 4e-3 : 3e-6);
        if (narrow)
            cuda_result_free(result);
        if (gradient)
            cuda_compare(name, sums, want_sums, modulated ? 5 * each : 2 * each, narrow ? 1e-4 : 3e-6);
    }
    float *const all[] = { x, dy, more, gamma, beta, scale, shift, gain, seeds, work, map_x, map_dy, map_more };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    cuda_result_free(y);
    cuda_result_free(sums);
    fenced_free(want);
    fenced_free(want_sums);
}

static void check_all_silu(void)
{
    check_silu(2, 77, 16, 4, true, ZN_TYPE_F32, false);
    check_silu(3, 50, 7, 1, true, ZN_TYPE_F32, false);
    check_silu(1, 300, 128, 32, false, ZN_TYPE_BF16, false);
    check_silu(2, 130, 640, 32, true, ZN_TYPE_BF16, false);
    check_silu(2, 64, 24, 3, true, ZN_TYPE_BF16, true);
    check_silu(3, 50, 12, 4, true, ZN_TYPE_BF16, false); /* no whole eights */
    check_silu(1, 70, 32, 4, true, ZN_TYPE_F16, false);
    check_silu(1, 3, 2560, 32, true, ZN_TYPE_BF16, false);
    check_silu(1, 3, 2592, 32, true, ZN_TYPE_BF16, false); /* more eights than threads */
    check_silu(2, 256, 48, 4, true, ZN_TYPE_BF16, false);  /* three pieces across */
    check_silu(1, 64, 64, 4, false, ZN_TYPE_BF16, false);
    check_silu(1, 1025, 32, 4, true, ZN_TYPE_BF16, false); /* too many pixels for one launch, and as many as fit: */
    check_silu(1, 1024, 32, 4, true, ZN_TYPE_BF16, false);
    check_silu(1, 2048, 16, 4, true, ZN_TYPE_BF16, false);
    check_silu(70, 40, 64, 8, true, ZN_TYPE_BF16, false);   /* many groups: several pieces for each thread */
    check_silu(1, 1025, 24, 12, true, ZN_TYPE_BF16, false); /* two channels in a group */
    if (!cuda_is_emulated)
        check_silu(32, 4096, 128, 32, true, ZN_TYPE_BF16, false);
}

/* An RMS norm with SiLU, and one of maps of 16 bits; x is rounded before. */
static void check_rms(int64_t pixels, int c, zn_type type)
{
    zn_rng rng = zn_rng_new(35);
    float *x = cuda_shared_normal(&rng, pixels * c, 1), *w = cuda_shared_normal(&rng, c, 1);
    float *map = cuda_map_new(x, pixels * c, type), *y = cuda_result_new(pixels * c);
    float *want = fenced_new(pixels * c, false);
    for (int silu = 0; silu < 2; silu++) {
        const zn_body body = silu ? zn_k_rms_norm_silu : zn_k_rms_norm;
        zn_mix_args a = { .x = x, .w = w, .y = want, .pixels = pixels, .c = c, .eps = 1e-6f, .most = INFINITY };
        body(&a, (zn_range){ 0, pixels, NULL });
        a.x = map;
        a.y = y;
        a.x_type = a.y_type = type;
        cuda_start(body, pixels, &a);
        float *got = type == ZN_TYPE_F32 ? y : cuda_map_fetch(y, pixels * c, type);
        cuda_compare(silu ? "rms_norm_silu" : "rms_norm", got, want, pixels * c, type == ZN_TYPE_F32 ? 2e-6 : 4e-3);
        if (got != y)
            cuda_result_free(got);
    }
    float *const all[] = { x, w, map };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    cuda_result_free(y);
    fenced_free(want);
}

/* Results as FP8 codes. Few may be rounded the other way, because the device's exponential has other last bits. */
static void check_rms_codes(int64_t pixels, int c)
{
    const int64_t count = pixels * c;
    zn_rng rng = zn_rng_new(36);
    float *x = cuda_shared_normal(&rng, count, 1), *w = cuda_shared_normal(&rng, c, 1);
    float *map = cuda_map_new(x, count, ZN_TYPE_BF16);
    float *y = cuda_result_new((count + 3) / 4), *codes = fenced_new((count + 3) / 4, false);
    float *want = fenced_new(count, false), *got = cuda_result_new(count);
    zn_mix_args a = { .x = x,
                      .w = w,
                      .y = codes,
                      .pixels = pixels,
                      .c = c,
                      .eps = 1e-6f,
                      .most = INFINITY,
                      .y_type = ZN_TYPE_E4M3,
                      .inverse = 30 };
    zn_k_rms_norm_silu(&a, (zn_range){ 0, pixels, NULL });
    zn_to_f32(want, codes, ZN_F8_E4M3, (size_t)count);
    a.x = map;
    a.y = y;
    a.x_type = ZN_TYPE_BF16;
    cuda_start(zn_k_rms_norm_silu, pixels, &a);
    zn_device_fetch(cuda_device, y, (size_t)count);
    cuda_must(zn_device_wait(cuda_device));
    zn_to_f32(got, y, ZN_F8_E4M3, (size_t)count);
    zn_device_send(cuda_device, got, sizeof(float) * (size_t)count);
    cuda_compare("rms_norm_silu, codes", got, want, count, 1e-2);
    float *const all[] = { x, w, map };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    cuda_result_free(y);
    cuda_result_free(got);
    fenced_free(codes);
    fenced_free(want);
}

/* A map in two parts, the second with the channels from `first` on. */
static void check_parts(int64_t n, int64_t pixels, int c, int groups, int first)
{
    zn_rng rng = zn_rng_new(12);
    const int64_t count = n * pixels * c, rows = n * pixels;
    zn_norm_args a = { .n = n, .pixels = pixels, .c = c, .groups = groups, .eps = 1e-5f, .act = ZN_ACT_SILU };
    float *x = cuda_shared_normal(&rng, count, 2), *map = cuda_map_new(x, count, ZN_TYPE_BF16);
    float *parts[2] = { cuda_shared_new(rows * first, 0), cuda_shared_new(rows * (c - first), 0) }, *maps[2];
    for (int64_t i = 0; i < count; i++) {
        const int64_t p = i / c, at = i % c;
        if (at < first)
            parts[0][p * first + at] = x[i];
        else
            parts[1][p * (c - first) + at - first] = x[i];
    }
    for (int i = 0; i < 2; i++)
        maps[i] = cuda_map_new(parts[i], rows * (i ? c - first : first), ZN_TYPE_BF16);
    float *gamma = cuda_shared_normal(&rng, c, 1), *beta = cuda_shared_normal(&rng, c, 1);
    float *work = cuda_shared_new(2 * n * zn_norm_blocks(&a) * c + 3 * n * c, NAN);
    float *y = cuda_result_new(count), *want = fenced_new(count, false);
    a.gamma = gamma, a.beta = beta, a.partial = work, a.table = work + 2 * n * zn_norm_blocks(&a) * c;
    a.x = x, a.y = want;
    run_forward(&a, false);
    a.x = maps[0], a.more = maps[1], a.split = first, a.y = y;
    a.x_type = a.y_type = ZN_TYPE_BF16;
    run_forward(&a, true);
    float *const result = cuda_map_fetch(y, count, ZN_TYPE_BF16);
    cuda_compare("group_norm of two maps", result, want, count, 4e-3);
    cuda_result_free(result);
    float *const all[] = { x, map, parts[0], parts[1], maps[0], maps[1], gamma, beta, work };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    cuda_result_free(y);
    fenced_free(want);
}

/* The product of two maps beside each other. */
static void check_pair(int64_t rows, int first, int rest, int cout, zn_type type)
{
    zn_rng rng = zn_rng_new(13);
    const int in = first + rest;
    float *x = cuda_shared_normal(&rng, rows * first, 1), *more = cuda_shared_normal(&rng, rows * rest, 1);
    float *w = cuda_shared_normal(&rng, (int64_t)in * cout, 0.1f), *bias = cuda_shared_normal(&rng, cout, 1);
    float *const map = cuda_map_new(x, rows * first, type), *const map_more = cuda_map_new(more, rows * rest, type);
    float *const narrow = cuda_map_new(w, (int64_t)in * cout, ZN_TYPE_BF16);
    float *y = cuda_result_new(rows * cout), *want = fenced_new(rows * cout, false);
    zn_pair_args a = { .x = x,
                       .more = more,
                       .w = (const uint16_t *)(const void *)narrow,
                       .bias = bias,
                       .y = want,
                       .type = ZN_TYPE_F32,
                       .rows = rows,
                       .split = first,
                       .rest = rest,
                       .cout = cout };
    zn_k_pair_product(&a, (zn_range){ 0, rows, NULL });
    a.x = map, a.more = map_more, a.y = y, a.type = type;
    float *workspace = cuda_shared_new((int64_t)(zn_pair_workspace(&a) / sizeof(float)) + 1, NAN);
    a.workspace = workspace;
    cuda_start(zn_k_pair_product, rows, &a);
    float *const result = type == ZN_TYPE_F32 ? y : cuda_map_fetch(y, rows * cout, type);
    cuda_compare("pair_product", result, want, rows * cout, 5e-3);
    if (result != y)
        cuda_result_free(result);
    float *const all[] = { x, more, w, bias, map, map_more, narrow, workspace };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    cuda_result_free(y);
    fenced_free(want);
}

void cuda_check_norms(void)
{
    if (strstr("pair_product", cuda_filter)) {
        check_pair(37, 64, 32, 96, ZN_TYPE_BF16);
        check_pair(20, 32, 96, 64, ZN_TYPE_F32);
        check_pair(130, 64, 64, 128, ZN_TYPE_BF16);
        check_pair(64, 512, 256, 512, ZN_TYPE_BF16);
        if (!cuda_is_emulated)
            check_pair(6100, 64, 64, 128, ZN_TYPE_BF16); /* more tiles than an H200 has multiprocessors, three each */
    }
    if (strstr("rms_norm_silu", cuda_filter)) {
        check_rms(5, 7, ZN_TYPE_F32);
        check_rms(131, 16, ZN_TYPE_BF16);
        check_rms(70, 96, ZN_TYPE_BF16); /* lanes without a vector */
        check_rms(33, 192, ZN_TYPE_F32);
        check_rms(9, 384, ZN_TYPE_F16);
        check_rms(3, 1024, ZN_TYPE_BF16);
        check_rms_codes(70, 96);
        check_rms_codes(12, 1024);
        check_rms_codes(8, 6);
    }
    if (strstr("silu_norm_back silu_norm_grad_sums silu_norm_grad_merge silu_norm_grad", cuda_filter))
        check_all_silu();
    if (!strstr("group_norm norm_sums norm_stats norm_grad_sums norm_grad_merge norm_grad", cuda_filter))
        return;
    check(1, 1, 4, 1, ZN_ACT_NONE, false, ZN_TYPE_F32);
    check(2, 77, 12, 3, ZN_ACT_SILU, true, ZN_TYPE_F32);
    check(1, 1000, 256, 4, ZN_ACT_RELU, false, ZN_TYPE_F32);
    check(2, 130, 640, 32, ZN_ACT_NONE, true, ZN_TYPE_F32);
    check(1, 300, 7, 1, ZN_ACT_NONE, false, ZN_TYPE_F32);
    if (!cuda_is_emulated) /* blocks are larger than a CPU's */
        check(1, 20000, 640, 32, ZN_ACT_SILU, false, ZN_TYPE_F32);
    check(40, 1, 48, 1, ZN_ACT_NONE, false, ZN_TYPE_F32); /* a layer norm */
    check(2, 77, 24, 3, ZN_ACT_SILU, false, ZN_TYPE_BF16);
    check(1, 130, 640, 32, ZN_ACT_SILU, false, ZN_TYPE_F16);
    check(3, 50, 12, 4, ZN_ACT_SILU, false, ZN_TYPE_BF16); /* not whole pieces */
    check(1, 3, 2560, 32, ZN_ACT_SILU, false, ZN_TYPE_BF16);
    check_parts(1, 70, 96, 32, 64);
    check_parts(2, 8200, 16, 2, 8);
    check(1, 64, 512, 32, ZN_ACT_SILU, true, ZN_TYPE_BF16); /* a thread block for each group */
    check(2, 1024, 64, 32, ZN_ACT_SILU, true, ZN_TYPE_BF16);
    check(1, 700, 192, 32, ZN_ACT_NONE, false, ZN_TYPE_F16);
    if (!cuda_is_emulated) { /* the sizes of U-Nets */
        check(2, 4096, 128, 32, ZN_ACT_SILU, true, ZN_TYPE_BF16);
        check(1, 16384, 256, 32, ZN_ACT_SILU, true, ZN_TYPE_BF16);
        check(3, 5001, 384, 32, ZN_ACT_NONE, false, ZN_TYPE_F16);
        check_parts(1, 4096, 384, 32, 256);
    }
    check(1, 8300, 12, 2, ZN_ACT_RELU, true, ZN_TYPE_F32); /* too many pixels for that */
    check(3, 8200, 16, 2, ZN_ACT_SILU, true, ZN_TYPE_BF16);
    check(1, 16500, 6, 3, ZN_ACT_SILU, false, ZN_TYPE_BF16);
}
