/* Held-out pictures: the same centre crops every time, for evaluations during a run.
 *
 *     zn_held_out h;
 *     ZN_TRY(zn_held_out_new(&h, set, &recipe, &skip));
 *     ... h.pictures [count,size,size,3] ...
 *     zn_held_out_free(&h); */
#ifndef ZN_HELD_OUT_H
#define ZN_HELD_OUT_H

#include "train/data/pictures.h"
#include "train/recipe/recipe.h"

enum { ZN_TASKS = 4 }; /* denoise, impulse, deblur, jpeg */

typedef struct zn_held_out {
    float *pictures; /* of videos, count times the frames of the recipe */
    float *inputs;   /* restoring: what the network gets for them, [count,size,size,inputs]; NULL: the pictures */
    int count;
    int tasks; /* restoring: ZN_TASKS (one less without JPEG), or 1 of an upscaler, and image i is one for task i %
                  tasks; else 1 */
} zn_held_out;

/* Up to 16 pictures or 4 videos that can be read; restoring: each of them once for every task. */
ZN_MUST_USE zn_status zn_held_out_new(zn_held_out *h, const zn_dataset *set, const zn_recipe *recipe,
                                      const zn_skip *skip);
void zn_held_out_free(zn_held_out *h);

#endif
