/* Initial values of Mamba mixers, as in the public package: time steps between 0.001 and 0.1, rates 1, 2, 3... */
#include "base/text.h"
#include "nn/mamba.h"

#include <math.h>

void zn_start_linear(int64_t inputs, zn_shape shape, zn_rng *rng, float *out)
{
    const float limit = 1 / sqrtf((float)inputs);
    for (int64_t i = 0; i < zn_shape_count(shape); i++)
        out[i] = limit * (2 * zn_rng_uniform(rng) - 1);
}

static int64_t from_end(zn_shape s, int k) { return s.dim[s.rank - k]; }

/* The inverse of softplus of a random time step. */
static void start_steps(zn_shape s, zn_rng *rng, float *out)
{
    const double low = log(0.001), high = log(0.1);
    for (int64_t i = 0; i < zn_shape_count(s); i++) {
        const double dt = fmax(exp(low + (high - low) * (double)zn_rng_uniform(rng)), 1e-4);
        out[i] = (float)(dt + log(-expm1(-dt)));
    }
}

bool zn_mamba_start(const zn_mamba *k, const char *name, zn_shape s, int layers, zn_rng *rng, float *out)
{
    const int64_t count = zn_shape_count(s);
    if (zn_ending(name, "mixer.A_log")) {
        for (int64_t i = 0; i < count; i++)
            out[i] = logf((float)(1 + i % from_end(s, 1)));
    } else if (zn_ending(name, "mixer.D")) {
        for (int64_t i = 0; i < count; i++)
            out[i] = 1;
    } else if (zn_ending(name, "mixer.dt_proj.bias")) {
        start_steps(s, rng, out);
    } else if (zn_ending(name, "mixer.conv1d.weight")) {
        zn_start_linear(from_end(s, 1), s, rng, out);
    } else if (zn_ending(name, "mixer.conv1d.bias")) {
        zn_start_linear(k->taps, s, rng, out);
    } else if (zn_ending(name, "mixer.in_proj.weight") || zn_ending(name, "mixer.x_proj.weight") ||
               zn_ending(name, "mixer.dt_proj.weight")) {
        zn_start_linear(from_end(s, 2), s, rng, out);
    } else if (zn_ending(name, "mixer.out_proj.weight")) {
        zn_start_linear(from_end(s, 2), s, rng, out);
        for (int64_t i = 0; i < count; i++)
            out[i] /= sqrtf((float)layers);
    } else {
        return false;
    }
    return true;
}
