/* A diffusion autoencoder small enough to run. */
#ifndef ZN_TESTS_DIFFAE_NET_H
#define ZN_TESTS_DIFFAE_NET_H

#include "models/diffae/diffae.h"
#include "models/model.h"

/* For pictures of 32x32, with 5 classes; not conditional: the noise predictor alone. No parameter is zero. */
zn_model *small_diffae(bool conditional);

#endif
