/* Scores beyond PSNR and SSIM: perceptual distances and kept detail. */
#ifndef ZN_UI_SCORES_H
#define ZN_UI_SCORES_H

#include "ui/facts.h"
#include "ui/options.h"

#include <zenith/eval.h>

/* lpips_alex, lpips_squeeze, and lists luma_kept and chroma_kept, finest scale first; null where not measured. */
void perception_json(json *j, const zn_scores *s);
/* Remarks that a distance of sets of so few images says little. */
void note_few_images(const options *o, int64_t count);
/* The same as facts, after ms_ssim; in text only what was measured. */
void fact_perception(facts *f, const zn_scores *s);

#endif
