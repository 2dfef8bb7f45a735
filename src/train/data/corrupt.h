/* Damage done to pictures on purpose: to train restoration and to measure it.
 *
 *     zn_draw d = zn_draw_training(seed);                        // what to do, drawn for one training picture
 *     ZN_TRY(zn_corrupt_map(clean, 128, 128, &d, 255, noisy));   // [H,W,3] in [0,1], rounded to 8 bits
 *
 * The two functions on plain numbers are those of the experiments on wavelet pictures (specification B7): noise is
 * given, not drawn, and nothing is clamped. */
#ifndef ZN_TRAIN_CORRUPT_H
#define ZN_TRAIN_CORRUPT_H

#include "train/data/photo.h"

/* One damage with everything that decides its bits. */
typedef struct zn_draw {
    zn_corruption what;
    bool whole_pixels; /* impulses hit all three channels of a pixel together */
    float grain;       /* blur: deviation of noise added after it, of 255 */
    zn_task hint;      /* what the network is given */
    uint64_t seed;
} zn_draw;

/* Damage of a training picture: Gaussian 0-55, impulses 1-22 %, blur 0.4-2.2 or box 3-7; for half of the pictures the
 * network is given the task. */
zn_draw zn_draw_training(uint64_t seed);

/* What a restoring network gets for a picture [size,size,3] in training: RGB damaged by zn_draw_training(seed), or by
 * zn_photo_draw_of(seed) or zn_halving_of(seed) where the zn_damage_mix at `mix` says so, then a plane for each task;
 * [size,size,ZN_RESTORE_INPUTS]. The picture may become grey. */
ZN_MUST_USE zn_status zn_restore_input(const void *mix, float *picture, int size, uint64_t seed, float *input);
/* The same with a given damage. */
ZN_MUST_USE zn_status zn_restore_input_of(const float *picture, int size, const zn_draw *d, float *input);

/* y = x [height,width,3] damaged, clamped to [0,1]; with `levels` > 0 rounded to that many steps (255 as 8-bit files).
 */
ZN_MUST_USE zn_status zn_corrupt_map(const float *x, int width, int height, const zn_draw *d, int levels, float *y);

/* y = x + deviation * noise. y may be x. */
void zn_add_gaussian(const float *x, const float *noise, int64_t count, float deviation, float *y);
/* y = x, and where u < p, magnitude is added (v > 0.5) or taken away. y may be x. */
void zn_add_shot(const float *x, const float *u, const float *v, int64_t count, float p, float magnitude, float *y);

#endif
