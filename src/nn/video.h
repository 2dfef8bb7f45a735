/* Layers for clips: maps [T,H,W,C] whose samples are frames, none of which sees a later one.
 *
 *     x = zn_conv3d(zn_at(s, "conv1"), x, 96, NULL);        // the whole clip at once
 *
 * A video may also come in pieces, each computed by a graph of its own: layers then keep the frames that the next piece
 * needs. The results are those of the whole clip. */
#ifndef ZN_NN_VIDEO_H
#define ZN_NN_VIDEO_H

#include "nn/nn.h"

/* What the layers of a network keep from piece to piece: after each run after[i] is copied to the next graph's
 * before[i]. The graphs of all pieces but the first are alike. */
enum { ZN_KEPT = 64 };
typedef struct zn_stream {
    int apart; /* number of independent images, stored consecutively; 0: a video. No state is retained. */
    bool first;
    int count;
    zn_node *before[ZN_KEPT]; /* inputs; none in the first piece */
    zn_node *after[ZN_KEPT];  /* outputs of the graph, besides the network's own */
} zn_stream;

/* The frames kept by a layer, n of them, in front of x; zeros where nothing came before, *have = 0 where these are left
 * out. Without a stream x itself. */
zn_node *zn_with_history(zn_stream *m, zn_node *x, int n, int *have);

/* For each frame of x the one before it, zeros before the first (or the first of each image). */
zn_node *zn_frames_before(zn_stream *m, zn_node *x);

/* Frames first, first + step, ... of x, zeros where that is below 0. */
zn_node *zn_take_frames(zn_node *x, int first, int step, int count);
/* `count` frames of zeros, then those of x, or so before each of x; those of x, then its last `count` times more, or
 * each one so many times. */
zn_node *zn_fill_front(zn_node *x, int count);
zn_node *zn_fill_each(zn_node *x, int count);
zn_node *zn_repeat_last(zn_node *x, int count);
zn_node *zn_repeat_each(zn_node *x, int times);
/* a's first frame, then those of b[count] by turns. skip: without the first `skip` frames of these; a may be NULL. */
zn_node *zn_interleave_frames(zn_node *a, zn_node *const *b, int count, int skip);

/* 3x3x3 over the frame itself and the two before it; 1x1x1; `weight` is [out,in,kt,kh,kw] in files. */
zn_node *zn_conv3d(zn_scope s, zn_node *x, int out, zn_stream *m);
zn_node *zn_conv3d_1x1(zn_scope s, zn_node *x, int out);

/* Half as many frames: the first as it is, then one of each three, 0..2, 2..4, ... [T] to [1+(T-1)/2]; later pieces [T]
 * to [T/2]. */
zn_node *zn_halve_frames(zn_scope s, zn_node *x, zn_stream *m);
/* Twice as many: the first as it is, of each other two. [T] to [1+2(T-1)]; later pieces [T] to [2T]. */
zn_node *zn_double_frames(zn_scope s, zn_node *x, zn_stream *m);

#endif
