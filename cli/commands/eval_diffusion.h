/* zenith eval for models that draw images from noise. */
#ifndef ZN_CLI_EVAL_DIFFUSION_H
#define ZN_CLI_EVAL_DIFFUSION_H

#include "options/options.h"
#include "ui/progress.h"

#include <zenith/zenith.h>

/* Judges the model and prints the result. Returns the exit status. */
int eval_diffusion(const options *o, const zn_model *model, progress *bar);

#endif
