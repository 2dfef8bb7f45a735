/* The matrix unit of Hopper GPUs (sm_90a): 128 threads, a warpgroup, multiply matrices that lie in shared memory, while
 * they do something else. Also the barriers in shared memory that go with it. Included only by .cu files; not
 * emulated. */
#ifndef ZN_CUDA_WGMMA_H
#define ZN_CUDA_WGMMA_H

#include "kernels/cuda/ptx.h"

enum { WARPGROUP = 128 };

/* A matrix in shared memory, whose lines of 64 numbers of 16 bits (128 bytes) are swizzled: piece i (16 bytes) of the
 * line at address a is stored as piece i ^ (a / 128 % 8). Lines come in groups of eight, which follow each other;
 * `groups` is the number of bytes between groups of lines, `blocks` between blocks of 64 numbers. */
static __device__ uint64_t matrix_at(unsigned address, unsigned blocks, unsigned groups)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(blocks >> 4) << 16 | (uint64_t)(groups >> 4) << 32 |
           (uint64_t)1 << 62;
}
/* Offset of a piece in swizzled lines that begin at a multiple of 1024. */
static __device__ unsigned piece_at(int line, int piece)
{
    return (unsigned)line * 128 + (unsigned)((piece ^ (line & 7)) << 4);
}

static __device__ unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

/* Products begin after wgmma_begin, which orders them after earlier uses of the sums; those before wgmma_commit are a
 * group; wgmma_wait<N> waits for all but the last N groups. */
static __device__ void wgmma_begin(void) { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
static __device__ void wgmma_commit(void) { asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory"); }
template <int N> static __device__ void wgmma_wait(void)
{
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory");
}

/* Makes what this thread wrote to shared memory visible to the matrix unit, which reads it after the next barrier. */
static __device__ void publish_shared(void) { asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory"); }

#define ZN_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define ZN_NAMES_32                                                                                                    \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ZN_NAMES_64                                                                                                    \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                                 \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                                 \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ZN_NAMES_88                                                                                                    \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                                 \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                                 \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "                                 \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                                 \
    "%80, %81, %82, %83, %84, %85, %86, %87"
#define ZN_NAMES_96                                                                                                    \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                                 \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                                 \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "                                 \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                                 \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define ZN_NAMES_128                                                                                                   \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "                                 \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                                 \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "                                 \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                                 \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                                 \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "                     \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define ZN_SUMS_4(d, i)   "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define ZN_SUMS_16(d, i)  ZN_SUMS_4(d, i), ZN_SUMS_4(d, i + 4), ZN_SUMS_4(d, i + 8), ZN_SUMS_4(d, i + 12)
#define ZN_SUMS_32(d, i)  ZN_SUMS_16(d, i), ZN_SUMS_16(d, i + 16)
#define ZN_SUMS_64(d, i)  ZN_SUMS_32(d, i), ZN_SUMS_32(d, i + 32)
#define ZN_SUMS_88(d, i)  ZN_SUMS_64(d, i), ZN_SUMS_16(d, i + 64), ZN_SUMS_4(d, i + 80), ZN_SUMS_4(d, i + 84)
#define ZN_SUMS_96(d, i)  ZN_SUMS_64(d, i), ZN_SUMS_32(d, i + 64)
#define ZN_SUMS_128(d, i) ZN_SUMS_64(d, i), ZN_SUMS_64(d, i + 64)

/* sums[64][columns] += a[64][16] b[16][columns], with columns / 2 sums in each thread: elements [g][8 j + 2 q], its
 * right neighbour, and both eight rows below, for each j, of the 16 rows of its warp (g = lane / 4, q = lane % 4).
 * A line of `a` has its 64 rows for one of the 16. A line of b has some of the 16, from the
 * matrix's address on, for one column; in the turned form it has 64 columns for one of the 16. */
#define ZN_WGMMA_DEEP(name, type, columns, depth, count, operands)                                                     \
    static __device__ void name(float(&sums)[count], uint64_t a, uint64_t b)                                           \
    {                                                                                                                  \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" columns "k" depth ".f32." type "." type " {" ZN_NAMES_##count \
                     "}, " operands ";\n"                                                                              \
                     : ZN_SUMS_##count(sums, 0)                                                                        \
                     : "l"(a), "l"(b));                                                                                \
    }
#define ZN_WGMMA(name, type, columns, count, operands) ZN_WGMMA_DEEP(name, type, columns, "16", count, operands)
struct bf16_wide : bf16_pair {
    enum { BYTES = 2, PARTS = 1 };
    ZN_WGMMA(multiply, "bf16", "32", 16, "%16, %17, 1, 1, 1, 1, 0")
    ZN_WGMMA(multiply, "bf16", "64", 32, "%32, %33, 1, 1, 1, 1, 0")
    ZN_WGMMA(multiply, "bf16", "128", 64, "%64, %65, 1, 1, 1, 1, 0")
    ZN_WGMMA(multiply, "bf16", "256", 128, "%128, %129, 1, 1, 1, 1, 0")
    ZN_WGMMA(multiply_turned, "bf16", "192", 96, "%96, %97, 1, 1, 1, 1, 1")
};
struct f16_wide : f16_pair {
    enum { BYTES = 2, PARTS = 1 };
    ZN_WGMMA(multiply, "f16", "32", 16, "%16, %17, 1, 1, 1, 1, 0")
    ZN_WGMMA(multiply, "f16", "64", 32, "%32, %33, 1, 1, 1, 1, 0")
    ZN_WGMMA(multiply, "f16", "128", 64, "%64, %65, 1, 1, 1, 1, 0")
};
/* Numbers in two parts of f16 (conv_split.h). multiply_new: sums = a b. */
struct split_wide : f16_wide {
    enum { PARTS = 2 };
    ZN_WGMMA(multiply_new, "f16", "32", 16, "%16, %17, 0, 1, 1, 1, 0")
    ZN_WGMMA(multiply_new, "f16", "64", 32, "%32, %33, 0, 1, 1, 1, 0")
    ZN_WGMMA(multiply_new, "f16", "128", 64, "%64, %65, 0, 1, 1, 1, 0")
};

/* FP8 codes (E4M3), 32 in place of 16; a line of `a` has some of them for one row. Results are written as bf16. */
struct e4m3_wide : bf16_pair {
    enum { BYTES = 1, PARTS = 1 };
    ZN_WGMMA_DEEP(multiply, "e4m3", "128", "32", 64, "%64, %65, 1, 1, 1")
};

/* The same for a product of rows: a line of `a` has some of the 16, as one of b has; multiply_first begins at zero, not
 * at the sums. And with a in registers, a[64][16] as pairs [g][2 q], [g + 8][2 q], [g][2 q + 8], [g + 8][2 q + 8],
 * which is how sums lie; b is turned. */
#define ZN_WGMMA_HELD(type, columns, count, operands)                                                                  \
    static __device__ void multiply_held(float(&sums)[count], const uint32_t a[4], uint64_t b)                         \
    {                                                                                                                  \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" columns "k16.f32." type "." type " {" ZN_NAMES_##count        \
                     "}, " operands ";\n"                                                                              \
                     : ZN_SUMS_##count(sums, 0)                                                                        \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                            \
    }
struct bf16_rows : bf16_pair {
    ZN_WGMMA(multiply, "bf16", "128", 64, "%64, %65, 1, 1, 1, 0, 0")
    ZN_WGMMA(multiply, "bf16", "176", 88, "%88, %89, 1, 1, 1, 0, 0")
    ZN_WGMMA(multiply_first, "bf16", "128", 64, "%64, %65, 0, 1, 1, 0, 0")
    ZN_WGMMA(multiply_first, "bf16", "176", 88, "%88, %89, 0, 1, 1, 0, 0")
    ZN_WGMMA_HELD("bf16", "64", 32, "{%32, %33, %34, %35}, %36, 1, 1, 1, 1")
    ZN_WGMMA_HELD("bf16", "128", 64, "{%64, %65, %66, %67}, %68, 1, 1, 1, 1")
};
struct f16_rows : f16_pair {
    ZN_WGMMA(multiply, "f16", "128", 64, "%64, %65, 1, 1, 1, 0, 0")
    ZN_WGMMA(multiply, "f16", "176", 88, "%88, %89, 1, 1, 1, 0, 0")
    ZN_WGMMA(multiply_first, "f16", "128", 64, "%64, %65, 0, 1, 1, 0, 0")
    ZN_WGMMA(multiply_first, "f16", "176", 88, "%88, %89, 0, 1, 1, 0, 0")
    ZN_WGMMA_HELD("f16", "64", 32, "{%32, %33, %34, %35}, %36, 1, 1, 1, 1")
    ZN_WGMMA_HELD("f16", "128", 64, "{%64, %65, %66, %67}, %68, 1, 1, 1, 1")
};
/* Keeps the compiler from using sums before the wait for their product that stands above it. */
template <int COUNT> static __device__ void wgmma_settle(float (&sums)[COUNT])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        asm volatile("" : "+f"(sums[i])::"memory");
}
/* Registers of each thread of this warpgroup: threads that only copy leave theirs to those that multiply. */
template <int COUNT> static __device__ void give_registers(void)
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(COUNT));
}
template <int COUNT> static __device__ void take_registers(void)
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(COUNT));
}

/* Stores 8x8 matrices of 16-bit numbers, four of them: the inverse of load_four_turned. */
static __device__ void store_four_turned(unsigned row, const uint32_t r[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};\n" ::"r"(row), "r"(r[0]),
                 "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

/* ---- barriers ---- */

/* A barrier in shared memory: it opens when `count` threads have arrived, and then begins its next phase. */
static __device__ void barrier_init(uint64_t *b, unsigned count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(shared_address(b)), "r"(count) : "memory");
}
static __device__ void barrier_arrive(uint64_t *b)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(shared_address(b)) : "memory");
}
/* The same, and the phase does not end before bulk copies have brought this many bytes. */
static __device__ void barrier_arrive_expecting(uint64_t *b, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(shared_address(b)), "r"(bytes)
                 : "memory");
}
/* The same when the copies that this thread has started before have arrived. */
static __device__ void barrier_arrive_after_copies(uint64_t *b)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\n" ::"r"(shared_address(b)) : "memory");
}
/* Waits for the end of a phase; they are numbered from 0. */
static __device__ void barrier_wait(uint64_t *b, int phase)
{
    asm volatile(
        "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra again;\n}\n" ::"r"(
            shared_address(b)),
        "r"(phase & 1)
        : "memory");
}
/* Waits for `threads` threads that call it or let_meet with the same number, from 1 to 15. */
static __device__ void meet(int number, int threads)
{
    asm volatile("bar.sync %0, %1;\n" ::"r"(number), "r"(threads) : "memory");
}
/* Counts as one of them, and does not wait. */
static __device__ void let_meet(int number, int threads)
{
    asm volatile("bar.arrive %0, %1;\n" ::"r"(number), "r"(threads) : "memory");
}

#endif
