/* Initial values of the Zenith networks, as their specification tables give them. */
#include "base/text.h"
#include "models/zenith/zenith.h"

#include <math.h>

static float last_side(zn_shape s) { return (float)s.dim[s.rank - 1]; }

/* Inputs that one output sums: convolutions [k,k,in,out] or [k,k,k,in,out], groups [g,out,in]. */
static float fan_in(zn_shape s) { return s.rank >= 4 ? (float)zn_shape_count(s) / last_side(s) : last_side(s); }

void zn_start_value(zn_shape s, float a, zn_rng *rng, float *out)
{
    (void)rng;
    for (int64_t i = 0; i < zn_shape_count(s); i++)
        out[i] = a;
}

void zn_start_normal(zn_shape s, float a, zn_rng *rng, float *out)
{
    for (int64_t i = 0; i < zn_shape_count(s); i++)
        out[i] = a * zn_rng_normal(rng);
}

void zn_start_he(zn_shape s, float a, zn_rng *rng, float *out)
{
    zn_start_normal(s, a * sqrtf(2 / fan_in(s)), rng, out);
}

void zn_start_uniform(zn_shape s, float a, zn_rng *rng, float *out)
{
    const float limit = a * sqrtf(2 / fan_in(s));
    for (int64_t i = 0; i < zn_shape_count(s); i++)
        out[i] = limit * (2 * zn_rng_uniform(rng) - 1);
}

/* In front of a pixel shuffle: equal sub-pixels make it start as nearest up-sampling. */
void zn_start_shared(zn_shape s, float a, zn_rng *rng, float *out)
{
    const int64_t outputs = s.dim[s.rank - 1], group = (int64_t)a;
    zn_start_he(s, 1, rng, out);
    for (int64_t i = 0; i < zn_shape_count(s); i++)
        out[i] = out[i - i % outputs % group];
}

void zn_start_eyes(zn_shape s, float a, zn_rng *rng, float *out)
{
    zn_start_normal(s, a, rng, out);
    for (int64_t i = 4; i < zn_shape_count(s); i += 9)
        out[i] += 1;
}

void zn_start_dense_eyes(zn_shape s, float a, zn_rng *rng, float *out)
{
    zn_start_normal(s, a * sqrtf(2 / (float)zn_shape_count(s)), rng, out);
}

void zn_start_inverse(zn_shape s, float a, zn_rng *rng, float *out) { zn_start_value(s, a / last_side(s), rng, out); }
void zn_start_root(zn_shape s, float a, zn_rng *rng, float *out)
{
    zn_start_normal(s, a / sqrtf(last_side(s)), rng, out);
}

void zn_start_mixer(zn_shape s, float a, zn_rng *rng, float *out)
{
    (void)rng;
    for (int64_t i = 0; i < zn_shape_count(s); i++)
        out[i] = i / s.dim[1] == 1 ? a : 0;
}

void zn_start_permutation(zn_shape s, float a, zn_rng *rng, float *out)
{
    (void)a;
    const int64_t length = s.dim[s.rank - 1];
    for (int64_t row = 0; row < zn_shape_count(s) / length; row++) {
        float *p = out + row * length;
        for (int64_t i = 0; i < length; i++)
            p[i] = (float)i;
        for (int64_t i = length - 1; i > 0 && row > 0; i--) {
            const int64_t k = (int64_t)(zn_rng_next(rng) % (uint64_t)(i + 1));
            const float keep = p[i];
            p[i] = p[k];
            p[k] = keep;
        }
    }
}

bool zn_start_values(const zn_start_rule *rules, const zn_model_parameter *p, zn_rng *rng)
{
    for (const zn_start_rule *r = rules; r->ends; r++)
        if (zn_ending(p->name, r->ends)) {
            r->start(p->shape, r->a, rng, p->data);
            return true;
        }
    return false;
}
