/* One stage of a clip: a part of the network between two cuts (nn/video.h), or all of it, with what its layers retain.
 * It takes a few frames at a time. Graph and executor exist while it runs, and so may packed weights; what layers
 * retain stays.
 *
 *     zn_clip_stage s = { .number = 2, .parts = 4 };
 *     ZN_TRY(zn_clip_stage_start(&s, &work, frame, frames, later));
 *     ...s.x is filled...
 *     ZN_TRY(zn_clip_stage_run(&s));                   // s.y
 *     zn_clip_stage_stop(&s);
 *     zn_clip_stage_clear(&s); */
#ifndef ZN_PIPELINE_CLIP_STAGE_H
#define ZN_PIPELINE_CLIP_STAGE_H

#include "graph/exec.h"
#include "pipeline/video/clip.h"

/* What is to be run, and how. */
typedef struct zn_clip_work {
    const zn_model *model;
    zn_part part;
    zn_shape frame; /* of the part's input */
    const zn_clip_options *options;
    bool turns;         /* packed weights are there only while their stage is */
    unsigned lean;      /* bits 2 i and 2 i + 1: zn_exec_options.lean of stage i + 1 */
    bool wide[ZN_KEPT]; /* what a layer keeps is F32 (zn_clip_agree_types) */
} zn_clip_work;

/* Graph and executor for pieces of the other kind, which wait on a device: first pieces while later ones run, and the
 * other way round. So the weights stay there, and the next clip begins at once. */
typedef struct zn_clip_parked {
    bool later;
    zn_graph *graph;
    zn_exec *exec;
    zn_node *x, *y;
    zn_stream stream;
    double flops;
} zn_clip_parked;

typedef struct zn_clip_stage {
    int number; /* counted from 1; 0: the whole network */
    int parts;  /* of a piece's frames that it takes one at a time; of later pieces */
    bool later; /* what the graph is for: not the first piece */
    zn_graph *graph;
    zn_exec *exec;
    zn_packs *packs; /* its own, where weights take turns */
    zn_node *x, *y;
    zn_stream stream;
    double flops;        /* of a run */
    double coarse;       /* of these, those that are not computed in f32 */
    int fp8;             /* convolutions of the graph that multiply FP8 numbers */
    void *kept[ZN_KEPT]; /* what layers retain: outputs of a run, and inputs of the next */
    zn_type kept_type[ZN_KEPT];
    int kept_count;
    zn_device *device; /* where these are, or NULL: the host's memory then has addresses only */
    zn_clip_parked parked;
    float *made;  /* of a stage with a number, all but the last: its results, until the next stage has taken them */
    float *given; /* frames for the next run, if they come from several runs of the stage before */
    int filled;   /* frames of these */
} zn_clip_stage;

/* Memory of a stage. */
typedef struct zn_clip_bytes {
    size_t run;         /* maps and scratch; of the whole network with its input and result */
    size_t kept;        /* between runs */
    size_t prepared;    /* packed weights */
    size_t fetched;     /* values on their way from the file while weights are packed */
    size_t given, made; /* frames and results of a run */
    double flops;       /* of a run */
} zn_clip_bytes;

/* The number of frames that go in and come out of a piece at every cut: counts[0] = frames, then at each cut, then the
 * result. *cuts: their number. */
ZN_MUST_USE zn_status zn_clip_count_frames(const zn_clip_work *w, int frames, bool later, int counts[ZN_CUTS + 2],
                                           int *cuts);
/* ZN_EUNSUPPORTED if FP8 is asked for and no layer would use it. */
ZN_MUST_USE zn_status zn_clip_check_fp8(const zn_clip_work *w, int first_frames, int later_frames);
/* On a device: makes the graphs of the first piece and of later ones choose the same types for what layers keep, F32
 * where they differ, so that nothing is converted between pieces and both graphs can stay (zn_clip_parked). */
ZN_MUST_USE zn_status zn_clip_agree_types(zn_clip_work *w, int first_frames, int later_frames);
/* Without allocating it. frames: of the whole piece. */
ZN_MUST_USE zn_status zn_clip_stage_measure(const zn_clip_work *w, int number, int parts, int frames, bool later,
                                            zn_clip_bytes *out);

/* Makes a stage ready to run for a piece of so many frames; does nothing where it is. */
ZN_MUST_USE zn_status zn_clip_stage_start(zn_clip_stage *s, const zn_clip_work *w, int frames, bool later,
                                          zn_progress_fn progress, void *user);
/* Checks that the results are finite. */
ZN_MUST_USE zn_status zn_clip_stage_run(zn_clip_stage *s);
/* Gives up the executor's memory. */
void zn_clip_stage_stop(zn_clip_stage *s);
void zn_clip_stage_clear(zn_clip_stage *s);

#endif
