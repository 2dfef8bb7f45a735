/* What TAESD cases share. */
#ifndef ZN_GOLDEN_TAESD_H
#define ZN_GOLDEN_TAESD_H

#include "golden.h"

/* The loss of in.image2, its gradients and AdamW's updates, where the file has them. */
zn_status taesd_check_training(golden *g, const zn_model *m);

#endif
