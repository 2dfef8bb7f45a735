/* Reorders video frames: y[t] = x[from[t]] for whole frames, and its gradient. Makes channels of frames. */
#ifndef ZN_KERNELS_FRAMES_H
#define ZN_KERNELS_FRAMES_H

#include "base/threads.h"
#include "kernels/type.h"

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

/* Frames of few channels for a convolution over `depth` frames in 16 bits: all numbers that a pixel of the result reads
 * at its place, from its own frame to the oldest, become channels of one map. Each number is the sum of two of 16 bits,
 * and so are the weights; the three largest of the four products are channels: [high][low][high][zeros]. */
enum { ZN_STACKED = 32 };
typedef struct zn_stack_args {
    const float *x;      /* [frames][pixels][c] */
    const float *before; /* [depth - 1][pixels][c], the frames before x; NULL: zeros */
    float *y;            /* [frames][pixels][ZN_STACKED], numbers of `type` */
    int frames, depth, c;
    int64_t pixels;
    zn_type type; /* BF16 or F16 */
} zn_stack_args;

static inline bool zn_can_stack_frames(int depth, int c) { return 3 * depth * c <= ZN_STACKED; }
void zn_k_stack_frames(const void *stack_args, zn_range pixels); /* units: pixels of all frames */

#endif
