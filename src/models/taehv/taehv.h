/* TAEHV, the tiny autoencoders of Wan's latents: clips [T,H,W,3] in [0,1] to latents [T/4,H/8,W/8,16] (2.2: H/16, W/16,
 * 48 channels), normalised as generators know them, and back. Networks take a whole clip (m NULL) or a piece
 * (nn/video.h): of images multiples of 4 frames, of latents any number. Or they process images independently. */
#ifndef ZN_TAEHV_H
#define ZN_TAEHV_H

#include "nn/video.h"

enum { ZN_TAEHV_GROUPS = 3, ZN_TAEHV_EACH = 4 }; /* frames of a latent one */

typedef struct zn_taehv_form {
    int patch;                           /* side of the patches that pixels are taken in: 1 or 2 */
    int latent;                          /* channels */
    int width;                           /* of the encoder */
    int back_width[ZN_TAEHV_GROUPS + 1]; /* of the decoder's groups, and after the last */
    bool large;                          /* the decoder is the larger one, "super" */
    const struct zn_wan_form *raw;       /* its latents are not normalised: Wan's numbers for it; NULL: they are */
} zn_taehv_form;

/* The published networks. */
extern const zn_taehv_form zn_taew21, zn_taew22, zn_taew22_super, zn_lighttae21, zn_lighttae22;

/* A clip that ends within a latent frame goes on with copies of its last one. */
zn_node *zn_taehv_encoder(zn_scope s, zn_node *clip, const zn_taehv_form *k, zn_stream *m);
/* The first latent frame makes one frame, each other one four. Values may leave [0,1] a little. */
zn_node *zn_taehv_decoder(zn_scope s, zn_node *latent, const zn_taehv_form *k, zn_stream *m);

#endif
