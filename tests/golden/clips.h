/* Videos of golden files ([N,C,T,H,W] or [N,T,C,H,W] in the file, [N*T,H,W,C] here), and networks that process them
 * whole or in pieces. */
#ifndef ZN_GOLDEN_CLIPS_H
#define ZN_GOLDEN_CLIPS_H

#include "golden.h"

#include "nn/video.h"

#include <zenith/model.h>

typedef enum clip_order { CHANNELS_FIRST, FRAMES_FIRST } clip_order;

typedef struct clip {
    zn_shape shape; /* [T,H,W,C] */
    float *data;
} clip;

zn_status clip_load(const golden *g, const char *name, clip_order order, clip *c);
/* Compares frames [begin,end) with out.NAME. */
zn_status clip_compare(golden *g, const char *name, const clip *c, int64_t begin, int64_t end, clip_order order);
void clip_free(clip *c);

/* The network to run: builds the result for x, with parameters w.PREFIX.*. */
typedef struct clip_network {
    const char *prefix;
    zn_node *(*build)(zn_scope s, zn_node *x, const void *k, zn_stream *m);
    const void *k;
    void (*look)(golden *g, zn_graph *graph,
                 void *self); /* called after a run of an unfused graph; NULL: the graph is fused */
    void *self;
} clip_network;

/* Run the whole video at once, or in pieces with these numbers of frames (the last number repeats). Results are
 * concatenated. */
zn_status clip_whole(golden *g, const clip_network *n, const clip *x, clip *y);
zn_status clip_pieces(golden *g, const clip_network *n, const clip *x, const int *sizes, int count, clip *y);

/* The same with the file opened as a model, piece by piece as in zn_video. `given`: x is pixels in [-1,1], which are
 * converted to [0,1] for models. */
zn_status clip_model(golden *g, zn_part part, const clip *x, bool given, clip *y);

#endif
