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

static void unknown(const void *args, zn_range r) { (void)args, (void)r; }

static void check_failures(void)
{
    float x[4] = { 0 };
    const zn_unary_args a = { .x = x, .y = x };
    zn_device_launch(cuda_device, zn_k_relu, 4, &a);
    if (zn_device_wait(cuda_device) == ZN_OK)
        cuda_fail("relu", "took memory that has no twin");
    zn_device_launch(cuda_device, unknown, 4, &a);
    if (zn_device_wait(cuda_device) == ZN_OK)
        cuda_fail("the device", "launched a kernel that has no CUDA build");
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
    cuda_check_elementwise();
    cuda_check_resample();
    cuda_check_optim();
    check_norms();
    cuda_check_convs();
    cuda_check_simd();
    check_failures();
    printf("%s (%.0f GFLOP/s, %.0f GB/s): ", text, gflops, bandwidth);
    const int status = cuda_summary();
    zn_device_close(cuda_device);
    return status;
}
