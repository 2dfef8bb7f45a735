/* Diffusion autoencoders (DiffAE): the networks. An encoder makes a condition of an image, a U-Net predicts the noise
 * in an image, knowing the time and the condition, and a latent net predicts the noise in conditions. */
#ifndef ZN_DIFFAE_H
#define ZN_DIFFAE_H

#include "models/mamba/mamba_parts.h"
#include "nn/nn.h"

enum { ZN_UNET_LEVELS = 8 };

/* The walk through the levels, of the U-Net or of the encoder. */
typedef struct zn_unet {
    int width; /* channels of the first convolution */
    int levels, blocks;
    int mult[ZN_UNET_LEVELS];       /* channels of a level, in widths */
    bool attention[ZN_UNET_LEVELS]; /* after every block of the level */
    int heads;
    int out; /* channels of the result: of the image; of the encoder's condition */
} zn_unet;

typedef struct zn_latent_net {
    int channels, hidden, layers, time; /* time: width of the step's embedding */
} zn_latent_net;

/* A whole diffusion autoencoder; encoder.out is the width of a condition, 0 for a plain diffusion model. With Mamba as
 * the encoder, nothing else of `encoder` counts, and with a decoder over points nothing of `unet`. */
typedef struct zn_diffae_form {
    int embed;
    zn_unet unet, encoder;
    zn_latent_net latent;
    zn_mamba_form mamba;
    int velocity; /* the U-Net predicts sqrt(kept) noise - sqrt(1 - kept) image; 0: the noise */
    int masked;   /* the convolutional encoder sees some of the pixels, and a fourth channel that says which */
} zn_diffae_form;

/* Other channels: `width` of the first convolutions, of a field those of its tokens, `cond` of a condition, with the
 * latent net in proportion; both 0 for as they are. */
void zn_diffae_resize(zn_diffae_form *d, int width, int cond);

/* image [N,H,W,3] in [-1,1] to a condition [1,1,N,out]. H and W: multiples of 2^(levels-1). */
zn_node *zn_diffae_encoder(zn_scope s, zn_node *image, const zn_unet *k);

/* What a U-Net knows of its samples. time [1,1,N,width]: the embedding of the step (diffusion/schedule.h), whose inner
 * layers have `embed` channels. cond [1,1,N,..], or NULL for a plain diffusion model. */
typedef struct zn_unet_facts {
    zn_node *time, *cond;
    int embed;
    zn_node *seeds; /* of dropout, as zn_dropout has them; NULL: none is dropped */
    float dropout;
} zn_unet_facts;

/* The noise in x [N,H,W,3]. */
zn_node *zn_diffae_unet(zn_scope s, zn_node *x, const zn_unet_facts *facts, const zn_unet *k);

/* The noise in conditions z [1,1,N,channels], time as above. */
zn_node *zn_diffae_latent(zn_scope s, zn_node *z, zn_node *time, const zn_latent_net *k);

#endif
