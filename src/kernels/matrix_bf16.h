/* The product of kernels/matrix.h with both factors rounded to bf16, and sums in fp32:
 *
 *     zn_k_matrix_runs(&runs, ...);         // rounds and orders x
 *     zn_k_matrix_bf16(&product, ...);      // y[p][j] = sum over i of x[p][i] w[j][i]
 *
 * A CPU with matrix instructions for bf16 multiplies so several times as fast as in fp32. It is also at least
 * as fast as in 8-bit integers, whose sums have to be scaled every 32 inputs, and has less error. Weights are unpacked
 * and rounded piece by piece. Sums run in the order of i for any number of rows. A subnormal number may count as zero.
 */
#ifndef ZN_KERNELS_MATRIX_BF16_H
#define ZN_KERNELS_MATRIX_BF16_H

#include "base/packed.h"
#include "base/threads.h"

/* x in panels of ZN_BF16_PANEL rows: [panel][in / ZN_BF16_RUN][row][ZN_BF16_RUN], with zeros for what pads rows and
 * inputs. Rows of a panel and inputs of a run are those that matrix instructions of the architecture multiply: a tile
 * of AMX, or what the registers of BFMMLA sum (arm/bfmmla.h). */
#ifdef __aarch64__
enum { ZN_BF16_PANEL = 12, ZN_BF16_RUN = 4 };
#else
enum { ZN_BF16_PANEL = 16, ZN_BF16_RUN = 2 };
#endif
enum { ZN_BF16_STEP = 32 /* inputs are padded to a multiple of this */ };
static inline int64_t zn_matrix_panels(int64_t rows) { return (rows + ZN_BF16_PANEL - 1) / ZN_BF16_PANEL; }
static inline int64_t zn_matrix_padded(int in)
{
    return ((int64_t)in + ZN_BF16_STEP - 1) / ZN_BF16_STEP * ZN_BF16_STEP;
}
static inline size_t zn_matrix_runs_bytes(int64_t rows, int in)
{
    enum { LOADED = ZN_BF16_PANEL * ZN_BF16_RUN }; /* after the last panel, but not used */
    return sizeof(uint16_t) * (size_t)(zn_matrix_panels(rows) * ZN_BF16_PANEL * zn_matrix_padded(in) + LOADED);
}

typedef struct zn_matrix_runs_args {
    const float *x; /* [rows][in] */
    uint16_t *runs;
    int64_t rows;
    int in;
    int rotated; /* of the weights (base/packed.h): rows are rotated first, so that weights are read as they lie */
} zn_matrix_runs_args;

typedef struct zn_matrix_bf16_args {
    const uint16_t *x; /* runs */
    zn_packed w;
    float *y;
    int64_t rows;
    int in, out;
} zn_matrix_bf16_args;

/* True if a CPU with these flags multiplies so many rows faster in this way than in fp32; and than in 8-bit integers.
 */
bool zn_matrix_bf16_pays(int64_t rows, uint32_t cpu);
bool zn_matrix_bf16_beats_i8(uint32_t cpu);

/* A unit is ZN_BF16_ROWS rows by a strip of outputs; the strip is the inner index. */
enum { ZN_BF16_ROWS = 1536, ZN_BF16_STRIP = 128 };
static inline int64_t zn_matrix_bf16_strips(const zn_matrix_bf16_args *a)
{
    return (a->out + ZN_BF16_STRIP - 1) / ZN_BF16_STRIP;
}
static inline int64_t zn_matrix_bf16_units(const zn_matrix_bf16_args *a)
{
    return (a->rows + ZN_BF16_ROWS - 1) / ZN_BF16_ROWS * zn_matrix_bf16_strips(a);
}
/* Inputs unpacked at a time; tiles of AMX are faster with fewer, since more of them stay in the cache. */
#ifdef __aarch64__
enum { ZN_BF16_DEPTH = 2 * ZN_PACKED_STEP };
#else
enum { ZN_BF16_DEPTH = ZN_PACKED_STEP };
#endif
/* Bytes per thread: sums, weights, a panel. */
enum { ZN_BF16_SCRATCH = 4 * (ZN_BF16_STRIP * (ZN_BF16_ROWS + ZN_BF16_DEPTH) + ZN_BF16_PANEL * ZN_BF16_DEPTH) };

void zn_k_matrix_runs(const void *matrix_runs_args, zn_range panels);
void zn_k_matrix_bf16(const void *matrix_bf16_args, zn_range units);

#endif
