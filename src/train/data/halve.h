/* Images reduced by two and enlarged again: what the network behind `zenith upscale` learns to mend.
 *
 *     zn_halving h = zn_halving_of(seed, &recipe.damage);
 *     ZN_TRY(zn_halve_and_enlarge(clean, 128, 128, &h, input));           // [H,W,3] in [0,1]
 *
 * The small image has 8 bits, as in a file; the enlarging is that of `zenith upscale`. */
#ifndef ZN_TRAIN_HALVE_H
#define ZN_TRAIN_HALVE_H

#include "train/data/photo.h"

typedef enum zn_halving_filter { ZN_HALVE_CUBIC, ZN_HALVE_AREA, ZN_HALVE_TRIANGLE, ZN_HALVE_FILTERS } zn_halving_filter;

typedef struct zn_halving {
    zn_halving_filter filter;
    bool grey;       /* the image itself is to become grey, also as what should come out */
    int quality;     /* of the JPEG that the small image is saved as; 0: it is not */
    int subsampling; /* of that */
} zn_halving;

/* Half of the images are reduced by the cubic filter; a quarter are saved as JPEG of at least the mix's quality. */
zn_halving zn_halving_of(uint64_t seed, const zn_damage_mix *mix);
/* y may be x. Odd sides are extended by a pixel of the edge. */
ZN_MUST_USE zn_status zn_halve_and_enlarge(const float *x, int width, int height, const zn_halving *h, float *y);

#endif
