/* The values of a quantised layer, for tests: row by row, as zn_mlx_to_f32 gives them. */
#ifndef ZN_TESTS_MLX_ROWS_H
#define ZN_TESTS_MLX_ROWS_H

#include "base/convert.h"
#include "io/weights/mlx.h"

enum { MLX_GROUPS = 1024 }; /* at most */

/* out: rows * columns floats. */
static inline void mlx_rows(const zn_mlx *layer, float *out)
{
    float scales[MLX_GROUPS], biases[MLX_GROUPS];
    const size_t groups = (size_t)layer->scales->shape[1], columns = (size_t)layer->columns;
    const size_t scale_size = zn_dtype_size(layer->scales->dtype), bias_size = zn_dtype_size(layer->biases->dtype);
    for (size_t row = 0; row < (size_t)layer->rows && groups <= MLX_GROUPS; row++) {
        zn_to_f32(scales, (const uint8_t *)layer->scales->data + row * groups * scale_size, layer->scales->dtype,
                  groups);
        zn_to_f32(biases, (const uint8_t *)layer->biases->data + row * groups * bias_size, layer->biases->dtype,
                  groups);
        zn_mlx_to_f32(out + row * columns,
                      (const uint8_t *)layer->weight->data + row * (size_t)layer->weight->shape[1] * 4, scales, biases,
                      columns, &layer->form);
    }
}

#endif
