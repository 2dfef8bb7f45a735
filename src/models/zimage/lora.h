/* LoRA files for Z-Image: pairs of small matrices for linear layers of the transformer.
 *
 *     zn_lora l;
 *     ZN_TRY(zn_lora_open("style.safetensors", 0.8, &form, &l));
 *     form.adapters = l.adapters, form.adapter_count = l.count;
 *     ...
 *     zn_lora_close(&l);
 *
 * Understood are the names of diffusers and PEFT (lora_A, lora_B), of kohya and ComfyUI (lora_down, lora_up, alpha),
 * with the layers' names of diffusers or of the original, joined by dots or underscores; q, k and v may be one matrix.
 */
#ifndef ZN_LORA_H
#define ZN_LORA_H

#include "models/zimage/zimage.h"

typedef struct zn_lora {
    zn_weights *file; /* stays open: the matrices lie in it */
    zn_adapter *adapters;
    int count;
    size_t capacity;
    int layers;  /* for which the file has matrices */
    int fitting; /* of these, the ones that the network has; one of q, k and v together is three adapters */
} zn_lora;

/* Everything in the file that fits a network of this form, with factor strength alpha / rank. ZN_ENOTFOUND if nothing
 * does, ZN_ESHAPE for matrices of another size. */
ZN_MUST_USE zn_status zn_lora_open(const char *path, double strength, const zn_zimage_form *k, zn_lora *out);
/* The same from open weights, which are closed with the LoRA, or at once if this fails. */
ZN_MUST_USE zn_status zn_lora_read(zn_weights *file, double strength, const zn_zimage_form *k, zn_lora *out);
void zn_lora_close(zn_lora *l); /* harmless on a zeroed one */

#endif
