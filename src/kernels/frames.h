/* Reorders video frames: y[t] = x[from[t]] for whole frames, and its gradient. */
#ifndef ZN_KERNELS_FRAMES_H
#define ZN_KERNELS_FRAMES_H

#include "base/threads.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct zn_frames_args {
    const float *x;      /* gradient: dy */
    float *y;            /* gradient: dx */
    const int32_t *from; /* [frames]: index counted over all sources; below 0: the frame is zero */
    int frames;          /* frames of the forward result */
    int first, count;    /* this source has frames first to first + count - 1 */
    int64_t size;        /* floats per frame */
    bool clear;          /* also write the zero frames */
} zn_frames_args;

enum { ZN_FRAME_PIECE = 1 << 14 }; /* floats per unit */
static inline int64_t zn_frame_pieces(int64_t size) { return (size + ZN_FRAME_PIECE - 1) / ZN_FRAME_PIECE; }

/* Units: frames of the result * pieces. Frames that come from other sources are not written. */
void zn_k_frames(const void *frames_args, zn_range pieces);
/* Units: frames of the source * pieces. Sums in the order of the result's frames. */
void zn_k_frames_grad(const void *frames_args, zn_range pieces);

#endif
