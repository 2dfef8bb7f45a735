/* A small model like Z-Image-Turbo in every layout in which it is published, all from the same weights: wide enough for
 * blocks of 256, and with the defaults of the real one wherever a layout has no config.json. */
#ifndef ZN_TESTS_TINY_LAYOUTS_H
#define ZN_TESTS_TINY_LAYOUTS_H

#include <zenith/weights.h>

typedef struct tiny_tensors {
    zn_weight *list;
    int count;
} tiny_tensors;
void tiny_free(tiny_tensors *t);

typedef enum tiny_style {
    TINY_DIFFUSERS,
    TINY_ORIGINAL, /* of single files: fused qkv, ae.safetensors */
    TINY_MLX
} tiny_style;

/* F32 tensors of the networks, with the names of a layout after a prefix. */
tiny_tensors tiny_transformer(tiny_style style, const char *prefix);
tiny_tensors tiny_text_encoder(const char *prefix);
tiny_tensors tiny_vae(tiny_style style, const char *prefix);

/* Files: as they are; the same in shards with an index; with matrices as ComfyUI's FP8 (scaled or plain) or int8
 * ConvRot. */
typedef enum tiny_form { TINY_F32, TINY_FP8, TINY_FP8_SCALED, TINY_CONVROT } tiny_form;
void tiny_save(const char *folder, const char *name, const tiny_tensors *t, tiny_form form);
void tiny_save_shards(const char *folder, const char *stem, const tiny_tensors *t, int shards);
void tiny_save_text(const char *folder, const char *name, const char *text);
void tiny_save_tokenizer(const char *folder); /* tokenizer.json */

/* Whole models. */
void tiny_diffusers(const char *folder);
void tiny_comfy(const char *folder, tiny_form form); /* diffusion_models/ text_encoders/ vae/, and a tokenizer.json */

#endif
