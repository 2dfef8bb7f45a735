/* What zn_eval says of clips. */
#ifndef ZN_EVAL_CLIPS_H
#define ZN_EVAL_CLIPS_H

#include "io/dataset/dataset.h"
#include "pipeline/eval/scorer.h"

#include <zenith/video.h>

/* Whether any record is a clip. */
bool zn_eval_has_clips(const zn_dataset *data);

/* A clip, whose frames are one below the other in an image, through a video autoencoder and back: time, size of a
 * frame, and scores, which are means over frames, with flicker. */
ZN_MUST_USE zn_status zn_eval_clip(zn_video *video, zn_scorer *scorer, const zn_model_info *model,
                                   const zn_image *strip, int frames, zn_eval_row *row);

#endif
