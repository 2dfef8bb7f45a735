/* CUDA: losses and their gradients. */
#include "cuda_case.h"

#include "base/cpu.h"
#include "kernels/kernels.h"
#include "kernels/loss.h"

#include <math.h>
#include <string.h>

static bool wanted(const char *name) { return strstr(name, cuda_filter) != NULL; }

static void check_differences(int64_t count, float knee)
{
    zn_rng rng = zn_rng_new(31);
    float *p = cuda_shared_normal(&rng, count, 1), *q = cuda_shared_normal(&rng, count, 1);
    float *dy = cuda_shared_new(1, 0.3f);
    const int64_t blocks = zn_reduce_blocks(count);
    zn_reduce_args squares = { .x = p, .b = q, .rows = count };
    if (wanted("square_difference"))
        cuda_check("square_difference", zn_k_square_difference, blocks, &squares, &squares.y, NULL, blocks, 1e-7);
    zn_distance_args a = { .a = p, .b = q, .dy = dy, .count = count, .knee = knee };
    if (wanted("distance"))
        cuda_check("distance", zn_k_distance, blocks, &a, &a.y, NULL, blocks, 1e-7);
    if (wanted("distance_grad"))
        cuda_check("distance_grad", zn_k_distance_grad, count, &a, &a.y, NULL, count, 1e-6);
    cuda_shared_free(p);
    cuda_shared_free(q);
    cuda_shared_free(dy);
}

static void check_total(int64_t count, bool with_scratch)
{
    zn_rng rng = zn_rng_new(32);
    float *x = cuda_shared_normal(&rng, count, 1);
    float *scratch = cuda_shared_new((int64_t)(zn_total_scratch(count, ZN_CPU_CUDA) / sizeof(float)), NAN);
    zn_total_args a = { .x = x,
                        .count = count,
                        .divisor = 7,
                        .complement = with_scratch,
                        .scratch = with_scratch ? (double *)scratch : NULL };
    if (wanted("total"))
        cuda_check("total", zn_k_total, 1, &a, &a.y, NULL, 1, 1e-6);
    cuda_shared_free(x);
    cuda_shared_free(scratch);
}

static void check_logistic(int64_t count)
{
    zn_rng rng = zn_rng_new(33);
    float *x = cuda_shared_normal(&rng, count, 30), *t = cuda_shared_normal(&rng, count, 1);
    float *dy = cuda_shared_new(1, -0.3f);
    zn_logistic_args a = { .x = x, .t = t, .dy = dy, .count = count };
    if (wanted("logistic_loss"))
        cuda_check("logistic_loss", zn_k_logistic_loss, 1, &a, &a.y, NULL, 1, 1e-7);
    if (wanted("logistic_loss_grad"))
        cuda_check("logistic_loss_grad", zn_k_logistic_loss_grad, count, &a, &a.y, NULL, count, 1e-6);
    cuda_shared_free(x);
    cuda_shared_free(t);
    cuda_shared_free(dy);
}

/* The scalar kernels need scratch, so cuda_check does not serve them. */
static void check_ssim(int n, int h, int w, int c)
{
    if (!wanted("ssim") && !wanted("ssim_grad"))
        return;
    zn_rng rng = zn_rng_new(34);
    const int64_t planes = (int64_t)n * c, count = planes * h * w;
    float *p = cuda_shared_normal(&rng, count, 0.2f), *q = cuda_shared_normal(&rng, count, 0.1f);
    for (int64_t i = 0; i < count; i++) {
        p[i] = fabsf(p[i]);
        q[i] += p[i];
    }
    zn_device_send(cuda_device, p, sizeof(float) * (size_t)count);
    zn_device_send(cuda_device, q, sizeof(float) * (size_t)count);
    float *dy = cuda_shared_new(1, 0.7f), *scratch = fenced_new((int64_t)(zn_ssim_scratch(h, w) / sizeof(float)), true);
    float *maps = cuda_shared_new((int64_t)(zn_ssim_maps(planes, h, w) / sizeof(float)), NAN);
    zn_ssim_args a = { .a = p, .b = q, .dy = dy, .h = h, .w = w, .c = c, .maps = maps };
    for (int grad = 0; grad < 2; grad++) {
        const int64_t results = grad ? count : planes;
        const zn_body body = grad ? zn_k_ssim_grad : zn_k_ssim;
        float *want = fenced_new(results, false), *y = cuda_result_new(results);
        a.y = want;
        body(&a, (zn_range){ 0, planes, scratch });
        a.y = y;
        cuda_start(body, planes, &a);
        cuda_compare(grad ? "ssim_grad" : "ssim", y, want, results, grad ? 1e-5 : 1e-6);
        fenced_free(want);
        cuda_result_free(y);
    }
    fenced_free(scratch);
    cuda_shared_free(p);
    cuda_shared_free(q);
    cuda_shared_free(dy);
    cuda_shared_free(maps);
}

void cuda_check_losses(void)
{
    check_differences(1, 0);
    check_differences(1003, 0.5f);
    check_differences(ZN_REDUCE_BLOCK + 44, 0);
    check_total(1, false);
    check_total(1000, false);
    check_total(2 * ZN_REDUCE_BLOCK + 5, true);
    check_logistic(1);
    check_logistic(300);
    check_ssim(1, 11, 11, 1);
    check_ssim(2, 29, 43, 3);
}
