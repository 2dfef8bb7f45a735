/* Frames of clips in another order: y[t] = x[from[t]], whole frames, and the gradient of that. */
#ifndef ZN_KERNELS_FRAMES_H
#define ZN_KERNELS_FRAMES_H

#include "base/threads.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct zn_frames_args {
    const float *x;      /* gradient: dy */
    float *y;            /* gradient: dx */
    const int32_t *from; /* [frames]: counted over all sources; below 0: zeros */
    int frames;          /* of the forward's result */
    int first, count;    /* frames of this source are first to first + count - 1 */
    int64_t size;        /* floats of a frame */
    bool clear;          /* writes the zeros too */
} zn_frames_args;

enum { ZN_FRAME_PIECE = 1 << 14 }; /* floats of one unit */
static inline int64_t zn_frame_pieces(int64_t size) { return (size + ZN_FRAME_PIECE - 1) / ZN_FRAME_PIECE; }

/* Units: frames of the result * pieces; frames of other sources are left alone. */
void zn_k_frames(const void *frames_args, zn_range pieces);
/* Units: frames of the source * pieces; adds up in the order of the result's frames. */
void zn_k_frames_grad(const void *frames_args, zn_range pieces);

#endif
