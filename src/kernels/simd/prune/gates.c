/* Block gates: the mask of eight channels computed from their energy, its application, and the gradients. Every
 * kernel here sums the energy of a block in the same way, so that a mask and its gradient use the same score.
 * Compiled without contraction: scores are rounded as in the reference, and emulators read out of bounds for a
 * scalar multiply-add. */
#include "kernels/gates.h"
#include "kernels/mix.h"
#include "kernels/simd/vec_math.h"

void ZN_KERNEL(gate_mask)(const void *args, zn_range r);
void ZN_KERNEL(gate_mask_grad)(const void *args, zn_range r);
void ZN_KERNEL(gate_mask_param_grad)(const void *args, zn_range r);
void ZN_KERNEL(gate_apply)(const void *args, zn_range r);
void ZN_KERNEL(gate_apply_mask_grad)(const void *args, zn_range r);

enum { BLOCK = ZN_GATE_BLOCK };

/* The energy of eight floats, the same for any vector width. */
VEC_INLINE float energy_of(const float *x) { return quad_sum(quad_abs(quad_load(x)) + quad_abs(quad_load(x + 4))); }

VEC_INLINE float clamp01(float v) { return v < 0 ? 0 : v > 1 ? 1 : v; }

/* Whether noise is used. Tested in advance, because a conditional load becomes a masked one, for which emulators
 * read out of bounds. */
VEC_INLINE bool is_noisy(const zn_gate_args *a) { return a->eps && a->mode == ZN_GATE_SOFT; }

/* The mask of a block, and the soft value it comes from. */
VEC_INLINE float mask_of(const zn_gate_args *a, const bool noisy, float score, int64_t at, float *soft)
{
    *soft = clamp01(0.2f * score + 0.5f + (noisy ? a->temperature * a->eps[at] : 0));
    if (a->mode == ZN_GATE_SOFT)
        return *soft;
    return a->mode == ZN_GATE_HARD ? (score > 0 ? 1.0f : 0.0f) : (*soft > 0.5f ? 1.0f : 0.0f);
}

VEC_INLINE void masks(const zn_gate_args *a, const bool noisy, int64_t p)
{
    const int blocks = a->c / BLOCK;
    for (int b = 0; b < blocks; b++) {
        float soft;
        const float score = a->w[b] * energy_of(a->x + p * a->c + b * BLOCK) + a->v[b];
        a->y[p * blocks + b] = mask_of(a, noisy, score, p * blocks + b, &soft);
    }
}

void ZN_KERNEL(gate_mask)(const void *args, zn_range r)
{
    const zn_gate_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++)
        if (is_noisy(a))
            masks(a, true, p);
        else
            masks(a, false, p);
}

/* ds = 0.2 dm where the soft value is strictly between 0 and 1; none in hard mode. */
VEC_INLINE float score_gradient(const zn_gate_args *a, int64_t p, int b, float energy)
{
    const int64_t at = p * (a->c / BLOCK) + b;
    const float dm = a->dm[at], noise = is_noisy(a) ? a->temperature * a->eps[at] : 0;
    const float soft = clamp01(0.2f * (a->w[b] * energy + a->v[b]) + 0.5f + noise);
    return a->mode != ZN_GATE_HARD && soft > 0 && soft < 1 ? 0.2f * dm : 0;
}

void ZN_KERNEL(gate_mask_grad)(const void *args, zn_range r)
{
    const zn_gate_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int b = 0; b < a->c / BLOCK; b++) {
            const float *x = a->x + p * a->c + b * BLOCK;
            const float ds = score_gradient(a, p, b, energy_of(x)) * a->w[b];
            float *y = a->y + p * a->c + b * BLOCK;
            for (int i = 0; i < BLOCK; i++)
                y[i] = x[i] > 0 ? ds : x[i] < 0 ? -ds : 0;
        }
}

void ZN_KERNEL(gate_mask_param_grad)(const void *args, zn_range r)
{
    const zn_gate_args *a = args;
    const int blocks = a->c / BLOCK;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        float *dw = a->partial + unit * 2 * blocks, *dv = dw + blocks;
        const int64_t begin = unit * ZN_MIX_BLOCK;
        const int64_t end = begin + ZN_MIX_BLOCK < a->pixels ? begin + ZN_MIX_BLOCK : a->pixels;
        memset(dw, 0, sizeof(float) * 2 * (size_t)blocks);
        for (int64_t p = begin; p < end; p++)
            for (int b = 0; b < blocks; b++) {
                const float energy = energy_of(a->x + p * a->c + b * BLOCK), ds = score_gradient(a, p, b, energy);
                dw[b] += ds * energy;
                dv[b] += ds;
            }
    }
}

void ZN_KERNEL(gate_apply)(const void *args, zn_range r)
{
    const zn_gate_args *a = args;
    const int blocks = a->c / BLOCK;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int b = 0; b < blocks; b++) {
            const int64_t at = p * a->c + b * BLOCK;
            const quad m = quad_splat(a->mask[p * blocks + b]);
            quad_store(a->y + at, m * quad_load(a->x + at));
            quad_store(a->y + at + 4, m * quad_load(a->x + at + 4));
        }
}

void ZN_KERNEL(gate_apply_mask_grad)(const void *args, zn_range r)
{
    const zn_gate_args *a = args;
    const int blocks = a->c / BLOCK;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int b = 0; b < blocks; b++) {
            const float *dy = a->dy + p * a->c + b * BLOCK, *x = a->x + p * a->c + b * BLOCK;
            a->y[p * blocks + b] = quad_sum(quad_load(dy) * quad_load(x) + quad_load(dy + 4) * quad_load(x + 4));
        }
}
