/* What the cases of DiffAE share: the configuration of a golden file, its networks, and walks through its samplers. */
#ifndef ZN_GOLDEN_DIFFAE_NETS_H
#define ZN_GOLDEN_DIFFAE_NETS_H

#include "network.h"

#include "models/diffae/diffae.h"

/* The part of the configuration that is about this file's case, and a number in it. */
const zn_json_node *diffae_section(const golden *g);
int diffae_number(const zn_json_node *k, const char *key, int fallback);

void diffae_unets(const golden *g, zn_unet *encoder, zn_unet *unet, int *embed);
/* The U-Net for samples of this shape, ready to run. On failure too, n must be freed. */
zn_status diffae_unet_new(golden *g, zn_shape shape, bool traced, network *n);

/* Every sampler from the noise `start`, or from the file's image. */
zn_status diffae_check_sampling(golden *g, const float *start, zn_shape shape, const float *cond);

#endif
