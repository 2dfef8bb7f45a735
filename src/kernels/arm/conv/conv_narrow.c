/* 1x1 convolution from or to at most four channels for AArch64. The blocks of simd/conv/narrow.h handle a residual
 * or an activation. Each instruction of a block is its own `asm volatile` (wht_pass.h): sums and weights are loaded
 * where they are used, because a Neoverse-V1 reads only four registers per cycle that were ready when an instruction
 * entered the queue. */
#include "kernels/arm/pinned.h"
#include "kernels/simd/conv/narrow.h"

extern const zn_conv_kernel zn_conv_narrow_arm;

enum {
    NARROW_AHEAD = 2,   /* weights in flight before they are used */
    NARROW_EARLY = 2048 /* distance in floats at which pixels are prefetched into L2 */
};
#define NARROW_UNROLL _Pragma("GCC unroll 16")

/* Sixteen outputs of four pixels, starting with the bias: cin (a compile-time constant) channels of x, which holds 4
 * * cin floats. Weights are [cin][16]; pixel p of y begins at y + p * step. */
VEC_INLINE void narrow_spread(const int cin, const vec *x, const float *w, const float *bias, float *y, int64_t step)
{
    vec sum[4][4], next[NARROW_AHEAD];
    NARROW_UNROLL for (int k = 0; k < NARROW_AHEAD; k++) next[k] = vec_load_pinned(w, k * VEC_LANES);
    NARROW_UNROLL for (int p = 0; p < 4; p++) sum[p][0] = vec_load_pinned(bias, 0);
    NARROW_UNROLL for (int k = 0; k < 4 * cin; k++)
    {
        const int i = k / 4, u = k % 4;
        const vec wu = next[k % NARROW_AHEAD];
        if (k + NARROW_AHEAD < 4 * cin)
            next[k % NARROW_AHEAD] = vec_load_pinned(w, (k + NARROW_AHEAD) * VEC_LANES);
        NARROW_UNROLL for (int p = 0; p < 4; p++)
        {
            if (k < 3)
                sum[p][k + 1] = vec_load_pinned(bias, (k + 1) * VEC_LANES);
            vec_fma_pinned(&sum[p][u], wu, x[(p * cin + i) / 4], (p * cin + i) % 4);
        }
    }
    NARROW_UNROLL for (int p = 0; p < 4; p++, y += step) vec_store_line_pinned(y, sum[p]);
}

#define NARROW_AT_ONCE(cout) ((cout) == 4 ? 4 : 8)

/* y = bias + w x for NARROW_AT_ONCE(cout) neighbours; cout is a compile-time constant. A pixel has `count` runs of
 * `size` floats, `next` floats apart; each is followed by the run of its neighbour. w is [cout][count * size]. Sums
 * are in the order of vec_sum. */
VEC_INLINE void narrow_gather(const int cout, const float *x, int64_t next, int count, int size, const float *w,
                              const float *bias, float *y)
{
    const int pixels = NARROW_AT_ONCE(cout);
    const int64_t row = (int64_t)count * size;
    vec sum[8][4];
    NARROW_UNROLL for (int p = 0; p < pixels; p++)
    {
        NARROW_UNROLL for (int o = 0; o < cout; o++) __asm__ volatile("movi %0.4s, 0" : "=w"(sum[p][o]));
    }
    for (int r = 0; r < count; r++, x += next)
        for (int k = 0; k < size; k += VEC_LANES, w += VEC_LANES) {
            vec v[4];
            NARROW_UNROLL for (int o = 0; o < cout; o++) v[o] = vec_load_pinned(w + o * row, 0);
            NARROW_UNROLL for (int p = 0; p < pixels; p += 4)
                vec_fetch_pinned(x + NARROW_EARLY + pixels * k + 4 * p, 0);
            NARROW_UNROLL for (int p = 0; p < pixels; p++)
            {
                const vec m = vec_load_pinned(x + p * (int64_t)size + k, 0);
                NARROW_UNROLL for (int o = 0; o < cout; o++) __asm__ volatile("fmla %0.4s, %1.4s, %2.4s" :
                                                                              "+w"(sum[p][o]) : "w"(m), "w"(v[o]));
            }
        }
    NARROW_UNROLL for (int p = 0; p < pixels; p += 4, y += 4 * cout)
    {
        float32x4x4_t out;
        NARROW_UNROLL for (int o = 0; o < cout; o++) out.val[o] =
            vpaddq_f32(vpaddq_f32(sum[p][o], sum[p + 1][o]), vpaddq_f32(sum[p + 2][o], sum[p + 3][o])) +
            vdupq_n_f32(bias[o]);
        if (cout == 1)
            vst1q_f32(y, out.val[0]);
        else if (cout == 2)
            vst2q_f32(y, ((float32x4x2_t){ { out.val[0], out.val[1] } }));
        else if (cout == 3)
            vst3q_f32(y, ((float32x4x3_t){ { out.val[0], out.val[1], out.val[2] } }));
        else
            vst4q_f32(y, out);
    }
}

static bool is_plain(const zn_conv_args *a) { return !a->residual && !a->relu; }

VEC_INLINE void spread_four_pinned(const int cin, const zn_conv_args *a, const float *bias, int64_t pixel)
{
    if (!is_plain(a)) {
        spread_four(cin, a, bias, pixel);
        return;
    }
    const zn_conv_shape *s = &a->s;
    const int parts = s->shuffle ? 4 : 1, each = s->cout / parts;
    const float *x = a->x + pixel * cin, *w = a->packed;
    vec m[NARROW];
#pragma GCC unroll 4
    for (int i = 0; i < cin; i++)
        m[i] = vec_load(x + i * VEC_LANES);
    vec_pinned_fence();
    for (int sub = 0; sub < parts; sub++) {
        float *y =
            a->y + (s->shuffle ? zn_conv_sub_pixel(pixel / s->ow, s->ow, pixel % s->ow, sub, each) : pixel * s->cout);
        const int64_t step = s->shuffle ? 2 * (int64_t)each : each;
        for (int o = 0; o < each; o += WIDE)
            narrow_spread(cin, m, w + (sub * each + o) * cin, bias + sub * each + o, y + o, step);
    }
    vec_pinned_fence();
}

VEC_INLINE int gather_some_pinned(const int cout, const zn_conv_args *a, const float *bias, int64_t pixel, int64_t left)
{
    if (left < NARROW_AT_ONCE(cout) || !is_plain(a))
        return gather_some(cout, a, bias, pixel, left);
    const runs q = runs_of(a, pixel);
    vec_pinned_fence();
    narrow_gather(cout, q.x, q.next, q.count, q.size, a->packed, bias, a->y + pixel * cout);
    vec_pinned_fence();
    return NARROW_AT_ONCE(cout);
}

static void run(const void *args, zn_range r) { narrow_run(args, r, spread_four_pinned, gather_some_pinned); }

const zn_conv_kernel zn_conv_narrow_arm = {
    .name = "narrow-f32-arm",
    .math = ZN_PRECISION_F32,
    .cpu = VEC_CPU,
    .tolerance = 5e-6f,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = zn_conv_direct_flops,
};
