/* Scores beyond PSNR and SSIM: perceptual distances and kept detail. */
#ifndef ZN_UI_SCORES_H
#define ZN_UI_SCORES_H

#include "options/options.h"
#include "ui/facts.h"

#include <zenith/eval.h>

/* A figure of a table, written to text, which is returned; "-" where it was not measured (NaN). */
const char *measured(double v, int decimals, char text[32]);
/* lpips_alex, lpips_squeeze, and lists luma_kept and chroma_kept, finest scale first; null where not measured. */
void perception_json(json *j, const zn_scores *s);
/* The same as facts, after ms_ssim; in text only what was measured. */
void fact_perception(facts *f, const zn_scores *s);
/* Remarks that a distance of sets of so few images says little. */
void note_few_images(const options *o, int64_t count);

#endif
