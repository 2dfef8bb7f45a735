/* CUDA: activations, sums and their gradients. Counts that are multiples of four use wide loads, the others do not. */
#include "cuda_case.h"

#include "kernels/kernels.h"

#include <string.h>

static const struct {
    const char *name;
    zn_body body;
    float a, b;
    bool writes_over; /* the result is read first */
} unaries[] = {
    { "relu", zn_k_relu, 0, 0, false },
    { "relu_grad", zn_k_relu_grad, 0, 0, false },
    { "soft_clamp", zn_k_soft_clamp, 3, 0, false },
    { "soft_clamp_grad", zn_k_soft_clamp_grad, 3, 0, false },
    { "clamp", zn_k_clamp, -0.5f, 1, false },
    { "clamp_grad", zn_k_clamp_grad, -0.5f, 1, false },
    { "gelu", zn_k_gelu, 0, 0, false },
    { "gelu_grad", zn_k_gelu_grad, 0, 0, false },
    { "silu", zn_k_silu, 0, 0, false },
    { "silu_grad", zn_k_silu_grad, 0, 0, false },
    { "positive", zn_k_positive, 0, 0, false },
    { "scale", zn_k_scale, 0.37f, 0, false },
    { "exp", zn_k_exp, 0, 0, false },
    { "copy", zn_k_copy, 0, 0, false },
    { "fill", zn_k_fill, 2.5f, 0, false },
    { "accumulate", zn_k_accumulate, 0, 0, true },
};
static const struct {
    const char *name;
    zn_body body;
} binaries[] = { { "add", zn_k_add }, { "sub", zn_k_sub }, { "multiply", zn_k_multiply } };

static const int64_t counts[] = { 1, 31, 256, 1000, 70001 };
enum { COUNTS = sizeof counts / sizeof *counts };

static void check_in_place(int i, zn_unary_args a, float *x, int64_t count)
{
    float *y = cuda_shared_new(count, 0);
    a.y = y;
    cuda_start(unaries[i].body, count, &a);
    a.y = x;
    cuda_start(unaries[i].body, count, &a);
    zn_device_fetch(cuda_device, x, sizeof(float) * (size_t)count);
    zn_device_fetch(cuda_device, y, sizeof(float) * (size_t)count);
    cuda_must(zn_device_wait(cuda_device));
    if (memcmp(x, y, sizeof(float) * (size_t)count) != 0)
        cuda_fail(unaries[i].name, "in place it gives other bits");
    cuda_shared_free(y);
}

static void check_unary(int i, int64_t count)
{
    zn_rng rng = zn_rng_new(7);
    float *x = cuda_shared_normal(&rng, count, 2), *dy = cuda_shared_normal(&rng, count, 1);
    zn_unary_args a = { .x = x, .dy = dy, .a = unaries[i].a, .b = unaries[i].b };
    cuda_check(unaries[i].name, unaries[i].body, count, &a, &a.y, unaries[i].writes_over ? dy : NULL, count, 1e-6);
    if (!unaries[i].writes_over)
        check_in_place(i, a, x, count);
    cuda_shared_free(x);
    cuda_shared_free(dy);
}

static void check_binary(int i, int64_t count)
{
    zn_rng rng = zn_rng_new(8);
    float *p = cuda_shared_normal(&rng, count, 2), *q = cuda_shared_normal(&rng, count, 1);
    zn_binary_args a = { .a = p, .b = q };
    cuda_check(binaries[i].name, binaries[i].body, count, &a, &a.y, NULL, count, 1e-6);
    cuda_shared_free(p);
    cuda_shared_free(q);
}

static void check_multiply_scalar(int64_t count)
{
    zn_rng rng = zn_rng_new(8);
    float *x = cuda_shared_normal(&rng, count, 2), *scalar = cuda_shared_new(1, -0.7f);
    zn_binary_args a = { .a = x, .b = scalar };
    cuda_check("multiply_scalar", zn_k_multiply_scalar, count, &a, &a.y, NULL, count, 1e-7);
    cuda_shared_free(x);
    cuda_shared_free(scalar);
}

void cuda_check_elementwise(void)
{
    for (size_t i = 0; i < sizeof unaries / sizeof *unaries; i++)
        for (int k = 0; k < COUNTS && strstr(unaries[i].name, cuda_filter); k++)
            check_unary((int)i, counts[k]);
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
        for (int k = 0; k < COUNTS && strstr(binaries[i].name, cuda_filter); k++)
            check_binary((int)i, counts[k]);
    for (int k = 0; k < COUNTS && strstr("multiply_scalar", cuda_filter); k++)
        check_multiply_scalar(counts[k]);
}
