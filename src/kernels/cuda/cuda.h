/* Shared by the CUDA builds of kernels. A kernel here is a launcher, zn_cuda_NAME, for the CPU's zn_k_NAME, with a
 * line in kernels.def. It copies the argument struct, replaces every address by its twin, and launches a __global__
 * function that takes one struct.
 *
 *     void zn_cuda_add(zn_device *d, const void *args, int64_t units)
 *     {
 *         task<zn_binary_args> t = { *(const zn_binary_args *)args, units };
 *         to_device(d, t.a.a);
 *         to_device(d, t.a.b);
 *         to_device(d, t.a.y);
 *         launch(d, add, grid_of(units), THREADS, 0, t);
 *     }
 *
 * Included only by .cu files. */
#ifndef ZN_CUDA_H
#define ZN_CUDA_H

#include <cuda_runtime.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/device.h"

typedef struct zn_twin {
    const char *host;
    char *device;
    size_t bytes;
    int users;
    void *pinned;  /* the host buffer if it came from zn_device_pinned_twin */
    bool borrowed; /* the device memory is that of a window */
} zn_twin;

/* Launches of one kernel that wait for others of their group (group.h). They become the parameters of one launch, which
 * may have 4096 bytes. */
typedef struct zn_cuda_queue {
    void (*flush)(zn_device *d, struct zn_cuda_queue *q); /* launches and empties it; NULL: empty */
    alignas(16) char memory[4064];
} zn_cuda_queue;
enum { ZN_CUDA_QUEUES = 4, ZN_CUDA_ARRIVED = 64 };

struct zn_device {
    pthread_mutex_t lock;
    cudaStream_t stream;
    int number;
    int processors; /* streaming multiprocessors */
    int shared;     /* bytes of shared memory that a thread block may have */
    bool hopper;    /* the GPU is one, and this build has its instructions */
    bool pooled;    /* the driver has pools of memory */
    zn_twin *twins; /* sorted by address */
    size_t count, capacity;
    size_t sent;        /* bytes so far */
    size_t taken, most; /* bytes of twins and windows, now and at most */
    bool rehearsing, lacking;
    bool grouping;
    struct zn_cuda_blas *blas; /* blas.cu; NULL until it is used */
    bool blas_missing;
    zn_cuda_queue queues[ZN_CUDA_QUEUES];
    unsigned *arrived;   /* ZN_CUDA_ARRIVED zeros, for kernels whose blocks count each other; they leave zeros */
    const char *running; /* the kernel that is being launched, or NULL */
    zn_status status;    /* the first failure since the last wait, and its message */
    char text[256];
};

/* The device address for a host address inside any block with a twin; NULL for NULL. An address without a twin sets
 * the device's failure. */
extern "C" void *zn_cuda_address(zn_device *d, const void *host);
/* Records the first failure. */
extern "C" void zn_cuda_check(zn_device *d, cudaError_t error, const char *what);

/* Memory of the GPU for the device's stream; NULL if there is not enough. Other streams may use it when this stream has
 * been waited for. NULL can be freed. */
extern "C" void *zn_cuda_alloc(zn_device *d, size_t bytes);
extern "C" void zn_cuda_free(zn_device *d, void *memory, size_t bytes);

/* A twin in memory that somebody else frees; false if there is one already. Its end. */
extern "C" bool zn_cuda_twin_lend(zn_device *d, const void *host, size_t bytes, void *memory);
extern "C" void zn_cuda_twin_take_back(zn_device *d, const void *host);

/* The queue that this function flushes, or an empty one. */
extern "C" zn_cuda_queue *zn_cuda_queue_for(zn_device *d, void (*flush)(zn_device *, zn_cuda_queue *));

/* Replaces a host address by its twin. */
template <typename T> static void to_device(zn_device *d, T *&address)
{
    address = static_cast<T *>(zn_cuda_address(d, address));
}

/* The arguments of a kernel that needs only the struct and the number of units. */
template <typename T> struct task {
    T a;
    int64_t units;
};

enum { THREADS = 256 };

/* Number of blocks for a grid-stride loop over units: enough to fill any GPU. */
static inline unsigned grid_of(int64_t units)
{
    const int64_t blocks = (units + THREADS - 1) / THREADS;
    return (unsigned)(blocks < 1 ? 1 : blocks < 1 << 16 ? blocks : 1 << 16);
}

/* Shared memory that a kernel may use without asking for more. */
enum { PLAIN_SHARED = 48 << 10 };

/* Launches, unless an earlier call failed. */
template <typename T>
static void launch(zn_device *d, void (*kernel)(T), dim3 grid, unsigned threads, size_t shared, T arguments)
{
    if (d->status != ZN_OK)
        return;
    if (shared > PLAIN_SHARED)
        zn_cuda_check(d, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared),
                      "shared memory");
    void *pointers[] = { &arguments };
    zn_cuda_check(d, cudaLaunchKernel(kernel, grid, dim3(threads), pointers, shared, d->stream), "a launch");
}

#endif
