/* Initial values of the Zenith networks, as their specification tables give them. */
#include "models/zenith/zenith.h"

#include <math.h>

static int64_t last_side(const zn_fresh *p) { return p->shape.dim[p->shape.rank - 1]; }

void zn_start_shared(const zn_fresh *p, float a)
{
    const int64_t outputs = last_side(p), group = (int64_t)a;
    zn_start_he(p, 1);
    for (int64_t i = 0; i < zn_shape_count(p->shape); i++)
        p->out[i] = p->out[i - i % outputs % group];
}

void zn_start_eyes(const zn_fresh *p, float a)
{
    zn_start_normal(p, a);
    for (int64_t i = 4; i < zn_shape_count(p->shape); i += 9)
        p->out[i] += 1;
}

void zn_start_dense_eyes(const zn_fresh *p, float a)
{
    zn_start_normal(p, a * sqrtf(2 / (float)zn_shape_count(p->shape)));
}

void zn_start_inverse(const zn_fresh *p, float a) { zn_start_value(p, a / (float)last_side(p)); }
void zn_start_root(const zn_fresh *p, float a) { zn_start_normal(p, a / sqrtf((float)last_side(p))); }

void zn_start_mixer(const zn_fresh *p, float a)
{
    for (int64_t i = 0; i < zn_shape_count(p->shape); i++)
        p->out[i] = i / p->shape.dim[1] == 1 ? a : 0;
}

void zn_start_permutation(const zn_fresh *p, float a)
{
    (void)a;
    const int64_t length = last_side(p);
    for (int64_t row = 0; row < zn_shape_count(p->shape) / length; row++) {
        float *order = p->out + row * length;
        for (int64_t i = 0; i < length; i++)
            order[i] = (float)i;
        for (int64_t i = length - 1; i > 0 && row > 0; i--) {
            const int64_t k = (int64_t)(zn_rng_next(p->rng) % (uint64_t)(i + 1));
            const float keep = order[i];
            order[i] = order[k];
            order[k] = keep;
        }
    }
}
