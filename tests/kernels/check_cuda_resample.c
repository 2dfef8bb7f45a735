/* CUDA: nearest x2 upsampling, its gradient, and zero insertion. */
#include "cuda_case.h"

#include "kernels/kernels.h"

#include <string.h>

static const int shapes[][4] = { { 1, 1, 1, 1 }, { 2, 3, 5, 7 }, { 1, 16, 9, 64 } };

void cuda_check_resample(void)
{
    for (int i = 0; i < 3; i++) {
        const int n = shapes[i][0], h = shapes[i][1], w = shapes[i][2], c = shapes[i][3];
        const int64_t small = (int64_t)n * h * w * c;
        zn_rng rng = zn_rng_new(9);
        float *x = cuda_shared_normal(&rng, 4 * small, 1);
        zn_resample_args a = { .x = x, .h = h, .w = w, .c = c, .mean = i == 1 };
        if (strstr("upsample2", cuda_filter))
            cuda_check("upsample2", zn_k_upsample2, (int64_t)n * 2 * h, &a, &a.y, NULL, 4 * small, 0);
        if (strstr("upsample2_grad", cuda_filter))
            cuda_check("upsample2_grad", zn_k_upsample2_grad, (int64_t)n * h, &a, &a.y, NULL, small, 1e-7);
        if (strstr("dilate2", cuda_filter))
            cuda_check("dilate2", zn_k_dilate2, (int64_t)n * 2 * h, &a, &a.y, NULL, 4 * small, 0);
        cuda_shared_free(x);
    }
}
