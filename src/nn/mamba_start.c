/* Initial values of Mamba mixers, as in the public package: time steps between 0.001 and 0.1, rates 1, 2, 3... */
#include "nn/mamba_start.h"

#include <math.h>

/* The inverse of softplus of a random time step. */
void zn_mamba_start_steps(const zn_fresh *p, float a)
{
    (void)a;
    const double low = log(0.001), high = log(0.1);
    for (int64_t i = 0; i < zn_shape_count(p->shape); i++) {
        const double dt = fmax(exp(low + (high - low) * (double)zn_rng_uniform(p->rng)), 1e-4);
        p->out[i] = (float)(dt + log(-expm1(-dt)));
    }
}

void zn_mamba_start_rates(const zn_fresh *p, float a)
{
    (void)a;
    for (int64_t i = 0; i < zn_shape_count(p->shape); i++)
        p->out[i] = logf((float)(1 + i % p->shape.dim[p->shape.rank - 1]));
}

void zn_mamba_start_sum(const zn_fresh *p, float a)
{
    zn_start_linear(p, 0);
    for (int64_t i = 0; i < zn_shape_count(p->shape); i++)
        p->out[i] /= sqrtf(a);
}
