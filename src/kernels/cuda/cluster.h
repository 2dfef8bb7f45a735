/* Clusters: thread blocks of one launch that run at the same time and read each other's shared memory. Hopper GPUs have
 * them; elsewhere each block is a cluster of its own. Included only by .cu files. */
#ifndef ZN_CUDA_CLUSTER_H
#define ZN_CUDA_CLUSTER_H

#include "kernels/cuda/early.h"

#if defined(ZN_CUDA_EMULATED)
static inline void cluster_wait(void) { __syncthreads(); }
template <typename T> static const T *cluster_at(const T *address, unsigned) { return address; }
template <typename T>
static void launch_clusters(zn_device *d, void (*kernel)(T), unsigned grid, unsigned, unsigned threads, size_t shared,
                            T arguments)
{
    launch(d, kernel, dim3(grid), threads, shared, arguments);
}
#else
/* Waits until all threads of the cluster are here, and sees what they have written. */
static __device__ void cluster_wait(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n" ::: "memory");
#else
    __syncthreads();
#endif
}

/* Where block `rank` of the cluster has what this one has at `address` of its shared memory. */
template <typename T> static __device__ const T *cluster_at(const T *address, unsigned rank)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    uint64_t there;
    asm volatile("mapa.u64 %0, %1, %2;\n" : "=l"(there) : "l"(address), "r"(rank));
    return reinterpret_cast<const T *>(there);
#else
    return address;
#endif
}

/* Launches early (early.h). size: blocks of a cluster; 1 if the GPU is no Hopper. */
template <typename T>
static void launch_clusters(zn_device *d, void (*kernel)(T), unsigned grid, unsigned size, unsigned threads,
                            size_t shared, T arguments)
{
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = size;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    launch_early(d, kernel, dim3(grid), threads, shared, arguments, size == 1 ? NULL : &cluster);
}
#endif

#endif
