/* Instructions that C++ has no functions for: asynchronous copies to shared memory, and the matrix unit.
 * tests/kernels/cuda_emulated has the same functions in plain C++. */
#ifndef ZN_PTX_H
#define ZN_PTX_H

#include <stdint.h>

#if defined(ZN_CUDA_EMULATED)
#include <ptx_emulated.h> /* tests/kernels/cuda_emulated */
#else

/* Copies BYTES (4 or 16; both addresses aligned to BYTES) from global to shared memory. Writes zeros if is_there is
 * false. */
template <int BYTES> static __device__ void copy_async(float *to, const float *from, bool is_there)
{
    const unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(address), "l"(from), "n"(BYTES),
                 "r"(is_there ? BYTES : 0)
                 : "memory");
}

/* Makes the copies since the last call a group. */
static __device__ void copy_commit(void) { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
/* Waits for all groups of this thread except the last N. */
template <int N> static __device__ void copy_wait(void)
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

/* Rounds to the nearest 11-bit number. */
static __device__ float to_tf32(float x)
{
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
}

/* c[16][8] += a[16][8] b[8][8], computed by a warp. Each lane (row g = lane / 4, q = lane % 4) holds a: [g][q],
 * [g+8][q], [g][q+4], [g+8][q+4]; b: [q][g], [q+4][g]; c: [g][2q], [g][2q+1], [g+8][2q], [g+8][2q+1]. The lower 13
 * bits of a and b are ignored. */
static __device__ void multiply_add(float c[4], const float a[4], const float b[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])),
                   "r"(__float_as_uint(a[3])), "r"(__float_as_uint(b[0])), "r"(__float_as_uint(b[1])));
}

#endif
#endif
