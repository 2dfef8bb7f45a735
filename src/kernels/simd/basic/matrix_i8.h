/* The product in 8-bit integers (kernels/matrix_i8.h); the text of every build. A unit processes its strip of outputs
 * piece by piece: weights are unpacked to panels of codes, [k][column][4], with the factors of each group beside
 * them, and multiplied with all rows of the unit, a few at a time, by the i8_product of the build. Intermediate sums
 * are stored in y. */
#ifndef ZN_SIMD_MATRIX_I8_H
#define ZN_SIMD_MATRIX_I8_H

#include "base/least.h"
#include "kernels/simd/basic/matrix_unpack.h"
#include "kernels/simd/dot.h"
#include "kernels/simd/vec_math.h"

enum {
    STRIP = ZN_I8_STRIP,
    DEPTH = ZN_I8_DEPTH,
    PANEL = DOT_COLUMNS * VEC_LANES, /* columns */
    GROUPS = DEPTH / ZN_I8_GROUP,
    ROWS = 48,         /* rows multiplied at a time, */
    LINE = DEPTH + 64, /* stride of such a row in bytes, padded to avoid cache conflicts, */
    SUMS = STRIP + 16, /* stride of their sums in floats */
    FACTORS = 5        /* of a column in a group: two of s, two of -DOT_SHIFT * s * (sum of codes), that of x_sums */
};

/* The scratch of a thread. */
typedef struct scratch {
    int8_t codes[STRIP / PANEL][DEPTH / 4][PANEL][4];
    float factors[STRIP / PANEL][GROUPS][FACTORS][PANEL];
    uint8_t x[DOT_PLANES][ROWS][LINE];
    float x_scales[ROWS][GROUPS], x_sums[ROWS][GROUPS];
    float sums[ROWS][SUMS];
    float s[2 * GROUPS], b[GROUPS];
} scratch;
enum { LINES = PANEL * DEPTH }; /* bytes after it: the codes of a panel before they are transposed */
_Static_assert(sizeof(scratch) + LINES <= ZN_I8_SCRATCH, "the scratch of kernels/matrix_i8.h");

/* What the sums of the rows are multiplied with, if anything: b, or s * (sum of codes) if the rows are centred. */
static inline bool uses_sums(const zn_packed *w) { return weights_shifted(w) || zn_matrix_i8_centred(w); }

/* The factors of one column, from its codes, s and b. */
static void set_factors(float (*factors)[FACTORS][PANEL], int column, int groups, bool split, bool shifted,
                        const int8_t *codes, const float *s, const float *b)
{
    const int parts = split ? 2 : 1, part = ZN_I8_GROUP / parts;
    for (int g = 0; g < groups; g++) {
        float sum = 0;
        for (int i = 0; i < parts; i++, codes += part, s++) {
            sum = *s * (float)dots_sum(codes, part);
            factors[g][2 * i][column] = *s;
            factors[g][2 * i + 1][column] = -DOT_SHIFT * sum;
        }
        factors[g][4][column] = shifted ? b[g] : sum;
    }
}

/* to[k][column] = words[column][k] for a panel, k < depth. A word is four codes; only moved, so floats will do. */
static void transpose(const float *words, int depth, float *to)
{
    const int64_t row = DEPTH / 4;
    for (int c = 0; c < PANEL; c += 4, words += 4 * row)
        for (int k = 0; k < depth; k += 4)
            transpose4(to + k * PANEL + c, PANEL, words + k, words + row + k, words + 2 * row + k, words + 3 * row + k);
}

/* Unpacks inputs [first,first+depth) of `columns` outputs; columns that pad the last panel are zero. */
static void unpack(const zn_matrix_i8_args *a, int column, int columns, int first, int depth, scratch *t)
{
    const int groups = depth / ZN_I8_GROUP;
    const bool split = weights_split(&a->w), shifted = weights_shifted(&a->w);
    int8_t *lines = (int8_t *)(t + 1);
    for (int panel = 0; panel * PANEL < columns; panel++) {
        for (int c = 0; c < PANEL; c++) {
            const weight_line line = { lines + c * DEPTH, t->s, t->b };
            if (panel * PANEL + c < columns) {
                read_weights(&a->w, column + panel * PANEL + c, first, groups, &line);
            } else {
                memset(line.codes, 0, (size_t)depth);
                memset(t->s, 0, sizeof t->s);
                memset(t->b, 0, sizeof t->b);
            }
            set_factors(t->factors[panel], c, groups, split, shifted, line.codes, t->s, t->b);
        }
        transpose((const float *)(const void *)lines, depth / 4, (float *)(void *)t->codes[panel]);
    }
}

/* How a build multiplies what is in the scratch: adds the products of `rows` rows and all panels of `columns` columns
 * over `groups` groups to t->sums. It may read and write rows up to a multiple of `tile`, a divisor of ROWS. */
typedef struct i8_product {
    void (*run)(const zn_packed *w, scratch *t, int rows, int columns, int groups);
    int tile;
} i8_product;

/* Copies rows to the scratch; rows that pad the last tile are zero. */
static void load_rows(const zn_matrix_i8_args *a, int64_t row, int rows, int first, int depth, int tile, scratch *t)
{
    const int bits = zn_matrix_i8_bits(&a->w);
    const int64_t groups = a->in / ZN_I8_GROUP;
    const size_t floats = sizeof(float) * (size_t)(depth / ZN_I8_GROUP);
    for (int r = 0; r < rows; r++) {
        const int64_t at = (row + r) * groups + first / ZN_I8_GROUP;
        dots_prepare(a->x.codes + (row + r) * a->in + first, depth, bits, t->x[0][r], sizeof t->x[0]);
        memcpy(t->x_scales[r], a->x.scales + at, floats);
        memcpy(t->x_sums[r], a->x.sums + at, floats);
    }
    for (int r = rows; r % tile; r++) {
        for (int plane = 0; plane < DOT_PLANES; plane++)
            memset(t->x[plane][r], 0, (size_t)depth);
        memset(t->x_scales[r], 0, floats);
        memset(t->x_sums[r], 0, floats);
    }
}

/* Multiplies a group of rows with a piece of the weights. */
static void multiply(const zn_matrix_i8_args *a, const i8_product *product, int64_t row, int rows, int column,
                     int columns, int first, int depth, scratch *t)
{
    const size_t bytes = sizeof(float) * (size_t)columns;
    load_rows(a, row, rows, first, depth, product->tile, t);
    memset(t->sums, 0, sizeof t->sums);
    for (int r = 0; first && r < rows; r++)
        memcpy(t->sums[r], a->y + (row + r) * a->out + column, bytes);
    product->run(&a->w, t, rows, columns, depth / ZN_I8_GROUP);
    for (int r = 0; r < rows; r++)
        memcpy(a->y + (row + r) * a->out + column, t->sums[r], bytes);
}

static void matrix_i8(const zn_matrix_i8_args *a, const i8_product *product, zn_range r)
{
    const int64_t strips = zn_matrix_i8_strips(a);
    for (int64_t u = r.begin; u < r.end; u++) {
        const int64_t begin = u / strips * ZN_I8_ROWS, end = zn_least(begin + ZN_I8_ROWS, a->rows);
        const int column = (int)(u % strips) * STRIP, columns = (int)zn_least(STRIP, a->out - column);
        for (int first = 0; first < a->in; first += DEPTH) {
            const int depth = (int)zn_least(DEPTH, a->in - first);
            unpack(a, column, columns, first, depth, r.scratch);
            for (int64_t row = begin; row < end; row += ROWS)
                multiply(a, product, row, (int)zn_least(ROWS, end - row), column, columns, first, depth, r.scratch);
        }
    }
}

#endif
