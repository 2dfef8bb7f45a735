/* Matrices as weight files hold them: rows of numbers of any dtype, of GGUF blocks, or of MLX codes. They are read row
 * by row where they lie, so weights of billions need no memory but the mapped file's.
 *
 *     float row[2560];
 *     zn_packed_row(&m, 17, 0, 2560, row); */
#ifndef ZN_PACKED_H
#define ZN_PACKED_H

#include "base/mlx.h"

typedef struct zn_packed {
    const uint8_t *data; /* row 0; not necessarily aligned */
    size_t row_bytes;
    zn_dtype dtype;   /* not of MLX codes */
    zn_mlx_form form; /* bits 0: no MLX codes */
    const uint8_t *scales, *biases;
    zn_dtype scale_dtype, bias_dtype;
    size_t groups; /* scales of a row, and biases */
} zn_packed;

/* Rows of floats. */
zn_packed zn_packed_floats(const float *data, int64_t columns);
/* The same matrix from row `first` on. */
zn_packed zn_packed_from(const zn_packed *m, int64_t first);

/* Elements [first,first+count) of a row. first: a multiple of ZN_PACKED_STEP; count likewise, or up to the end. */
enum { ZN_PACKED_STEP = 256 };
void zn_packed_row(const zn_packed *m, int64_t row, int64_t first, int64_t count, float *out);

#endif
