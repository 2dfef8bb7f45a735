/* The blocks of case_zenith.c's table: the original's Lite and Prune blocks, and Zenith-R's. */
#ifndef ZN_GOLDEN_ZENITH_BLOCKS_H
#define ZN_GOLDEN_ZENITH_BLOCKS_H

#include "golden.h"

zn_status zenith_lite_run(golden *g);
zn_status zenith_lite_r_run(golden *g);
zn_status zenith_prune_run(golden *g);
zn_status zenith_prune_r_run(golden *g);

#endif
