/* 3x3 convolution by Winograd's method with 8x8 tiles, fp32, NHWC. One plan covers three cases:
 *
 *     stride 1   6x6 outputs a tile, 3 taps
 *     stride 2   7x7 outputs, 2 taps: even and odd rows and columns of the input are four phases, read as extra channels
 *     up2        7x7 outputs, 2 taps: each of the four phases of the doubled map is a 2x2 convolution of the small map
 *
 * A unit is a block of tiles small enough that all its intermediates stay in the L2 cache:
 *     x -> V[64][tiles][k]   (input transform)      M[f] = V[f] * U[f]   (one product per frequency)      M -> y */
#include "kernels/conv.h"
#include "kernels/simd/gemm.h"
#include "kernels/simd/winograd.h"

extern const zn_conv_kernel ZN_KERNEL(conv_winograd);

enum { POINTS = 64, LINE = 16 /* floats */, BLOCK_MOST = 30, CHANNELS_MOST = 768 };
static const int64_t block_floats = 320 << 10;

typedef struct plan {
    int taps, outputs, in_phases, out_phases;
    int cin_p, k;     /* padded channels of a phase; all phases */
    int cout_p;       /* padded */
    int group;        /* output channels multiplied at once */
    int rows, cols;   /* tiles of one image */
    int64_t tiles;    /* of the batch */
    int block;        /* tiles of a unit */
    bool in_place;    /* M[f] overwrites V[f-1] */
    int64_t v_slot, m_slot; /* floats from one frequency to the next; a cache line more than a power of two */
} plan;

static int least(int64_t a, int64_t b) { return (int)(a < b ? a : b); }
static int most(int a, int b) { return a > b ? a : b; }
static int ceil_div(int a, int b) { return (a + b - 1) / b; }

/* Enough tiles to use each U often, few enough for the cache, and for the small maps to give every thread a block. */
static int block_of(const plan *p)
{
    const int64_t wide = p->in_place ? most(p->k, p->group) : p->k + p->group;
    const int64_t fit = block_floats / (POINTS * wide), fair = p->tiles / 32 + GEMM_MR - 1;
    return most(least(least(fit, fair), BLOCK_MOST) / GEMM_MR, 1) * GEMM_MR;
}

static plan plan_of(const zn_conv_shape *s)
{
    plan p = { .taps = 3, .outputs = 6, .in_phases = 1, .out_phases = 1 };
    int step = 6, high = s->oh, wide = s->ow;
    if (s->stride == 2)
        p.taps = 2, p.outputs = 7, p.in_phases = 4, step = 7;
    if (s->up2) /* a tile begins one large row before the image */
        p.taps = 2, p.outputs = 7, p.out_phases = 4, step = 14, high++, wide++;
    p.cin_p = VEC_ROUND(s->cin);
    p.k = p.in_phases * p.cin_p;
    p.cout_p = VEC_ROUND(s->cout);
    p.group = p.cout_p <= 128 ? p.cout_p : 64;
    p.in_place = p.out_phases == 1 && p.group == p.cout_p;
    p.rows = ceil_div(high, step);
    p.cols = ceil_div(wide, step);
    p.tiles = (int64_t)s->n * p.rows * p.cols;
    p.block = block_of(&p);
    p.v_slot = (int64_t)p.block * (p.in_place ? most(p.k, p.group) : p.k) + LINE;
    p.m_slot = p.in_place ? p.v_slot : (int64_t)p.block * p.group + LINE;
    return p;
}

/* Scratch, in floats: V and M, one tile between its two passes, and a pixel of zeros for the outside of the image. */
typedef struct buffers {
    float *v, *m, *half, *zero;
} buffers;

static int64_t carve(const plan *p, float *base, buffers *b)
{
    const int64_t v = POINTS * p->v_slot, m = p->in_place ? p->v_slot : POINTS * p->m_slot;
    const int64_t half = POINTS * most(p->cin_p, p->group);
    if (b)
        *b = (buffers){ .m = base, .v = base + m, .half = base + v + m, .zero = base + v + m + half };
    return v + m + half + p->cin_p;
}

/* The 8x8 input positions of a tile: x at (y0,x0), every `step` pixels. */
typedef struct window {
    int n, y0, x0, step;
} window;

static window window_of(const zn_conv_shape *s, const plan *p, int64_t tile, int phase)
{
    const int row = (int)(tile / p->cols % p->rows), col = (int)(tile % p->cols);
    window w = { .n = (int)(tile / p->cols / p->rows), .step = 1 };
    if (s->up2) {
        w.y0 = 7 * row - 1;
        w.x0 = 7 * col - 1;
    } else if (s->stride == 2) {
        w.step = 2;
        w.y0 = 14 * row + phase / 2 - s->pad;
        w.x0 = 14 * col + phase % 2 - s->pad;
    } else {
        w.y0 = 6 * row - s->pad;
        w.x0 = 6 * col - s->pad;
    }
    return w;
}

/* V[.][t][phase]: the rows of the tile into half[8][8][cin_p], then its columns into the 64 slots. Rows first: the lines of
 * eight image rows of a power of two bytes would share one set of the cache. */
static void input_tile(const zn_conv_args *a, const plan *p, window w, const buffers *b, float *v)
{
    const zn_conv_shape *s = &a->s;
    for (int r = 0; r < 8; r++) {
        const int y = w.y0 + r * w.step;
        const float *row = a->x + ((int64_t)w.n * s->h + y) * s->w * s->cin, *pixel[8];
        for (int i = 0; i < 8; i++) {
            const int x = w.x0 + i * w.step;
            pixel[i] = y >= 0 && y < s->h && x >= 0 && x < s->w ? row + (int64_t)x * s->cin : b->zero;
        }
        if (y >= 0 && y < s->h) /* the new pixels of the tile to the right */
            for (int i = 0; i < p->outputs * s->cin; i += LINE)
                __builtin_prefetch(pixel[7] + w.step * s->cin + i);
        winograd_input_row(pixel, s->cin, p->cin_p, b->half + r * 8 * p->cin_p);
    }
    for (int i = 0; i < 8; i++)
        winograd_input_column(b->half + i * p->cin_p, p->cin_p, v + i * p->v_slot, p->v_slot);
}

static void input(const zn_conv_args *a, const plan *p, int64_t tile, float *v, const buffers *b)
{
    for (int phase = 0; phase < p->in_phases; phase++)
        input_tile(a, p, window_of(&a->s, p, tile, phase), b, v + phase * p->cin_p);
}

/* M[f][count][width] = V[f][count][k] * U[f][k][width]. U streams from far away once per block of tiles, so the next panel
 * is fetched while this one is used, and the next V with it. */
static void multiply(const plan *p, const float *u, int count, int width, const buffers *b)
{
    const int panels = ceil_div(width, GEMM_NR);
    for (int f = 0; f < POINTS; f++)
        for (int i = 0; i < panels; i++) {
            const int oc = i * GEMM_NR, across = least(GEMM_NR, width - oc);
            const float *v = b->v + f * p->v_slot, *panel = u + (int64_t)p->k * (f * width + oc);
            gemm(&(gemm_args){ .a = v,
                               .b = panel,
                               .c = b->m + f * p->m_slot + oc,
                               .row = p->k,
                               .c_row = width,
                               .segments = 1,
                               .k = p->k,
                               .ahead_a = v + p->v_slot + (int64_t)count * p->k * i / panels,
                               .ahead_b = panel + (int64_t)p->k * across },
                 count, across);
        }
}

/* Where the outputs of a tile go: rows y0 + step * [first,end), columns likewise. */
typedef struct target {
    int n, step;
    int y0, row_first, row_end;
    int x0, col_first, col_end;
} target;

static void clip(int start, int step, int outputs, int size, int *first, int *end)
{
    *first = start < 0 ? ceil_div(-start, step) : 0;
    *end = least(outputs, (size - start + step - 1) / step);
}

static target target_of(const zn_conv_shape *s, const plan *p, int64_t tile, int phase)
{
    const int row = (int)(tile / p->cols % p->rows), col = (int)(tile % p->cols);
    target t = { .n = (int)(tile / p->cols / p->rows), .step = 1, .y0 = p->outputs * row, .x0 = p->outputs * col };
    if (s->up2) {
        t.step = 2;
        t.y0 = 14 * row - (phase / 2 ? 1 : 0);
        t.x0 = 14 * col - (phase % 2 ? 1 : 0);
    }
    clip(t.y0, t.step, p->outputs, s->oh, &t.row_first, &t.row_end);
    clip(t.x0, t.step, p->outputs, s->ow, &t.col_first, &t.col_end);
    return t;
}

/* The columns of M into half[outputs][8][width], then its rows into y, channels oc and on. */
VEC_INLINE void output_tile(const int outputs, const zn_conv_args *a, const plan *p, target t, int oc, int width,
                            const float *m, float *half)
{
    const zn_conv_shape *s = &a->s;
    for (int i = 0; i < 8; i++) {
        const int r = i + t.row_first;
        if (r < t.row_end)
            for (int k = 0; k < outputs * t.step * s->cout; k += LINE)
                __builtin_prefetch(a->y + (((int64_t)t.n * s->oh + t.y0 + r * t.step) * s->ow + t.x0) * s->cout + oc + k, 1);
        winograd_output_column(outputs, m + i * p->m_slot, p->m_slot, width, half + i * width);
    }
    for (int r = t.row_first; r < t.row_end; r++) {
        const int64_t y = t.y0 + r * t.step;
        const int64_t at = (((int64_t)t.n * s->oh + y) * s->ow + t.x0) * s->cout + oc;
        const winograd_row row = { .y = a->y + at,
                                   .residual = a->residual ? a->residual + at : NULL,
                                   .bias = a->bias ? a->bias + oc : NULL,
                                   .relu = a->relu,
                                   .step = (int64_t)t.step * s->cout,
                                   .channels = least(width, s->cout - oc),
                                   .first = t.col_first,
                                   .end = t.col_end };
        winograd_output_row(outputs, half + r * 8 * width, width, &row);
    }
}

static void output(const zn_conv_args *a, const plan *p, int64_t tile, int phase, int oc, int width, const float *m,
                   float *half)
{
    const target t = target_of(&a->s, p, tile, phase);
    if (p->outputs == 6)
        output_tile(6, a, p, t, oc, width, m, half);
    else
        output_tile(7, a, p, t, oc, width, m, half);
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const plan p = plan_of(&a->s);
    buffers b;
    carve(&p, r.scratch, &b);
    memset(b.zero, 0, sizeof(float) * (size_t)p.cin_p);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const int64_t tile = unit * p.block;
        const int count = least(p.block, p.tiles - tile);
        for (int t = 0; t < count; t++)
            input(a, &p, tile + t, b.v + (int64_t)t * p.k, &b);
        for (int phase = 0; phase < p.out_phases; phase++)
            for (int oc = 0; oc < p.cout_p; oc += p.group) {
                const int width = least(p.group, p.cout_p - oc);
                const float *u = (const float *)a->packed + (int64_t)POINTS * p.k * (phase * p.cout_p + oc);
                multiply(&p, u, count, width, &b);
                for (int t = 0; t < count; t++)
                    output(a, &p, tile + t, phase, oc, width, b.m + (int64_t)t * width, b.half);
            }
    }
}

static bool supports(const zn_conv_shape *s)
{
    if (s->kh != 3 || s->kw != 3 || s->stride < 1 || s->stride > 2 || (s->up2 && (s->stride != 1 || s->pad != 1)))
        return false;
    return plan_of(s).k <= CHANNELS_MOST;
}

static size_t scratch_bytes(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    return sizeof(float) * (size_t)carve(&p, NULL, NULL);
}

static size_t packed_bytes(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    return sizeof(float) * POINTS * (size_t)p.k * (size_t)p.cout_p * (size_t)p.out_phases;
}

static int64_t units(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    return (p.tiles + p.block - 1) / p.block;
}

/* Taps of one axis of a phase as sums of the three taps of the kernel: tap j takes w[i] where bit i of mask[j] is set. */
static void phase_taps(const zn_conv_shape *s, int phase, unsigned mask[3])
{
    mask[0] = 1, mask[1] = 2, mask[2] = 4;
    if (s->up2) /* phase 0 sees rows -1 0 0 of the small map, phase 1 rows 0 0 1 */
        mask[0] = phase ? 3 : 1, mask[1] = phase ? 4 : 6;
    else if (s->stride == 2)
        mask[0] = phase ? 2 : 1, mask[1] = phase ? 0 : 4;
}

static void phase_filter(const zn_conv_shape *s, int taps, int phase, const float *w, double *g)
{
    unsigned rows[3], cols[3];
    phase_taps(s, phase / 2, rows);
    phase_taps(s, phase % 2, cols);
    for (int i = 0; i < taps; i++)
        for (int j = 0; j < taps; j++) {
            g[i * taps + j] = 0;
            for (int ky = 0; ky < 3; ky++)
                for (int kx = 0; kx < 3; kx++)
                    if ((rows[i] >> ky & 1) && (cols[j] >> kx & 1))
                        g[i * taps + j] += (double)w[(int64_t)(ky * 3 + kx) * s->cin * s->cout];
        }
}

/* U: [out phase][group][frequency][panel of GEMM_NR outputs][k][outputs of the panel] */
static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    const plan p = plan_of(s);
    memset(packed, 0, packed_bytes(s));
    for (int phase = 0; phase < p.in_phases * p.out_phases; phase++)
        for (int i = 0; i < s->cin; i++)
            for (int o = 0; o < s->cout; o++) {
                double g[9], u[8][8];
                phase_filter(s, p.taps, phase, w + (int64_t)i * s->cout + o, g);
                winograd_filter(p.taps, g, u);
                const int k = i + (p.in_phases > 1 ? phase * p.cin_p : 0), out = p.out_phases > 1 ? phase : 0;
                const int group = o / p.group * p.group, width = least(p.group, p.cout_p - group);
                const int panel = (o - group) / GEMM_NR * GEMM_NR, across = least(GEMM_NR, width - panel);
                float *to = (float *)packed + (int64_t)POINTS * p.k * (out * p.cout_p + group) + (int64_t)p.k * panel +
                            (int64_t)k * across + (o - group - panel);
                for (int f = 0; f < POINTS; f++)
                    to[(int64_t)f * p.k * width] = (float)u[f / 8][f % 8];
            }
}

/* The products, and the two transforms as written in winograd.h. */
static double flops(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    const double in = 16 * 38.0 * p.k, one = p.outputs == 6 ? 30 : 34;
    const double out = (8 + p.outputs) * one * p.cout_p * p.out_phases;
    return (double)p.tiles * (2.0 * POINTS * p.k * p.cout_p * p.out_phases + in + out);
}

static int block(const zn_conv_shape *s) { return s->up2 ? 14 : plan_of(s).outputs; }

const zn_conv_kernel ZN_KERNEL(conv_winograd) = {
    .name = "winograd-f32-" ZN_ISA_NAME,
    .math = ZN_MATH_F32,
    .cpu = VEC_CPU,
    .tolerance = 1.2e-5f,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
    .block = block,
};
