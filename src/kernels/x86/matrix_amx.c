/* The product in 8-bit integers on AMX tiles. It has the bits of the AVX-512 VNNI build.
 *
 * A tile is 16 rows by 16 columns. The matrix unit sums the products of each part (a group of 32 inputs; 16 where a
 * group has two scales), and vectors multiply these sums with their scales and add them up. The sums of BATCH parts are
 * computed while the vectors process the batch before, which hides the latency of the tiles. */
#include "kernels/simd.h"
#include "kernels/simd/basic/matrix_i8.h"
#include "kernels/x86/matrix_amx_few.h"
#include "kernels/x86/tile.h"

enum { BATCH = TILE_SUMS, LINE = DEPTH + 64 /* stride of a padded row in bytes; avoids cache conflicts */ };
_Static_assert((int)VEC_LANES == (int)TILE_ROWS, "a vector of sums for each row");
_Static_assert(GROUPS % BATCH == 0, "the last batch reads only what is in the panel");
_Static_assert(DOT_PLANES == 1 && DOT_SHIFT == 128, "inputs are unsigned bytes");

/* Where a tile reads its operands. column: within the panel. */
typedef struct tile {
    const panel *w;
    block_rows in;
    int column;
} tile;

/* The exact sums of a batch of parts. */
typedef struct batch {
    _Alignas(64) int32_t sums[BATCH][TILE_ROWS][TILE_ROWS];
} batch;

/* Sum s of the batch that begins at part `first`, using the tiles a and b for its operands. */
#define PART(s, a, b)                                                                                                  \
    do {                                                                                                               \
        tile_zero(s);                                                                                                  \
        tile_load(a, in->in.x + (first + (s)) * inputs, in->in.x_row);                                                 \
        tile_load(b, in->w->codes[0][(first + (s)) * inputs / 4][in->column], 4 * PANEL);                              \
        tile_dp_i8(s, a, b);                                                                                           \
    } while (0)

VEC_INLINE void sum_batch(const int inputs, const tile *in, int first, batch *to)
{
    PART(0, 4, 6);
    PART(1, 5, 7);
    PART(2, 4, 6);
    PART(3, 5, 7);
    tile_store(0, to->sums[0], TILE_BYTES);
    tile_store(1, to->sums[1], TILE_BYTES);
    tile_store(2, to->sums[2], TILE_BYTES);
    tile_store(3, to->sums[3], TILE_BYTES);
}

/* Adds part p, the sums of which are `dots`, to y. summed: the sums of the rows are used. */
VEC_INLINE void add_part(const int parts, const bool summed, const tile *in, int p, const int32_t (*dots)[TILE_ROWS],
                         vec y[TILE_ROWS])
{
    const int g = p / parts, part = p % parts;
    const float(*factors)[PANEL] = in->w->factors[g];
    const ivec start = DOT_LOAD(factors[START + part] + in->column);
#pragma GCC unroll 16
    for (int r = 0; r < TILE_ROWS; r++)
        y[r] = vec_fma(dots_scaled(DOT_OP(add_epi32)(DOT_LOAD(dots[r]), start), factors[2 * part] + in->column,
                                   factors[2 * part + 1] + in->column),
                       vec_splat(in->in.scales[r * in->in.group_row + g]), y[r]);
    if (summed) {
        const vec b = vec_load(factors[4] + in->column);
#pragma GCC unroll 16
        for (int r = 0; r < TILE_ROWS; r++)
            y[r] = vec_fma(b, vec_splat(in->in.sums[r * in->in.group_row + g]), y[r]);
    }
}

VEC_INLINE void multiply_tile(const int parts, const bool summed, const tile *in, int groups, bool more)
{
    const int inputs = ZN_I8_GROUP / parts, count = groups * parts;
    batch both[2];
    vec y[TILE_ROWS];
#pragma GCC unroll 16
    for (int r = 0; r < TILE_ROWS; r++)
        y[r] = more ? vec_load(in->in.y + r * in->in.y_row) : vec_splat(0);
    sum_batch(inputs, in, 0, &both[0]);
    for (int first = 0; first < count; first += BATCH) {
        const int next = first + BATCH;
        if (next < count)
            sum_batch(inputs, in, next, &both[next / BATCH % 2]);
        for (int p = first; p < zn_least(next, count); p++)
            add_part(parts, summed, in, p, both[first / BATCH % 2].sums[p - first], y);
    }
#pragma GCC unroll 16
    for (int r = 0; r < TILE_ROWS; r++)
        vec_store(in->in.y + r * in->in.y_row, y[r]);
}

typedef void (*tile_fn)(const tile *in, int groups, bool more);
static void tile_plain(const tile *in, int groups, bool more) { multiply_tile(1, false, in, groups, more); }
static void tile_summed(const tile *in, int groups, bool more) { multiply_tile(1, true, in, groups, more); }
static void tile_split(const tile *in, int groups, bool more) { multiply_tile(2, false, in, groups, more); }

/* A copy of the operands of a tile that has fewer than 16 rows or columns. */
typedef struct padded {
    _Alignas(64) uint8_t x[TILE_ROWS][LINE];
    float scales[TILE_ROWS][GROUPS], sums[TILE_ROWS][GROUPS];
    float y[TILE_ROWS][TILE_ROWS];
} padded;

/* Points `in` at a copy of its rows; those that pad it are zero. */
static void pad_rows(block_rows *in, int rows, int groups, padded *to)
{
    const size_t bytes = (size_t)groups * ZN_I8_GROUP, floats = sizeof(float) * (size_t)groups;
    for (int r = 0; r < rows; r++) {
        memcpy(to->x[r], in->x + r * in->x_row, bytes);
        memset(to->x[r] + bytes, 0, sizeof to->x[r] - bytes);
        memcpy(to->scales[r], in->scales + r * in->group_row, floats);
        memcpy(to->sums[r], in->sums + r * in->group_row, floats);
    }
    for (int r = rows; r < TILE_ROWS; r++) {
        memset(to->x[r], 0, sizeof to->x[r]);
        memset(to->scales[r], 0, sizeof to->scales[r]);
        memset(to->sums[r], 0, sizeof to->sums[r]);
    }
    in->x = to->x[0];
    in->scales = to->scales[0];
    in->sums = to->sums[0];
    in->x_row = LINE;
    in->group_row = GROUPS;
}

/* Multiplies a tile whose sums have only these rows and columns in y. */
static void multiply_part(tile_fn run, tile in, int rows, int columns, int groups, bool more, padded *t)
{
    float *y = in.in.y;
    const int64_t y_row = in.in.y_row;
    const size_t bytes = sizeof(float) * (size_t)columns;
    memset(t->y, 0, sizeof t->y);
    for (int r = 0; more && r < rows; r++)
        memcpy(t->y[r], y + r * y_row, bytes);
    in.in.y = t->y[0];
    in.in.y_row = TILE_ROWS;
    run(&in, groups, more);
    for (int r = 0; r < rows; r++)
        memcpy(y + r * y_row, t->y[r], bytes);
}

/* Up to 16 rows, by all columns of the panel. */
static void multiply_rows(tile_fn run, const block *b, int row, padded *t)
{
    const int rows = (int)zn_least(TILE_ROWS, b->rows - row);
    const bool more = b->first > 0, last = b->row + row + rows == b->a->rows;
    block_rows in = rows_of(b, row);
    if (rows < TILE_ROWS || (last && b->groups < GROUPS)) /* the last batch reads past the inputs */
        pad_rows(&in, rows, b->groups, t);
    for (int column = 0; column < PANEL && b->column + column < b->a->out; column += TILE_ROWS) {
        const int columns = (int)zn_least(TILE_ROWS, b->a->out - b->column - column);
        const tile at = { b->w, in, column };
        if (rows < TILE_ROWS || columns < TILE_ROWS)
            multiply_part(run, at, rows, columns, b->groups, more, t);
        else
            run(&at, b->groups, more);
        in.y += TILE_ROWS;
    }
}

static void multiply_tiles(const block *b)
{
    const zn_packed *w = &b->a->w;
    const tile_fn run = weights_split(w) ? tile_split : uses_sums(w) ? tile_summed : tile_plain;
    padded t;
    for (int row = 0; row < b->rows; row += TILE_ROWS)
        multiply_rows(run, b, row, &t);
}

enum { FEW_ROWS = 64 };

static void run(const void *args, zn_range r)
{
    const zn_matrix_i8_args *a = args;
    if (a->rows < FEW_ROWS) {
        zn_matrix_amx_few(a, r);
        return;
    }
    tile_begin(weights_split(&a->w) ? ZN_I8_GROUP / 2 : ZN_I8_GROUP);
    matrix_i8(a, multiply_tiles, r);
    tile_end();
}

/* What zn_matrix_amx_few does not multiply, VNNI multiplies faster than the tiles here: measured 0.65 to 0.95 of the
 * time with 11 to 60 rows. */
static bool is_faster(const void *args)
{
    const zn_matrix_i8_args *a = args;
    return a->rows >= FEW_ROWS || zn_matrix_amx_few_fits(a);
}

extern const zn_simd_table zn_table_amx;
const zn_simd_table zn_table_amx = { "amx",
                                     ZN_CPU_AMX_I8 | ZN_CPU_AVX512VNNI,
                                     { [ZN_SIMD_matrix_i8] = { run, is_faster } } };
