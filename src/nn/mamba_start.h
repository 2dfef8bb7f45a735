/* Rules for the initial values of Mamba mixers; nn/start.h has the others. */
#ifndef ZN_NN_MAMBA_START_H
#define ZN_NN_MAMBA_START_H

#include "nn/start.h"

void zn_mamba_start_steps(const zn_fresh *p, float a); /* bias of dt_proj: time steps from 0.001 to 0.1 */
void zn_mamba_start_rates(const zn_fresh *p, float a); /* A_log: the logarithms of 1, 2, 3... for each channel */
void zn_mamba_start_sum(const zn_fresh *p, float a);   /* out_proj, one of a mixers whose results are added */

#endif
