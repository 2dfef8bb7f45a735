/* Nearest x2 upsampling, its gradient, and zero insertion; ref/resample.c is the reference. */
#include "kernels/cuda/cuda.h"

extern "C" {
#include "kernels/kernels.h"
}

/* Units are elements of the large map here. Rows are numbered over all images; large row / 2 is the small row
 * because 2h is even. */
__global__ void upsample2(task<zn_resample_args> t)
{
    const int64_t step = (int64_t)gridDim.x * blockDim.x, wide = (int64_t)2 * t.a.w;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < t.units; i += step) {
        const int64_t c = i % t.a.c, column = i / t.a.c % wide, row = i / t.a.c / wide;
        t.a.y[i] = t.a.x[(row / 2 * t.a.w + column / 2) * t.a.c + c];
    }
}

extern "C" {
void zn_cuda_upsample2(zn_device *d, const void *args, int64_t units)
{
    task<zn_resample_args> t = { *static_cast<const zn_resample_args *>(args), 0 };
    t.units = units * 2 * t.a.w * t.a.c;
    to_device(d, t.a.x);
    to_device(d, t.a.y);
    launch(d, upsample2, dim3(grid_of(t.units)), THREADS, 0, t);
}
}
