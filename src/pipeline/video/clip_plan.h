/* How a clip is run so that it keeps to its memory. */
#ifndef ZN_PIPELINE_CLIP_PLAN_H
#define ZN_PIPELINE_CLIP_PLAN_H

#include "pipeline/video/clip_stage.h"

typedef struct zn_clip_plan {
    int stages;               /* 0: the whole network at once */
    int parts[ZN_CUTS + 1];   /* by stage: what a later piece's frames are divided into */
    bool turns;               /* see zn_clip_work */
    unsigned lean;            /* likewise */
    int peak;                 /* the stage that takes most, counted from 0 */
    size_t run, kept, packed; /* bytes of the pieces that take most: of what runs at a time; kept; of packed weights */
    double first, later;      /* operations of a piece */
} zn_clip_plan;

/* The first of these that fits: the whole network, stages, stages whose weights take turns, the same with leaner
 * weights in as few stages as will do. frames: of the pieces. */
ZN_MUST_USE zn_status zn_clip_plan_make(zn_clip_work *w, int first_frames, int later_frames, zn_clip_plan *out);
/* The one that takes least. */
ZN_MUST_USE zn_status zn_clip_plan_least(zn_clip_work *w, int first_frames, int later_frames, zn_clip_plan *out);

#endif
