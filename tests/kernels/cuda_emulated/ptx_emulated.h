/* The instructions of src/kernels/cuda/ptx.h in plain C++. */
#ifndef ZN_PTX_EMULATED_H
#define ZN_PTX_EMULATED_H

#include <stdint.h>

/* An asynchronous copy may complete early or late. Tests cover both: emulated.cpp copies at once, or when the kernel
 * waits for it. */
void emulated_copy(float *to, const float *from, int bytes, bool is_there);
void emulated_copy_commit(void);
void emulated_copy_wait(int groups);
float emulated_tf32(float x);
void emulated_multiply_add(float *c, const float *a, const float *b);

template <int BYTES> static void copy_async(float *to, const float *from, bool is_there)
{
    emulated_copy(to, from, BYTES, is_there);
}
static inline void copy_commit(void) { emulated_copy_commit(); }
template <int N> static void copy_wait(void) { emulated_copy_wait(N); }
static inline float to_tf32(float x) { return emulated_tf32(x); }
static inline void multiply_add(float c[4], const float a[4], const float b[2]) { emulated_multiply_add(c, a, b); }

/* Matrices of 16-bit numbers. */
void emulated_load(uint32_t *r, const uint16_t *row, int count, bool turned);
uint32_t emulated_bf16(float low, float high);
uint32_t emulated_f16(float low, float high);
uint32_t emulated_e4m3(float low, float high);
void emulated_multiply_add_16(float *c, const uint32_t *a, const uint32_t *b, bool bf16);

static inline void load_four(uint32_t r[4], const uint16_t *row) { emulated_load(r, row, 4, false); }
static inline void load_four_turned(uint32_t r[4], const uint16_t *row) { emulated_load(r, row, 4, true); }
static inline void load_two_turned(uint32_t r[2], const uint16_t *row) { emulated_load(r, row, 2, true); }
float emulated_from_bf16(uint16_t x);
float emulated_from_f16(uint16_t x);
static inline uint32_t e4m3_pair(float low, float high) { return emulated_e4m3(low, high); }
static inline float quick_power2(float x) { return exp2f(x); }
static inline float quick_silu(float x) { return x / (1 + expf(-x)); }

struct bf16_pair {
    static float low(uint32_t pair) { return emulated_from_bf16((uint16_t)pair); }
    static float high(uint32_t pair) { return emulated_from_bf16((uint16_t)(pair >> 16)); }
    static uint32_t of(float low, float high) { return emulated_bf16(low, high); }
    static void multiply_add(float c[4], const uint32_t a[4], const uint32_t b[2])
    {
        emulated_multiply_add_16(c, a, b, true);
    }
};
struct f16_pair {
    static float low(uint32_t pair) { return emulated_from_f16((uint16_t)pair); }
    static float high(uint32_t pair) { return emulated_from_f16((uint16_t)(pair >> 16)); }
    static uint32_t of(float low, float high) { return emulated_f16(low, high); }
    static uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t c)
    {
        return of(low(a) * low(b) + low(c), high(a) * high(b) + high(c));
    }
    static float finite(float x) { return x > 65504 ? 65504 : x < -65504 ? -65504 : x; /* NaN passes */ }
    static uint32_t of_finite(float low, float high) { return emulated_f16(finite(low), finite(high)); }
    static void multiply_add(float c[4], const uint32_t a[4], const uint32_t b[2])
    {
        emulated_multiply_add_16(c, a, b, false);
    }
};

#endif
