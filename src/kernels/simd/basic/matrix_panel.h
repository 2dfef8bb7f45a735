/* Fills panels for the product in 8-bit integers: the codes of some outputs, [k][column][4], and the factors of their
 * groups. A vector of outputs at a time: 16 bytes of each are loaded and transposed, so that a lane has one output. The
 * common formats are transposed as they lie in the file, the others after matrix_unpack.h has unpacked them. */
#ifndef ZN_SIMD_MATRIX_PANEL_H
#define ZN_SIMD_MATRIX_PANEL_H

#include "kernels/simd/basic/matrix_turn.h"
#include "kernels/simd/basic/matrix_unpack.h"

enum {
    DEPTH = ZN_I8_DEPTH,
    PANEL = DOT_COLUMNS * VEC_LANES, /* columns */
    GROUPS = DEPTH / ZN_I8_GROUP,
    STEPS = ZN_I8_GROUP / 4,         /* steps of four inputs in a group */
    START = 5,                       /* the first of two factors that dots begin at, with DOT_STARTS */
    FACTORS = START + 2 * DOT_STARTS /* of a column in a group: two of s, two that dots_scaled adds, that of x_sums */
};

typedef struct panel {
    int8_t codes[DOT_PLANES][DEPTH / 4][PANEL][4];
    float factors[GROUPS][FACTORS][PANEL];
} panel;

/* Weights of a panel that were unpacked one by one. */
typedef struct unpacked {
    int8_t codes[VEC_LANES][DEPTH];
    float s[VEC_LANES][2 * GROUPS], b[VEC_LANES][GROUPS];
} unpacked;

/* VEC_LANES columns of a panel: from `column` on, read at line[lane]. */
typedef struct lanes {
    const uint8_t *line[VEC_LANES];
    panel *to;
    int column;
} lanes;

/* ---- reading ---- */

/* Half-precision numbers at byte `at` of every lane. */
VEC_INLINE vec halves(const lanes *l, int64_t at)
{
#if defined(__F16C__) && defined(__AVX2__)
    uint16_t half[VEC_LANES];
    for (int c = 0; c < VEC_LANES; c++)
        half[c] = zn_load16(l->line[c] + at);
#if defined(__AVX512F__)
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)half));
#else
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)half));
#endif
#elif defined(__ARM_NEON)
    const uint16x4_t half = { zn_load16(l->line[0] + at), zn_load16(l->line[1] + at), zn_load16(l->line[2] + at),
                              zn_load16(l->line[3] + at) };
    return vcvt_f32_f16(vreinterpret_f16_u16(half));
#else
    float single[VEC_LANES];
    for (int c = 0; c < VEC_LANES; c++)
        single[c] = half_at(l->line[c] + at);
    return vec_load(single);
#endif
}

/* Four bits of every byte, as signed codes. */
VEC_INLINE ivec low_nibbles(ivec v) { return (ivec)(((dot_bytes)v & 15) - 8); }
VEC_INLINE ivec high_nibbles(ivec v) { return (ivec)(((dot_bytes)v >> 4) - 8); }

/* ---- one group ---- */

/* Stores group g. codes: its steps. s: one scale, or two if split; b: if shifted. */
VEC_INLINE void put_group(const lanes *l, int g, const int bits, const bool split, const bool shifted,
                          const ivec codes[STEPS], const vec s[2], vec b)
{
    const int parts = split ? 2 : 1, steps = STEPS / parts;
    float(*factors)[PANEL] = l->to->factors[g];
    vec sum = vec_splat(0);
#pragma GCC unroll 2
    for (int i = 0; i < parts; i++) {
        const ivec total = dots_sum(steps, codes + i * steps);
        sum = s[i] * dot_to_vec(total);
        vec_store(factors[2 * i] + l->column, dots_factor(s[i]));
        vec_store(factors[2 * i + 1] + l->column, dots_less(s[i], sum));
#if defined(DOT_VNNI)
        vec_store(factors[START + i] + l->column, dots_start(total));
#endif
    }
    vec_store(factors[4] + l->column, shifted ? b : sum);
#pragma GCC unroll 8
    for (int k = 0; k < STEPS; k++)
        dots_store(codes[k], bits, l->to->codes[0][STEPS * g + k][l->column], sizeof l->to->codes[0]);
}

/* ---- formats that are transposed as they lie ---- */

/* Q4_0 and Q4_1: d, perhaps m, then the codes: elements j and j + 16 in byte j. */
VEC_INLINE void fill_nibbles(const lanes *l, int groups, const bool minimum)
{
    const int head = minimum ? 4 : 2;
    for (int g = 0; g < groups; g++) {
        const int64_t at = (int64_t)g * (head + ZN_I8_GROUP / 2);
        const vec s = halves(l, at), b = minimum ? (vec)(halves(l, at + 2) + s * 8.0f) : s;
        ivec words[4], codes[STEPS];
        transpose(l->line, at + head, words);
#pragma GCC unroll 4
        for (int k = 0; k < 4; k++) {
            codes[k] = low_nibbles(words[k]);
            codes[k + 4] = high_nibbles(words[k]);
        }
        put_group(l, g, 4, false, true, codes, (vec[]){ s, s }, b); /* without minima, nothing reads b */
    }
}

static void fill_q4_0(const lanes *l, int groups) { fill_nibbles(l, groups, false); }
static void fill_q4_1(const lanes *l, int groups) { fill_nibbles(l, groups, true); }

/* d, then the codes. */
static void fill_q8_0(const lanes *l, int groups)
{
    for (int g = 0; g < groups; g++) {
        const int64_t at = (int64_t)g * (2 + ZN_I8_GROUP);
        const vec s = halves(l, at);
        ivec codes[STEPS];
        transpose(l->line, at + 2, codes);
        transpose(l->line, at + 18, codes + 4);
        put_group(l, g, 8, false, false, codes, (vec[]){ s, s }, s);
    }
}

/* The six bits of scale j (or minimum) of Q4_K: words 0 (1) and 2 of the twelve bytes; those in word 2 are its low
 * (high) four bits. */
typedef uint32_t dot_words __attribute__((vector_size(4 * VEC_LANES)));
VEC_INLINE vec six_bits_of(ivec first, ivec last, int j, int high)
{
    const dot_words a = (dot_words)first >> (8 * (j % 4)), c = (dot_words)last >> (8 * (j % 4) + high);
    return dot_to_vec((ivec)(j < 4 ? a & 63 : (c & 15) | (a >> 6 & 3) << 4));
}

/* Blocks of eight groups: d, m, twelve bytes of scales and minima, then pairs of groups in the low and high bits. */
static void fill_q4_k(const lanes *l, int groups)
{
    for (int block = 0; block < groups / 8; block++) {
        const int64_t at = 144 * (int64_t)block;
        const vec d = halves(l, at), m = halves(l, at + 2);
        ivec head[4];
        transpose(l->line, at + 4, head);
        for (int pair = 0; pair < 4; pair++) {
            ivec words[STEPS], codes[2][STEPS];
            transpose(l->line, at + 16 + 32 * pair, words);
            transpose(l->line, at + 32 + 32 * pair, words + 4);
#pragma GCC unroll 8
            for (int k = 0; k < STEPS; k++) {
                codes[0][k] = low_nibbles(words[k]);
                codes[1][k] = high_nibbles(words[k]);
            }
#pragma GCC unroll 2
            for (int j = 0; j < 2; j++) {
                const vec s = d * six_bits_of(head[0], head[2], 2 * pair + j, 0);
                const vec b = s * 8.0f - m * six_bits_of(head[1], head[2], 2 * pair + j, 4);
                put_group(l, 8 * block + 2 * pair + j, 4, false, true, codes[j], (vec[]){ s, s }, b);
            }
        }
    }
}

/* ---- all others ---- */

VEC_INLINE vec gather(const float *p, int64_t row)
{
    float v[VEC_LANES];
    for (int c = 0; c < VEC_LANES; c++)
        v[c] = p[c * row];
    return vec_load(v);
}

/* Transposes what was unpacked. */
VEC_INLINE void fill_unpacked(const lanes *l, const unpacked *from, int groups, const int bits, const bool split,
                              const bool shifted)
{
    for (int g = 0; g < groups; g++) {
        ivec codes[STEPS];
        transpose(l->line, ZN_I8_GROUP * (int64_t)g, codes);
        transpose(l->line, ZN_I8_GROUP * (int64_t)g + 16, codes + 4);
        const int at = split ? 2 * g : g;
        const vec s[2] = { gather(&from->s[0][at], 2 * GROUPS), gather(&from->s[0][split ? at + 1 : at], 2 * GROUPS) };
        put_group(l, g, bits, split, shifted, codes, s, shifted ? gather(&from->b[0][g], GROUPS) : s[0]);
    }
}

/* column: of the weights, for the first lane; lanes from `count` on repeat the last. */
static void fill_any(const zn_packed *w, lanes *l, int64_t column, int count, int first, int groups, unpacked *t)
{
    for (int c = 0; c < VEC_LANES; c++) {
        const weight_line line = { t->codes[c], t->s[c], t->b[c] };
        read_weights(w, column + (c < count ? c : count - 1), first, groups, &line);
        l->line[c] = (const uint8_t *)t->codes[c];
    }
    const int bits = zn_matrix_i8_bits(w);
    if (weights_split(w))
        fill_unpacked(l, t, groups, 6, true, false);
    else if (bits == 8)
        fill_unpacked(l, t, groups, 8, false, weights_shifted(w));
    else
        fill_unpacked(l, t, groups, 4, false, weights_shifted(w));
}

typedef void (*fill_fn)(const lanes *l, int groups);
static fill_fn direct_fill(const zn_packed *w)
{
    if (w->form.bits)
        return NULL;
    switch (w->dtype) {
    case ZN_Q4_0:
        return fill_q4_0;
    case ZN_Q4_1:
        return fill_q4_1;
    case ZN_Q8_0:
        return fill_q8_0;
    case ZN_Q4_K:
        return fill_q4_k;
    default:
        return NULL;
    }
}

/* Fills a panel with inputs [first,first+32 groups) of outputs [column,column+columns); the columns that pad it repeat
 * the last one. */
static void fill_panel(const zn_packed *w, int64_t column, int columns, int first, int groups, panel *to, unpacked *t)
{
    const fill_fn direct = direct_fill(w);
    lanes l = { .to = to };
    for (; l.column < PANEL; l.column += VEC_LANES) {
        const int count = columns - l.column;
        if (!direct) {
            fill_any(w, &l, column + (count > 0 ? l.column : columns - 1), count > 0 ? count : 1, first, groups, t);
            continue;
        }
        for (int c = 0; c < VEC_LANES; c++)
            l.line[c] = packed_at(w, column + (l.column + c < columns ? l.column + c : columns - 1), first);
        direct(&l, groups);
    }
}

#endif
