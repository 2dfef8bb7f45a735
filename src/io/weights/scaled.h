/* Scaled layers of ComfyUI's FP8 and int8 files: NAME.weight holds small numbers, NAME.weight_scale (older files:
 * NAME.scale_weight) what they are multiplied by, NAME.comfy_quant the format as JSON.
 *
 *     zn_scaled s;
 *     ZN_TRY(zn_scaled_find(w, "layers.0.attention.to_q", weight, &s));
 *     if (s.scales) ... */
#ifndef ZN_SCALED_H
#define ZN_SCALED_H

#include <zenith/weights.h>

typedef struct zn_scaled {
    const zn_weight *scales; /* borrowed from the open file; NULL: the layer is not scaled */
    int per_row;             /* 1: a scale for each row, 0: one for all */
    int rotated;             /* size of the groups of ConvRot (base/packed.h), or 0 */
} zn_scaled;

/* weight: the tensor NAME.weight, [rows][columns]. Fails if its format is not supported. */
ZN_MUST_USE zn_status zn_scaled_find(const zn_weights *w, const char *name, const zn_weight *weight, zn_scaled *out);

#endif
