/* A diffusion autoencoder small enough to run. */
#ifndef ZN_TESTS_DIFFAE_NET_H
#define ZN_TESTS_DIFFAE_NET_H

#include "models/diffae/diffae.h"
#include "models/model.h"

/* For images of 32x32, with 5 classes. Not conditional: only the noise predictor. No parameter is zero. */
zn_model *small_diffae(bool conditional);

#endif
