/* Kernels whose thread blocks may be placed before the last kernel of the stream has ended: all that they do waits for
 * it. Worth 0.25 us a launch in a recording of short kernels. None of them lets the next one begin before it has ended:
 * waiting thread blocks would be placed on the few multiprocessors that are free then. Included only by .cu files. */
#ifndef ZN_CUDA_EARLY_H
#define ZN_CUDA_EARLY_H

#include "kernels/cuda/cuda.h"

#if defined(ZN_CUDA_EMULATED)
static inline void wait_for_last(void) {}
template <typename T>
static void launch_early(zn_device *d, void (*kernel)(T), dim3 grid, unsigned threads, size_t shared, T arguments)
{
    launch(d, kernel, grid, threads, shared, arguments);
}
#else
/* The first thing that such a kernel does. */
static __device__ void wait_for_last(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

/* more: another attribute of the launch, only for Hopper GPUs, or NULL. */
template <typename T>
static void launch_early(zn_device *d, void (*kernel)(T), dim3 grid, unsigned threads, size_t shared, T arguments,
                         const cudaLaunchAttribute *more = NULL)
{
    if (!d->hopper) {
        launch(d, kernel, grid, threads, shared, arguments);
        return;
    }
    if (d->status != ZN_OK)
        return;
    if (shared > PLAIN_SHARED)
        zn_cuda_check(d, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared),
                      "shared memory");
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = 1;
    if (more)
        attributes[1] = *more;
    cudaLaunchConfig_t k = {};
    k.gridDim = grid;
    k.blockDim = dim3(threads);
    k.dynamicSmemBytes = shared;
    k.stream = d->stream;
    k.attrs = attributes;
    k.numAttrs = more ? 2 : 1;
    void *pointers[] = { &arguments };
    zn_cuda_check(d, cudaLaunchKernelExC(&k, reinterpret_cast<const void *>(kernel), pointers), "a launch");
}
#endif

#endif
