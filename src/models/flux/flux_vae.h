/* The autoencoder of FLUX.1, which Z-Image shares: images [N,H,W,3] in [-1,1] to latents [N,H/8,W/8,16] and back. */
#ifndef ZN_FLUX_VAE_H
#define ZN_FLUX_VAE_H

#include "base/json.h"
#include "models/stored.h"
#include "nn/nn.h"

enum { ZN_FLUX_LEVELS = 8 };

typedef struct zn_flux_form {
    int levels, width[ZN_FLUX_LEVELS]; /* channels of each level, the one of the largest maps first */
    int blocks;                        /* of a level of the encoder; of the decoder's one more */
    int latent;
    int groups; /* of the norms */
    double scale, shift;
} zn_flux_form;

extern const zn_flux_form zn_flux_vae;

/* Means and log-variances of z, [..,2 latent]. */
zn_node *zn_flux_encoder(zn_scope s, zn_node *image, const zn_flux_form *k);
/* The image of z, which may leave [-1,1] a little. */
zn_node *zn_flux_decoder(zn_scope s, zn_node *z, const zn_flux_form *k);

/* Latents as generators know them, (z - shift) scale, and back; in place. */
void zn_flux_normalise(const zn_flux_form *k, float *z, int64_t count);
void zn_flux_restore(const zn_flux_form *k, float *latent, int64_t count);

/* How files name the parameters: as diffusers does, or as in the original file. */
typedef struct zn_flux_naming {
    bool original;
    int levels; /* which the original counts backwards in the decoder */
    char prefix[64];
} zn_flux_naming;

/* The network that files hold. config: its config.json, or NULL. ZN_ENOTFOUND: they hold no such network. */
ZN_MUST_USE zn_status zn_flux_recognise(const zn_weights *const *files, int count, const zn_json_node *config,
                                        zn_flux_form *k, zn_flux_naming *naming);
/* For zn_stored. */
void zn_flux_place(const void *naming, zn_place *out);

#endif
