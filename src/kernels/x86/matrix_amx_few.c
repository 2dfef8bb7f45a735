/* The product in 8-bit integers for few rows, on AMX tiles. It has the bits of the AVX-512 VNNI build.
 *
 * With few rows, the time goes into bringing the weights into the order that a product needs. Here they need none: the
 * left operand of a tile product is 16 outputs by a group of 32 inputs as they lie in the file, and the rows are the
 * right operand, which is brought into order once for all outputs. So the sums have a vector of rows for each output.
 *
 * Q8_0 needs the sums of the weights of a group too, because its rows are centred: the last of the 16 rows of a tile
 * is all ones. The VNNI build multiplies shifted codes and subtracts what the shift added. That is exact, for the
 * scales of these formats have 11 bits; so signed codes give the same bits. */
#include "kernels/x86/matrix_amx_few.h"

#include "base/least.h"
#include "kernels/simd/basic/matrix_turn.h"
#include "kernels/x86/tile.h"

enum { BATCH = TILE_SUMS, STEPS = ZN_I8_GROUP / 4, LINE = 64 /* of the cache, in bytes */ };
_Static_assert((int)VEC_LANES == (int)TILE_ROWS, "a vector of sums for each output");

/* A group of 32 inputs of 16 rows. Missing rows are zero. centres: the sums of x, used if rows are centred. */
typedef struct group_rows {
    int8_t codes[STEPS][TILE_ROWS][4];
    float scales[TILE_ROWS], centres[TILE_ROWS];
} group_rows;

/* How weights lie: bytes of a block, which has a group, and whether codes have 4 bits and not 8. */
typedef struct layout {
    int block;
    bool nibbles;
} layout;

/* 16 outputs, and where those that follow them begin. */
typedef struct strip {
    const uint8_t *w, *next;
    int64_t row_bytes;
    int groups;
} strip;

/* The exact sums of some groups, [output][row], and the scales of the weights. codes: unpacked ones. */
typedef struct batch {
    _Alignas(64) int32_t sums[BATCH][TILE_ROWS][TILE_ROWS];
    _Alignas(64) int8_t codes[BATCH][TILE_ROWS][ZN_I8_GROUP];
    float s[BATCH][TILE_ROWS];
} batch;

static int rows_of_tile(const zn_packed *w) { return zn_matrix_i8_centred(w) ? TILE_ROWS - 1 : TILE_ROWS; }
static size_t tile_bytes(const zn_matrix_i8_args *a) { return sizeof(group_rows) * (size_t)(a->in / ZN_I8_GROUP); }

bool zn_matrix_amx_few_fits(const zn_matrix_i8_args *a)
{
    return !a->w.form.bits && (a->w.dtype == ZN_Q8_0 || a->w.dtype == ZN_Q4_0) && a->out % TILE_ROWS == 0 &&
           a->in % (BATCH * ZN_I8_GROUP) == 0 && tile_bytes(a) <= ZN_I8_SCRATCH;
}

/* ---- the rows ---- */

/* One number of each row. */
VEC_INLINE vec gather_rows(const float *x, int row, __mmask16 present)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm512_mask_i32gather_ps(vec_splat(0), present, _mm512_mullo_epi32(lane, _mm512_set1_epi32(row)), x, 4);
}

/* Rows [row,row+count) of x. */
static void order_rows(const zn_matrix_i8_args *a, int64_t row, int count, group_rows *to)
{
    const int groups = a->in / ZN_I8_GROUP;
    const bool centred = zn_matrix_i8_centred(&a->w);
    const __mmask16 present = (__mmask16)((1u << count) - 1), ones = centred ? 1u << (TILE_ROWS - 1) : 0;
    const __m512i shift = _mm512_set1_epi8((char)ZN_I8_SHIFT), one = _mm512_set1_epi8(1);
    const uint8_t *line[TILE_ROWS];
    for (int r = 0; r < TILE_ROWS; r++)
        line[r] = a->x.codes + (row + (r < count ? r : 0)) * a->in;
    for (int g = 0; g < groups; g++) {
        ivec words[STEPS];
        transpose(line, ZN_I8_GROUP * (int64_t)g, words);
        transpose(line, ZN_I8_GROUP * (int64_t)g + 16, words + 4);
        for (int k = 0; k < STEPS; k++) {
            const __m512i codes = _mm512_maskz_xor_epi32(present, words[k], shift);
            _mm512_storeu_si512(to[g].codes[k], _mm512_mask_mov_epi32(codes, ones, one));
        }
        vec_store(to[g].scales, gather_rows(a->x.scales + row * groups + g, groups, present));
        vec_store(to[g].centres, gather_rows(a->x.sums + row * groups + g, groups, present));
    }
}

/* ---- the weights ---- */

/* `factor` times the scales of 16 outputs; p: where their blocks begin. */
VEC_INLINE void read_scales(const uint8_t *p, __m512i offsets, const float factor, float s[TILE_ROWS])
{
    const __m512i words = _mm512_i32gather_epi32(offsets, p, 1);
    vec_store(s, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)) * factor);
}

/* The codes of 16 outputs of Q4_0 as bytes, times 16. */
VEC_INLINE void read_nibbles(const uint8_t *p, int64_t row_bytes, int8_t codes[TILE_ROWS][ZN_I8_GROUP])
{
    const __m512i low = _mm512_setr_epi32(4, 4, 4, 4, 0, 0, 0, 0, 4, 4, 4, 4, 0, 0, 0, 0);
    const __m512i kept = _mm512_set1_epi8((char)0xf0), eight = _mm512_set1_epi8((char)0x80);
#pragma GCC unroll 8
    for (int o = 0; o < TILE_ROWS; o += 2) {
        const __m256i a = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(p + o * row_bytes)));
        const __m256i b = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(p + (o + 1) * row_bytes)));
        const __m512i both = _mm512_sllv_epi32(_mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1), low);
        _mm512_store_si512(codes[o], _mm512_ternarylogic_epi32(both, kept, eight, 0x6a /* (both & kept) ^ eight */));
    }
}

/* Asks for as much of the next outputs as a group has of these. */
VEC_INLINE void fetch_next(const strip *s, const int block, int group)
{
    const uint8_t *p = s->next + (int64_t)group * block * TILE_ROWS;
#pragma GCC unroll 9
    for (int i = 0; i < block * TILE_ROWS; i += LINE)
        __builtin_prefetch(p + i, 0, 2);
}

/* Asks for sum i of the batch that begins at group `first`, using the tiles a and b for its operands. */
#define GROUP(i, a, b)                                                                                                 \
    do {                                                                                                               \
        const uint8_t *p = s->w + (int64_t)(first + (i)) * k.block;                                                    \
        read_scales(p, offsets, k.nibbles ? 1.0f / 16 : 1.0f, to->s[i]);                                               \
        tile_zero(i);                                                                                                  \
        tile_load(b, x[first + (i)].codes, TILE_BYTES);                                                                \
        if (k.nibbles)                                                                                                 \
            tile_load(a, to->codes[i], ZN_I8_GROUP);                                                                   \
        else                                                                                                           \
            tile_load(a, p + 2, s->row_bytes);                                                                         \
        tile_dp_s8(i, a, b);                                                                                           \
        fetch_next(s, k.block, first + (i));                                                                           \
        if (k.nibbles)                                                                                                 \
            read_nibbles(ahead + (i)*k.block + 2, s->row_bytes, done->codes[i]);                                       \
    } while (0)

/* ---- the product ---- */

/* Adds group g of a batch to y. x: the group's rows. */
VEC_INLINE void add_group(const layout k, const batch *b, int g, const group_rows *x, vec y[TILE_ROWS])
{
    const vec scales = vec_load(x->scales), centres = vec_load(x->centres);
    const __m512i last = _mm512_set1_epi32(TILE_ROWS - 1);
#pragma GCC unroll 16
    for (int o = 0; o < TILE_ROWS; o++) {
        const vec t = dot_to_vec(DOT_LOAD(b->sums[g][o])) * vec_splat(b->s[g][o]);
        y[o] = vec_fma(t, scales, y[o]);
        if (!k.nibbles)
            y[o] = vec_fma(_mm512_permutexvar_ps(last, t), centres, y[o]);
    }
}

/* Computes the sums of the batch that begins at group `first`. Meanwhile adds those of the batch before it, `done`,
 * unless this is the first, and unpacks the codes of the next one into it: tiles that are loaded right after they were
 * stored wait for the cache. */
VEC_INLINE void run_batch(const layout k, const bool add, const strip *s, const group_rows *x, __m512i offsets,
                          int first, batch *to, batch *done, vec y[TILE_ROWS])
{
    const group_rows *before = x + first - BATCH;
    const uint8_t *ahead = s->w + (int64_t)(first + BATCH < s->groups ? first + BATCH : first) * k.block;
    GROUP(0, 4, 6);
    if (add)
        add_group(k, done, 0, before, y);
    GROUP(1, 5, 7);
    if (add)
        add_group(k, done, 1, before + 1, y);
    tile_store(0, to->sums[0], TILE_BYTES);
    GROUP(2, 4, 6);
    if (add)
        add_group(k, done, 2, before + 2, y);
    tile_store(1, to->sums[1], TILE_BYTES);
    GROUP(3, 5, 7);
    if (add)
        add_group(k, done, 3, before + 3, y);
    tile_store(2, to->sums[2], TILE_BYTES);
    tile_store(3, to->sums[3], TILE_BYTES);
}

/* [output][row] to count rows of y. */
static void store_rows(const vec sums[TILE_ROWS], float *y, int64_t y_row, int count)
{
    float turned[TILE_ROWS][TILE_ROWS];
    ivec words[TILE_ROWS];
    const uint8_t *line[TILE_ROWS];
    for (int o = 0; o < TILE_ROWS; o++) {
        vec_store(turned[o], sums[o]);
        line[o] = (const uint8_t *)turned[o];
    }
    for (int r = 0; r < TILE_ROWS; r += 4)
        transpose(line, r * (int64_t)sizeof(float), words + r);
    for (int r = 0; r < count; r++)
        _mm512_storeu_si512(y + r * y_row, words[r]);
}

VEC_INLINE void multiply(const layout k, const strip *s, const group_rows *x, vec y[TILE_ROWS])
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i offsets = _mm512_mullo_epi32(lane, _mm512_set1_epi32((int)s->row_bytes));
    batch both[2], *now = &both[0], *done = &both[1];
#pragma GCC unroll 16
    for (int o = 0; o < TILE_ROWS; o++)
        y[o] = vec_splat(0);
    for (int g = 0; k.nibbles && g < BATCH; g++)
        read_nibbles(s->w + g * k.block + 2, s->row_bytes, now->codes[g]);
    run_batch(k, false, s, x, offsets, 0, now, done, y);
    for (int first = BATCH; first < s->groups; first += BATCH) {
        batch *const free = done;
        done = now;
        now = free;
        run_batch(k, true, s, x, offsets, first, now, done, y);
    }
    for (int g = 0; g < BATCH; g++)
        add_group(k, now, g, &x[s->groups - BATCH + g], y);
}

/* 16 outputs of some rows. */
static void multiply_strip(const zn_matrix_i8_args *a, const group_rows *x, int64_t row, int count, int column)
{
    const uint8_t *w = a->w.data + (size_t)column * a->w.row_bytes;
    const strip s = { w, w + TILE_ROWS * a->w.row_bytes, (int64_t)a->w.row_bytes, a->in / ZN_I8_GROUP };
    vec y[TILE_ROWS];
    if (a->w.dtype == ZN_Q4_0)
        multiply((layout){ 2 + ZN_I8_GROUP / 2, true }, &s, x, y);
    else
        multiply((layout){ 2 + ZN_I8_GROUP, false }, &s, x, y);
    store_rows(y, a->y + row * a->out + column, a->out, count);
}

/* Tiles of rows that are in order at once: as many as fit into the scratch. Weights are read again for the others. */
void zn_matrix_amx_few(const zn_matrix_i8_args *a, zn_range r)
{
    const int each = rows_of_tile(&a->w), groups = a->in / ZN_I8_GROUP, tiles = (int)(ZN_I8_SCRATCH / tile_bytes(a));
    const int begin = (int)r.begin * ZN_I8_STRIP, end = (int)zn_least(r.end * ZN_I8_STRIP, a->out);
    group_rows *x = r.scratch;
    tile_begin(ZN_I8_GROUP);
    for (int64_t row = 0; row < a->rows; row += (int64_t)tiles * each) {
        const int64_t last = zn_least(row + (int64_t)tiles * each, a->rows);
        for (int64_t p = row; p < last; p += each)
            order_rows(a, p, (int)zn_least(each, last - p), x + (p - row) / each * groups);
        for (int column = begin; column < end; column += TILE_ROWS)
            for (int64_t p = row; p < last; p += each)
                multiply_strip(a, x + (p - row) / each * groups, p, (int)zn_least(each, last - p), column);
    }
    tile_end();
}
