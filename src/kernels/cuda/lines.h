/* Shared by the convolutions and gradients that use the matrix unit of Hopper GPUs: how pixels become lines in shared
 * memory (wgmma.h). Included only by .cu files. */
#ifndef ZN_CUDA_LINES_H
#define ZN_CUDA_LINES_H

#include "kernels/cuda/bulk.h"
#include "kernels/cuda/vector.h"

enum { LINE = 128 };

/* Starts the copy of 16 bytes; zeros if is_there is false. */
static __device__ void copy_piece(unsigned to, const uint16_t *from, bool is_there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0)
                 : "memory");
}

/* Eight floats, rounded; zeros beyond `count`. */
template <typename T> static __device__ uint4 round_piece(const float *from, int count, bool by_four)
{
    float x[8] = {};
    if (by_four && count >= 8) {
        const float4 low = *reinterpret_cast<const float4 *>(from), high = *reinterpret_cast<const float4 *>(from + 4);
        return uint4{ T::of(low.x, low.y), T::of(low.z, low.w), T::of(high.x, high.y), T::of(high.z, high.w) };
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (i < count)
            x[i] = from[i];
    return uint4{ T::of(x[0], x[1]), T::of(x[2], x[3]), T::of(x[4], x[5]), T::of(x[6], x[7]) };
}

/* Eight neighbouring channels of a map, of which there are `count`, as numbers of 16 bits; those of 16-bit maps are
 * only on their way when this returns. by_four: floats are read four at a time. */
template <typename T>
static __device__ void copy_eight(char *to, const float *map, zn_type type, int64_t from, int count, bool by_four)
{
    if (type != ZN_TYPE_F32)
        copy_piece(shared_address(to), reinterpret_cast<const uint16_t *>(map) + (count > 0 ? from : 0), count > 0);
    else
        *reinterpret_cast<uint4 *>(to) = round_piece<T>(map + (count > 0 ? from : 0), count, by_four);
}

/* A ring of stages in shared memory. Step s uses stage s % stages; threads that fill stages and threads that read them
 * do all or some of the steps in order. There are more barriers than stages, because one that a reader skips, and then
 * waits for, may be one phase behind but not two: fewer than RING_STEPS steps may be skipped. */
enum { RING_STEPS = 32, RING_BYTES = 2 * RING_STEPS * 8 };
struct ring {
    uint64_t *full, *empty;
    int stages;
    __device__ uint64_t *full_of(int step) const { return &full[step % RING_STEPS]; }
    /* Called by one thread, before a barrier of the block. */
    __device__ void init(unsigned writers, unsigned readers) const
    {
        for (int i = 0; i < RING_STEPS; i++) {
            barrier_init(&full[i], 2 * writers);
            barrier_init(&empty[i], readers);
        }
        publish_shared();
    }
    __device__ void wait_empty(int step) const
    {
        if (step >= stages)
            barrier_wait(&empty[(step - stages) % RING_STEPS], (step - stages) / RING_STEPS);
    }
    __device__ void wait_full(int step) const
    {
        barrier_wait(full_of(step), step / RING_STEPS);
        publish_shared();
    }
    __device__ void release(int step) const { barrier_arrive(&empty[step % RING_STEPS]); }
    /* The step is full when what each writer has stored, and the copies that it has started, have arrived, and `bulk`
     * bytes of bulk copies that it then starts with the barrier full_of. */
    __device__ void publish(int step, unsigned bulk) const
    {
        publish_shared();
        if (bulk)
            barrier_arrive_expecting(full_of(step), bulk);
        else
            barrier_arrive(full_of(step));
        barrier_arrive_after_copies(full_of(step));
    }
};

static __device__ ring ring_at(char *memory, int stages)
{
    uint64_t *full = reinterpret_cast<uint64_t *>(memory);
    return ring{ full, full + RING_STEPS, stages };
}

#endif
