/* Mamba parts of a diffusion autoencoder in files: their form, read from the tensors. */
#ifndef ZN_MAMBA_FILES_H
#define ZN_MAMBA_FILES_H

#include "models/mamba/mamba_parts.h"

#include <zenith/weights.h>

/* True if the tensors after prefix ("ema_model.encoder.") are an encoder, or a decoder over points beside the encoder
 * of k; the form then has what they say. */
bool zn_mamba_read_encoder(const zn_weights *w, const char *prefix, zn_mamba_form *k);
bool zn_mamba_read_decoder(const zn_weights *w, const char *prefix, zn_mamba_form *k);

#endif
