/* Direct convolution of any shape as an implicit matrix product, fp32, NHWC.
 *
 * In NHWC the kw * cin multipliers of one kernel row lie together in the input, so an output pixel is a row of gemm.h's a with one
 * segment per kernel row, read where it lies. A unit is a stretch of one output row; only a stretch that reaches over the left
 * or right edge (or reads through the up-sampling) is copied, with zeros, first. Rows above and below are left out. */
#include "kernels/conv.h"
#include "kernels/simd/gemm.h"

#include <math.h>

extern const zn_conv_kernel ZN_KERNEL(conv_direct);

enum { STRETCH = 16 * GEMM_MR, PATCH_FLOATS = 256 << 10 };

static int least(int64_t a, int64_t b) { return (int)(a < b ? a : b); }

/* A 1x1 convolution sees one long row. */
static zn_conv_shape flat(const zn_conv_shape *s)
{
    zn_conv_shape f = *s;
    const int64_t pixels = (int64_t)s->n * s->oh * s->ow;
    if (s->kh == 1 && s->kw == 1 && s->stride == 1 && s->pad == 0 && !s->up2 && pixels < INT32_MAX) {
        f.w = f.ow = (int)pixels;
        f.n = f.h = f.oh = 1;
    }
    return f;
}

static int64_t patch_floats(const zn_conv_shape *s, int stretch)
{
    return (int64_t)s->kh * ((stretch - 1) * s->stride + s->kw) * s->cin;
}

/* Output pixels of a unit: whole blocks, a part of a row, a patch of bounded size. */
static int stretch_of(const zn_conv_shape *s)
{
    int stretch = STRETCH;
    while (stretch > GEMM_MR && patch_floats(s, stretch) > PATCH_FLOATS)
        stretch -= GEMM_MR;
    const int parts = (s->ow + stretch - 1) / stretch, even = (s->ow + parts - 1) / parts;
    return (even + GEMM_MR - 1) / GEMM_MR * GEMM_MR;
}

static int parts_of(const zn_conv_shape *s)
{
    const int stretch = stretch_of(s);
    return (s->ow + stretch - 1) / stretch;
}

/* patch[rows][cols][cin] = the input from (y,x) on, up-sampled if need be, zero outside. */
static void gather(const zn_conv_args *a, const zn_conv_shape *s, int n, int y, int x, int rows, int cols, float *patch)
{
    const int up = s->up2 ? 1 : 0;
    const size_t pixel = sizeof(float) * (size_t)s->cin;
    for (int r = 0; r < rows; r++) {
        const float *line = a->x + ((int64_t)n * s->h + ((y + r) >> up)) * s->w * s->cin;
        for (int c = 0; c < cols; c++, patch += s->cin)
            if (x + c < 0 || x + c >= s->w << up)
                memset(patch, 0, pixel);
            else
                memcpy(patch, line + (int64_t)((x + c) >> up) * s->cin, pixel);
    }
}

static void finish(const zn_conv_args *a, const zn_conv_shape *s, const float *c, int rows, int oc, int width, int64_t at)
{
    const vec floor = vec_splat(a->relu ? 0 : -INFINITY);
    for (int t = 0; t < rows; t++, at += s->cout)
        for (int j = 0; j < width; j += VEC_LANES) {
            const int lanes = least(VEC_LANES, s->cout - oc - j);
            vec v = vec_load(c + t * width + j);
            if (a->bias)
                v = v + vec_load_part(a->bias + oc + j, lanes);
            if (lanes == VEC_LANES) {
                if (a->residual)
                    v = v + vec_load(a->residual + at + oc + j);
                vec_store(a->y + at + oc + j, vec_max(v, floor));
            } else {
                if (a->residual)
                    v = v + vec_load_part(a->residual + at + oc + j, lanes);
                vec_store_part(a->y + at + oc + j, vec_max(v, floor), lanes);
            }
        }
}

/* `count` pixels of output row oy from ox on. */
static void stretch(const zn_conv_args *a, const zn_conv_shape *s, int n, int oy, int ox, int count, float *scratch)
{
    const int up = s->up2 ? 2 : 1, y = oy * s->stride - s->pad, x = ox * s->stride - s->pad;
    const int first = y < 0 ? least(-y, s->kh) : 0, end = least(s->kh, (int64_t)s->h * up - y);
    const int cols = (count - 1) * s->stride + s->kw, k = s->kw * s->cin, cout_p = VEC_ROUND(s->cout);
    gemm_args in = { .c = scratch,
                     .row = (int64_t)s->stride * s->cin,
                     .segments = end > first ? end - first : 0,
                     .k = k };
    if (s->up2 || x < 0 || x + cols > s->w) {
        float *patch = scratch + STRETCH * GEMM_NR;
        gather(a, s, n, y + first, x, in.segments, cols, patch);
        in.a = patch;
        in.segment = (int64_t)cols * s->cin;
    } else {
        in.a = a->x + (((int64_t)n * s->h + y + first) * s->w + x) * s->cin;
        in.segment = (int64_t)s->w * s->cin;
    }
    for (int oc = 0; oc < cout_p; oc += GEMM_NR) {
        const int width = least(GEMM_NR, cout_p - oc);
        in.b = (const float *)a->packed + (int64_t)s->kh * k * oc + (int64_t)first * k * width;
        in.c_row = width;
        gemm(&in, count, width);
        finish(a, s, scratch, count, oc, width, (((int64_t)n * s->oh + oy) * s->ow + ox) * s->cout);
    }
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const zn_conv_shape s = flat(&a->s);
    const int length = stretch_of(&s), parts = parts_of(&s);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const int64_t row = unit / parts;
        const int ox = (int)(unit % parts) * length;
        stretch(a, &s, (int)(row / s.oh), (int)(row % s.oh), ox, least(length, s.ow - ox), r.scratch);
    }
}

static bool supports(const zn_conv_shape *s) { return patch_floats(s, GEMM_MR) <= PATCH_FLOATS; }

static size_t scratch_bytes(const zn_conv_shape *shape)
{
    const zn_conv_shape s = flat(shape);
    return sizeof(float) * (STRETCH * GEMM_NR + (size_t)patch_floats(&s, stretch_of(&s)));
}

static int64_t units(const zn_conv_shape *shape)
{
    const zn_conv_shape s = flat(shape);
    return (int64_t)s.n * s.oh * parts_of(&s);
}

static size_t packed_bytes(const zn_conv_shape *s)
{
    return sizeof(float) * (size_t)s->kh * (size_t)s->kw * (size_t)s->cin * (size_t)VEC_ROUND(s->cout);
}

/* [panel of GEMM_NR outputs][kh][kw][cin][outputs of the panel], the missing outputs of the last one zero. */
static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    const int64_t k = (int64_t)s->kh * s->kw * s->cin;
    const int cout_p = VEC_ROUND(s->cout);
    float *to = packed;
    for (int oc = 0; oc < cout_p; oc += GEMM_NR)
        for (int64_t i = 0; i < k; i++)
            for (int j = oc; j < oc + GEMM_NR && j < cout_p; j++)
                *to++ = j < s->cout ? w[i * s->cout + j] : 0;
}

const zn_conv_kernel ZN_KERNEL(conv_direct) = {
    .name = "direct-f32-" ZN_ISA_NAME,
    .math = ZN_MATH_F32,
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
