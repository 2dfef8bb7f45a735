/* Kernels of the Prune family that have no vector build, on the device: taps, and the small steps of lines. */
#include "cuda_case.h"

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

void cuda_check_prune(void)
{
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
