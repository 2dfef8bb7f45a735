/* Shared by the DiffAE cases: the configuration of a golden file, its networks, and runs of its samplers. */
#ifndef ZN_GOLDEN_DIFFAE_NETS_H
#define ZN_GOLDEN_DIFFAE_NETS_H

#include "network.h"

#include "models/diffae/diffae.h"

/* The section of the configuration for this file's case, and a number in it. */
const zn_json_node *diffae_section(const golden *g);
int diffae_number(const zn_json_node *k, const char *key, int fallback);

void diffae_unets(const golden *g, zn_unet *encoder, zn_unet *unet, int *embed);
/* The U-Net for samples of this shape, ready to run. The caller frees n, even on failure. */
zn_status diffae_unet_new(golden *g, zn_shape shape, bool traced, network *n);

/* Checks every sampler, starting from the noise `start` or from the file's image. */
zn_status diffae_check_sampling(golden *g, const float *start, zn_shape shape, const float *cond);

#endif
