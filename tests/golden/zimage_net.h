/* The transformer of Z-Image with weights from a golden file, or from a file beside it that the configuration names. */
#ifndef ZN_GOLDEN_ZIMAGE_NET_H
#define ZN_GOLDEN_ZIMAGE_NET_H

#include "golden.h"

#include "models/zimage/zimage.h"

typedef struct zimage_net {
    zn_weights *beside; /* the other file, or NULL */
    const zn_weights *files[1];
    zn_zimage_form form;
    zn_zimage_naming naming;
} zimage_net;

/* Opens the file that the configuration names under `key`; NULL if there is none. */
zn_status zimage_open_beside(const golden *g, const char *key, zn_weights **out);

zn_status zimage_net_open(zimage_net *n, const golden *g);
void zimage_net_close(zimage_net *n);

/* A graph for images and captions of one size, ready to run. */
typedef struct zimage_run {
    zn_graph *graph;
    zn_exec *exec;
    zn_node *latent, *time, *features, *out;
} zimage_run;

/* traced: keeps the results of all nodes. */
zn_status zimage_run_new(zimage_run *r, const golden *g, const zimage_net *n, int64_t h, int64_t w, int64_t caption,
                         bool traced);
void zimage_run_free(zimage_run *r);
/* latent [h,w,C], features [L,caption]; the result is r->out. */
zn_status zimage_run_once(zimage_run *r, const zimage_net *n, const float *latent, const float *features, float time);

#endif
