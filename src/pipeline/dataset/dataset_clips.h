/* Data sets of clips: a fixed number of successive frames of a video each, stored as one image, one below the other,
 * under a name that says how many there are (zn_dataset_frames). */
#ifndef ZN_DATASET_CLIPS_H
#define ZN_DATASET_CLIPS_H

#include <zenith/dataset.h>

/* Inputs are video files and folders of frames or of video files; the options must be complete. Rank 0 does the work.
 */
ZN_MUST_USE zn_status zn_dataset_build_clips(const zn_dataset_build_options *o, zn_dataset_build_result *out);

#endif
