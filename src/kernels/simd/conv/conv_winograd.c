/* 3x3 convolution by the Winograd algorithm with 8x8 tiles, fp32, NHWC. One plan covers three cases:
 *
 *     stride 1   6x6 outputs per tile, 3 taps
 *     stride 2   7x7 outputs, 2 taps: even and odd rows and columns of the input are four phases, used as more channels
 *     up2        7x7 outputs, 2 taps: the four phases of the upsampled map are 2x2 convolutions of the small one
 *
 * A unit is a block of tiles. Its intermediates stay in L2 or are prefetched into it:
 *
 *     x -> V[64][tiles][k]   (input transform)      M[f] = V[f] * U[f]   (one product per frequency)      M -> y */
#include "kernels/conv.h"
#include "kernels/simd/conv/gemm.h"
#include "kernels/simd/conv/winograd.h"
#include "kernels/simd/conv/winograd_plan.h"

/* The weights of conv_winograd.c: the taps of each phase, transformed to U = G g G' and packed for gemm.h. Computed
 * in double, for all outputs of a panel at once, because training repacks at every step. */

/* Taps of one axis of a phase as sums of the three taps of the kernel: tap j includes w[i] if bit i of mask[j] is
 * set. */
static inline void phase_taps(const zn_conv_shape *s, int phase, unsigned mask[3])
{
    mask[0] = 1, mask[1] = 2, mask[2] = 4;
    if (s->up2) /* phase 0 reads rows -1 0 0 of the small map, phase 1 rows 0 0 1 */
        mask[0] = phase ? 3 : 1, mask[1] = phase ? 4 : 6;
    else if (s->stride == 2)
        mask[0] = phase ? 2 : 1, mask[1] = phase ? 0 : 4;
}

/* G for the points of winograd.h: powers of each point, divided by the product of its distances to the others. */
static inline void filter_matrix(int taps, double G[8][3])
{
    static const double point[7] = { 0, 1, -1, 2, -2, 0.5, -0.5 };
    memset(G, 0, sizeof(double) * 8 * 3);
    for (int i = 0; i < 7; i++) {
        double n = i == 0 ? -1 : 1; /* the sign of row 0 of B' */
        for (int j = 0; j < 7; j++)
            n *= j == i ? 1 : point[i] - point[j];
        n *= point[i] * point[i] == 4 ? 0.25 : point[i] * point[i] == 0.25 ? 4 : 1; /* the scaling that A' expects */
        for (int k = 0; k < taps; k++)
            G[i][k] = (k == 0 ? 1 : k == 1 ? point[i] : point[i] * point[i]) / n;
    }
    G[7][taps - 1] = 1;
}

/* g[i][j] = the taps of a phase, for one input channel and the outputs [o, o + across); w points to that channel and
 * output. Outputs past the end are zero: loops of constant length vectorise. */
static inline void phase_filter(const zn_conv_shape *s, int taps, int phase, const float *w, int across,
                                double g[3][3][GEMM_NR])
{
    unsigned rows[3], cols[3];
    phase_taps(s, phase / 2, rows);
    phase_taps(s, phase % 2, cols);
    for (int i = 0; i < taps; i++)
        for (int j = 0; j < taps; j++) {
            memset(g[i][j], 0, sizeof g[i][j]);
            for (unsigned r = rows[i]; r; r &= r - 1)
                for (unsigned c = cols[j]; c; c &= c - 1) {
                    const float *from = w + (int64_t)(__builtin_ctz(r) * 3 + __builtin_ctz(c)) * s->cin * s->cout;
                    for (int o = 0; across == GEMM_NR && o < GEMM_NR; o++)
                        g[i][j][o] += (double)from[o];
                    for (int o = 0; across < GEMM_NR && o < across; o++)
                        g[i][j][o] += (double)from[o];
                }
        }
}

/* to[f * step] = row f of G g G' for GEMM_NR outputs, of which `real` are stored. taps is a compile-time constant, 2
 * or 3. */
VEC_INLINE void filter_panel(const int taps, const double G[8][3], double g[3][3][GEMM_NR], int real, float *to,
                             int64_t step)
{
    for (int row = 0; row < 8; row++) {
        double half[3][GEMM_NR];
        for (int j = 0; j < taps; j++)
            for (int o = 0; o < GEMM_NR; o++)
                half[j][o] = G[row][0] * g[0][j][o] + G[row][1] * g[1][j][o] + (taps == 3 ? G[row][2] * g[2][j][o] : 0);
        for (int col = 0; col < 8; col++, to += step) {
            float u[GEMM_NR];
            for (int o = 0; o < GEMM_NR; o++)
                u[o] =
                    (float)(G[col][0] * half[0][o] + G[col][1] * half[1][o] + (taps == 3 ? G[col][2] * half[2][o] : 0));
            if (real == GEMM_NR)
                memcpy(to, u, sizeof u);
            else
                memcpy(to, u, sizeof(float) * (size_t)real);
        }
    }
}

/* U: [out phase][group][chunk][frequency][panel of GEMM_NR outputs][k of the chunk][outputs of the panel] */
static inline void winograd_pack(const zn_conv_shape *s, const plan *p, const float *w, float *packed)
{
    const int pieces = ceil_div(p->cin_p, p->kc);
    double G[8][3], g[3][3][GEMM_NR];
    filter_matrix(p->taps, G);
    if (p->cin_p > s->cin || p->cout_p > s->cout)
        memset(packed, 0, sizeof(float) * POINTS * (size_t)p->k * (size_t)p->cout_p * (size_t)p->out_phases);
    for (int phase = 0; phase < p->in_phases * p->out_phases; phase++)
        for (int i = 0; i < s->cin; i++) {
            const int k = i + (p->in_phases > 1 ? phase * p->cin_p : 0), out = p->out_phases > 1 ? phase : 0;
            const chunk c = chunk_of(p, p->chunks == 1 ? 0 : k / p->cin_p * pieces + k % p->cin_p / p->kc);
            for (int o = 0; o < s->cout;) {
                const int group = o / p->group * p->group, width = least(p->group, p->cout_p - group), at = o - group;
                const int across = least(GEMM_NR, width - at), real = least(across, s->cout - o);
                float *to = packed + (int64_t)POINTS * (p->k * (int64_t)(out * p->cout_p + group) + c.before * width) +
                            (int64_t)c.k * at + (int64_t)(k - c.before) * across;
                phase_filter(s, p->taps, phase, w + (int64_t)i * s->cout + o, real, g);
                if (p->taps == 3)
                    filter_panel(3, G, g, real, to, (int64_t)c.k * width);
                else
                    filter_panel(2, G, g, real, to, (int64_t)c.k * width);
                o += across;
            }
        }
}

extern const zn_conv_kernel ZN_KERNEL(conv_winograd);

/* Scratch, in floats: V and M, one tile between its two passes, a row of it gathered at the edge of the image, and
 * the bias padded to whole vectors. */
typedef struct buffers {
    float *v, *m, *half, *edge, *bias;
} buffers;

static int64_t carve(const plan *p, float *base, buffers *b)
{
    const int64_t v = POINTS * p->v_slot, m = p->in_place ? p->v_slot : POINTS * p->m_slot;
    const int64_t half = POINTS * most(p->kc, p->group), edge = 8 * p->kc;
    if (b) { /* if b is NULL, only the size is computed, and base is NULL */
        float *rest = base + v + m;
        *b = (buffers){ .m = base, .v = base + m, .half = rest, .edge = rest + half, .bias = rest + half + edge };
    }
    return v + m + half + edge + p->cout_p;
}

/* Transforms row r of the window, for the channels of the chunk, into its eight pixels of half. */
static void input_row(const zn_conv_args *a, const chunk *c, window w, int r, float *half, float *edge)
{
    const zn_conv_shape *s = &a->s;
    const int y = w.y0 + r * w.step;
    const int channels = least(c->end, s->cin) - c->first, padded = c->end - c->first;
    if (y < 0 || y >= s->h) {
        memset(half, 0, sizeof(float) * 8 * (size_t)padded);
        return;
    }
    const float *row = a->x + ((int64_t)w.n * s->h + y) * s->w * s->cin + c->first;
    if (w.x0 >= 0 && w.x0 + 7 * w.step < s->w) {
        const float *x = row + (int64_t)w.x0 * s->cin;
        const int64_t below = y + w.step < s->h ? (int64_t)w.step * s->w * s->cin : 0;
        winograd_input_row(x, (int64_t)w.step * s->cin, channels, padded, half, x + below);
        return;
    }
    for (int i = 0; i < 8; i++) {
        const int x = w.x0 + i * w.step;
        if (x >= 0 && x < s->w)
            memcpy(edge + i * channels, row + (int64_t)x * s->cin, sizeof(float) * (size_t)channels);
        else
            memset(edge + i * channels, 0, sizeof(float) * (size_t)channels);
    }
    winograd_input_row(edge, channels, channels, padded, half, edge);
}

/* V[.][t]: transforms the rows of the tile into half, then its columns into the 64 slots. Rows come first, because
 * the cache lines of eight image rows that are a power of two bytes apart would share one cache set. half is a ring
 * of eight rows: after the tile above (`follows`) only the rows below it are new. */
static void input_tile(const zn_conv_args *a, const plan *p, const chunk *c, place at, bool follows, float *v,
                       const buffers *b)
{
    const int top = at.row * p->outputs, wide = c->end - c->first;
    for (int phase = 0; phase < c->phases; phase++) {
        const window w = window_of(&a->s, p, at, c->phase + phase);
        const float *rows[8];
        for (int r = 0; r < 8; r++) {
            float *half = b->half + ((top + r) & 7) * 8 * wide;
            rows[r] = half;
            if (!follows || c->phases > 1 || r >= 8 - p->outputs)
                input_row(a, c, w, r, half, b->edge);
        }
        for (int i = 0; i < 8; i++)
            if (c->phases > 1 || !input_is_spare(p, c->phase, i))
                winograd_input_column(rows, i * wide, wide, v + phase * wide + i * p->v_slot, p->v_slot);
    }
}

static void input(const zn_conv_args *a, const plan *p, const chunk *c, int64_t tile, int count, const buffers *b)
{
    place before = { .n = -1 };
    for (int t = 0; t < count; t++) {
        const place at = place_of(p, tile + t);
        const bool follows = before.n == at.n && before.col == at.col && before.row + 1 == at.row;
        input_tile(a, p, c, at, follows, b->v + (int64_t)t * c->k, b);
        before = at;
    }
}

/* The outputs to prefetch during product number `call` of a block's 64 * panels, the last products before the outputs
 * are written. They are prefetched in runs of `run` cache lines along the image rows; otherwise the output transform
 * would wait for them. For an upsampled map two turns write every second row and share these prefetches. */
static const float *far_of(const zn_conv_args *a, const plan *p, int64_t tile, int turn, int call, int run)
{
    const zn_conv_shape *s = &a->s;
    const place at = place_of(p, tile);
    const int runs = ceil_div(most(1, p->block / STRIP) * p->step_out * s->cout, run * LINE);
    const int every = p->out_phases > 1 ? 2 : 1, row = call / runs * every;
    const int y = at.row / STRIP * STRIP * p->step_out + row - turn / 2;
    if (row >= STRIP * p->step_out || y < 0 || y >= s->oh)
        return a->packed;
    return a->y + (((int64_t)at.n * s->oh + y) * s->ow + least(at.col * p->step_out, s->ow - 1)) * s->cout +
           call % runs * run * LINE;
}

/* M[f][count][width] (+)= V[f][count][k] * U[f][k][width]. U is streamed from memory once per block of tiles. The
 * product prefetches the next of its own panels. This function names the next V, and the next M or data that is
 * still further away. */
static void multiply(const zn_conv_args *a, const plan *p, const chunk *c, int turn, int64_t tile, const float *u,
                     int count, int width, const buffers *b)
{
    gemm_args g = { .row = c->k,
                    .c_row = width,
                    .segments = 1,
                    .k = c->k,
                    .depth = c->k,
                    .more = c->before > 0,
                    .streams = !GEMM_FETCHES && is_heavy(p) };
    const int panels = ceil_div(width, GEMM_NR), run = gemm_fetches(&g, count), before = turn % 2 * POINTS * panels;
    const bool last = c->before + c->k == p->k && p->group == p->cout_p;
    for (int f = 0; f < POINTS; f++) {
        if (is_spare(p, c, turn, f))
            continue;
        g.a = b->v + f * p->v_slot;
        g.b = u + (int64_t)f * c->k * width;
        g.c = b->m + f * p->m_slot;
        g.ahead = g.a + p->v_slot;
        g.ahead_floats = count * c->k;
        for (int i = 0; i < panels && i < GEMM_PANELS_MOST; i++)
            g.far[i] = last ? far_of(a, p, tile, turn, before + f * panels + i, most(run, 1))
                            : g.c + p->m_slot + (int64_t)i * run * LINE;
        ZN_KERNEL(gemm)(&g, count, width);
    }
}

/* Prefetches rows of y and of the residual while the columns are still being transformed. Not inline: inside gcc's
 * code for the columns it makes the layers with two taps 1.5x as slow on ARM. */
static __attribute__((noinline)) void fetch_outputs(const zn_conv_args *a, const target *t, int64_t row, int64_t step,
                                                    int channels)
{
    for (int j = t->col_first; j < t->col_end; j++)
        for (int c = 0; c < channels; c += LINE) {
            __builtin_prefetch(a->y + row + j * step + c, 1);
            if (a->residual)
                __builtin_prefetch(a->residual + row + j * step + c);
        }
}

/* Transforms the columns of M into half[outputs][8][width], then its rows into y, starting at channel oc. */
VEC_INLINE void output_tile(const int outputs, const zn_conv_args *a, const plan *p, target t, int oc, int width,
                            const float *m, const buffers *b)
{
    const zn_conv_shape *s = &a->s;
    const int channels = least(width, s->cout - oc);
    const int64_t origin = (((int64_t)t.n * s->oh + t.y0) * s->ow + t.x0) * s->cout + oc;
    const int64_t row_step = (int64_t)t.step * s->ow * s->cout, step = (int64_t)t.step * s->cout;
    for (int i = 0; i < 8; i++) {
        if (!(p->in_place && GEMM_FETCHES) && i >= t.row_first && i < t.row_end)
            fetch_outputs(a, &t, origin + i * row_step, step, channels);
        winograd_output_column(outputs, m + i * p->m_slot, p->m_slot, i == 1 ? b->bias + oc : NULL, width,
                               b->half + i * width, i < 7 ? m + (i + 1) * p->m_slot : m + width);
    }
    for (int r = t.row_first; r < t.row_end; r++) {
        const int64_t at = origin + r * row_step;
        const winograd_row row = { .y = a->y + at,
                                   .residual = a->residual ? a->residual + at : NULL,
                                   .relu = a->relu,
                                   .step = step,
                                   .channels = channels,
                                   .first = t.col_first,
                                   .end = t.col_end };
        winograd_output_row(outputs, b->half + r * 8 * width, width, &row);
    }
}

static void output(const zn_conv_args *a, const plan *p, int64_t tile, int count, int phase, int oc, int width,
                   const buffers *b)
{
    for (int t = 0; t < count; t++) {
        const target to = target_of(&a->s, p, place_of(p, tile + t), phase);
        const float *m = b->m + (int64_t)t * width;
        if (p->outputs == 6)
            output_tile(6, a, p, to, oc, width, m, b);
        else
            output_tile(7, a, p, to, oc, width, m, b);
    }
}

/* One block of tiles. With several chunks of input channels the sums in M accumulate chunk by chunk. V is kept for
 * all groups of outputs and their phases, or recomputed if it is chunked. */
static void run_block(const zn_conv_args *a, const plan *p, int64_t tile, int count, const buffers *b)
{
    for (int oc = 0; oc < p->cout_p; oc += p->group)
        for (int turn = 0; turn < p->out_phases; turn++) {
            const int width = least(p->group, p->cout_p - oc), phase = out_phase(turn);
            const float *u = (const float *)a->packed + (int64_t)POINTS * p->k * (phase * p->cout_p + oc);
            for (int i = 0; i < p->chunks; i++) {
                const chunk c = chunk_of(p, i);
                if (p->chunks > 1 || (turn == 0 && oc == 0))
                    input(a, p, &c, tile, count, b);
                multiply(a, p, &c, turn, tile, u + (int64_t)POINTS * c.before * width, count, width, b);
            }
            output(a, p, tile, count, phase, oc, width, b);
        }
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const plan p = plan_of(&a->s);
    buffers b;
    carve(&p, r.scratch, &b);
    memset(b.bias, 0, sizeof(float) * (size_t)p.cout_p);
    if (a->bias)
        memcpy(b.bias, a->bias, sizeof(float) * (size_t)a->s.cout);
    for (int64_t unit = r.begin; unit < r.end; unit++)
        run_block(a, &p, tile_of(&p, unit), (int)(tile_of(&p, unit + 1) - tile_of(&p, unit)), &b);
}

/* Whether it is faster than conv_direct on a whole tile. Both costs are in measured cycles of a Neoverse-V1:
 * products near their peak, and a fixed cost per channel for the transforms. Other CPUs change all of these terms
 * alike. The size of the map is not considered, so that a part of an image is computed like the whole. */
static bool wins(const zn_conv_shape *s, const plan *p)
{
    const double outs = (double)p->cout_p * p->out_phases, larger = p->outputs == 7 ? 1.36 : 1;
    const double tile = (double)products_of(p) * p->cin_p * p->cout_p / 14 + 63.0 * p->k + 80 * outs * larger + 1000;
    const double pixel = 9.0 * s->cin * p->cout_p / (p->cout_p < GEMM_NR ? 7 : 13) + s->cout / 2;
    return tile < p->step_out * p->step_out * pixel;
}

static bool supports(const zn_conv_shape *s)
{
    if (s->kh != 3 || s->kw != 3 || s->stride < 1 || s->stride > 2 || (s->up2 && (s->stride != 1 || s->pad != 1)))
        return false;
    if (s->stride == 2 && VEC_LANES > 8) /* four phases to transform for 1.7 times fewer products: does not pay there */
        return false;
    const plan p = plan_of(s);
    return p.k <= CHANNELS_MOST && p.cout_p <= CHANNELS_MOST && wins(s, &p);
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

static int64_t units(const zn_conv_shape *s) { return plan_of(s).units; }

static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    const plan p = plan_of(s);
    winograd_pack(s, &p, w, packed);
}

/* The products, and the two transforms as implemented in winograd.h. */
static double flops(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    const double in = 16 * 40.0 * p.k, one = p.outputs == 6 ? 30 : 34;
    const double out = (8 + p.outputs) * one * p.cout_p * p.out_phases;
    return (double)p.tiles * (2.0 * products_of(&p) * p.cin_p * p.cout_p + in + out);
}

/* Issue slots of winograd_input and winograd_output per line of eight. */
enum { INPUT_SLOTS = 24, OUTPUT_SLOTS_6 = 20, OUTPUT_SLOTS_7 = 22 };

/* Without padding. Neighbouring tiles share the transformed rows of their common input. So each tile transforms
 * eight lines along one axis and as many as it has outputs along the other, both for the input and for the output. */
static double slots(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    const double lines = 8 + p.outputs, in = s->cin * p.in_phases, out = s->cout * p.out_phases;
    return (double)p.tiles * ((double)products_of(&p) * s->cin * s->cout + lines * INPUT_SLOTS * in +
                              lines * (p.outputs == 6 ? OUTPUT_SLOTS_6 : OUTPUT_SLOTS_7) * out);
}

static int block(const zn_conv_shape *s) { return s->up2 ? 14 : s->stride == 2 ? 7 : 6; }

static bool pays(const zn_conv_shape *s, const zn_conv_wish *wish) { return !zn_conv_has_few_tiles(s, wish); }

const zn_conv_kernel ZN_KERNEL(conv_winograd) = {
    .name = "winograd-f32-" ZN_ISA_NAME,
    .math = ZN_PRECISION_F32,
    .cpu = VEC_CPU,
    .tolerance = 1.5e-5f,
    .supports = supports,
    .pays = pays,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = flops,
    .slots = slots,
    .block = block,
};
