/* A small Z-Image with a text encoder of its own, both trained here: the same networks, in a small form. Its parts as a
 * model: the encoder is the text encoder, tokens [N,1,L,1] to features; the decoder is the transformer, which gets
 * latents [N,h/8,w/8,C], embeddings of times [1,1,N,..] and features. Published folders keep them apart, and so does
 * training (train/run/run_captions.c). */
#ifndef ZN_ZIMAGE_MINI_H
#define ZN_ZIMAGE_MINI_H

#include "models/qwen3/qwen3.h"
#include "models/zimage/zimage.h"

enum { ZN_ZIMAGE_SCALE = 8 }; /* pixels of a latent's side */

typedef struct zn_zimage_mini_form {
    zn_zimage_form dit;
    zn_qwen3_form text;
} zn_zimage_mini_form;

/* The velocity [N,h,w,C] of noisy latents, for training: ids are the captions' tokens [N,1,L,1], -1 after the last. */
zn_node *zn_zimage_mini_velocity(zn_graph *g, zn_node *latent, zn_node *times, zn_node *ids,
                                 const zn_zimage_mini_form *k);

#endif
