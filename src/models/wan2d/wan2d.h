/* A small autoencoder for images with a Gaussian latent, made to be trained: [N,H,W,3] in [-1,1] to means and
 * log-variances [N,H/2^levels,W/2^levels,2 latent] and back. */
#ifndef ZN_WAN2D_H
#define ZN_WAN2D_H

#include "nn/nn.h"

enum { ZN_WAN2D_LEVELS = 8 };

typedef struct zn_wan2d_form {
    int width;
    int levels, mult[ZN_WAN2D_LEVELS]; /* channels of a level, in widths */
    int heads[ZN_WAN2D_LEVELS];        /* of the attention after a level; 0: none */
    int middle_heads;
    int blocks;
    int groups; /* of the norms, where there are so many channels */
    int latent;
} zn_wan2d_form;

/* The full network. */
extern const zn_wan2d_form zn_wan2d;

/* H and W: multiples of 2^levels. */
zn_node *zn_wan2d_encoder(zn_scope s, zn_node *image, const zn_wan2d_form *k);
zn_node *zn_wan2d_decoder(zn_scope s, zn_node *latent, const zn_wan2d_form *k);

#endif
