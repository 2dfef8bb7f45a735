/* The product in 8-bit integers on AMX tiles. It has the bits of the AVX-512 VNNI build.
 *
 * A tile is 16 rows by 16 columns. The matrix unit sums the products of each part (a group of 32 inputs; 16 where a
 * group has two scales), and vectors multiply these sums with their scales and add them up. The sums of BATCH parts are
 * computed while the vectors process the batch before, which hides the latency of the tiles. */
#include "kernels/simd.h"
#include "kernels/simd/basic/matrix_i8.h"
#include "kernels/x86/tile.h"

enum { BATCH = TILE_SUMS };
_Static_assert((int)VEC_LANES == (int)TILE_ROWS && ROWS % TILE_ROWS == 0, "whole tiles");
_Static_assert(GROUPS % BATCH == 0, "the last batch reads only what is in the scratch");
_Static_assert(DOT_PLANES == 1 && DOT_SHIFT == 128, "inputs are unsigned bytes");

/* Where a tile reads its operands. row, column: within the scratch and the panel. */
typedef struct tile {
    const scratch *t;
    int row, panel, column;
} tile;

/* The exact sums of a batch of parts. */
typedef struct batch {
    _Alignas(64) int32_t sums[BATCH][TILE_ROWS][TILE_ROWS];
} batch;

/* Sum s of the batch that begins at part `first`, using the tiles a and b for its operands. */
#define PART(s, a, b)                                                                                                  \
    do {                                                                                                               \
        tile_zero(s);                                                                                                  \
        tile_load(a, in->t->x[0][in->row] + (first + (s)) * inputs, LINE);                                             \
        tile_load(b, in->t->codes[in->panel][(first + (s)) * inputs / 4][in->column], 4 * PANEL);                      \
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
    const scratch *t = in->t;
    const int g = p / parts, part = p % parts;
    const float(*factors)[PANEL] = t->factors[in->panel][g];
    const vec s = vec_load(factors[2 * part] + in->column), less = vec_load(factors[2 * part + 1] + in->column);
#pragma GCC unroll 16
    for (int r = 0; r < TILE_ROWS; r++)
        y[r] = vec_fma(vec_fma(dot_to_vec(DOT_LOAD(dots[r])), s, less), vec_splat(t->x_scales[in->row + r][g]), y[r]);
    if (summed) {
        const vec b = vec_load(factors[4] + in->column);
#pragma GCC unroll 16
        for (int r = 0; r < TILE_ROWS; r++)
            y[r] = vec_fma(b, vec_splat(t->x_sums[in->row + r][g]), y[r]);
    }
}

VEC_INLINE void multiply_tile(const int parts, const bool summed, const tile *in, int groups, float *sums)
{
    const int inputs = ZN_I8_GROUP / parts, count = groups * parts;
    batch both[2];
    vec y[TILE_ROWS];
#pragma GCC unroll 16
    for (int r = 0; r < TILE_ROWS; r++)
        y[r] = vec_load(sums + r * SUMS);
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
        vec_store(sums + r * SUMS, y[r]);
}

typedef void (*tile_fn)(const tile *in, int groups, float *sums);
static void tile_plain(const tile *in, int groups, float *sums) { multiply_tile(1, false, in, groups, sums); }
static void tile_summed(const tile *in, int groups, float *sums) { multiply_tile(1, true, in, groups, sums); }
static void tile_split(const tile *in, int groups, float *sums) { multiply_tile(2, false, in, groups, sums); }

static void multiply_tiles(const zn_packed *w, scratch *t, int rows, int columns, int groups)
{
    const tile_fn run = weights_split(w) ? tile_split : uses_sums(w) ? tile_summed : tile_plain;
    for (int column = 0; column < columns; column += TILE_ROWS)
        for (int row = 0; row < rows; row += TILE_ROWS)
            run(&(tile){ t, row, column / PANEL, column % PANEL }, groups, &t->sums[row][column]);
}

static void run(const void *args, zn_range r)
{
    const zn_matrix_i8_args *a = args;
    tile_begin(weights_split(&a->w) ? ZN_I8_GROUP / 2 : ZN_I8_GROUP);
    matrix_i8(a, &(i8_product){ multiply_tiles, TILE_ROWS }, r);
    tile_end();
}

extern const zn_simd_table zn_table_amx;
const zn_simd_table zn_table_amx = { "amx",
                                     ZN_CPU_AMX_I8 | ZN_CPU_AVX512VNNI,
                                     { [ZN_SIMD_matrix_i8] = { run, NULL } } };
