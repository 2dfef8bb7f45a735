/* Every kernel of cuda/kernels.def on the device against the scalar one: odd sizes, numbers around every result that no
 * kernel gives, addresses without a twin. On machines without a GPU, in a build with -DZENITH_CUDA=EMULATED, the same
 * kernels run on the CPU, and then fewer shapes are tried.
 *
 *     check-cuda [FILTER]     only kernels whose name holds it */
#include "cuda_case.h"

#include "kernels/kernels.h"
#include "kernels/norm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- elementwise ---- */

static const struct {
    const char *name;
    zn_body body;
    float a, b;
} unaries[] = {
    { "relu", zn_k_relu, 0, 0 },       { "soft_clamp", zn_k_soft_clamp, 3, 0 },
    { "clamp", zn_k_clamp, -0.5f, 1 }, { "gelu", zn_k_gelu, 0, 0 },
    { "silu", zn_k_silu, 0, 0 },       { "positive", zn_k_positive, 0, 0 },
    { "scale", zn_k_scale, 0.37f, 0 }, { "exp", zn_k_exp, 0, 0 },
};
static const struct {
    const char *name;
    zn_body body;
} binaries[] = { { "add", zn_k_add }, { "sub", zn_k_sub }, { "multiply", zn_k_multiply } };

static const int64_t counts[] = { 1, 31, 256, 1000, 70001 };
enum { COUNTS = sizeof counts / sizeof *counts };

static void check_unary(int i, int64_t count)
{
    zn_rng rng = zn_rng_new(7);
    float *x = cuda_shared_normal(&rng, count, 2), *y = cuda_result_new(count), *want = fenced_new(count, false);
    zn_unary_args a = { .x = x, .y = want, .a = unaries[i].a, .b = unaries[i].b };
    unaries[i].body(&a, (zn_range){ 0, count, NULL });
    a.y = y;
    cuda_start(unaries[i].body, count, &a);
    cuda_compare(unaries[i].name, y, want, count, 1e-6);
    a.y = x; /* in place */
    cuda_start(unaries[i].body, count, &a);
    zn_device_fetch(cuda_device, x, sizeof(float) * (size_t)count);
    cuda_must(zn_device_wait(cuda_device));
    if (memcmp(x, y, sizeof(float) * (size_t)count) != 0)
        cuda_fail(unaries[i].name, "in place it gives other bits");
    cuda_result_free(y);
    cuda_shared_free(x);
    fenced_free(want);
}

static void check_binary(int i, int64_t count)
{
    zn_rng rng = zn_rng_new(8);
    float *p = cuda_shared_normal(&rng, count, 2), *q = cuda_shared_normal(&rng, count, 1), *y = cuda_result_new(count);
    float *want = fenced_new(count, false);
    zn_binary_args a = { .a = p, .b = q, .y = want };
    binaries[i].body(&a, (zn_range){ 0, count, NULL });
    a.y = y;
    cuda_start(binaries[i].body, count, &a);
    cuda_compare(binaries[i].name, y, want, count, 1e-6);
    cuda_result_free(y);
    cuda_shared_free(p);
    cuda_shared_free(q);
    fenced_free(want);
}

static void check_elementwise(void)
{
    for (size_t i = 0; i < sizeof unaries / sizeof *unaries; i++)
        for (int k = 0; k < COUNTS && strstr(unaries[i].name, cuda_filter); k++)
            check_unary((int)i, counts[k]);
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
        for (int k = 0; k < COUNTS && strstr(binaries[i].name, cuda_filter); k++)
            check_binary((int)i, counts[k]);
}

static void check_upsample(void)
{
    static const int shapes[][4] = { { 1, 1, 1, 1 }, { 2, 3, 5, 7 }, { 1, 16, 9, 64 } };
    for (int i = 0; i < 3 && strstr("upsample2", cuda_filter); i++) {
        const int n = shapes[i][0], h = shapes[i][1], w = shapes[i][2], c = shapes[i][3];
        const int64_t small = (int64_t)n * h * w * c;
        zn_rng rng = zn_rng_new(9);
        float *x = cuda_shared_normal(&rng, small, 1), *y = cuda_result_new(4 * small),
              *want = fenced_new(4 * small, false);
        zn_resample_args a = { .x = x, .y = want, .h = h, .w = w, .c = c };
        zn_k_upsample2(&a, (zn_range){ 0, (int64_t)n * 2 * h, NULL });
        a.y = y;
        cuda_start(zn_k_upsample2, (int64_t)n * 2 * h, &a);
        cuda_compare("upsample2", y, want, 4 * small, 0);
        cuda_result_free(y);
        cuda_shared_free(x);
        fenced_free(want);
    }
}

/* ---- group norm: the three kernels one after the other ---- */

static void norm_all(zn_norm_args *a, bool on_device)
{
    static const zn_body bodies[] = { zn_k_norm_sums, zn_k_norm_merge, zn_k_norm_apply };
    const int64_t units[] = { a->n * zn_norm_blocks(a), a->n * a->groups, a->n * a->pixels };
    for (int i = 0; i < 3; i++)
        if (on_device)
            cuda_start(bodies[i], units[i], a);
        else
            bodies[i](a, (zn_range){ 0, units[i], NULL });
}

static void check_norm(int64_t n, int64_t pixels, int c, int groups, zn_activation act, bool modulated)
{
    zn_rng rng = zn_rng_new(10);
    const int64_t count = n * pixels * c;
    zn_norm_args a = { .n = n, .pixels = pixels, .c = c, .groups = groups, .eps = 1e-5f, .act = act };
    float *x = cuda_shared_normal(&rng, count, 2), *gamma = cuda_shared_normal(&rng, c, 1),
          *beta = cuda_shared_normal(&rng, c, 1);
    float *scale = modulated ? cuda_shared_normal(&rng, n * c, 1) : NULL,
          *gain = modulated ? cuda_shared_normal(&rng, n * c, 1) : NULL;
    float *shift = modulated ? cuda_shared_normal(&rng, n * c, 1) : NULL;
    float *work = cuda_shared_new(zn_norm_scratch(&a), NAN), *y = cuda_result_new(count),
          *want = fenced_new(count, false);
    a.x = x, a.gamma = gamma, a.beta = beta, a.scale = scale, a.shift = shift, a.gain = gain;
    a.partial = work;
    a.table = a.partial + 2 * a.n * zn_norm_blocks(&a) * a.c;
    a.sums = a.table + 3 * a.n * a.c;
    a.y = want;
    norm_all(&a, false);
    a.y = y;
    norm_all(&a, true);
    cuda_compare("norm_sums, norm_merge, norm_apply", y, want, count, 1e-6);
    float *const all[] = { x, gamma, beta, scale, shift, gain, work };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    cuda_result_free(y);
    fenced_free(want);
}

static void check_norms(void)
{
    if (!strstr("norm_sums norm_merge norm_apply", cuda_filter))
        return;
    check_norm(1, 1, 4, 1, ZN_ACT_NONE, false);
    check_norm(2, 77, 12, 3, ZN_ACT_SILU, true);
    check_norm(1, 1000, 256, 4, ZN_ACT_RELU, false);
    check_norm(2, 130, 640, 32, ZN_ACT_NONE, true);
}

/* ---- what must fail ---- */

static void check_failures(void)
{
    float x[4] = { 0 };
    const zn_unary_args a = { .x = x, .y = x };
    zn_device_launch(cuda_device, zn_k_relu, 4, &a);
    if (zn_device_wait(cuda_device) == ZN_OK)
        cuda_fail("relu", "took memory that has no twin");
    zn_device_launch(cuda_device, zn_k_relu_grad, 4, &a);
    if (zn_device_wait(cuda_device) == ZN_OK)
        cuda_fail("relu_grad", "is said to have a CUDA build");
    if (zn_device_wait(cuda_device) != ZN_OK)
        cuda_fail("the device", "does not forget a failure that was told");
}

int main(int argc, char **argv)
{
    cuda_filter = argc > 1 ? argv[1] : cuda_filter;
    if (zn_device_open("cuda", &cuda_device) != ZN_OK) {
        printf("%s\n", zn_error_text());
        return 77;
    }
    char text[64];
    double gflops, bandwidth;
    zn_device_describe(cuda_device, text, sizeof text, &gflops, &bandwidth);
    cuda_is_emulated = strstr(text, "emulated") != NULL;
    check_elementwise();
    check_upsample();
    check_norms();
    cuda_check_convs();
    check_failures();
    printf("%s (%.0f GFLOP/s, %.0f GB/s): ", text, gflops, bandwidth);
    const int status = cuda_summary();
    zn_device_close(cuda_device);
    return status;
}
