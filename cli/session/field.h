/* Diffusion autoencoders over points: the options --keep, --scale and --points. */
#ifndef ZN_CLI_FIELD_H
#define ZN_CLI_FIELD_H

#include "session/diffusion.h"

/* The condition of an image of the model's size, with --keep from some of its pixels; and an image of --scale times
 * that size, with noise drawn by --seed. */
zn_status field_encode(session *s, const zn_image *picture, float *cond);
zn_status field_render(diffusion *d, const float *cond, zn_image **out);
/* Reports both options where they are given. */
void field_facts(const options *o, facts *f);

/* zenith sample --points. Returns the exit status. */
int field_sample_points(const options *o);

#endif
