/* Converts command-line options that control the computation to library options. */
#ifndef ZN_CLI_COMPUTE_H
#define ZN_CLI_COMPUTE_H

#include "options/options.h"
#include "ui/progress.h"

#include <zenith/options.h>

/* bar (may be NULL) shows the progress. */
zn_options compute_options(const options *o, progress *bar);

#endif
