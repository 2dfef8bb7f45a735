/* Kernels of the Prune family that have no vector build, on the device: taps, and the small steps of lines. */
#include "cuda_case.h"

#include "kernels/gates.h"
#include "kernels/line.h"
#include "kernels/mix.h"

#include <string.h>

static void check_taps(int64_t pixels, int c)
{
    zn_rng rng = zn_rng_new(31);
    float *x = cuda_shared_normal(&rng, pixels * c, 1), *dy = cuda_shared_normal(&rng, pixels * c, 1);
    float *w = cuda_shared_normal(&rng, 3 * c, 1);
    zn_mix_args a = { .x = x, .dy = dy, .w = w, .pixels = pixels, .c = c };
    cuda_check("taps", zn_k_taps, pixels, &a, &a.y, NULL, pixels * c, 1e-6);
    cuda_check("taps_grad", zn_k_taps_grad, pixels, &a, &a.y, NULL, pixels * c, 1e-6);
    const int64_t blocks = zn_sum_blocks(pixels);
    a.y = NULL;
    cuda_check("taps_param_grad", zn_k_taps_param_grad, blocks, &a, &a.partial, NULL, blocks * 3 * c, 1e-6);
    cuda_shared_free(x);
    cuda_shared_free(dy);
    cuda_shared_free(w);
}

static void check_fold(int64_t blocks, int64_t count)
{
    zn_rng rng = zn_rng_new(32);
    float *partial = cuda_shared_normal(&rng, blocks * count, 1);
    zn_line_fold_args a = { .partial = partial, .blocks = blocks, .count = count };
    cuda_check("line_fold", zn_k_line_fold, (count + ZN_LINE_FOLD - 1) / ZN_LINE_FOLD, &a, &a.y, NULL, count, 1e-6);
    cuda_shared_free(partial);
}

/* Statistics of the forward pass and of the gradient; each writes two of the four numbers of a group. */
static void check_stats(int64_t n, int64_t pixels, int c, int groups)
{
    zn_rng rng = zn_rng_new(33);
    float *moments = cuda_shared_normal(&rng, n * pixels * groups * 2, 1), *gamma = cuda_shared_normal(&rng, c, 1);
    float *sums = cuda_shared_normal(&rng, n * 2 * c, 1), *start = cuda_shared_normal(&rng, n * groups * 4, 1);
    for (int64_t i = 1; i < n * pixels * groups * 2; i += 2)
        moments[i] *= moments[i];
    zn_device_send(cuda_device, moments, sizeof(float) * (size_t)(n * pixels * groups * 2));
    zn_line_args a = { .moments = moments,
                       .gamma = gamma,
                       .sums = sums,
                       .n = n,
                       .pixels = pixels,
                       .c = c,
                       .groups = groups,
                       .eps = 1e-5f };
    cuda_check("line_stats", zn_k_line_stats, n * groups, &a, &a.stats, start, n * groups * 4, 1e-6);
    cuda_check("line_means", zn_k_line_means, n * groups, &a, &a.stats, start, n * groups * 4, 1e-6);
    float *const all[] = { moments, gamma, sums, start };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
}

static void check_srig(int64_t pixels, int c)
{
    zn_rng rng = zn_rng_new(34);
    const int64_t units = (pixels + ZN_MIX_BLOCK - 1) / ZN_MIX_BLOCK;
    float *u = cuda_shared_normal(&rng, pixels * c, 1), *dy = cuda_shared_normal(&rng, pixels * c, 1);
    float *w = cuda_shared_normal(&rng, 5 * c, 1), *b = cuda_shared_normal(&rng, c, 1);
    float *lines = cuda_shared_normal(&rng, ZN_SRIG_GPU_BLOCKS * ZN_SRIG_GPU_LINES * c, 1);
    float *scratch = fenced_new((int64_t)(zn_srig_scratch(c) / sizeof(float)), true);
    const zn_body bodies[] = { zn_k_srig, zn_k_srig_grad, zn_k_srig_param_grad };
    static const char *const names[] = { "srig", "srig_grad", "srig_param_grad" };
    for (int i = 0; i < 3; i++) {
        const int64_t count = i < 2 ? pixels * c : units * 6 * c;
        float *want = fenced_new(count, false), *y = cuda_result_new(count);
        zn_srig_args a = { .u = u, .w = w, .b = b, .dy = dy, .lines = lines, .pixels = pixels, .c = c };
        *(i < 2 ? &a.y : &a.partial) = want;
        bodies[i](&a, (zn_range){ 0, i < 2 ? pixels : units, scratch });
        *(i < 2 ? &a.y : &a.partial) = y;
        cuda_start(bodies[i], i < 2 ? pixels : units, &a);
        cuda_compare(names[i], y, want, count, 1e-5);
        cuda_result_free(y);
        fenced_free(want);
    }
    fenced_free(scratch);
    float *const all[] = { u, dy, w, b, lines };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
}

void cuda_check_prune(void)
{
    if (strstr("srig srig_grad srig_param_grad", cuda_filter)) {
        check_srig(1, 3);
        check_srig(7, 300);
    }
    if (strstr("line_stats line_means", cuda_filter)) {
        check_stats(1, 1, 8, 1);
        check_stats(2, 300, 64, 32);
    }
    if (strstr("taps taps_grad taps_param_grad", cuda_filter)) {
        check_taps(1, 1);
        check_taps(70, 33);
        check_taps(5, 256);
    }
    if (strstr("line_fold", cuda_filter)) {
        check_fold(1, 7);
        check_fold(5, 2500);
    }
}
