/* What zn_eval says of pictures. */
#ifndef ZN_EVAL_SCORE_H
#define ZN_EVAL_SCORE_H

#include "io/dataset/dataset.h"
#include "pipeline/eval/scorer.h"

#include <stddef.h>

/* The images of a data set that are to be judged. */
bool zn_eval_wants(const zn_eval_options *o, const zn_dataset *d, int64_t index);
/* For progress, since time grows with pixels: out[n], freed with zn_free, counts those of the first n images that are
 * wanted. NULL if nobody asks for progress. */
ZN_MUST_USE zn_status zn_eval_count_pixels(const zn_eval_options *o, const zn_dataset *d, double **out);

/* The damaged picture itself and what filters make of it. Non-local means is told how strong the damage is: the
 * deviation of Gaussian noise, of anything else the root of the mean square. */
ZN_MUST_USE zn_status zn_eval_score_plain(const zn_eval_options *o, zn_scorer *scorer, int threads,
                                          const zn_image *picture, const zn_image *damaged, zn_corruption c,
                                          zn_eval_row *row);
/* Means of `count` scores, each `stride` bytes after the one before: every score over those that have it, PSNR over
 * those that are finite; psnr_infinite counts the others. */
zn_scores zn_mean_scores(const zn_scores *first, size_t stride, int64_t count);
/* Means of each group; rows of one picture lie together, in the order of the groups. */
void zn_eval_average(zn_eval_result *r);

#endif
