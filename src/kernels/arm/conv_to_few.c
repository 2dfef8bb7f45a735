/* 3x3 convolution from many channels to at most three, the last layer of a decoder, direct, fp32.
 *
 * With so few outputs the nine taps are columns of one product: each pixel is multiplied once by all 27 vectors of
 * weights, and an output is the sum of nine of these partial sums of its neighbours. A unit is a strip of outputs; the
 * partial sums of three rows of it stay in the first cache. */
#include "base/cpu.h"
#include "kernels/arm/two.h"
#include "kernels/conv.h"

#include <arm_neon.h>
#include <math.h>
#include <string.h>

enum {
    OUTPUTS = 3,  /* at most */
    COLUMNS = 28, /* 9 taps of 3, and one of zeros */
    WIDE = 64,    /* outputs of a unit */
    TALL = 64,
    SIDE = 3, /* pixels multiplied together: with four, sums and operands would not fit the registers */
    LINE = (WIDE + 2 + SIDE) * COLUMNS,
};

static bool supports(const zn_conv_shape *s)
{
    return s->kh == 3 && s->kw == 3 && s->pad == 1 && s->stride == 1 && !s->up2 && s->cin % 16 == 0 &&
           s->cout <= OUTPUTS;
}

/* [cin][COLUMNS] */
static size_t packed_bytes(const zn_conv_shape *s) { return (size_t)s->cin * COLUMNS * sizeof(float); }

static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    float *to = packed;
    memset(to, 0, packed_bytes(s));
    for (int tap = 0; tap < 9; tap++)
        for (int c = 0; c < s->cin; c++)
            for (int o = 0; o < s->cout; o++)
                to[c * COLUMNS + tap * OUTPUTS + o] = w[((int64_t)tap * s->cin + c) * s->cout + o];
}

static size_t scratch_bytes(const zn_conv_shape *s)
{
    (void)s;
    return 3 * LINE * sizeof(float);
}

static int across(const zn_conv_shape *s) { return (s->ow + WIDE - 1) / WIDE; }
static int down(const zn_conv_shape *s) { return (s->oh + TALL - 1) / TALL; }
static int64_t units(const zn_conv_shape *s) { return (int64_t)s->n * down(s) * across(s); }

/* One channel of all pixels by all columns. */
#define CHANNEL(lane)                                                                                                  \
    for (int j = 0; j < COLUMNS / 4; j++) {                                                                            \
        const float32x4_t b = vld1q_f32(w + (lane)*COLUMNS + j * 4);                                                   \
        sum[0][j] = vfmaq_laneq_f32(sum[0][j], b, a0, lane);                                                           \
        sum[1][j] = vfmaq_laneq_f32(sum[1][j], b, a1, lane);                                                           \
        sum[2][j] = vfmaq_laneq_f32(sum[2][j], b, a2, lane);                                                           \
    }

/* Three pixels by all columns: z[3][COLUMNS]. Fetches the same pixels of the next row, `ahead` floats on. */
static void multiply(const float *const x[SIDE], int channels, int64_t ahead, const float *w, float *z)
{
    float32x4_t sum[SIDE][COLUMNS / 4];
#pragma GCC unroll 7
    for (int j = 0; j < COLUMNS / 4; j++)
        sum[0][j] = sum[1][j] = sum[2][j] = vdupq_n_f32(0);
    for (int c = 0; c < channels; c += 16)
        for (int i = 0; i < SIDE; i++)
            __builtin_prefetch(x[i] + c + ahead);
    for (int c = 0; c < channels; c += 4, w += 4 * COLUMNS) {
        const float32x4_t a0 = vld1q_f32(x[0] + c), a1 = vld1q_f32(x[1] + c), a2 = vld1q_f32(x[2] + c);
#pragma GCC unroll 7
        CHANNEL(0)
#pragma GCC unroll 7
        CHANNEL(1)
#pragma GCC unroll 7
        CHANNEL(2)
#pragma GCC unroll 7
        CHANNEL(3)
    }
#pragma GCC unroll 3
    for (int i = 0; i < SIDE; i++)
#pragma GCC unroll 7
        for (int j = 0; j < COLUMNS / 4; j++)
            vst1q_f32(z + i * COLUMNS + j * 4, sum[i][j]);
}

/* Partial sums of pixels [x0 - 1, x0 + count] of a row, zeros outside of the map (row NULL: all). */
static void partial_sums(const zn_conv_args *a, const float *row, int x0, int count, float *z)
{
    const int first = x0 == 0, end = a->s.w - x0 + 1 < count + 2 ? a->s.w - x0 + 1 : count + 2;
    if (!row) {
        memset(z, 0, sizeof *z * (size_t)(count + 2) * COLUMNS);
        return;
    }
    for (int i = first; i < end; i += SIDE) {
        const float *x[SIDE];
        for (int k = 0; k < SIDE; k++) /* what is beyond the end is done twice and not used */
            x[k] = row + (int64_t)(x0 - 1 + (i + k < end ? i + k : end - 1)) * a->s.cin;
        multiply(x, a->s.cin, (int64_t)a->s.w * a->s.cin, a->packed, z + (int64_t)i * COLUMNS);
    }
    memset(z, 0, sizeof *z * (size_t)first * COLUMNS);
    memset(z + (int64_t)end * COLUMNS, 0, sizeof *z * (size_t)(count + 2 - end) * COLUMNS);
}

/* Three lanes at most. */
ZN_INLINE float32x4_t load_part(const float *x, int count)
{
    float32x4_t v = vld1q_lane_f32(x, vdupq_n_f32(0), 0);
    v = count > 1 ? vld1q_lane_f32(x + 1, v, 1) : v;
    return count > 2 ? vld1q_lane_f32(x + 2, v, 2) : v;
}

ZN_INLINE void store_part(float *y, float32x4_t v, int count)
{
    vst1q_lane_f32(y, v, 0);
    if (count > 1)
        vst1q_lane_f32(y + 1, v, 1);
    if (count > 2)
        vst1q_lane_f32(y + 2, v, 2);
}

/* `count` outputs from y[at] on, out of the partial sums of the rows above, here and below. */
ZN_INLINE void add_up(const zn_conv_args *a, const float *const z[3], int count, int outputs, int64_t at)
{
    const float32x4_t floor = vdupq_n_f32(a->relu ? 0 : -INFINITY), zero = vdupq_n_f32(0);
    const float32x4_t bias = a->bias ? load_part(a->bias, outputs) : zero;
    for (int64_t i = 0; i < count; i++, at += outputs) {
        float32x4_t row[3];
        for (int ky = 0; ky < 3; ky++) {
            const float *tap = z[ky] + i * COLUMNS + ky * 3 * OUTPUTS;
            row[ky] = vaddq_f32(vld1q_f32(tap), vld1q_f32(tap + COLUMNS + OUTPUTS));
            row[ky] = vaddq_f32(row[ky], vld1q_f32(tap + 2 * (COLUMNS + OUTPUTS)));
        }
        float32x4_t v = vaddq_f32(vaddq_f32(row[0], row[1]), vaddq_f32(row[2], bias));
        if (a->residual)
            v = vaddq_f32(v, load_part(a->residual + at, outputs));
        store_part(a->y + at, vmaxq_f32(v, floor), outputs);
    }
}

static void run_unit(const zn_conv_args *a, int64_t unit, float *scratch)
{
    const zn_conv_shape *s = &a->s;
    const int x0 = (int)(unit % across(s)) * WIDE, y0 = (int)(unit / across(s) % down(s)) * TALL;
    const int64_t n = unit / across(s) / down(s);
    const int count = s->w - x0 < WIDE ? s->w - x0 : WIDE, end = s->h - y0 < TALL ? s->h : y0 + TALL;
    for (int y = y0 - 1; y <= end; y++) { /* y is the row below the outputs */
        const float *row = y < 0 || y >= s->h ? NULL : a->x + (n * s->h + y) * s->w * s->cin;
        partial_sums(a, row, x0, count, scratch + (y + 3) % 3 * LINE);
        if (y <= y0)
            continue;
        const float *z[3] = { scratch + (y + 1) % 3 * LINE, scratch + (y + 2) % 3 * LINE, scratch + y % 3 * LINE };
        const int64_t at = ((n * s->oh + y - 1) * s->ow + x0) * s->cout;
        if (s->cout == OUTPUTS)
            add_up(a, z, count, OUTPUTS, at);
        else
            add_up(a, z, count, s->cout, at);
    }
}

static void run(const void *args, zn_range r)
{
    for (int64_t unit = r.begin; unit < r.end; unit++)
        run_unit(args, unit, r.scratch);
}

static double flops(const zn_conv_shape *s) { return 2.0 * s->n * s->oh * s->ow * s->cin * COLUMNS; }

const zn_conv_kernel zn_conv_to_few_neon = {
    .name = "to-few-f32-neon",
    .math = ZN_MATH_F32,
    .cpu = ZN_CPU_NEON,
    .tolerance = 5e-6f,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
};
