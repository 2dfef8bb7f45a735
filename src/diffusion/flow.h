/* Flow matching: x = (1 - sigma) image + sigma noise, and a network that tells which way x moves as sigma falls. The
 * schedule says at which values of sigma it is asked.
 *
 *     float sigma[9];
 *     zn_flow_sigmas(8, 3, sigma);                       // 1, 0.9545, ..., 0.3, 0
 *     for (i < 8) { out = network(x, zn_flow_time(sigma[i])); zn_flow_step(x, out, sigma[i], sigma[i + 1], count); } */
#ifndef ZN_FLOW_H
#define ZN_FLOW_H

#include <stdint.h>

/* steps + 1 values, falling from 1 to 0. shift above 1 spends more of the steps at high noise. */
void zn_flow_sigmas(int steps, float shift, float *sigma);
/* The same with a shift of e^mu, as it grows with the size of the image: mu of so many image tokens. */
void zn_flow_sigmas_dynamic(int steps, double mu, float *sigma);
double zn_flow_mu(int64_t tokens);

/* What the network is given: 0 for noise, 1 for the image; computed from the timestep 1000 sigma as it was trained. */
float zn_flow_time(float sigma);

/* Euler's step. out: what the network gave, image minus noise. */
void zn_flow_step(float *x, const float *out, float sigma, float next, int64_t count);
/* The image as the network sees it at this point. image may be x. */
void zn_flow_estimate(const float *x, const float *out, float sigma, float *image, int64_t count);
/* x = (1 - sigma) image + sigma noise; x may be either. */
void zn_flow_mix(const float *image, const float *noise, float sigma, float *x, int64_t count);

#endif
