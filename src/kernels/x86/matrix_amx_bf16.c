/* The product in bf16 on AMX tiles. Weights are the left factor, so that they are unpacked as they lie in the file;
 * two tiles of outputs by two panels of rows are summed at a time. Codes of 4 bits are looked up in a table of the 16
 * weights that their group has. */
#include "base/convert.h"
#include "base/span.h"
#include "kernels/simd/basic/matrix_bf16.h"
#include "kernels/x86/amx_bf16.h"
#include "kernels/x86/bf16.h"
#include "kernels/x86/tile.h"

enum { STEP = ZN_BF16_STEP, STEPS = DEPTH / STEP, GROUP = 32 /* weights with one scale */ };
_Static_assert((int)SIDE == (int)TILE_ROWS && (int)STEP == (int)TILE_DEPTH && STRIP % (2 * SIDE) == 0, "whole tiles");
_Static_assert((int)STEP == (int)GROUP, "a group is a line of a tile");

/* Where the weights of one output are written: its lines are `SIDE` lines apart. */
typedef struct outputs {
    uint16_t (*line)[STEP];
} outputs;

/* ---- 4 bits ---- */

static inline float half_at(const uint8_t *p) { return _cvtsh_ss(zn_load16(p)); }

/* The table of codes 0 to 15, twice: s * code + b. */
static inline __m512i table_of(float s, float b)
{
    const __m512 codes = _mm512_set_ps(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_broadcast_i64x4(bf16_from_16(_mm512_fmadd_ps(codes, _mm512_set1_ps(s), _mm512_set1_ps(b))));
}

/* Writes a line of weights; the low four bits of each of the 32 words are its codes. */
static inline void put_codes(const outputs *to, int line, __m512i words, __m512i table)
{
    _mm512_storeu_si512(to->line[line * SIDE], _mm512_permutexvar_epi16(words, table));
}

static inline __m512i words_of(const uint8_t *p)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* Q4_0 and Q4_1: d, perhaps m, then the codes: elements j and j + 16 in byte j. */
static inline void unpack_nibbles(const uint8_t *p, int groups, const bool minimum, const outputs *to)
{
    const int head = minimum ? 4 : 2;
    const __m512i shifts = _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(4), 1);
    for (int g = 0; g < groups; g++, p += head + GROUP / 2) {
        const float d = half_at(p), m = minimum ? half_at(p + 2) : -8 * d;
        const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(p + head));
        const __m512i words = _mm512_cvtepu8_epi16(_mm256_broadcastsi128_si256(bytes));
        put_codes(to, g, _mm512_srlv_epi16(words, shifts), table_of(d, m));
    }
}

/* Scale or minimum j of Q4_K; `at` is 0 or 4. */
static inline float six_bits_of(const uint8_t *p, int j, int at)
{
    const uint8_t *first = p + at;
    return (float)(j < 4 ? first[j] & 63 : (p[4 + j] >> at & 15) | (first[j - 4] >> 6) << 4);
}

/* Blocks of eight groups: d, m, twelve bytes of scales and minima, then pairs of groups in the low and high bits. */
static void unpack_q4_k(const uint8_t *p, int groups, const outputs *to)
{
    for (int g = 0; g < groups; g += 8, p += 144) {
        const float d = half_at(p), m = half_at(p + 2);
        for (int j = 0; j < 8; j++) {
            const __m512i words = words_of(p + 16 + j / 2 * GROUP);
            put_codes(to, g + j, j % 2 ? _mm512_srli_epi16(words, 4) : words,
                      table_of(d * six_bits_of(p + 4, j, 0), -(m * six_bits_of(p + 4, j, 4))));
        }
    }
}

/* MLX: two consecutive codes in a byte, the first in the low bits. */
static void unpack_mlx4(const zn_packed *w, int64_t row, int first, int groups, const outputs *to)
{
    float s[DEPTH / GROUP], b[DEPTH / GROUP];
    const int each = w->form.group / GROUP; /* of our groups in one of theirs */
    const size_t at = (size_t)row * w->groups + (size_t)(first / w->form.group);
    const size_t count = (size_t)((groups + each - 1) / each);
    const uint8_t *p = w->data + (size_t)row * w->row_bytes + (size_t)first / 2;
    zn_to_f32(s, w->scales + at * zn_dtype_size(w->scale_dtype), w->scale_dtype, count);
    zn_to_f32(b, w->biases + at * zn_dtype_size(w->bias_dtype), w->bias_dtype, count);
    for (int g = 0; g < groups; g++, p += GROUP / 2) {
        const __m512i bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
        put_codes(to, g, _mm512_or_si512(bytes, _mm512_slli_epi32(bytes, 12)), table_of(s[g / each], b[g / each]));
    }
}

/* ---- other formats ---- */

static void unpack_q8_0(const uint8_t *p, int groups, const outputs *to)
{
    for (int g = 0; g < groups; g++, p += 2 + GROUP) {
        const __m512 d = _mm512_set1_ps(half_at(p));
        float values[GROUP];
        for (int i = 0; i < GROUP; i += 16) {
            const __m512i codes = _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(p + 2 + i)));
            _mm512_storeu_ps(values + i, _mm512_cvtepi32_ps(codes) * d);
        }
        bf16_from(values, GROUP, to->line[g * SIDE]);
    }
}

/* Any format, through fp32; what pads the last line is zero. */
static void unpack_any(const zn_packed *w, int64_t row, int first, int depth, const outputs *to)
{
    float values[DEPTH + STEP];
    zn_packed_row(w, row, first, depth, values);
    memset(values + depth, 0, sizeof *values * STEP);
    for (int i = 0; i < depth; i += STEP)
        bf16_from(values + i, STEP, to->line[i / STEP * SIDE]);
}

static void unpack_bf16(const uint8_t *p, int depth, const outputs *to)
{
    for (int i = 0; i < depth; i += STEP) {
        const size_t count = (size_t)zn_least(STEP, depth - i);
        memset(to->line[i / STEP * SIDE], 0, sizeof *to->line);
        memcpy(to->line[i / STEP * SIDE], p + 2 * i, sizeof(uint16_t) * count);
    }
}

/* One output of a piece. w: without its rotation. */
static void unpack_row(const zn_packed *w, int64_t row, int first, int depth, const outputs *to)
{
    const int groups = depth / GROUP;
    const size_t skip = w->form.bits ? 0 : (size_t)first / zn_dtype_block(w->dtype) * zn_dtype_size(w->dtype);
    const uint8_t *p = w->data + (size_t)row * w->row_bytes + skip;
    if (w->form.bits == 4 && depth % GROUP == 0)
        unpack_mlx4(w, row, first, groups, to);
    else if (w->form.bits || w->scales)
        unpack_any(w, row, first, depth, to);
    else if (w->dtype == ZN_Q4_0)
        unpack_nibbles(p, groups, false, to);
    else if (w->dtype == ZN_Q4_1)
        unpack_nibbles(p, groups, true, to);
    else if (w->dtype == ZN_Q4_K)
        unpack_q4_k(p, groups, to);
    else if (w->dtype == ZN_Q8_0)
        unpack_q8_0(p, groups, to);
    else if (w->dtype == ZN_BF16)
        unpack_bf16(p, depth, to);
    else
        unpack_any(w, row, first, depth, to);
}

/* Unpacks a piece; outputs that pad the last pair of tiles are zero. */
static void unpack(const piece *p, scratch *t)
{
    zn_packed stored = p->a->w;
    const int tiles = (p->columns + 2 * SIDE - 1) / (2 * SIDE) * 2;
    stored.rotated = 0; /* x is rotated instead */
    for (int c = 0; c < tiles * SIDE; c++) {
        const outputs to = { &t->w.tiles[c / SIDE][0][c % SIDE] };
        if (c < p->columns)
            unpack_row(&stored, p->column + c, p->first, p->depth, &to);
        else
            for (int s = 0; s < STEPS; s++)
                memset(to.line[s * SIDE], 0, sizeof *to.line);
    }
}

/* ---- multiplying ---- */

/* Two tiles of outputs, from w on, by the panels x and y; the sums are c[0] and c[1] of x, and of y. */
static void multiply_tiles(const uint16_t (*w)[STEPS][SIDE][STEP], const uint16_t *x, const uint16_t *y, int steps,
                           bool more, float (*c)[SIDE][SIDE], float (*d)[SIDE][SIDE])
{
    if (more) {
        tile_load(0, c[0], TILE_BYTES);
        tile_load(1, d[0], TILE_BYTES);
        tile_load(2, c[1], TILE_BYTES);
        tile_load(3, d[1], TILE_BYTES);
    } else {
        tile_zero(0);
        tile_zero(1);
        tile_zero(2);
        tile_zero(3);
    }
    for (int s = 0; s < steps; s++) {
        tile_load(4, w[0][s], TILE_BYTES);
        tile_load(6, x + s * STEP * SIDE, TILE_BYTES);
        tile_dp(0, 4, 6);
        tile_load(7, y + s * STEP * SIDE, TILE_BYTES);
        tile_dp(1, 4, 7);
        tile_load(5, w[1][s], TILE_BYTES);
        tile_dp(2, 5, 6);
        tile_dp(3, 5, 7);
    }
    tile_store(0, c[0], TILE_BYTES);
    tile_store(1, d[0], TILE_BYTES);
    tile_store(2, c[1], TILE_BYTES);
    tile_store(3, d[1], TILE_BYTES);
}

/* Two panels at a time; the last may be alone, and is then multiplied twice. */
static void multiply(const piece *p, scratch *t)
{
    const int steps = (p->depth + STEP - 1) / STEP;
    unpack(p, t);
    for (int i = 0; i < p->panels; i += 2) {
        const uint16_t *x = p->x + i * p->panel, *y = i + 1 < p->panels ? x + p->panel : x;
        for (int c = 0; c * SIDE < p->columns; c += 2)
            multiply_tiles((const uint16_t(*)[STEPS][SIDE][STEP])t->w.tiles + c, x, y, steps, p->first > 0,
                           &t->sums[i][c], &t->sums[i + 1][c]);
    }
}

void zn_matrix_bf16_amx(const void *args, zn_range r)
{
    tile_begin(TILE_BYTES);
    matrix_bf16(args, multiply, put_tiles, r);
    tile_end();
}
