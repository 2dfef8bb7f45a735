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

/* 2^x to 2 units in the last place; 0 instead of numbers below 2^-126. */
static __device__ float quick_power2(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(power) : "f"(x));
    return power;
}

/* x / (1 + exp(-x)) for results that are rounded to 16 bits. */
static __device__ float quick_silu(float x) { return __fdividef(x, 1 + quick_power2(-1.44269504f * x)); }

/* Rounds to the nearest 11-bit number. */
static __device__ float to_tf32(float x)
{
    uint32_t bits;
    asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(bits) : "f"(x));
    return __uint_as_float(bits);
}

/* Two numbers as FP8 codes (E4M3), the first in the low byte: rounded to nearest, at most 448; NaN is 0x7f. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
static __device__ uint32_t e4m3_pair(float low, float high)
{
    uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;\n" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
}
#else
static __device__ uint32_t e4m3_code(float x)
{
    const uint32_t bits = __float_as_uint(x), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u)
        return 0x7f;
    const float small = fminf(fabsf(x), 448.0f);
    if (small < 0x1p-6f) /* the last bit of the sum has the weight of the last bit of such codes */
        return sign | (__float_as_uint(small + 0x1p14f) - __float_as_uint(0x1p14f));
    const uint32_t from = __float_as_uint(small) - (120u << 23);
    return sign | (from + 0x7ffffu + (from >> 20 & 1)) >> 20;
}
static __device__ uint32_t e4m3_pair(float low, float high) { return e4m3_code(low) | e4m3_code(high) << 8; }
#endif

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

/* Loads 8x8 matrices of 16-bit numbers from shared memory, four or two of them. Lane 8 i + r gives the address of row r
 * of matrix i, aligned to 16 bytes, and gets elements [g][2q] and [g][2q+1] of each (g = lane / 4, q = lane % 4), the
 * first in the low half. The second and third take them from the transposed matrices. */
static __device__ void load_four(uint32_t r[4], const uint16_t *row)
{
    const unsigned address = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
static __device__ void load_four_turned(uint32_t r[4], const uint16_t *row)
{
    const unsigned address = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(address)
                 : "memory");
}
static __device__ void load_two_turned(uint32_t r[2], const uint16_t *row)
{
    const unsigned address = (unsigned)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];\n"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address)
                 : "memory");
}

/* The 16-bit types: the numbers of a pair; two numbers rounded to the nearest, the first in the low half; and c[16][8]
 * += a[16][16] b[16][8], computed by a warp. Each lane holds a: [g][2q], [g+8][2q], [g][2q+8], [g+8][2q+8], each with
 * its right neighbour; b: [2q][g], [2q+8][g], each with the one below; c as in multiply_add. */
struct bf16_pair {
    static __device__ float low(uint32_t pair) { return __uint_as_float(pair << 16); }
    static __device__ float high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
    static __device__ uint32_t of(float low, float high)
    {
        uint32_t pair;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
        return pair;
    }
    static __device__ void multiply_add(float c[4], const uint32_t a[4], const uint32_t b[2])
    {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};\n"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
};
struct f16_pair {
    static __device__ float low(uint32_t pair)
    {
        float x;
        asm("cvt.f32.f16 %0, %1;\n" : "=f"(x) : "h"((unsigned short)pair));
        return x;
    }
    static __device__ float high(uint32_t pair) { return low(pair >> 16); }
    static __device__ uint32_t of(float low, float high)
    {
        uint32_t pair;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
        return pair;
    }
    /* a b + c of both numbers. */
    static __device__ uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t c)
    {
        uint32_t pair;
        asm("fma.rn.f16x2 %0, %1, %2, %3;\n" : "=r"(pair) : "r"(a), "r"(b), "r"(c));
        return pair;
    }
    /* The largest number instead of infinity. */
    static __device__ uint32_t of_finite(float low, float high)
    {
        uint32_t pair;
        asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
        return pair;
    }
    static __device__ void multiply_add(float c[4], const uint32_t a[4], const uint32_t b[2])
    {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};\n"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
};

#endif
#endif
