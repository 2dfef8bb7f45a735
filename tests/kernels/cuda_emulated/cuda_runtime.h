/* The part of the CUDA runtime that src/kernels/cuda uses, on the CPU. A build with -DZENITH_CUDA=EMULATED runs the
 * unmodified kernels on machines without a GPU. Every thread of a block is a separate context that runs until it waits
 * for others (emulated.cpp). Device memory is a separate part of host memory. Slow. */
#ifndef ZN_CUDA_RUNTIME_EMULATED_H
#define ZN_CUDA_RUNTIME_EMULATED_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define __global__
#define __device__
#define __host__
#define __shared__       /* only in extern declarations: emulated.cpp defines the memory */
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(threads, blocks)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct __align__(8) float2 { float x, y; };
struct __align__(16) float4 { float x, y, z, w; };
struct __align__(16) uint4 { uint32_t x, y, z, w; };
static inline float2 make_float2(float x, float y) { return float2{ x, y }; }
extern dim3 threadIdx, blockIdx, blockDim, gridDim;
void __syncthreads(void);
void __syncwarp(void);
/* The value of the lane whose number differs by `mask`. All lanes of the warp must call it. */
double emulated_shuffle_xor(double value, int mask);
template <typename T> T __shfl_xor_sync(unsigned, T value, int mask)
{
    return (T)emulated_shuffle_xor((double)value, mask);
}

typedef enum cudaError_t { cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation } cudaError_t;
typedef struct emulated_stream *cudaStream_t;
enum { cudaStreamNonBlocking, cudaHostAllocDefault };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributePreferredSharedMemoryCarveout };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum cudaDeviceAttr {
    cudaDevAttrComputeCapabilityMajor,
    cudaDevAttrMultiProcessorCount,
    cudaDevAttrMaxSharedMemoryPerBlockOptin,
    cudaDevAttrClockRate,
    cudaDevAttrMemoryClockRate,
    cudaDevAttrGlobalMemoryBusWidth,
    cudaDevAttrMemoryPoolsSupported
};
struct cudaDeviceProp {
    char name[64];
};

const char *cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError(void);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
/* Launches run at once, and so do copies on their streams. Copies on streams that only copy, and whose events others
 * wait for, run at once or when they are waited for, alternately. */
typedef struct emulated_event *cudaEvent_t;
enum { cudaEventDisableTiming = 2 };
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
/* The emulator cannot record: launches stay separate. */
typedef struct emulated_graph *cudaGraph_t, *cudaGraphExec_t;
enum { cudaStreamCaptureModeThreadLocal };
static inline cudaError_t cudaStreamBeginCapture(cudaStream_t, int) { return cudaErrorInvalidValue; }
static inline cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t *) { return cudaErrorInvalidValue; }
static inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t *, cudaGraph_t, unsigned)
{
    return cudaErrorInvalidValue;
}
static inline cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
static inline cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return cudaErrorInvalidValue; }
static inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaFree(void *memory);
/* Pools: nothing is kept. */
typedef struct emulated_pool *cudaMemPool_t;
static inline cudaError_t cudaMallocAsync(void **memory, size_t bytes, cudaStream_t)
{
    return cudaMalloc(memory, bytes);
}
static inline cudaError_t cudaFreeAsync(void *memory, cudaStream_t) { return cudaFree(memory); }
static inline cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int)
{
    *pool = nullptr;
    return cudaSuccess;
}
static inline cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }
cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *memory);
cudaError_t cudaMemGetInfo(size_t *unused, size_t *all);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
/* Sets the shared memory that a kernel may use at launch. Fails if it is more than the emulated device has. */
cudaError_t emulated_shared(const void *kernel, size_t bytes);
void emulated_launches_on(cudaStream_t stream);
cudaError_t emulated_launch(dim3 grid, dim3 block, size_t shared, const void *kernel, void (*body)(void *), void *user);

template <typename T> cudaError_t cudaFuncSetAttribute(void (*kernel)(T), int attribute, int bytes)
{
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    return emulated_shared(reinterpret_cast<const void *>(kernel), (size_t)bytes);
}

/* Of each file its own: files have types of the same name for their arguments. */
namespace
{
template <typename T> struct emulated_call {
    void (*kernel)(T);
    const T *arguments;
    static void run(void *self)
    {
        const emulated_call *c = static_cast<const emulated_call *>(self);
        c->kernel(*c->arguments);
    }
};
} // namespace

template <typename T>
static cudaError_t cudaLaunchKernel(void (*kernel)(T), dim3 grid, dim3 block, void **arguments, size_t shared,
                                    cudaStream_t stream)
{
    emulated_launches_on(stream);
    emulated_call<T> call = { kernel, static_cast<const T *>(arguments[0]) };
    return emulated_launch(grid, block, shared, reinterpret_cast<const void *>(kernel), emulated_call<T>::run, &call);
}

#endif
