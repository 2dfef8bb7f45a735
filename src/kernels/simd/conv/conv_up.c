/* 3x3 convolution through an up-sampling by 2 as four direct convolutions of 2x2 on the small map, fp32, NHWC: the
 * outputs of even and of odd rows and columns, whose taps are sums of the kernel's. They have 4/9 of the products of a
 * direct convolution of the large map and 16/9 of its weights, where conv_winograd.c reads 28 times the weights: for
 * heavy weights and small maps, or where memory is short. A unit is a panel of outputs for a group of rows of the small
 * map. */
#include "kernels/conv.h"
#include "kernels/simd/conv/gemm.h"
#include "kernels/simd/conv/slices.h"

extern const zn_conv_kernel ZN_KERNEL(conv_up);

enum { PHASES = 4, TAPS = 2, PIXELS = 256 /* of a unit */, PATCH_FLOATS = 1 << 20 };

/* How outputs are divided into panels, and the rows of all small maps into groups. */
typedef struct division {
    int panels, groups;
    int64_t rows, most; /* of all maps; of a group */
} division;

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* Rows of a group, unless more threads share them. */
static int64_t rows_of_unit(const zn_conv_shape *s) { return most(PIXELS / most(s->w, 1), 1); }

static division division_of(const zn_conv_shape *s)
{
    division d = { .panels = (s->cout + GEMM_NR - 1) / GEMM_NR, .rows = (int64_t)s->n * s->h };
    const int64_t fit = rows_of_unit(s), wanted = 2 * zn_conv_threads(s);
    const int64_t groups = most((d.rows + fit - 1) / fit, (wanted + d.panels - 1) / d.panels);
    d.groups = (int)(groups < d.rows ? groups : d.rows);
    d.most = d.groups ? (d.rows + d.groups - 1) / d.groups : 0;
    return d;
}

static int64_t line_floats(const zn_conv_shape *s) { return (int64_t)(s->w + 2) * s->cin; }

/* The lines that so many rows read at most; the last may be of another image than the first. */
static int64_t patch_floats(const zn_conv_shape *s, int64_t rows) { return (rows + 2) * line_floats(s); }

/* The small map's line, with zeros for its edges. */
static void gather(const zn_conv_args *a, int64_t line, float *to)
{
    const int64_t inside = (int64_t)a->s.w * a->s.cin;
    const size_t pixel = sizeof(float) * (size_t)a->s.cin;
    memset(to, 0, pixel);
    memcpy(to + a->s.cin, a->x + line * inside, sizeof(float) * (size_t)inside);
    memset(to + a->s.cin + inside, 0, pixel);
}

/* Stores c[pixels][width], the sums of a phase for outputs from oc on. */
static void finish(const zn_conv_args *a, const unit_pixels *u, int phase, int oc, int width, const float *c)
{
    const zn_conv_shape *s = &a->s;
    const int outputs = width < s->cout - oc ? width : s->cout - oc;
    for (int64_t row = u->row; row < u->end_row; row++) {
        const int64_t first = (2 * row + phase / 2) * s->ow + phase % 2; /* of the large map's pixels */
        for (int x = 0; x < s->w; x++, c += width)
            finish_run(a, c, a->bias ? a->bias + oc : NULL, outputs, (first + 2 * x) * s->cout + oc);
    }
}

/* A panel of outputs for a group of rows: phase 0 of an axis reads its pixel and the one before, phase 1 the one
 * after. */
static void run_unit(const zn_conv_args *a, const division *d, int oc, int group, float *c, float *patch)
{
    const zn_conv_shape *s = &a->s;
    const int k = TAPS * s->cin, all = VEC_ROUND(s->cout), width = all - oc < GEMM_NR ? all - oc : GEMM_NR;
    const float *b = (const float *)a->packed + (int64_t)PHASES * TAPS * k * oc;
    unit_pixels u = { .high = s->h,
                      .stride = 1,
                      .pad = 1,
                      .rows = s->h,
                      .wide = s->w,
                      .row = group * d->rows / d->groups,
                      .end_row = (group + 1) * d->rows / d->groups,
                      .line = line_floats(s) };
    int64_t end;
    unit_lines(&u, 3, &u.first, &end);
    for (int64_t i = u.first; i < end; i++)
        gather(a, i, patch + (i - u.first) * u.line);
    for (int phase = 0; phase < PHASES; phase++, b += (int64_t)TAPS * k * width) {
        u.pad = 1 - phase / 2;
        u.patch = patch + phase % 2 * s->cin;
        multiply_slices(&u, b, TAPS, k, s->cin, width, c);
        finish(a, &u, phase, oc, width, c);
    }
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const division d = division_of(&a->s);
    float *c = r.scratch, *patch = c + d.most * a->s.w * GEMM_NR;
    for (int64_t unit = r.begin; unit < r.end; unit++)
        run_unit(a, &d, (int)(unit / d.groups) * GEMM_NR, (int)(unit % d.groups), c, patch);
}

static bool supports(const zn_conv_shape *s)
{
    return s->up2 && s->kh == 3 && s->kw == 3 && s->stride == 1 && s->pad == 1 && s->oh == 2 * s->h &&
           s->ow == 2 * s->w && s->cin % VEC_STEP == 0 && TAPS * s->cin >= GEMM_K_LEAST &&
           patch_floats(s, rows_of_unit(s)) <= PATCH_FLOATS;
}

/* By the products and the weights for each pair of channels. A weight that is read from memory takes as long as a
 * vector of products; light weights stay in a cache. */
static bool pays(const zn_conv_shape *s, const zn_conv_wish *wish)
{
    enum { WEIGHT = VEC_LANES, MANY_WEIGHTS = 1 << 14, SIDE = 14, WINOGRAD = 4 * 64, SAVED = 3 * 8 };
    const int64_t tiles = (int64_t)s->n * (s->oh / SIDE + 1) * (s->ow / SIDE + 1);
    const int64_t mine = (int64_t)s->n * s->oh * s->ow * TAPS * TAPS + PHASES * TAPS * TAPS * WEIGHT;
    if ((int64_t)s->cin * s->cout < MANY_WEIGHTS)
        return false;
    if (wish->lean) /* the other choice is a direct convolution, with nine products for each pixel */
        return wish->lean == 1;
    return wish->whole && mine < tiles * (WINOGRAD - SAVED) + WINOGRAD * WEIGHT;
}

static size_t packed_bytes(const zn_conv_shape *s)
{
    return sizeof(float) * PHASES * TAPS * TAPS * (size_t)s->cin * (size_t)VEC_ROUND(s->cout);
}

/* The rows or columns [*from, *to) of the kernel whose sum is tap i of a phase. */
static void taps_of(int phase, int i, int *from, int *to)
{
    *from = i == 0 ? 0 : phase + 1;
    *to = i == 1 ? 3 : phase + 1;
}

/* [panel of GEMM_NR outputs][phase][tap][tap][cin][outputs of the panel], zero-padded. */
static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    float *to = packed;
    for (int oc = 0; oc < s->cout; oc += GEMM_NR) {
        const int left = VEC_ROUND(s->cout) - oc, width = left < GEMM_NR ? left : GEMM_NR;
        const int outputs = width < s->cout - oc ? width : s->cout - oc;
        for (int i = 0; i < PHASES * TAPS * TAPS; i++) {
            int y0, y1, x0, x1;
            taps_of(i / 8, i / 2 % 2, &y0, &y1);
            taps_of(i / 4 % 2, i % 2, &x0, &x1);
            for (int c = 0; c < s->cin; c++, to += width) {
                memset(to, 0, sizeof(float) * (size_t)width);
                for (int y = y0; y < y1; y++)
                    for (int x = x0; x < x1; x++) {
                        const float *from = w + ((int64_t)(3 * y + x) * s->cin + c) * s->cout + oc;
                        for (int j = 0; j < outputs; j++)
                            to[j] += from[j];
                    }
            }
        }
    }
}

static size_t scratch_bytes(const zn_conv_shape *s)
{
    const division d = division_of(s);
    return sizeof(float) * (size_t)(d.most * s->w * GEMM_NR + patch_floats(s, d.most));
}

static int64_t units(const zn_conv_shape *s)
{
    const division d = division_of(s);
    return (int64_t)d.panels * d.groups;
}

static double flops(const zn_conv_shape *s)
{
    return 2.0 * TAPS * TAPS * s->cin * s->cout * (double)s->n * s->oh * s->ow;
}

const zn_conv_kernel ZN_KERNEL(conv_up) = {
    .name = "up-f32-" ZN_ISA_NAME,
    .math = ZN_PRECISION_F32,
    .cpu = VEC_CPU,
    .tolerance = 5e-6f,
    .supports = supports,
    .pays = pays,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
};
