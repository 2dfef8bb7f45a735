/* Features of images by EfficientNet-Lite0, for the distance of sets.
 *
 *     zn_features *f;
 *     ZN_TRY(zn_features_open(NULL, &f));
 *     zn_spread set = { .width = ZN_FEATURES };
 *     ZN_TRY(zn_features_add(f, image, &set)); */
#ifndef ZN_EVAL_FEATURES_H
#define ZN_EVAL_FEATURES_H

#include "train/score/frechet.h"

#include <zenith/eval.h>

enum { ZN_FEATURES = 320 };

typedef struct zn_features zn_features;
ZN_MUST_USE zn_status zn_features_open(const zn_options *compute, zn_features **out);
void zn_features_close(zn_features *f);

/* The centre square of the image, scaled to 224x224, or of a smaller image to the largest multiple of 32. */
ZN_MUST_USE zn_status zn_features_of(zn_features *f, const zn_image *image, float out[ZN_FEATURES]);
/* The same, for a set. */
ZN_MUST_USE zn_status zn_features_add(zn_features *f, const zn_image *image, zn_spread *set);

#endif
