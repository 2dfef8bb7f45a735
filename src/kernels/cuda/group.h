/* Several launches of a kernel as one: between zn_device_group_begin and zn_device_group_end they wait in a queue of
 * the device, and thread blocks of one grid run all of them. For kernels on many small tensors. Included only by .cu
 * files.
 *
 * T is the arguments of one launch. The group is passed by value, so T must be small:
 *
 *     int64_t blocks() const;                    // thread blocks that it takes
 *     __device__ void run(int64_t block) const;  // what one of them does; called by all its threads
 *     enum { SHARED };                           // bytes of shared memory */
#ifndef ZN_CUDA_GROUP_H
#define ZN_CUDA_GROUP_H

#include "kernels/cuda/cuda.h"

template <typename T> struct group {
    enum { MOST = (sizeof(zn_cuda_queue::memory) - sizeof(int64_t)) / (sizeof(T) + sizeof(int64_t)) };
    T items[MOST];
    int64_t end[MOST]; /* thread blocks of the items up to this one */
    int count;
};

template <typename T> __global__ void run_group(group<T> g)
{
    int low = 0, high = g.count - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (blockIdx.x < g.end[middle])
            high = middle;
        else
            low = middle + 1;
    }
    const T item = g.items[low];
    item.run(blockIdx.x - (low > 0 ? g.end[low - 1] : 0));
}

template <typename T> static void launch_group(zn_device *d, zn_cuda_queue *q)
{
    static_assert(sizeof(group<T>) <= sizeof q->memory, "a queue must hold a group");
    const group<T> *g = reinterpret_cast<const group<T> *>(q->memory);
    launch(d, run_group<T>, dim3((unsigned)g->end[g->count - 1]), THREADS, T::SHARED, *g);
    q->flush = NULL;
}

/* Queues a launch, or launches it if no group has begun. */
template <typename T> static void submit(zn_device *d, const T &item)
{
    zn_cuda_queue *q = zn_cuda_queue_for(d, launch_group<T>);
    group<T> *g = reinterpret_cast<group<T> *>(q->memory);
    if (!q->flush) {
        q->flush = launch_group<T>;
        g->count = 0;
    }
    g->items[g->count] = item;
    g->end[g->count] = item.blocks() + (g->count > 0 ? g->end[g->count - 1] : 0);
    g->count++;
    if (!d->grouping || g->count == group<T>::MOST)
        q->flush(d, q);
}

/* An elementwise kernel for a group: F has __device__ void update(int64_t i) const. */
template <typename F> struct elements {
    enum { SHARED = 0, SIZE = 16 * THREADS }; /* elements per thread block */
    F f;
    int64_t units;

    int64_t blocks() const { return (units + SIZE - 1) / SIZE; }
    __device__ void run(int64_t block) const
    {
        const int64_t end = (block + 1) * SIZE < units ? (block + 1) * SIZE : units;
        for (int64_t i = block * SIZE + threadIdx.x; i < end; i += blockDim.x)
            f.update(i);
    }
};

#endif
