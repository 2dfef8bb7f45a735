/* Every kernel of cuda/kernels.def on the device against the scalar one: odd sizes, numbers around every result that no
 * kernel gives, addresses without a twin. On machines without a GPU, in a build with -DZENITH_CUDA=EMULATED, the same
 * kernels run on the CPU, and then fewer shapes are tried.
 *
 *     check-cuda [FILTER]                  only kernels whose name holds it
 *     check-cuda --part NAME [FILTER]      only this part, with its time; --parts prints their names */
#include "cuda_case.h"

#include "base/clock.h"
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

static const struct {
    const char *name;
    void (*check)(void);
} parts[] = {
    { "elementwise", cuda_check_elementwise },
    { "resample", cuda_check_resample },
    { "channels", cuda_check_channels },
    { "losses", cuda_check_losses },
    { "optim", cuda_check_optim },
    { "norms", cuda_check_norms },
    { "samples", cuda_check_samples },
    { "tokens", cuda_check_tokens },
    { "fp8", cuda_check_fp8 },
    { "sequences", cuda_check_sequences },
    { "attention", cuda_check_attention },
    { "convs", cuda_check_convs },
    { "norm-convs", cuda_check_norm_convs },
    { "conv-grads", cuda_check_conv_grads },
    { "matrix", cuda_check_matrix },
    { "prune", cuda_check_prune },
    { "simd", cuda_check_simd },
    { "spectral", cuda_check_spectral },
    { "failures", check_failures },
};
enum { PARTS = sizeof parts / sizeof *parts };

/* only: NULL for all. Prints the time of each. */
static bool check_parts(const char *only)
{
    bool found = false;
    for (int i = 0; i < PARTS; i++) {
        if (only && strcmp(only, parts[i].name))
            continue;
        const int before = cuda_compared();
        const double start = zn_clock_ms();
        parts[i].check();
        found = true;
        printf("%s: %d comparisons, %.1f s\n", parts[i].name, cuda_compared() - before, (zn_clock_ms() - start) * 1e-3);
        fflush(stdout); /* what was found counts even if the rest takes too long */
    }
    return found;
}

int main(int argc, char **argv)
{
    const char *only = argc > 2 && !strcmp(argv[1], "--part") ? argv[2] : NULL;
    if (argc > 1 && !strcmp(argv[1], "--parts")) {
        for (int i = 0; i < PARTS; i++)
            puts(parts[i].name);
        return 0;
    }
    if (argc > 1 && !only)
        cuda_filter = argv[1];
    else if (argc > 3)
        cuda_filter = argv[3];
    if (zn_device_open("cuda", &cuda_device) != ZN_OK) {
        printf("%s\n", zn_error_text());
        return 77;
    }
    char text[64];
    double gflops, bandwidth;
    zn_device_describe(cuda_device, text, sizeof text, &gflops, &bandwidth);
    cuda_is_emulated = strstr(text, "emulated") != NULL;
    if (!check_parts(only)) {
        fprintf(stderr, "check-cuda: there is no part %s\n", only);
        return 2;
    }
    zn_device_describe(cuda_device, text, sizeof text, &gflops, &bandwidth); /* says which library has been loaded */
    printf("%s (%.0f GFLOP/s, %.0f GB/s): ", text, gflops, bandwidth);
    const int status = cuda_summary(!only && !*cuda_filter);
    zn_device_close(cuda_device);
    return status;
}
