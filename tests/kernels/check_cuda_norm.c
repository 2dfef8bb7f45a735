/* CUDA: group norm and its gradient. The kernels of each run one after the other. */
#include "cuda_case.h"

#include "base/convert.h"
#include "kernels/mix.h"
#include "kernels/norm.h"

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
    const pass passes[] = { { zn_k_norm_sums, a->n * zn_norm_blocks(a) },
                            { zn_k_norm_merge, a->n * a->groups },
                            { zn_k_norm_apply, a->n * a->pixels } };
    run_all(a, passes, 3, on_device);
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
    float *scale = modulated ? cuda_shared_normal(&rng, n * c, 1) : NULL,
          *gain = modulated ? cuda_shared_normal(&rng, n * c, 1) : NULL;
    float *shift = modulated ? cuda_shared_normal(&rng, n * c, 1) : NULL;
    float *work = cuda_shared_new(partial + 3 * n * c, NAN), *sums = cuda_result_new(2 * n * c);
    float *y = cuda_result_new(count), *want = fenced_new(count, false), *want_sums = fenced_new(2 * n * c, false);
    float *const map_x = cuda_map_new(x, count, type), *const map_dy = cuda_map_new(dy, count, type);
    a.gamma = gamma, a.beta = beta, a.scale = scale, a.shift = shift, a.gain = gain;
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
    float *const all[] = { x, dy, gamma, beta, scale, shift, gain, work, map_x, map_dy };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    cuda_result_free(y);
    cuda_result_free(sums);
    fenced_free(want);
    fenced_free(want_sums);
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

void cuda_check_norms(void)
{
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
    if (!strstr("norm_sums norm_merge norm_apply norm_stats norm_grad_sums norm_grad_merge norm_grad", cuda_filter))
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
}
