/* Clips of golden files, [N,C,T,H,W] or [N,T,C,H,W] there and [N*T,H,W,C] here, and networks that take them whole or in
 * pieces. */
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
/* Frames [begin,end) of a clip are out.NAME. */
zn_status clip_compare(golden *g, const char *name, const clip *c, int64_t begin, int64_t end, clip_order order);
void clip_free(clip *c);

/* What is run: the result of x, with parameters w.PREFIX.*. */
typedef struct clip_network {
    const char *prefix;
    zn_node *(*build)(zn_scope s, zn_node *x, const void *k, zn_stream *m);
    const void *k;
    void (*look)(golden *g, zn_graph *graph, void *self); /* after a run of an unfused graph; or NULL: fused */
    void *self;
} clip_network;

/* The whole clip at once, and in pieces of so many frames (the last number goes on). All results one behind the other.
 */
zn_status clip_whole(golden *g, const clip_network *n, const clip *x, clip *y);
zn_status clip_pieces(golden *g, const clip_network *n, const clip *x, const int *sizes, int count, clip *y);

/* The same with the file opened as a model, piece by piece as zn_video does it. `given` of pixels in [-1,1]: they are
 * in [0,1] for models. */
zn_status clip_model(golden *g, zn_part part, const clip *x, bool given, clip *y);

#endif
