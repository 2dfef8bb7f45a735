/* The schedule of flow matching and what is done at each of its steps. */
#include "diffusion/flow.h"

#include <math.h>

void zn_flow_sigmas(int steps, float shift, float *sigma)
{
    for (int i = 0; i < steps; i++) {
        const double s = 1 - (double)i / steps;
        sigma[i] = (float)((double)shift * s / (1 + ((double)shift - 1) * s));
    }
    sigma[steps] = 0;
}

void zn_flow_sigmas_dynamic(int steps, double mu, float *sigma)
{
    for (int i = 0; i < steps; i++) {
        const double s = 1 - (double)i / steps;
        sigma[i] = (float)(exp(mu) / (exp(mu) + (1 / s - 1)));
    }
    sigma[steps] = 0;
}

/* A straight line through 0.5 at 256 tokens and 1.15 at 4096. */
double zn_flow_mu(int64_t tokens) { return 0.5 + (1.15 - 0.5) * ((double)tokens - 256) / (4096 - 256); }

float zn_flow_time(float sigma) { return (1000 - 1000 * sigma) / 1000; }

void zn_flow_step(float *x, const float *out, float sigma, float next, int64_t count)
{
    const float by = sigma - next;
    for (int64_t i = 0; i < count; i++)
        x[i] += by * out[i];
}

void zn_flow_estimate(const float *x, const float *out, float sigma, float *image, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        image[i] = x[i] + sigma * out[i];
}

void zn_flow_mix(const float *image, const float *noise, float sigma, float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = (1 - sigma) * image[i] + sigma * noise[i];
}
