/* The product in 8-bit integers with the matrix instructions of ARMv8.6: SMMLA multiplies two rows by two outputs over
 * eight inputs. Tiles of six rows by eight outputs are computed at a time; rows and weights are first brought into the
 * order in which a tile loads them, rows once for a strip of outputs. A vector has four sums of two rows by two
 * outputs, also between the pieces of the inputs. */
#include "kernels/arm/basic/matrix_few.h"
#include "kernels/simd.h"

enum {
    PAIRS = 3,  /* of rows in a tile */
    DUOS = 4,   /* of outputs in a panel */
    EIGHTS = 4, /* instructions of two rows by two outputs in a group */
    TALL = 2 * PAIRS,
    NEAR = 48, /* rows that are multiplied with all panels of a strip, one after the other */
    TILES = NEAR / TALL,
    PIECES = 4 /* of DEPTH inputs; their panels are filled before rows are multiplied with them */
};
_Static_assert((int)PANEL == 2 * (int)DUOS && (int)NEAR % (int)TALL == 0, "whole panels and tiles");

/* A group of a tile's rows. The scales and sums of a row are repeated for two outputs. */
typedef struct row_group {
    int8_t codes[EIGHTS][PAIRS][2][8];
    float scales[PAIRS][2][2], sums[PAIRS][2][2];
} row_group;

/* A group of a panel. Factors of an output are repeated for two rows: s, what is added to make DOT_START 0, and that
 * of the sums of rows; s and the second one once more for the other half of a group that is split. */
typedef struct duo_group {
    int8_t codes[EIGHTS][DUOS][2][8];
    float factors[FACTORS][DUOS][2][2];
} duo_group;

/* The scratch of a thread. A tile loads some of what follows its last group, but does not use it. */
typedef struct near_scratch {
    duo_group panels[PIECES][PANELS][GROUPS];
    row_group rows[TILES][GROUPS];
    float32x4_t sums[PANELS][TILES][PAIRS][DUOS];
    panel filled;
    unpacked weights;
} near_scratch;
_Static_assert(sizeof(near_scratch) <= ZN_I8_SCRATCH, "the scratch of kernels/matrix_i8.h");

/* ---- operands ---- */

static void order_factors(const float from[PANEL], float to[DUOS][2][2])
{
    for (int d = 0; d < DUOS; d++) {
        const float32x2_t two = vld1_f32(from + 2 * d);
        vst1q_f32(to[d][0], vcombine_f32(two, two));
    }
}

static void order_panel(const panel *from, int groups, bool split, duo_group *to)
{
    enum { SCALE, LESS, SCALE_2, LESS_2, SUMS }; /* in the panel */
    for (int g = 0; g < groups; g++) {
        for (int k = 0; k < EIGHTS; k++)
            for (int half = 0; half < DUOS / 2; half++) {
                const int step = g * STEPS + 2 * k;
                const int32x4_t a = vreinterpretq_s32_s8(vld1q_s8(from->codes[0][step][half * VEC_LANES])),
                                b = vreinterpretq_s32_s8(vld1q_s8(from->codes[0][step + 1][half * VEC_LANES]));
                vst1q_s8(to[g].codes[k][2 * half][0], vreinterpretq_s8_s32(vzip1q_s32(a, b)));
                vst1q_s8(to[g].codes[k][2 * half + 1][0], vreinterpretq_s8_s32(vzip2q_s32(a, b)));
            }
        order_factors(from->factors[g][SCALE], to[g].factors[0]);
        order_factors(from->factors[g][LESS], to[g].factors[1]);
        order_factors(from->factors[g][SUMS], to[g].factors[2]);
        if (split) {
            order_factors(from->factors[g][SCALE_2], to[g].factors[3]);
            order_factors(from->factors[g][LESS_2], to[g].factors[4]);
        }
    }
}

/* Eight inputs of each of two rows. */
VEC_INLINE void order_eights(const int8_t *x0, const int8_t *x1, int8_t *to, int8_t *next)
{
    const int64x2_t v0 = vreinterpretq_s64_s8(vld1q_s8(x0)), v1 = vreinterpretq_s64_s8(vld1q_s8(x1));
    vst1q_s8(to, vreinterpretq_s8_s64(vzip1q_s64(v0, v1)));
    vst1q_s8(next, vreinterpretq_s8_s64(vzip2q_s64(v0, v1)));
}

/* Rows and inputs that are ordered: [row,row+rows), at most NEAR; [first,first+32 groups). */
typedef struct rows_part {
    int64_t row;
    int rows, first, groups;
    bool summed;   /* the sums of the rows are used */
    int64_t ahead; /* inputs from these to those of the part after, which are fetched */
} rows_part;

/* Two rows, which may be the same one. Inlined, it would have too few registers for its pointers. */
__attribute__((noinline)) static void order_pair(const zn_matrix_i8_args *a, const rows_part *from, int64_t row,
                                                 int64_t next, int p, row_group *to)
{
    const int64_t all = a->in / ZN_I8_GROUP, at = row * all + from->first / ZN_I8_GROUP, step = (next - row) * all,
                  ahead = from->ahead;
    const int8_t *x0 = (const int8_t *)a->x.codes + row * a->in + from->first, *x1 = x0 + (next - row) * a->in;
    const float *scales = a->x.scales + at, *sums = a->x.sums + at;
    const int groups = from->groups;
    for (int g = 0; g < groups; g++) {
        __builtin_prefetch(x0 + ahead, 0, 2);
        __builtin_prefetch(x1 + ahead, 0, 2);
        order_eights(x0, x1, to[g].codes[0][p][0], to[g].codes[1][p][0]);
        order_eights(x0 + 16, x1 + 16, to[g].codes[2][p][0], to[g].codes[3][p][0]);
        x0 += ZN_I8_GROUP;
        x1 += ZN_I8_GROUP;
    }
    __builtin_prefetch(scales + ahead / ZN_I8_GROUP, 0, 2);
    __builtin_prefetch(scales + step + ahead / ZN_I8_GROUP, 0, 2);
    for (int g = 0; g < groups; g++)
        vst1q_f32(to[g].scales[p][0], vcombine_f32(vld1_dup_f32(scales + g), vld1_dup_f32(scales + step + g)));
    for (int g = 0; g < groups && from->summed; g++)
        vst1q_f32(to[g].sums[p][0], vcombine_f32(vld1_dup_f32(sums + g), vld1_dup_f32(sums + step + g)));
}

/* The last tile is filled up with the last row. */
static void order_rows(const zn_matrix_i8_args *a, const rows_part *from, near_scratch *t)
{
    const int64_t row = from->row, last = row + from->rows - 1;
    for (int i = 0; i < from->rows; i += TALL)
        for (int p = 0; p < PAIRS; p++)
            order_pair(a, from, zn_least(row + i + 2 * p, last), zn_least(row + i + 2 * p + 1, last), p,
                       t->rows[i / TALL]);
}

/* ---- a tile ---- */

/* Any tile, of `pairs` pairs. It has the bits of the loops below. */
VEC_INLINE void multiply_pairs(const int pairs, const bool split, const bool summed, const row_group *x,
                               const duo_group *w, int groups, float32x4_t sums[PAIRS][DUOS])
{
    for (int g = 0; g < groups; g++) {
        const int parts = split ? 2 : 1;
        for (int part = 0; part < parts; part++) {
            const float(*factors)[DUOS][2][2] = w[g].factors + 3 * part;
            int32x4_t dots[PAIRS][DUOS];
            for (int p = 0; p < pairs; p++)
                for (int d = 0; d < DUOS; d++) {
                    dots[p][d] = vreinterpretq_s32_f32(vdupq_n_f32(DOT_START));
                    for (int k = EIGHTS / parts * part; k < EIGHTS / parts * (part + 1); k++)
                        dots[p][d] =
                            vmmlaq_s32(dots[p][d], vld1q_s8(x[g].codes[k][p][0]), vld1q_s8(w[g].codes[k][d][0]));
                    const float32x4_t dot = vfmaq_f32(vld1q_f32(factors[1][d][0]), vreinterpretq_f32_s32(dots[p][d]),
                                                      vld1q_f32(factors[0][d][0]));
                    sums[p][d] = vfmaq_f32(sums[p][d], dot, vld1q_f32(x[g].scales[p][0]));
                }
        }
        if (summed)
            for (int p = 0; p < pairs; p++)
                for (int d = 0; d < DUOS; d++)
                    sums[p][d] = vfmaq_f32(sums[p][d], vld1q_f32(w[g].factors[2][d][0]), vld1q_f32(x[g].sums[p][0]));
    }
}

/* clang-format off */
/* Sums in v0 to v11, [pair][duo], dots in v12 to v23, weights or their factors in v24 to v27, rows or their scales in
 * v28 to v30. What a register gets next is loaded as soon as it is free, so that loads stand between products. */
#define LOAD(r, p, at)      "ldr q" #r ", [%[" #p "], #" #at "]\n"
#define DOT(d, x, w)        "smmla v" #d ".4s, v" #x ".16b, v" #w ".16b\n"
#define COLUMN(a, b, c, w, at) DOT(a, 28, w) DOT(b, 29, w) DOT(c, 30, w) LOAD(w, weights, at)
/* Eight inputs. wat, xat: where those of the next step are. */
#define STEP(wat, xat)                                                                                                 \
    COLUMN(12, 16, 20, 24, wat) COLUMN(13, 17, 21, 25, wat + 16) COLUMN(14, 18, 22, 26, wat + 32)                      \
    DOT(15, 28, 27) LOAD(28, rows, xat) DOT(19, 29, 27) LOAD(29, rows, xat + 16)                                             \
    DOT(23, 30, 27) LOAD(30, rows, xat + 32) LOAD(27, weights, wat + 48)
/* sum += x * (less + dot * s); the dot is reset. */
#define SCALE(sum, dot, s, x, at)                                                                                      \
    LOAD(31, weights, at) "fmla v31.4s, v" #dot ".4s, v" #s ".4s\n" LOAD(dot, start, 0)                                      \
    "fmla v" #sum ".4s, v31.4s, v" #x ".4s\n"
#define SCALES(a, b, c, da, db, dc, s, at, next)                                                                       \
    SCALE(a, da, s, 28, at) SCALE(b, db, s, 29, at) SCALE(c, dc, s, 30, at) LOAD(s, weights, next)
#define ADD(sum, w, x)      "fmla v" #sum ".4s, v" #w ".4s, v" #x ".4s\n"
#define ADDS(a, b, c, w, next) ADD(a, w, 28) ADD(b, w, 29) ADD(c, w, 30) LOAD(w, weights, next)
/* next: where the weights or factors that follow are. */
#define SCALE_ALL(next)                                                                                                \
    SCALES(0, 4, 8, 12, 16, 20, 24, 320, next) SCALES(1, 5, 9, 13, 17, 21, 25, 336, next + 16)                         \
    SCALES(2, 6, 10, 14, 18, 22, 26, 352, next + 32) SCALES(3, 7, 11, 15, 19, 23, 27, 368, next + 48)
#define ADD_ALL(next)                                                                                                  \
    ADDS(0, 4, 8, 24, next) ADDS(1, 5, 9, 25, next + 16) ADDS(2, 6, 10, 26, next + 32) ADDS(3, 7, 11, 27, next + 48)
#define ROWS(at)            LOAD(28, rows, at) LOAD(29, rows, at + 16) LOAD(30, rows, at + 32)
#define STARTS(a, b, c, d)  LOAD(a, start, 0) LOAD(b, start, 0) LOAD(c, start, 0) LOAD(d, start, 0)
#define FOUR(op, a, b, c, d, at) op(a, sums, at) op(b, sums, at + 16) op(c, sums, at + 32) op(d, sums, at + 48)
#define STORE(r, p, at)     "str q" #r ", [%[" #p "], #" #at "]\n"

#define TILE_LOOP(end)                                                                                                 \
    __asm__ volatile(                                                                                                  \
        FOUR(LOAD, 0, 1, 2, 3, 0) FOUR(LOAD, 4, 5, 6, 7, 64) FOUR(LOAD, 8, 9, 10, 11, 128)                             \
        STARTS(12, 13, 14, 15) STARTS(16, 17, 18, 19) STARTS(20, 21, 22, 23)                                           \
        LOAD(24, weights, 0) LOAD(25, weights, 16) LOAD(26, weights, 32) LOAD(27, weights, 48) ROWS(0)                                         \
        "1:\n"                                                                                                         \
        STEP(64, 48) STEP(128, 96) STEP(192, 144) STEP(256, 192) end                                                   \
        "add %[weights], %[weights], #576\n add %[rows], %[rows], #288\n subs %w[n], %w[n], #1\n b.ne 1b\n"                              \
        FOUR(STORE, 0, 1, 2, 3, 0) FOUR(STORE, 4, 5, 6, 7, 64) FOUR(STORE, 8, 9, 10, 11, 128)                          \
        : [rows] "+r"(x), [weights] "+r"(w), [n] "+r"(groups)                                                                   \
        : [sums] "r"(sums), [start] "r"(start)                                                                         \
        : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",      \
          "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28",     \
          "v29", "v30", "v31")
/* clang-format on */
_Static_assert(sizeof(duo_group) == 576 && sizeof(row_group) == 288, "the strides of TILE_LOOP");

static const float start[4] = { DOT_START, DOT_START, DOT_START, DOT_START };

static void tile(const row_group *x, const duo_group *w, int groups, float32x4_t sums[PAIRS][DUOS])
{
    TILE_LOOP(SCALE_ALL(576) ROWS(288));
}

static void tile_summed(const row_group *x, const duo_group *w, int groups, float32x4_t sums[PAIRS][DUOS])
{
    TILE_LOOP(SCALE_ALL(384) ROWS(240) ADD_ALL(576) ROWS(288));
}

static void tile_split(const row_group *x, const duo_group *w, int groups, float32x4_t sums[PAIRS][DUOS])
{
    multiply_pairs(PAIRS, true, false, x, w, groups, sums);
}

/* A tile that has one pair of rows. */
static void pair(const row_group *x, const duo_group *w, int groups, float32x4_t sums[PAIRS][DUOS])
{
    multiply_pairs(1, false, false, x, w, groups, sums);
}

static void pair_summed(const row_group *x, const duo_group *w, int groups, float32x4_t sums[PAIRS][DUOS])
{
    multiply_pairs(1, false, true, x, w, groups, sums);
}

static void pair_split(const row_group *x, const duo_group *w, int groups, float32x4_t sums[PAIRS][DUOS])
{
    multiply_pairs(1, true, false, x, w, groups, sums);
}

typedef void (*tile_fn)(const row_group *x, const duo_group *w, int groups, float32x4_t sums[PAIRS][DUOS]);

/* ---- a unit ---- */

/* Copies sums of rows [row,row+rows) and outputs [column,column+columns), at most a tile, from or to y. */
static void move_part(const zn_matrix_i8_args *a, int64_t row, int rows, int column, int columns, bool out,
                      float32x4_t sums[PAIRS][DUOS])
{
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < columns; c++) {
            float *y = a->y + (row + r) * a->out + column + c;
            float *sum = (float *)&sums[r / 2][c / 2] + r % 2 * 2 + c % 2;
            *(out ? y : sum) = *(out ? sum : y);
        }
}

__attribute__((noinline)) static void move_sums(const zn_matrix_i8_args *a, int64_t row, int rows, int column,
                                                int columns, bool out, float32x4_t sums[PAIRS][DUOS])
{
    if (rows < TALL || columns < PANEL) {
        move_part(a, row, rows, column, columns, out, sums);
        return;
    }
    for (int p = 0; p < PAIRS; p++) {
        float *y0 = a->y + (row + 2 * p) * a->out + column, *y1 = y0 + a->out;
        for (int d = 0; d < DUOS; d++)
            if (out) {
                vst1_f32(y0 + 2 * d, vget_low_f32(sums[p][d]));
                vst1_f32(y1 + 2 * d, vget_high_f32(sums[p][d]));
            } else
                sums[p][d] = vcombine_f32(vld1_f32(y0 + 2 * d), vld1_f32(y1 + 2 * d));
    }
}

static void move_all(const zn_matrix_i8_args *a, int64_t row, int rows, int column, int columns, bool out,
                     near_scratch *t)
{
    for (int c = 0; c < columns; c += PANEL)
        for (int r = 0; r < rows; r += TALL)
            move_sums(a, row + r, (int)zn_least(TALL, rows - r), column + c, (int)zn_least(PANEL, columns - c), out,
                      t->sums[c / PANEL][r / TALL]);
}

static void fill(const zn_matrix_i8_args *a, int column, int columns, int first, int end, near_scratch *t)
{
    for (int k = first; k < end; k += DEPTH)
        for (int c = 0; c < columns; c += PANEL) {
            const int groups = (int)zn_least(DEPTH, end - k) / ZN_I8_GROUP;
            fill_panel(&a->w, column + c, (int)zn_least(PANEL, columns - c), k, groups, &t->filled, &t->weights);
            order_panel(&t->filled, groups, weights_split(&a->w), t->panels[(k - first) / DEPTH][c / PANEL]);
        }
}

/* Rows [row,row+rows), at most NEAR, by a strip and inputs [first,end), whose panels are filled. */
static void multiply(const zn_matrix_i8_args *a, int64_t row, int rows, int column, int columns, int first, int end,
                     near_scratch *t)
{
    const bool split = weights_split(&a->w), summed = uses_sums(&a->w);
    const tile_fn most = split ? tile_split : summed ? tile_summed : tile;
    const tile_fn last = rows % TALL == 0 || rows % TALL > 2 ? most : split ? pair_split : summed ? pair_summed : pair;
    if (first > 0)
        move_all(a, row, rows, column, columns, false, t);
    else
        memset(t->sums, 0, sizeof t->sums);
    for (int k = first; k < end; k += DEPTH) {
        const int groups = (int)zn_least(DEPTH, end - k) / ZN_I8_GROUP;
        const int64_t ahead = k + DEPTH < end ? DEPTH : (int64_t)NEAR * a->in - (k - first);
        order_rows(a, &(rows_part){ row, rows, k, groups, summed, ahead }, t);
        for (int c = 0; c < columns; c += PANEL)
            for (int r = 0; r < rows; r += TALL)
                (r + TALL < rows ? most : last)(t->rows[r / TALL], t->panels[(k - first) / DEPTH][c / PANEL], groups,
                                                t->sums[c / PANEL][r / TALL]);
    }
    move_all(a, row, rows, column, columns, true, t);
}

static void run(const void *args, zn_range r)
{
    const zn_matrix_i8_args *a = args;
    const int64_t strips = zn_matrix_i8_strips(a);
    if (uses_few(a)) {
        matrix_few(a, r);
        return;
    }
    for (int64_t u = r.begin; u < r.end; u++) {
        const int64_t row = u / strips * ZN_I8_ROWS, rows = zn_least(ZN_I8_ROWS, a->rows - row);
        const int column = (int)(u % strips) * STRIP, columns = (int)zn_least(STRIP, a->out - column);
        for (int first = 0; first < a->in; first += PIECES * DEPTH) {
            const int end = (int)zn_least(first + PIECES * DEPTH, a->in);
            for (int k = first; k < end; k += DEPTH)
                fetch_next(a, column, columns, k, STRIP);
            fill(a, column, columns, first, end, r.scratch);
            for (int64_t near = 0; near < rows; near += NEAR)
                multiply(a, row + near, (int)zn_least(NEAR, rows - near), column, columns, first, end, r.scratch);
        }
    }
}

extern const zn_simd_table zn_table_i8mm;
const zn_simd_table zn_table_i8mm = { "i8mm", ZN_CPU_DOTPROD | ZN_CPU_I8MM, { [ZN_SIMD_matrix_i8] = { run, NULL } } };
