/* Shared by the TAESD cases. */
#ifndef ZN_GOLDEN_TAESD_H
#define ZN_GOLDEN_TAESD_H

#include "golden.h"

/* Checks the loss of in.image2, its gradients and the updates of AdamW, if the file has them. */
zn_status taesd_check_training(golden *g, const zn_model *m);

#endif
