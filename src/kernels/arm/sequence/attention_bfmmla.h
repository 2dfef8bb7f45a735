/* Attention with BFMMLA. */
#ifndef ZN_ARM_ATTENTION_BFMMLA_H
#define ZN_ARM_ATTENTION_BFMMLA_H

#include "base/threads.h"

#include <stdbool.h>

bool zn_attention_bfmmla_supports(const void *attention_args);
void zn_attention_bfmmla(const void *attention_args, zn_range units);

#endif
