/* The passes of group norm over maps (norm.h), a vector of channels at a time. */
#include "kernels/norm.h"
#include "kernels/simd/basic/silu.h"
#include "kernels/simd/lanes.h"

void ZN_KERNEL(norm_sums)(const void *args, zn_range r);
void ZN_KERNEL(norm_apply)(const void *args, zn_range r);
void ZN_KERNEL(norm_grad_sums)(const void *args, zn_range r);
void ZN_KERNEL(norm_grad)(const void *args, zn_range r);

/* Four vectors of channels at a time, so that their sums are independent; then single vectors, then a partial one. */
enum { WIDE = 4 };

/* Calls body(across, n, at): `across` vectors of n lanes, starting at channel `at`. */
#define FOR_CHANNELS(channels, body)                                                                                   \
    do {                                                                                                               \
        int c_ = 0;                                                                                                    \
        for (; c_ + WIDE * VEC_LANES <= (channels); c_ += WIDE * VEC_LANES)                                            \
            body(WIDE, VEC_LANES, c_);                                                                                 \
        for (; c_ + VEC_LANES <= (channels); c_ += VEC_LANES)                                                          \
            body(1, VEC_LANES, c_);                                                                                    \
        if (c_ < (channels))                                                                                           \
            body(1, (channels)-c_, c_);                                                                                \
    } while (0)
#define ACROSS _Pragma("GCC unroll 4") for (int u = 0; u < across; u++)

VEC_INLINE void sums(const int across, const int n, const zn_norm_args *a, int64_t begin, int64_t end, int c, float *to)
{
    vec mean[WIDE], square[WIDE];
    ACROSS mean[u] = square[u] = vec_splat(0);
    for (int64_t p = begin; p < end; p++)
        ACROSS mean[u] = mean[u] + load(a->x + p * a->c + c + u * VEC_LANES, n);
    ACROSS mean[u] = mean[u] / vec_splat((float)(end - begin));
    for (int64_t p = begin; p < end; p++)
        ACROSS
        {
            const vec off = load(a->x + p * a->c + c + u * VEC_LANES, n) - mean[u];
            square[u] = vec_fma(off, off, square[u]);
        }
    ACROSS store(to + c + u * VEC_LANES, mean[u], n);
    ACROSS store(to + a->c + c + u * VEC_LANES, square[u], n);
}

void ZN_KERNEL(norm_sums)(const void *args, zn_range r)
{
    const zn_norm_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        int64_t begin, end;
        zn_norm_block_of(a, unit, &begin, &end);
#define BODY(across, n, at) sums(across, n, a, begin, end, at, a->partial + unit * 2 * a->c)
        FOR_CHANNELS(a->c, BODY);
#undef BODY
    }
}

VEC_INLINE void apply(const zn_activation act, const int across, const int n, const float *x, const float *factors,
                      const float *shifts, float *y)
{
    vec v[WIDE];
    for (int u = across; u < WIDE; u++)
        v[u] = vec_splat(0);
    ACROSS v[u] =
        vec_fma(load(x + u * VEC_LANES, n), load(factors + u * VEC_LANES, n), load(shifts + u * VEC_LANES, n));
    if (act == ZN_ACT_SILU)
        silu(v);
    if (act == ZN_ACT_RELU)
        ACROSS v[u] = vec_max(v[u], vec_splat(0));
    ACROSS store(y + u * VEC_LANES, v[u], n);
}

VEC_INLINE void apply_all(const zn_activation act, const zn_norm_args *a, zn_range r)
{
    for (int64_t p = r.begin; p < r.end; p++) {
        const float *factors = a->table + p / a->pixels * 3 * a->c, *shifts = factors + a->c, *x = a->x + p * a->c;
        float *y = a->y + p * a->c;
#define BODY(across, n, at) apply(act, across, n, x + (at), factors + (at), shifts + (at), y + (at))
        FOR_CHANNELS(a->c, BODY);
#undef BODY
    }
}

void ZN_KERNEL(norm_apply)(const void *args, zn_range r)
{
    const zn_norm_args *a = args;
    if (a->act == ZN_ACT_SILU)
        apply_all(ZN_ACT_SILU, a, r);
    else if (a->act == ZN_ACT_RELU)
        apply_all(ZN_ACT_RELU, a, r);
    else
        apply_all(ZN_ACT_NONE, a, r);
}

VEC_INLINE void grad_sums(const int across, const int n, const zn_norm_args *a, int64_t begin, int64_t end, int c,
                          float *to)
{
    const float *scales = a->table + begin / a->pixels * 3 * a->c + c, *shifts = scales + a->c;
    vec product[WIDE], sum[WIDE], scale[WIDE], shift[WIDE];
    ACROSS product[u] = sum[u] = vec_splat(0);
    ACROSS scale[u] = load(scales + u * VEC_LANES, n);
    ACROSS shift[u] = load(shifts + u * VEC_LANES, n);
    for (int64_t p = begin; p < end; p++)
        ACROSS
        {
            const int64_t at = p * a->c + c + u * VEC_LANES;
            const vec dy = load(a->dy + at, n);
            product[u] = vec_fma(dy, vec_fma(load(a->x + at, n), scale[u], shift[u]), product[u]);
            sum[u] = sum[u] + dy;
        }
    ACROSS store(to + c + u * VEC_LANES, product[u], n);
    ACROSS store(to + a->c + c + u * VEC_LANES, sum[u], n);
}

void ZN_KERNEL(norm_grad_sums)(const void *args, zn_range r)
{
    const zn_norm_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        int64_t begin, end;
        zn_norm_block_of(a, unit, &begin, &end);
#define BODY(across, n, at) grad_sums(across, n, a, begin, end, at, a->partial + unit * 2 * a->c)
        FOR_CHANNELS(a->c, BODY);
#undef BODY
    }
}

VEC_INLINE void grad(const int across, const int n, const zn_norm_args *a, int64_t at, const float *table)
{
    ACROSS
    {
        const int64_t i = at + u * VEC_LANES;
        const float *t = table + u * VEC_LANES;
        const vec rest = vec_fma(load(t + a->c, n), load(a->x + i, n), load(t + 2 * a->c, n));
        store(a->y + i, vec_fma(load(t, n), load(a->dy + i, n), rest), n);
    }
}

void ZN_KERNEL(norm_grad)(const void *args, zn_range r)
{
    const zn_norm_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++) {
        const float *table = a->table + p / a->pixels * 3 * a->c;
#define BODY(across, n, at) grad(across, n, a, p * a->c + (at), table + (at))
        FOR_CHANNELS(a->c, BODY);
#undef BODY
    }
}
