/* Every kernel of cuda/kernels.def on the device against the scalar one: odd sizes, numbers around every result that no
 * kernel gives, addresses without a twin. On machines without a GPU, in a build with -DZENITH_CUDA=EMULATED, the same
 * kernels run on the CPU, and then fewer shapes are tried.
 *
 *     check-cuda [FILTER]     only kernels whose name holds it */
#include "cuda_case.h"

#include "kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    cuda_check_channels();
    cuda_check_losses();
    cuda_check_optim();
    cuda_check_norms();
    cuda_check_samples();
    cuda_check_tokens();
    cuda_check_fp8();
    cuda_check_sequences();
    cuda_check_attention();
    cuda_check_convs();
    cuda_check_conv_grads();
    cuda_check_matrix();
    cuda_check_prune();
    cuda_check_simd();
    check_failures();
    zn_device_describe(cuda_device, text, sizeof text, &gflops, &bandwidth); /* says which library has been loaded */
    printf("%s (%.0f GFLOP/s, %.0f GB/s): ", text, gflops, bandwidth);
    const int status = cuda_summary();
    zn_device_close(cuda_device);
    return status;
}
