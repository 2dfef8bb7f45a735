/* The blocks in the table of case_zenith.c: the Lite and Prune blocks of the original, and those of Zenith-R. */
#ifndef ZN_GOLDEN_ZENITH_BLOCKS_H
#define ZN_GOLDEN_ZENITH_BLOCKS_H

#include "golden.h"

zn_status zenith_lite_run(golden *g);
zn_status zenith_lite_r_run(golden *g);
zn_status zenith_prune_run(golden *g);
zn_status zenith_prune_r_run(golden *g);

#endif
