/* Matrices in the format of weight files: rows of any dtype, of GGUF blocks, or of MLX codes. Rows are read in place,
 * one at a time, so models with billions of weights need no memory beyond the mapped file.
 *
 *     float row[2560];
 *     zn_packed_row(&m, 17, 0, 2560, row); */
#ifndef ZN_PACKED_H
#define ZN_PACKED_H

#include "base/mlx.h"

typedef struct zn_packed {
    const uint8_t *data; /* row 0; not necessarily aligned */
    size_t row_bytes;
    zn_dtype dtype;   /* unused for MLX codes */
    zn_mlx_form form; /* bits is 0 if these are not MLX codes */
    const uint8_t *scales, *biases;
    zn_dtype scale_dtype, bias_dtype;
    size_t groups; /* number of scales per row, and of biases */
} zn_packed;

/* A matrix of floats. */
zn_packed zn_packed_floats(const float *data, int64_t columns);
/* The same matrix, starting at row `first`. */
zn_packed zn_packed_from(const zn_packed *m, int64_t first);

/* Reads elements [first,first+count) of a row. first must be a multiple of ZN_PACKED_STEP. count must be one too,
 * unless the range ends at the end of the row. */
enum { ZN_PACKED_STEP = 256 };
void zn_packed_row(const zn_packed *m, int64_t row, int64_t first, int64_t count, float *out);

#endif
