/* Scores of pairs of images, for evaluations: as zn_scorer_compare, with a choice. */
#ifndef ZN_SCORER_H
#define ZN_SCORER_H

#include <stdbool.h>
#include <zenith/eval.h>

zn_scores zn_no_scores(void); /* all NaN */

/* perceives false: without LPIPS, which takes most of the time. */
ZN_MUST_USE zn_status zn_scorer_measure(zn_scorer *s, const zn_image *truth, const zn_image *got, bool perceives,
                                        zn_scores *out);

#endif
