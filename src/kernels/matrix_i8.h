/* The product of kernels/matrix.h in 8-bit integers, for quantised weights:
 *
 *     zn_k_matrix_codes(&codes, ...);       // x[p][i] = scale[p][i / 32] code[p][i], rounded
 *     zn_k_matrix_i8(&product, ...);        // y[p][j] = sum over groups of scale * (sum of code[p][i] w[j][i])
 *
 * A weight is w = s c + b with a small signed code c; s and b belong to a group of 32 inputs (s of Q6_K: of 16). So
 * the sum of a group is  scale * (s * (sum of code * c) + b * (sum of code)),  and the sums in parentheses are exact
 * integers. Groups are added in order, in fp32, for any number of rows; samples of few rows (zn_matrix_i8_args) may
 * have other bits than those of many.
 *
 * Rounding x costs more than rounding weights to 8 bits does, so with such weights each group of x is centred:
 * x[p][i] = centre[p][i / 32] + scale[p][i / 32] code[p][i],  where centre is between the extremes of the group. Then
 * the sum of a group is  scale * s * (sum of code * c) + centre * s * (sum of c),  for weights without b. */
#ifndef ZN_KERNELS_MATRIX_I8_H
#define ZN_KERNELS_MATRIX_I8_H

#include "base/packed.h"
#include "base/threads.h"

enum { ZN_I8_GROUP = 32, ZN_I8_FEW = 16 };
#define ZN_I8_LEAST 1e-30f /* a group of smaller values is zero */

/* What is added to the codes of rows in memory: x86 multiplies unsigned by signed bytes. And how many strips of outputs
 * are multiplied together, at most. */
#if defined(__x86_64__) || defined(__i386__)
enum { ZN_I8_SHIFT = 128, ZN_I8_WIDE = 4 };
#else
enum { ZN_I8_SHIFT = 0, ZN_I8_WIDE = 1 };
#endif

/* Quantised rows. in must be a multiple of ZN_I8_GROUP. The scale of a group is its largest magnitude, or if centred
 * its largest distance from the centre, over 127; NaN if a value is not finite. */
typedef struct zn_i8_rows {
    uint8_t *codes; /* [rows][in], -127 to 127, plus ZN_I8_SHIFT */
    float *scales;  /* [rows][in / 32] */
    float *sums;    /* [rows][in / 32]: scale * (sum of the codes), or the centre */
} zn_i8_rows;

/* Bytes of quantised rows, and where they are in such a block of memory. */
static inline size_t zn_i8_rows_bytes(int64_t rows, int in)
{
    return (size_t)rows * ((size_t)in + 2 * sizeof(float) * (size_t)(in / ZN_I8_GROUP));
}
static inline zn_i8_rows zn_i8_rows_at(void *block, int64_t rows, int in)
{
    float *scales = block, *sums = scales + rows * (in / ZN_I8_GROUP);
    return (zn_i8_rows){ (uint8_t *)(sums + rows * (in / ZN_I8_GROUP)), scales, sums };
}

typedef struct zn_matrix_codes_args {
    const float *x; /* [rows][in] */
    zn_i8_rows q;
    int in;
    int rotated; /* of the weights (base/packed.h): rows are rotated first, so that weights are read as they lie */
    bool centred;
} zn_matrix_codes_args;

typedef struct zn_matrix_i8_args {
    zn_i8_rows x;
    zn_packed w;
    float *y;
    int64_t rows;
    int in, out;
    bool few; /* a sample has at most ZN_I8_FEW rows: a kernel may multiply them in another way, with other bits */
} zn_matrix_i8_args;

/* Bits of the codes: 4 (or fewer), 5, 6 or 8; 0 if the weights have no such form. */
int zn_matrix_i8_bits(const zn_packed *w);
/* Whether the rows that are multiplied with these weights are centred. */
bool zn_matrix_i8_centred(const zn_packed *w);
/* True if a CPU with these flags multiplies so many rows with the weights faster in this way than in fp32. */
bool zn_matrix_i8_pays(const zn_packed *w, int64_t rows, uint32_t cpu);

/* A unit is ZN_I8_ROWS rows by a strip of outputs; the strip is the inner index. */
enum { ZN_I8_ROWS = 1536, ZN_I8_STRIP = 64 };
static inline int64_t zn_matrix_i8_strips(const zn_matrix_i8_args *a)
{
    return (a->out + ZN_I8_STRIP - 1) / ZN_I8_STRIP;
}
static inline int64_t zn_matrix_i8_units(const zn_matrix_i8_args *a)
{
    return (a->rows + ZN_I8_ROWS - 1) / ZN_I8_ROWS * zn_matrix_i8_strips(a);
}
/* Units to take at a time. Few rows are brought into another order for each block of units, which takes a quarter of
 * the time of a unit: blocks are larger where the threads have enough of them. Of many rows, up to ZN_I8_WIDE strips
 * are multiplied together: as many as let the threads end together after three or more blocks. */
static inline int64_t zn_matrix_i8_grain(const zn_matrix_i8_args *a, int threads)
{
    enum { FEW_ROWS = 64, MOST = 4, BLOCKS = 4 /* of each thread */ };
    const int64_t units = zn_matrix_i8_units(a), grain = units / ((int64_t)BLOCKS * threads);
    if (a->rows < FEW_ROWS)
        return grain < 1 ? 1 : grain < MOST ? grain : MOST;
    int64_t best = 1, least = (units + threads - 1) / threads;
    for (int64_t wide = 2; wide <= ZN_I8_WIDE; wide++) {
        const int64_t each = (int64_t)threads * wide, rounds = (units + each - 1) / each;
        if (rounds >= 3 && rounds * wide <= least) {
            best = wide;
            least = rounds * wide;
        }
    }
    return best;
}
enum { ZN_I8_DEPTH = 2 * ZN_PACKED_STEP }; /* inputs unpacked at a time */
enum { ZN_I8_SCRATCH = 448 << 10 };        /* bytes per thread */

void zn_k_matrix_codes(const void *matrix_codes_args, zn_range rows);
void zn_k_matrix_i8(const void *matrix_i8_args, zn_range units);

#endif
