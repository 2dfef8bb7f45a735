/* Matrices in the format of weight files: rows of any dtype, of GGUF blocks, or of MLX codes; rows of FP8 or int8
 * numbers may have scales of their own. Rows are read in place, one at a time, so models with billions of weights need
 * no memory beyond the mapped file.
 *
 *     float row[2560];
 *     zn_packed_row(&m, 17, 0, 2560, row); */
#ifndef ZN_PACKED_H
#define ZN_PACKED_H

#include "base/mlx.h"

typedef struct zn_packed {
    const uint8_t *data; /* row 0; not necessarily aligned */
    size_t row_bytes;
    zn_dtype dtype;                 /* unused for MLX codes */
    zn_mlx_form form;               /* bits is 0 if these are not MLX codes */
    const uint8_t *scales, *biases; /* biases: MLX only. scales: NULL if elements are what they are stored as */
    zn_dtype scale_dtype, bias_dtype;
    size_t groups;  /* MLX: number of scales per row, and of biases. Else 1: a scale per row, 0: one for the matrix */
    int64_t period; /* not 0: element i of every row has scale i % period, and groups is 0 */
    int rotated;    /* rows are stored as zn_packed_rotate made them, in groups of this size; 0: they are not */
} zn_packed;

/* A matrix of floats. */
zn_packed zn_packed_floats(const float *data, int64_t columns);
/* The same matrix, starting at row `first`. */
zn_packed zn_packed_from(const zn_packed *m, int64_t first);

/* Reads elements [first,first+count) of a row. first must be a multiple of ZN_PACKED_STEP. count must be one too,
 * unless the range ends at the end of the row. */
enum { ZN_PACKED_STEP = 256 };
void zn_packed_row(const zn_packed *m, int64_t row, int64_t first, int64_t count, float *out);

/* Multiplies every group of 4, 16, 64 or 256 elements by the orthogonal, symmetric matrix of ConvRot files, in place:
 * the Kronecker power of ((1 1 1 -1) (1 1 -1 1) (1 -1 1 1) (-1 1 1 1)) / 2. Its own inverse. Exact for int8 numbers.
 * count: a multiple of the group. */
enum { ZN_PACKED_ROTATED = 256 }; /* the largest group */
void zn_packed_rotate(float *x, int64_t count, int group);

#endif
