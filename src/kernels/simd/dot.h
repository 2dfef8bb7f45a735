/* Sums of products of 8-bit integers. dots[r][c] of a tile are sums over `steps` steps of four inputs each:
 *
 *     dots_tile(rows, DOT_COLUMNS, steps, bits, x, row, w, plane, start, dots);      rows <= DOT_ROWS
 *
 *     dots[r][c][lane] = sum over k < steps, i < 4 of x[r * row + 4k + i] * w[((k * columns + c) * VEC_LANES + lane) *
 * 4 + i]
 *
 * x: codes as in kernels/matrix_i8.h. Where they are shifted, every sum is too large by DOT_SHIFT * (sum of w). w:
 * signed codes of `bits` bits, as dots_store wrote them.
 *
 * Without VNNI, products are added in 16 bits as long as nothing can overflow: 255 * 2^(bits-1) * 2 for each step
 * allows 2^(7-bits) steps. Codes of 8 bits allow none; dots_store splits them into w = 16 high + low with both parts
 * from -8 to 8, in DOT_PLANES planes, `plane` bytes apart.
 *
 * Only dots_scaled reads what dots_tile returns: s * dots[r][c], with less = dots_less(s, sum of w). With DOT_STARTS,
 * sums begin at start[c * VEC_LANES + lane] = dots_start(sum of w); others do not read `start`. */
#ifndef ZN_SIMD_DOT_H
#define ZN_SIMD_DOT_H

#include "kernels/matrix_i8.h"
#include "kernels/simd/vec.h"

#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#define DOT_VNNI 1
#endif

#if defined(__AVX512F__)
typedef __m512i ivec;
#define DOT_OP(name) _mm512_##name
#define DOT_LOAD(p)  _mm512_loadu_si512(p)
#elif defined(__AVX2__)
typedef __m256i ivec;
#define DOT_OP(name) _mm256_##name
#define DOT_LOAD(p)  _mm256_loadu_si256((const __m256i *)(p))
#endif

#if defined(__ARM_FEATURE_DOTPROD) && !defined(__ARM_FEATURE_MATMUL_INT8)
#define DOT_BY_ELEMENT 1
enum { DOT_ROWS = 3, DOT_COLUMNS = 4 }; /* 12 dots, as many sums, 3 vectors of x and 4 of w in 32 registers */
#elif defined(__AVX512VNNI__)
enum { DOT_ROWS = 8, DOT_COLUMNS = 2 }; /* 16 dots hide latency better than 12, though some sums spill */
#else
enum { DOT_ROWS = 6, DOT_COLUMNS = VEC_REGISTERS / 16 };
#endif

#if defined(DOT_VNNI) || defined(__ARM_FEATURE_DOTPROD)
/* A sum of 32 products of bytes, added to the bits of DOT_START, is the float DOT_START + sum: near 1.5 * 2^23 floats
 * are integers. Subtracting DOT_START takes half a cycle of a Neoverse-N1, converting integers takes two. With VNNI,
 * the product with the scale subtracts it, and what makes up for shifted codes begins the sum. */
#define DOT_START 0x1.8p23f
#endif
#if defined(DOT_VNNI)
enum { DOT_STARTS = 1 };
#else
enum { DOT_STARTS = 0 };
#endif

#if defined(__AVX2__)
enum { DOT_SHIFT = ZN_I8_SHIFT };
#if defined(DOT_VNNI)
enum { DOT_PLANES = 1 };
#else
enum { DOT_PLANES = 2 };
#endif

VEC_INLINE ivec dot_four(const uint8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return DOT_OP(set1_epi32)(four);
}

VEC_INLINE vec dot_to_vec(ivec v) { return DOT_OP(cvtepi32_ps)(v); }

#if defined(DOT_VNNI)
#if defined(__AVX512F__)
#define DOT_ADD(sum, x, w) _mm512_dpbusd_epi32(sum, x, w)
#else
#define DOT_ADD(sum, x, w) _mm256_dpbusd_avx_epi32(sum, x, w)
#endif

/* Compilers do not see what a variable is afterwards: else they would keep a pointer to every row, which are more
 * than there are registers. */
#define DOT_HIDE(x) __asm__("" : "+r"(x))

VEC_INLINE void dots_tile(const int rows, const int columns, const int steps, const int bits, const uint8_t *x,
                          int64_t row, const int8_t *w, int64_t plane, const float *start,
                          ivec dots[DOT_ROWS][DOT_COLUMNS])
{
    const uint8_t *half = x + DOT_ROWS / 2 * row;
    (void)bits, (void)plane;
    DOT_HIDE(row);
    DOT_HIDE(half);
#pragma GCC unroll 8
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int c = 0; c < columns; c++)
            dots[r][c] = DOT_LOAD(start + c * VEC_LANES);
#pragma GCC unroll 8
    for (int k = 0; k < steps; k++) {
        ivec v[DOT_COLUMNS];
#pragma GCC unroll 2
        for (int c = 0; c < columns; c++)
            v[c] = DOT_LOAD(w + (k * columns + c) * VEC_LANES * 4);
#pragma GCC unroll 8
        for (int r = 0; r < rows; r++) {
            const ivec four = dot_four((r < DOT_ROWS / 2 ? x + r * row : half + (r - DOT_ROWS / 2) * row) + 4 * k);
#pragma GCC unroll 2
            for (int c = 0; c < columns; c++)
                dots[r][c] = DOT_ADD(dots[r][c], four, v[c]);
        }
    }
}
#else
/* Adds `factor` times the sums of steps [first,first+steps) to dots, or sets them. */
VEC_INLINE void dots_batch(const int rows, const int columns, const int first, const int steps, const bool more,
                           const short factor, const uint8_t *x, int64_t row, const int8_t *w,
                           ivec dots[DOT_ROWS][DOT_COLUMNS])
{
    ivec half[DOT_ROWS][DOT_COLUMNS];
#pragma GCC unroll 8
    for (int k = first; k < first + steps; k++) {
        ivec v[DOT_COLUMNS];
#pragma GCC unroll 2
        for (int c = 0; c < columns; c++)
            v[c] = DOT_LOAD(w + (k * columns + c) * VEC_LANES * 4);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            const ivec four = dot_four(x + r * row + 4 * k);
#pragma GCC unroll 2
            for (int c = 0; c < columns; c++) {
                const ivec two = DOT_OP(maddubs_epi16)(four, v[c]);
                half[r][c] = k == first ? two : DOT_OP(add_epi16)(half[r][c], two);
            }
        }
    }
    const ivec factors = DOT_OP(set1_epi16)(factor);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int c = 0; c < columns; c++) {
            const ivec sum = DOT_OP(madd_epi16)(half[r][c], factors);
            dots[r][c] = more ? DOT_OP(add_epi32)(dots[r][c], sum) : sum;
        }
}

VEC_INLINE void dots_tile(const int rows, const int columns, const int steps, const int bits, const uint8_t *x,
                          int64_t row, const int8_t *w, int64_t plane, const float *start,
                          ivec dots[DOT_ROWS][DOT_COLUMNS])
{
    (void)start;
    if (bits == 8) {
        dots_batch(rows, columns, 0, steps, false, 16, x, row, w, dots);
        dots_batch(rows, columns, 0, steps, true, 1, x, row, w + plane, dots);
        return;
    }
    const int most = bits == 4 ? 8 : bits == 5 ? 4 : 2;
#pragma GCC unroll 4
    for (int k = 0; k < steps; k += most)
        dots_batch(rows, columns, k, most < steps - k ? most : steps - k, k > 0, 1, x, row, w, dots);
}
#endif

/* The sums of the codes of `steps` steps, w[step][lane][4]. */
VEC_INLINE ivec dots_sum(const int steps, const ivec *w)
{
    const ivec ones = DOT_OP(set1_epi8)(1);
    ivec sum = DOT_OP(maddubs_epi16)(ones, w[0]);
#pragma GCC unroll 8
    for (int k = 1; k < steps; k++)
        sum = DOT_OP(add_epi16)(sum, DOT_OP(maddubs_epi16)(ones, w[k]));
    return DOT_OP(madd_epi16)(sum, DOT_OP(set1_epi16)(1));
}

#else /* signed by signed bytes */
enum { DOT_SHIFT = 0, DOT_PLANES = 1 };
#if defined(__ARM_NEON)
typedef int32x4_t ivec;
VEC_INLINE vec dot_to_vec(ivec v) { return vcvtq_f32_s32(v); }

VEC_INLINE ivec dot_add(ivec sum, const uint8_t *x, const int8_t *w)
{
    const int8x16_t a = vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)(const void *)x)), b = vld1q_s8(w);
#if defined(__ARM_FEATURE_DOTPROD)
    return vdotq_s32(sum, b, a);
#else
    const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
    return vpadalq_s16(sum, vpaddq_s16(low, high));
#endif
}
VEC_INLINE ivec dot_zero(void) { return vdupq_n_s32(0); }
#else
typedef int32_t ivec __attribute__((vector_size(16)));
VEC_INLINE vec dot_to_vec(ivec v) { return (vec){ (float)v[0], (float)v[1], (float)v[2], (float)v[3] }; }

VEC_INLINE ivec dot_add(ivec sum, const uint8_t *x, const int8_t *w)
{
    for (int lane = 0; lane < VEC_LANES; lane++)
        for (int i = 0; i < 4; i++)
            sum[lane] += (int8_t)(x[i] ^ ZN_I8_SHIFT) * w[4 * lane + i];
    return sum;
}
VEC_INLINE ivec dot_zero(void) { return (ivec){ 0 }; }
#endif

#if defined(DOT_BY_ELEMENT)
/* Loads 16 bytes. Compilers keep the order of these and of DOT_STEP: else they would load the weights of a group once,
 * for both blocks of a tile, and spill. */
VEC_INLINE int8x16_t dot_load(const void *p)
{
    int8x16_t v;
    __asm__ volatile("ldr %q0, %1" : "=w"(v) : "m"(*(const int8x16_t *)p));
    return v;
}

/* Step k + `step`, with the inputs k to k + 3 of each row. A constant, as it becomes part of the instruction. */
#define DOT_STEP(step)                                                                                                 \
    {                                                                                                                  \
        int8x16_t v[DOT_COLUMNS];                                                                                      \
        _Pragma("GCC unroll 4") for (int c = 0; c < columns; c++) v[c] =                                               \
            dot_load(w + ((k + (step)) * columns + c) * VEC_LANES * 4);                                                \
        _Pragma("GCC unroll 3") for (int r = 0; r < rows; r++)                                                         \
            _Pragma("GCC unroll 4") for (int c = 0; c < columns; c++) __asm__ volatile(                                \
                "sdot %0.4s, %1.16b, %2.4b[" #step "]" : "+w"(dots[r][c]) : "w"(v[c]), "w"(four[r]));                  \
    }

/* steps: a multiple of four. Sums begin with a load, which takes nothing from the units that multiply. */
VEC_INLINE void dots_tile(const int rows, const int columns, const int steps, const int bits, const uint8_t *x,
                          int64_t row, const int8_t *w, int64_t plane, const float *start,
                          ivec dots[DOT_ROWS][DOT_COLUMNS])
{
    static const float zero[4] = { DOT_START, DOT_START, DOT_START, DOT_START };
    (void)bits, (void)plane, (void)start;
#pragma GCC unroll 3
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++)
            dots[r][c] = vreinterpretq_s32_s8(dot_load(zero));
#pragma GCC unroll 2
    for (int k = 0; k < steps; k += 4) {
        int8x16_t four[DOT_ROWS];
#pragma GCC unroll 3
        for (int r = 0; r < rows; r++)
            four[r] = dot_load(x + r * row + 4 * k);
        DOT_STEP(0)
        DOT_STEP(1)
        DOT_STEP(2)
        DOT_STEP(3)
    }
}
#undef DOT_STEP

VEC_INLINE vec dots_scaled(ivec dots, const float *s, const float *less)
{
    return vec_fma(vreinterpretq_f32_s32(dots), vec_load(s), vreinterpretq_f32_s8(dot_load(less)));
}
#else
VEC_INLINE void dots_tile(const int rows, const int columns, const int steps, const int bits, const uint8_t *x,
                          int64_t row, const int8_t *w, int64_t plane, const float *start,
                          ivec dots[DOT_ROWS][DOT_COLUMNS])
{
    (void)bits, (void)plane, (void)start;
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int c = 0; c < columns; c++)
            dots[r][c] = dot_zero();
#pragma GCC unroll 8
    for (int k = 0; k < steps; k++)
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
            for (int c = 0; c < columns; c++)
                dots[r][c] = dot_add(dots[r][c], x + r * row + 4 * k, w + (k * columns + c) * VEC_LANES * 4);
}
#endif

VEC_INLINE ivec dots_sum(const int steps, const ivec *w)
{
    static const uint8_t ones[4] = { 1 ^ ZN_I8_SHIFT, 1 ^ ZN_I8_SHIFT, 1 ^ ZN_I8_SHIFT, 1 ^ ZN_I8_SHIFT };
    ivec sum = dot_zero();
    for (int k = 0; k < steps; k++)
        sum = dot_add(sum, ones, (const int8_t *)&w[k]);
    return sum;
}
#endif

#if defined(DOT_START)
/* DOT_START * s is exact with two bits fewer, so that dots_scaled rounds once. Scales in files have half as many. */
VEC_INLINE vec dots_factor(vec s)
{
#if defined(DOT_VNNI)
    return (vec)((ivec)s & DOT_OP(set1_epi32)(~3));
#else
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(s), vdupq_n_u32(~3u)));
#endif
}
VEC_INLINE vec dots_less(vec s, vec sum)
{
    (void)sum;
    return dots_factor(s) * -DOT_START;
}
#else
/* Of a scale s and s * (sum of w): what dots_scaled multiplies with and adds. */
VEC_INLINE vec dots_factor(vec s) { return s; }
VEC_INLINE vec dots_less(vec s, vec sum)
{
    (void)s;
    return sum * (float)-DOT_SHIFT;
}
#endif

#if defined(DOT_VNNI)
VEC_INLINE vec dots_start(ivec sum)
{
    return (vec)DOT_OP(sub_epi32)((ivec)vec_splat(DOT_START), DOT_OP(mullo_epi32)(sum, DOT_OP(set1_epi32)(DOT_SHIFT)));
}

/* dots * s + less */
VEC_INLINE vec dots_scaled(ivec dots, const float *s, const float *less)
{
    return vec_fma((vec)dots, vec_load(s), vec_load(less));
}
#elif !defined(DOT_START)
/* dots * s + less */
VEC_INLINE vec dots_scaled(ivec dots, const float *s, const float *less)
{
    return vec_fma(dot_to_vec(dots), vec_load(s), vec_load(less));
}
#endif

/* A vector as bytes. */
typedef uint8_t dot_bytes __attribute__((vector_size(4 * VEC_LANES)));

/* Stores the codes of a step for dots_tile. */
VEC_INLINE void dots_store(ivec codes, const int bits, int8_t *w, int64_t plane)
{
    if (DOT_PLANES == 1 || bits < 8) {
        memcpy(w, &codes, sizeof codes);
        return;
    }
    const dot_bytes shifted = (dot_bytes)codes ^ 128, high = ((shifted >> 1) + 4) >> 3, low = shifted - (high << 4),
                    centred = high - 8;
    memcpy(w, &centred, sizeof centred);
    memcpy(w + plane, &low, sizeof low);
}
#endif
