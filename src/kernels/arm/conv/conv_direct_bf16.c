/* Direct convolution with bf16 operands on the matrix unit (BFMMLA) and fp32 sums, for layers with too many channels
 * for conv_bf16.c. The error is 2.4e-3 of the result. Packed weights take no more memory than in bf16 files, and only
 * their order differs, so 8-bit ones may stay codes (kernels/coded.h). After upsampling, each parity of rows and
 * columns of the result has a 2x2 kernel on the small map: 4/9 of the products.
 *
 * It is a product of pixels by outputs over taps * cin numbers. A unit is some segments of 12 consecutive pixels in
 * the order of the map, whatever its width. The sums of all its outputs are kept, and one part of the numbers after the
 * other is gathered and multiplied: the part of a few outputs stays in the first cache for all segments, and that of
 * the segments in the second for all outputs. Every result is summed in the same order, whichever unit it is in. */
#include "base/cpu.h"
#include "kernels/arm/bfmmla.h"
#include "kernels/arm/two.h"
#include "kernels/conv.h"

#include <string.h>

enum {
    PIXELS = BFMMLA_X, /* of a segment */
    COLS = BFMMLA_W,   /* outputs of a panel */
    STEP = BFMMLA_UNROLLED * BFMMLA_QUAD,
    DEPTH = 512,    /* most numbers of a part */
    SEGMENTS = 12,  /* most of a unit */
    TURNS = 3,      /* units for each thread, if there are segments enough */
    TOGETHER = 4,   /* panels that a segment is multiplied with before the next */
    SLACK = 128,    /* bytes that bfmmla_block loads after its operands */
    CIN_LEAST = 64, /* with fewer channels gathering takes a large share */
    COUT_LEAST = 32,
};

/* Zeros around the map, of either type. */
static const float zeros[DEPTH];

static bool supports(const zn_conv_shape *s)
{
    const bool size = s->up2 ? s->kh == 3 && s->kw == 3 && s->pad == 1 && s->stride == 1 : s->kh * s->kw > 1;
    return size && s->cin % STEP == 0 && s->cin >= CIN_LEAST && s->cout % COLS == 0 && s->cout >= COUT_LEAST &&
           !s->shuffle && !s->unshuffle;
}

static bool rearranges(const zn_conv_shape *s) { return !s->up2; }

/* The convolutions that are computed: one, or one for each parity. */
typedef struct grid {
    int phases, kh, kw;
    int oh, ow; /* of the results of a phase; odd maps have fewer in some */
    int64_t segments;
    int unit; /* segments of a unit */
} grid;

static grid grid_of(const zn_conv_shape *s)
{
    const int up = s->up2;
    grid g = {
        .phases = up ? 4 : 1, .kh = up ? 2 : s->kh, .kw = up ? 2 : s->kw, (s->oh + up) >> up, (s->ow + up) >> up
    };
    g.segments = ((int64_t)s->n * g.oh * g.ow + PIXELS - 1) / PIXELS;
    const int64_t each = g.phases * g.segments / (TURNS * zn_conv_threads(s));
    g.unit = each < 1 ? 1 : each > SEGMENTS ? SEGMENTS : (int)each;
    return g;
}

static int64_t units_of_phase(const grid *g) { return (g->segments + g->unit - 1) / g->unit; }

static int64_t units(const zn_conv_shape *s)
{
    const grid g = grid_of(s);
    return g.phases * units_of_phase(&g);
}

/* ---- parts: some channels of one tap, or all of several taps ---- */

typedef struct part {
    int tap, taps, channel, channels;
} part;

/* The first part if `last` is NULL, or the one after it; with no taps: there is none. */
static part next_part(const zn_conv_shape *s, const grid *g, const part *last)
{
    const int taps = g->kh * g->kw, pieces = (s->cin + DEPTH - 1) / DEPTH, most = pieces > 1 ? 1 : DEPTH / s->cin;
    const int groups = (taps + most - 1) / most, together = (taps + groups - 1) / groups;
    const int channels = (s->cin / STEP + pieces - 1) / pieces * STEP;
    part p = { 0 };
    if (last)
        p = (part){ .tap = last->tap, .channel = last->channel + last->channels };
    if (p.channel == s->cin)
        p = (part){ .tap = last->tap + last->taps };
    p.taps = taps - p.tap < together ? taps - p.tap : together;
    p.channels = s->cin - p.channel < channels ? s->cin - p.channel : channels;
    return p;
}

/* ---- weights: [phase][part][panel][taps][channels / 4][8 outputs][4 channels] ---- */

static size_t packed_bytes(const zn_conv_shape *s)
{
    const grid g = grid_of(s);
    return sizeof(uint16_t) * (size_t)(g.phases * g.kh * g.kw) * (size_t)s->cin * (size_t)s->cout + SLACK;
}

/* Eight outputs of a channel. After upsampling, the taps that read the same pixel are added: of three, the first and
 * the sum of two, or the sum of two and the last. */
static float32x4x2_t weights_of(const zn_conv_shape *s, const float *w, int phase, int tap, int channel, int col)
{
    const int up = s->up2, py = phase / 2, px = phase % 2, kw = up ? 2 : s->kw, ty = tap / kw, tx = tap % kw;
    const int y = up && ty ? 1 + py : ty, x = up && tx ? 1 + px : tx;
    const int tall = up && ty != py ? 2 : 1, wide = up && tx != px ? 2 : 1;
    float32x4x2_t v;
    for (int i = 0; i < tall; i++)
        for (int j = 0; j < wide; j++) {
            const float *from = w + (((int64_t)(y + i) * s->kw + x + j) * s->cin + channel) * s->cout + col;
            const float32x4x2_t more = { { vld1q_f32(from), vld1q_f32(from + 4) } };
            v = i + j == 0 ? more : two_add(v, more);
        }
    return v;
}

static int64_t pack_units(const zn_conv_shape *s)
{
    const grid g = grid_of(s);
    return (int64_t)g.phases * s->cout / COLS;
}

/* A unit is a panel of a phase. */
static void pack_some(const void *args, zn_range r)
{
    const zn_conv_pack_args *a = args;
    const zn_conv_shape *s = &a->s;
    const grid g = grid_of(s);
    const int panels = s->cout / COLS;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const int phase = (int)(unit / panels), panel = (int)(unit % panels);
        uint16_t *part_at = (uint16_t *)a->packed + (int64_t)phase * g.kh * g.kw * s->cin * s->cout;
        for (part p = next_part(s, &g, NULL); p.taps; p = next_part(s, &g, &p)) {
            const int64_t depth = p.taps * p.channels;
            uint16_t *to = part_at + panel * depth * COLS;
            for (int tap = p.tap; tap < p.tap + p.taps; tap++)
                for (int c = p.channel; c < p.channel + p.channels; c += BFMMLA_QUAD, to += BFMMLA_QUAD * COLS) {
                    uint16x4x4_t low, high;
                    for (int j = 0; j < BFMMLA_QUAD; j++) {
                        const float32x4x2_t v = weights_of(s, a->w, phase, tap, c + j, panel * COLS);
                        low.val[j] = vreinterpret_u16_bf16(vcvt_bf16_f32(v.val[0]));
                        high.val[j] = vreinterpret_u16_bf16(vcvt_bf16_f32(v.val[1]));
                    }
                    vst4_u16(to, low);
                    vst4_u16(to + BFMMLA_QUAD * COLS / 2, high);
                }
            part_at += depth * s->cout;
        }
    }
    if (r.end == pack_units(s))
        memset((char *)a->packed + packed_bytes(s) - SLACK, 0, SLACK);
}

static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    pack_some(&(zn_conv_pack_args){ .s = *s, .w = w, .packed = packed }, (zn_range){ 0, pack_units(s), NULL });
}

/* ---- scratch: a part of the segments, and all sums [segment][panel][BFMMLA_SUMS] ---- */

static size_t gathered_bytes(const grid *g)
{
    return (sizeof(uint16_t) * DEPTH * PIXELS * (size_t)g->unit + SLACK + 63) / 64 * 64;
}

static size_t scratch_bytes(const zn_conv_shape *s)
{
    const grid g = grid_of(s);
    return 64 + gathered_bytes(&g) + sizeof(float) * (size_t)g.unit * PIXELS * (size_t)s->cout;
}

/* ---- a part of a segment ---- */

/* A pixel of the result: where its first tap reads, and its offset, or -1 if there is no such pixel. */
typedef struct place {
    int64_t image, to;
    int y, x;
} place;

static void find_places(const zn_conv_shape *s, const grid *g, int phase, int64_t pixel, place at[PIXELS])
{
    const int py = phase / 2, px = phase % 2;
    int64_t row = pixel / g->ow;
    int x = (int)(pixel % g->ow);
    for (int i = 0; i < PIXELS; i++) {
        const int64_t image = row / g->oh;
        const int y = (int)(row % g->oh), oy = s->up2 ? 2 * y + py : y, ox = s->up2 ? 2 * x + px : x;
        const bool there = image < s->n && oy < s->oh && ox < s->ow;
        at[i] = (place){ .image = image < s->n ? image : 0,
                         .to = there ? ((image * s->oh + oy) * s->ow + ox) * s->cout : -1,
                         .y = s->up2 ? y + py - 1 : y * s->stride - s->pad,
                         .x = s->up2 ? x + px - 1 : x * s->stride - s->pad };
        if (++x == g->ow) {
            x = 0;
            row++;
        }
    }
}

/* Offset of what a tap reads, or -1: zeros. */
static int64_t source_of(const zn_conv_shape *s, const place *p, int ky, int kx)
{
    const int y = p->y + ky, x = p->x + kx;
    return y < 0 || x < 0 || y >= s->h || x >= s->w ? -1 : ((p->image * s->h + y) * s->w + x) * s->cin;
}

ZN_INLINE uint16x8_t round_eight(const float *x)
{
    return vreinterpretq_u16_bf16(vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(vld1q_f32(x)), vld1q_f32(x + 4)));
}

/* Eight channels of two pixels, side by side. */
ZN_INLINE void put_two(uint16x8_t p, uint16x8_t q, uint16_t *to)
{
    const uint64x2_t a = vreinterpretq_u64_u16(p), b = vreinterpretq_u64_u16(q);
    vst1q_u16(to, vreinterpretq_u16_u64(vzip1q_u64(a, b)));
    vst1q_u16(to + BFMMLA_QUAD * PIXELS, vreinterpretq_u16_u64(vzip2q_u64(a, b)));
}

static void gather_pair(const zn_conv_args *a, int64_t p, int64_t q, const part *of, uint16_t *to)
{
    enum { EIGHT = 8 };
    if (a->x_type == ZN_TYPE_F32) {
        const float *x = p < 0 ? zeros : a->x + p + of->channel, *y = q < 0 ? zeros : a->x + q + of->channel;
        for (int c = 0; c < of->channels; c += EIGHT, to += EIGHT * PIXELS)
            put_two(round_eight(x + c), round_eight(y + c), to);
        return;
    }
    const uint16_t *map = (const uint16_t *)(const void *)a->x, *none = (const uint16_t *)(const void *)zeros;
    const uint16_t *x = p < 0 ? none : map + p + of->channel, *y = q < 0 ? none : map + q + of->channel;
    for (int c = 0; c < of->channels; c += EIGHT, to += EIGHT * PIXELS)
        put_two(vld1q_u16(x + c), vld1q_u16(y + c), to);
}

static void gather(const zn_conv_args *a, const grid *g, const place at[PIXELS], const part *of, uint16_t *to)
{
    for (int tap = of->tap; tap < of->tap + of->taps; tap++, to += of->channels * PIXELS)
        for (int i = 0; i < PIXELS; i += 2)
            gather_pair(a, source_of(&a->s, at + i, tap / g->kw, tap % g->kw),
                        source_of(&a->s, at + i + 1, tap / g->kw, tap % g->kw), of, to + i * BFMMLA_QUAD);
}

/* ---- results ---- */

ZN_INLINE float32x4_t load_four(const float *base, zn_type type, int64_t at)
{
    if (type == ZN_TYPE_F32)
        return vld1q_f32(base + at);
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16((const uint16_t *)(const void *)base + at), 16));
}

ZN_INLINE void finish_four(const zn_conv_args *a, float32x4_t v, int64_t at, int col)
{
    if (a->bias)
        v = vaddq_f32(v, vld1q_f32(a->bias + col));
    if (a->residual)
        v = vaddq_f32(v, load_four(a->residual, a->residual_type, at));
    if (a->relu)
        v = vmaxq_f32(v, vdupq_n_f32(0));
    if (a->y_type == ZN_TYPE_F32)
        vst1q_f32(a->y + at, v);
    else
        vst1_u16((uint16_t *)(void *)a->y + at, vreinterpret_u16_bf16(vcvt_bf16_f32(v)));
}

/* A vector of sums is of two pixels and two outputs. */
static void finish(const zn_conv_args *a, const float *sums, const place at[PIXELS])
{
    for (int i = 0; i < PIXELS; i += 2) {
        const int64_t first = at[i].to, second = at[i + 1].to;
        for (int col = 0; col < a->s.cout; col += 4) {
            const float *from = sums + col / COLS * (int)BFMMLA_SUMS;
            const float64x2_t low = vreinterpretq_f64_f32(vld1q_f32(from + bfmmla_sums_at(i, col % COLS)));
            const float64x2_t high = vreinterpretq_f64_f32(vld1q_f32(from + bfmmla_sums_at(i, col % COLS + 2)));
            if (first >= 0)
                finish_four(a, vreinterpretq_f32_f64(vzip1q_f64(low, high)), first + col, col);
            if (second >= 0)
                finish_four(a, vreinterpretq_f32_f64(vzip2q_f64(low, high)), second + col, col);
        }
    }
}

/* ---- a unit ---- */

/* Meanwhile fetches the weights of the next panels. */
static void multiply(int cout, int depth, const uint16_t *w, const uint16_t *x, int segments, float *sums)
{
    enum { LINE = 32 }; /* numbers */
    const int panels = cout / COLS, share = depth * COLS / segments;
    for (int first = 0; first < panels; first += TOGETHER)
        for (int i = 0; i < segments; i++)
            for (int k = first; k < first + TOGETHER && k < panels; k++) {
                const uint16_t *panel = w + (int64_t)k * depth * COLS;
                for (int line = 0; line < share && k + TOGETHER < panels; line += LINE)
                    __builtin_prefetch(panel + (int64_t)TOGETHER * depth * COLS + i * share + line, 0, 3);
                bfmmla_block((const bfmmla_x *)(const void *)(x + (int64_t)i * depth * PIXELS),
                             (const bfmmla_w *)(const void *)panel, depth / BFMMLA_QUAD,
                             sums + ((int64_t)i * panels + k) * BFMMLA_SUMS);
            }
}

static void run_unit(const zn_conv_args *a, const grid *g, int phase, int64_t first, uint16_t *x, float *sums)
{
    const zn_conv_shape *s = &a->s;
    const int segments = (int)(g->segments - first < g->unit ? g->segments - first : g->unit);
    const uint16_t *w = (const uint16_t *)a->packed + (int64_t)phase * g->kh * g->kw * s->cin * s->cout;
    place at[SEGMENTS][PIXELS];
    for (int i = 0; i < segments; i++)
        find_places(s, g, phase, (first + i) * PIXELS, at[i]);
    memset(sums, 0, sizeof *sums * (size_t)segments * PIXELS * (size_t)s->cout);
    for (part p = next_part(s, g, NULL); p.taps; p = next_part(s, g, &p)) {
        const int depth = p.taps * p.channels;
        for (int i = 0; i < segments; i++)
            gather(a, g, at[i], &p, x + (int64_t)i * depth * PIXELS);
        multiply(s->cout, depth, w, x, segments, sums);
        w += (int64_t)depth * s->cout;
    }
    for (int i = 0; i < segments; i++)
        finish(a, sums + (int64_t)i * PIXELS * s->cout, at[i]);
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const grid g = grid_of(&a->s);
    const int64_t each = units_of_phase(&g);
    char *base = (char *)r.scratch + (-(uintptr_t)r.scratch & 63);
    for (int64_t unit = r.begin; unit < r.end; unit++)
        run_unit(a, &g, (int)(unit / each), unit % each * g.unit, (uint16_t *)(void *)base,
                 (float *)(void *)(base + gathered_bytes(&g)));
}

static double flops(const zn_conv_shape *s)
{
    const grid g = grid_of(s);
    return 2.0 * s->n * s->oh * s->ow * g.kh * g.kw * (double)s->cin * s->cout;
}

static unsigned narrow(const zn_conv_shape *s)
{
    (void)s;
    return ZN_CONV_NARROW_X | ZN_CONV_NARROW_Y;
}

extern const zn_conv_kernel zn_conv_direct_bf16;

const zn_conv_kernel zn_conv_direct_bf16 = {
    .name = "direct-bf16-bfmmla",
    .math = ZN_PRECISION_BF16,
    .cpu = ZN_CPU_NEON | ZN_CPU_BF16,
    .tolerance = 2.7e-3f,
    .narrow = narrow,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .rearranges = rearranges,
    .pack_units = pack_units,
    .pack_some = pack_some,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
};
