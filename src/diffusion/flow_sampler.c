/* The walk along a flow. */
#include "diffusion/flow_sampler.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "diffusion/flow.h"

#include <math.h>

int zn_flow_first(int steps, double strength)
{
    const double asked = steps * strength;
    const int first = (int)(steps - (asked < steps ? asked : steps));
    return strength > 0 && first == steps ? steps - 1 : first;
}

void zn_flow_guide(const float *wanted, const float *unwanted, float guidance, float longest, float *out, int64_t count)
{
    double before = 0, after = 0;
    for (int64_t i = 0; i < count; i++) {
        const float guided = wanted[i] + guidance * (wanted[i] - unwanted[i]);
        before += (double)wanted[i] * (double)wanted[i];
        after += (double)guided * (double)guided;
        out[i] = guided;
    }
    const double most = (double)longest * sqrt(before);
    if (longest <= 0 || sqrt(after) <= most)
        return;
    const float factor = (float)(most / sqrt(after));
    for (int64_t i = 0; i < count; i++)
        out[i] *= factor;
}

static zn_status step(const zn_flow_sampling *s, int i, float *x, float *out, float *unwanted)
{
    ZN_TRY(s->predict(s->self, x, i, false, out));
    if (unwanted && zn_flow_time(s->sigma[i]) <= s->until) {
        ZN_TRY(s->predict(s->self, x, i, true, unwanted));
        zn_flow_guide(out, unwanted, s->guidance, s->longest, out, s->count);
    }
    zn_flow_step(x, out, s->sigma[i], s->sigma[i + 1], s->count);
    return s->done ? s->done(s->self, i, x, out) : ZN_OK;
}

zn_status zn_flow_sample(const zn_flow_sampling *s, float *x)
{
    const bool guided = s->guidance > 0;
    const size_t bytes = sizeof(float) * (size_t)s->count;
    float *out;
    ZN_TRY(zn_alloc_for("a step of the flow", bytes * (guided ? 2 : 1), (void **)&out));
    zn_status status = ZN_OK;
    for (int i = s->first; i < s->steps && status == ZN_OK; i++)
        status = step(s, i, x, out, guided ? out + s->count : NULL);
    zn_free(out);
    return status;
}
