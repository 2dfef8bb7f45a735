/* Layers for video: feature maps [T,H,W,C] whose samples are frames. A frame never depends on a later one.
 *
 *     x = zn_conv3d(zn_at(s, "conv1"), x, 96, NULL);        // the whole video at once
 *
 * A video may also be processed in pieces, each with its own graph. Layers then retain the frames that the next piece
 * needs. The results are the same as for the whole video. */
#ifndef ZN_NN_VIDEO_H
#define ZN_NN_VIDEO_H

#include "graph/splits.h"
#include "nn/nn.h"

/* What the layers of a network retain between pieces: after each run, after[i] is copied to before[i] of the next
 * graph. The graphs of all pieces except the first are identical.
 *
 * A network may name maps where it can be cut into stages (zn_cut). The whole graph of a piece notes them; with `stage`
 * set, everything outside of that stage is there but of no use, so that only its own layers retain frames. */
enum { ZN_KEPT = 64, ZN_CUTS = 4 };
typedef struct zn_stream {
    int apart; /* number of independent images, stored consecutively; 0: a video. No state is retained. */
    bool first;
    int stage; /* 0: the whole network; else the stage to build, counted from 1 */
    int parts; /* into which the frames of that stage are divided */
    int count;
    zn_node *before[ZN_KEPT]; /* inputs; none in the first piece */
    zn_node *after[ZN_KEPT];  /* outputs of the graph, in addition to those of the network */
    int cuts;                 /* passed */
    zn_node *cut[ZN_CUTS];    /* maps where the whole network can be cut */
    zn_node *begin, *end;     /* of a stage: the input of all but the first, the result of all but the last */
} zn_stream;

/* Names x as a map on which alone all later layers depend, apart from what they retain. Returns x; in a graph of one
 * stage where that begins or ends, the input of what follows. Without a video, does nothing. */
zn_node *zn_cut(zn_stream *m, zn_node *x);

/* Prepends the n frames that a layer retained to x and sets *have to n. In the first piece the history would be zeros:
 * it is left out, and *have is 0. Without a stream, returns x itself. */
zn_node *zn_with_history(zn_stream *m, zn_node *x, int n, int *have);

/* For each frame of x the one before it; zeros for the first frame (or for the first frame of each image). */
zn_node *zn_frames_before(zn_stream *m, zn_node *x);

/* Frames first, first + step, ... of x; zeros where that index is negative. */
zn_node *zn_take_frames(zn_node *x, int first, int step, int count);
/* fill_front: `count` zero frames, then the frames of x. fill_each: `count` zero frames before each frame of x.
 * repeat_last: the frames of x, then the last one `count` more times. repeat_each: every frame `times` times. */
zn_node *zn_fill_front(zn_node *x, int count);
zn_node *zn_fill_each(zn_node *x, int count);
zn_node *zn_repeat_last(zn_node *x, int count);
zn_node *zn_repeat_each(zn_node *x, int times);
/* The frames of a, then those of b. */
zn_node *zn_join_frames(zn_node *a, zn_node *b);
/* The first frame of a, then the frames of b[0..count-1] in turn. skip: leaves out the first `skip` frames of that
 * sequence. a may be NULL. */
zn_node *zn_interleave_frames(zn_node *a, zn_node *const *b, int count, int skip);

/* Causal convolutions: 3x3x3 over a frame and the two before it, or the chain that its owner has for it
 * (graph/splits.h); 1x1x1. `weight` is [out,in,kt,kh,kw] in files. */
zn_node *zn_conv3d(zn_scope s, zn_node *x, int out, zn_stream *m);
zn_node *zn_conv3d_1x1(zn_scope s, zn_node *x, int out);

/* Halves the number of frames: keeps the first, then computes one frame from each three: 0..2, 2..4, ... [T] to
 * [1+(T-1)/2]; later pieces [T] to [T/2]. */
zn_node *zn_halve_frames(zn_scope s, zn_node *x, zn_stream *m);
/* Doubles the number of frames: keeps the first, then computes two frames from each of the others. [T] to [1+2(T-1)];
 * later pieces [T] to [2T]. */
zn_node *zn_double_frames(zn_scope s, zn_node *x, zn_stream *m);

#endif
