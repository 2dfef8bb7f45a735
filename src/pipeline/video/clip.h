/* One part of a video autoencoder over a clip that comes piece by piece. Frames are floats of one size; between pieces
 * only what layers keep of the last frames stays, so memory does not grow with the clip. The results have the bits of
 * the whole clip at once.
 *
 * Where a piece does not fit the memory, the network runs in stages, of which only one has memory for its maps, and
 * which take as few frames at a time as they can. If that does not suffice, weights are packed in a form that is slower
 * and takes less memory; then the last bits of results in f32 are others.
 *
 *     zn_clip *c;
 *     ZN_TRY(zn_clip_new(model, ZN_ENCODER, ZN_SHAPE(1, h, w, 3), &options, &c));
 *     ZN_TRY(zn_clip_begin(c, &input, &frames));       // fill so many frames at input
 *     ZN_TRY(zn_clip_run(c, &output, &shape));         // valid until the next call
 *     zn_clip_free(c); */
#ifndef ZN_PIPELINE_CLIP_H
#define ZN_PIPELINE_CLIP_H

#include "graph/packs.h"
#include "models/model.h"

#include <zenith/codec.h>

typedef struct zn_clip zn_clip;

typedef struct zn_clip_options {
    zn_pool *pool;     /* borrowed */
    zn_device *device; /* borrowed; NULL: the CPU */
    zn_packs *packs;   /* borrowed; NULL: every piece of another kind packs its weights */
    zn_precision math;
    bool fp8;        /* of a decoder: convolutions over frames multiply FP8 numbers where a kernel can; refused
                      * if none can */
    size_t memory;   /* most bytes, with `held` and `reserved`; 0: half of what is available, if the network can be
                        divided */
    size_t held;     /* bytes that are in use anyway: the model's own, images */
    size_t reserved; /* bytes of the budget that another part will take */
    zn_progress_fn progress; /* within a piece; may be NULL */
    void *user;
} zn_clip_options;

/* frame: shape of one frame, [1,H,W,C]. */
ZN_MUST_USE zn_status zn_clip_new(const zn_model *model, zn_part part, zn_shape frame, const zn_clip_options *options,
                                  zn_clip **out);
void zn_clip_free(zn_clip *c);

zn_shape zn_clip_frame(const zn_clip *c);

/* The fewest bytes that a part can be run with, without `held` and `reserved`. */
ZN_MUST_USE zn_status zn_clip_least(const zn_model *model, zn_part part, zn_shape frame, const zn_clip_options *options,
                                    size_t *bytes);

/* Makes ready for the next piece: where its frames go and how many it must have. Again before the run: the same place.
 * ZN_ELIMIT when a piece takes more memory than there is; the text says how much it takes. */
ZN_MUST_USE zn_status zn_clip_begin(zn_clip *c, float **input, int *frames);
/* The piece's results, [T,H,W,C], checked to be finite. */
ZN_MUST_USE zn_status zn_clip_run(zn_clip *c, const float **output, zn_shape *shape);
/* Bytes that the clip takes or will take, without `held`; 0 before the first call of zn_clip_begin. */
size_t zn_clip_bytes_of(const zn_clip *c);
/* Share of the operations that are not computed in f32 (zn_exec_coarse); NaN before the first piece. */
double zn_clip_coarse(const zn_clip *c);
/* Whether what layers retain between pieces has 16 bits. */
bool zn_clip_retains_16(const zn_clip *c);
/* For people: how it is run, and its memory. */
void zn_clip_describe(const zn_clip *c, char *text, size_t size);
/* The next piece is the first of another clip. */
void zn_clip_end(zn_clip *c);

#endif
