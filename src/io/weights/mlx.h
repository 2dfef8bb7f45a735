/* Quantised layers of MLX files: NAME.weight holds codes (U32), NAME.scales and NAME.biases what they mean.
 *
 *     zn_mlx layer;
 *     if (zn_mlx_has(w, "layers.0.attention.to_q"))
 *         ZN_TRY(zn_mlx_find(w, "layers.0.attention.to_q", 3840, &layer)); */
#ifndef ZN_MLX_FILE_H
#define ZN_MLX_FILE_H

#include "base/mlx.h"

typedef struct zn_mlx {
    const zn_weight *weight, *scales, *biases; /* borrowed from the open file */
    int64_t rows, columns;
    zn_mlx_form form;
} zn_mlx;

/* A layer is quantised if it has scales. */
bool zn_mlx_has(const zn_weights *w, const char *name);
/* columns: inputs of the layer, which the file does not state; bits and group follow from it. Every shape is checked.
 */
ZN_MUST_USE zn_status zn_mlx_find(const zn_weights *w, const char *name, int64_t columns, zn_mlx *layer);

#endif
