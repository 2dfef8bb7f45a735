/* Scaled layers of ComfyUI's FP8 and int8 files, and of those that zn_weights_save writes as I8: NAME.weight holds
 * small numbers, NAME.weight_scale (older files: NAME.scale_weight) what they are multiplied by, NAME.comfy_quant the
 * format as JSON. Rows are the outputs: the first dimension of matrices and convolutions alike. Convolutions of
 * Zenith's own networks, [height][width][inputs][outputs], have scales [1][1][1][outputs].
 *
 *     zn_scaled s;
 *     ZN_TRY(zn_scaled_find(w, "layers.0.attention.to_q", weight, &s));
 *     if (s.scales) ... */
#ifndef ZN_SCALED_H
#define ZN_SCALED_H

#include "base/packed.h"

#include <zenith/weights.h>

/* The metadata in which newer files of ComfyUI describe all such layers. */
#define ZN_SCALED_METADATA "_quantization_metadata"

typedef struct zn_scaled {
    const zn_weight *scales; /* borrowed from the open file; NULL: the layer is not scaled */
    int per_row;             /* 1: a scale for each row, 0: one for all */
    int64_t outputs_last;    /* not 0: number of outputs, the last dimension, with a scale for each */
    int rotated;             /* size of the groups of ConvRot (base/packed.h), or 0 */
} zn_scaled;

/* weight: the tensor NAME.weight, [rows][columns] or [rows][...]. Fails if its format is not supported. */
ZN_MUST_USE zn_status zn_scaled_find(const zn_weights *w, const char *name, const zn_weight *weight, zn_scaled *out);

/* Whether a tensor is NAME.weight of 8-bit numbers with scales; the tensor whose scale or description `part` is, if it
 * is such a one, or NULL. */
bool zn_scaled_has(const zn_weights *w, const zn_weight *weight);
const zn_weight *zn_scaled_owner(const zn_weights *w, const zn_weight *part);

/* The rows of a tensor of rank 1 at least, times their scales if it is scaled. */
ZN_MUST_USE zn_status zn_scaled_rows(const zn_weights *w, const zn_weight *weight, zn_packed *out);
/* The tensor itself, or the same in F32 if it is of scaled 8-bit numbers; copy: memory to be freed after its use. */
ZN_MUST_USE zn_status zn_scaled_unpack(const zn_weights *w, const zn_weight *weight, zn_weight *out, float **copy);

#endif
