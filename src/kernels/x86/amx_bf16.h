/* The kernels of the table for CPUs with AMX tiles of bf16. */
#ifndef ZN_KERNELS_X86_AMX_BF16_H
#define ZN_KERNELS_X86_AMX_BF16_H

#include "base/threads.h"

#include <stdbool.h>

void zn_matrix_bf16_amx(const void *matrix_bf16_args, zn_range units);

void zn_attention_amx(const void *attention_args, zn_range units);
/* Heads of 64 to 128 numbers, in steps of 32, where bf16 is allowed; not causal. */
bool zn_attention_amx_supports(const void *attention_args);

#endif
