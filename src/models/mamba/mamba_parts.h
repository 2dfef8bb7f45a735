/* Mamba networks as parts of a diffusion autoencoder: an encoder over the patches of an image or over points, and
 * decoders over points. Without points, the pixels of an image (of the encoder: its patches) are the points, each at
 * its centre.
 *
 *     cond = zn_mamba_encoder(s, image, NULL, &form);                          // [N,H,W,3], all of it
 *     cond = zn_mamba_encoder(s, values, &(zn_tokens_at){ points, orders }, &form);  // [N,1,L,3], a field */
#ifndef ZN_MAMBA_PARTS_H
#define ZN_MAMBA_PARTS_H

#include "models/mamba/mamba_field.h"

/* What a decoder over points predicts. */
typedef enum zn_field_kind {
    ZN_FIELD_NONE,    /* there is none: the decoder is a U-Net */
    ZN_FIELD_NOISE,   /* the noise in values (specification B4) */
    ZN_FIELD_VALUES,  /* the values themselves, from nothing but the condition: regression, a single step */
    ZN_FIELD_FEATURES /* clean Fourier features, and the values after them (B5) */
} zn_field_kind;

typedef struct zn_mamba_form {
    zn_field net; /* width 0: the encoder is convolutional */
    int patch;    /* the encoder's tokens are squares of this side; 1 where the decoder is over points */
    zn_field_kind kind;
} zn_mamba_form;

enum { ZN_FIELD_COLOURS = 3 };

/* Points [N,1,L,2] and their scan orders [2,N,4,L]. */
typedef struct zn_tokens_at {
    zn_node *points, *orders;
} zn_tokens_at;

/* The centres of h x w cells, for n samples, as constants of the graph. */
zn_tokens_at zn_tokens_on_grid(zn_graph *g, int64_t n, int64_t h, int64_t w, int grid);
/* Points of the cells of a grid: cell i of h x w. */
void zn_cell_centre(int64_t i, int64_t h, int64_t w, float point[2]);

/* The condition [1,1,N,latent] of images [N,H,W,3] in [-1,1], or of values [N,1,L,3] at points. */
zn_node *zn_mamba_encoder(zn_scope s, zn_node *x, const zn_tokens_at *at, const zn_mamba_form *k);

/* Channels of x and of the result: of FEATURES the features, and the features followed by values. */
int zn_field_channels(const zn_mamba_form *k);
/* What the decoder predicts for x [N,H,W,C], pixels of images or, with points, [N,1,L,C]. VALUES reads only the shape
 * of x. */
zn_node *zn_mamba_decoder(zn_scope s, zn_node *x, zn_node *time, zn_node *cond, const zn_tokens_at *at,
                          const zn_mamba_form *k);
/* The clean features that x of FEATURES is noised from, for pixels of n images (at NULL) or points. */
zn_node *zn_mamba_features(zn_scope s, zn_shape shape, const zn_tokens_at *at, const zn_mamba_form *k);

#endif
