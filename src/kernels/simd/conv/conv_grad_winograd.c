/* Weight gradient of 3x3 convolutions by the Winograd algorithm with 8x8 tiles, fp32, NHWC: a fifth of the products
 * of the direct method. For each chunk of tiles, small enough for the caches of the threads:
 *
 *     x -> V[64][tiles][cin],  dy -> Z[64][tiles][cout]        a unit is a tile
 *     D[f] += V[f]' * Z[f]                                     a unit is a frequency
 *
 * After the last chunk D[64][cin][cout] -> dw, where a unit is an input channel. Every sum runs over the tiles in
 * order, for any chunks and threads. */
#include "kernels/conv_grad.h"
#include "kernels/simd/conv/outer.h"
#include "kernels/simd/conv/winograd.h"

#include <string.h>

/* Transposed Winograd transforms for weight gradients, with the points of winograd.h. The forward pass is Y = A' [
 * (G g G') . (B' d B) ] A, so
 *
 *     dg = G' [ sum over tiles of (B' d B) . (A dY A') ] G
 *
 * A expands the 6 gradients of an axis to 8 points; G' reduces 8 points to 3 taps. */

/* o = A d, the transpose of winograd_output for 6 outputs. */
VEC_INLINE void winograd_spread(const vec d[6], vec o[8])
{
    const vec four = vec_splat(4), quarter = vec_splat(0.25f), two = vec_splat(2), half = vec_splat(0.5f);
    const vec even1 = d[0] + d[2] + d[4], odd1 = d[1] + d[3] + d[5];
    const vec even2 = vec_fma(quarter, d[0], vec_fma(four, d[4], d[2]));
    const vec odd2 = vec_fma(half, d[1], vec_fma(two, d[3], vec_splat(8) * d[5]));
    const vec even3 = vec_fma(four, d[0], vec_fma(quarter, d[4], d[2]));
    const vec odd3 = vec_fma(two, d[1], vec_fma(half, d[3], vec_splat(0.125f) * d[5]));
    o[0] = d[0];
    o[1] = even1 + odd1;
    o[2] = even1 - odd1;
    o[3] = even2 + odd2;
    o[4] = even2 - odd2;
    o[5] = even3 + odd3;
    o[6] = even3 - odd3;
    o[7] = d[5];
}

/* o = G' u: powers of the points divided by the products of their distances, scaled as in conv_winograd.c. */
VEC_INLINE void winograd_gather(const vec u[8], vec o[3])
{
    const vec ones = vec_splat(-2.0f / 9), low = vec_splat(2.0f / 45), mid = vec_splat(4.0f / 45),
              high = vec_splat(8.0f / 45);
    const vec s1 = u[1] + u[2], d1 = u[1] - u[2];
    const vec s2 = u[3] + u[4], d2 = u[3] - u[4];
    const vec s3 = u[5] + u[6], d3 = u[5] - u[6];
    o[0] = vec_fma(ones, s1, vec_fma(low, s2, vec_fma(high, s3, u[0])));
    o[1] = vec_fma(ones, d1, mid * (d2 + d3));
    o[2] = vec_fma(ones, s1, vec_fma(high, s2, vec_fma(low, s3, u[7])));
}

VEC_INLINE void winograd_spread_step(const int wide, const float *const d[6], int at, float *to, int64_t step)
{
    vec o[2][8];
#pragma GCC unroll 2
    for (int k = 0; k < wide; k++) {
        vec in[6];
#pragma GCC unroll 6
        for (int i = 0; i < 6; i++)
            in[i] = vec_load(d[i] + at + k * VEC_LANES);
        winograd_spread(in, o[k]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        winograd_store(wide, to + at + i * step, o[0][i], o[wide - 1][i]);
}

/* Transforms `channels` of six runs of gradients into eight runs `step` floats apart, in whole vectors. */
VEC_INLINE void winograd_spread_all(const float *const runs[6], int channels, float *to, int64_t step)
{
    const float *const d[6] = { runs[0], runs[1], runs[2], runs[3], runs[4], runs[5] };
    int c = 0;
    for (; c + WINOGRAD_WIDE * VEC_LANES <= channels; c += WINOGRAD_WIDE * VEC_LANES)
        winograd_spread_step(WINOGRAD_WIDE, d, c, to, step);
    for (; c + VEC_LANES <= channels; c += VEC_LANES)
        winograd_spread_step(1, d, c, to, step);
    if (c < channels) {
        vec in[6], o[8];
        for (int i = 0; i < 6; i++)
            in[i] = vec_load_part(d[i] + c, channels - c);
        winograd_spread(in, o);
        for (int i = 0; i < 8; i++)
            vec_store(to + c + i * step, o[i]);
    }
}

extern const zn_conv_grad_kernel ZN_KERNEL(conv_grad_winograd);

enum { POINTS = 64, OUTPUTS = 6, LINE = 16 /* floats */, CHUNK_FLOATS = 3 << 17 /* per thread */, CHUNK_LEAST = 24 };
enum { CHANNELS_MOST = 4096 };

static int least(int64_t a, int64_t b) { return (int)(a < b ? a : b); }
static int most(int64_t a, int64_t b) { return (int)(a > b ? a : b); }

typedef struct plan {
    int cin_p, cout_p;      /* padded to whole vectors */
    int rows, cols;         /* tiles per image */
    int64_t tiles;          /* tiles in the batch */
    int chunk, chunks;      /* tiles per chunk; number of chunks */
    int64_t v_slot, z_slot; /* floats from one frequency to the next; one cache line more than a power of two */
    int64_t d_slot;
} plan;

static plan plan_of(const zn_conv_shape *s)
{
    plan p = { .cin_p = VEC_ROUND(s->cin), .cout_p = VEC_ROUND(s->cout) };
    p.rows = (s->oh + OUTPUTS - 1) / OUTPUTS;
    p.cols = (s->ow + OUTPUTS - 1) / OUTPUTS;
    p.tiles = (int64_t)s->n * p.rows * p.cols;
    const int64_t capacity = (int64_t)CHUNK_FLOATS * zn_conv_threads(s);
    p.chunk = least(p.tiles, most(capacity / (POINTS * (p.cin_p + p.cout_p)), CHUNK_LEAST));
    p.chunks = (int)((p.tiles + p.chunk - 1) / p.chunk);
    p.v_slot = (int64_t)p.chunk * p.cin_p + LINE;
    p.z_slot = (int64_t)p.chunk * p.cout_p + LINE;
    p.d_slot = (int64_t)s->cin * p.cout_p;
    return p;
}

static float *v_of(const zn_conv_grad_args *a) { return a->shared; }
static float *z_of(const zn_conv_grad_args *a, const plan *p) { return v_of(a) + POINTS * p->v_slot; }
static float *d_of(const zn_conv_grad_args *a, const plan *p) { return z_of(a, p) + POINTS * p->z_slot; }

/* A map that tiles are cut from, with the thread's buffers: a tile between its two passes, and pixels at the edge. */
typedef struct map {
    const float *data;
    int h, w, c;
    float *half, *edge;
} map;

/* `count` pixels of image n from (y,x), in place or gathered with zeros; NULL if the row is outside the image. */
static const float *pixels(const map *m, int n, int y, int x, int count)
{
    if (y < 0 || y >= m->h)
        return NULL;
    const int64_t row = ((int64_t)n * m->h + y) * m->w;
    if (x >= 0 && x + count <= m->w)
        return m->data + (row + x) * m->c;
    for (int i = 0; i < count; i++)
        if (x + i >= 0 && x + i < m->w)
            memcpy(m->edge + (int64_t)i * m->c, m->data + (row + x + i) * m->c, sizeof(float) * (size_t)m->c);
        else
            memset(m->edge + (int64_t)i * m->c, 0, sizeof(float) * (size_t)m->c);
    return m->edge;
}

/* V: transforms rows of the tile into half[8][8][wide], then its columns into the 64 slots. */
static void input_tile(const map *m, int n, int y, int x, float *v, int64_t slot)
{
    const int wide = VEC_ROUND(m->c);
    const float *rows[8];
    for (int r = 0; r < 8; r++) {
        float *half = m->half + (int64_t)r * 8 * wide;
        const float *from = pixels(m, n, y + r, x, 8);
        if (from)
            winograd_input_row(from, m->c, m->c, wide, half, from);
        else
            memset(half, 0, sizeof(float) * 8 * (size_t)wide);
        rows[r] = half;
    }
    for (int i = 0; i < 8; i++)
        winograd_input_column(rows, i * wide, wide, v + i * slot, slot);
}

/* Z: transforms rows of six gradients into half[6][8][wide], then its columns into the 64 slots. */
static void gradient_tile(const map *m, int n, int y, int x, float *z, int64_t slot)
{
    const int wide = VEC_ROUND(m->c);
    for (int r = 0; r < OUTPUTS; r++) {
        float *half = m->half + (int64_t)r * 8 * wide;
        const float *from = pixels(m, n, y + r, x, OUTPUTS), *runs[OUTPUTS];
        if (!from) {
            memset(half, 0, sizeof(float) * 8 * (size_t)wide);
            continue;
        }
        for (int i = 0; i < OUTPUTS; i++)
            runs[i] = from + (int64_t)i * m->c;
        winograd_spread_all(runs, m->c, half, wide);
    }
    for (int i = 0; i < 8; i++) {
        const float *runs[OUTPUTS];
        for (int r = 0; r < OUTPUTS; r++)
            runs[r] = m->half + ((int64_t)r * 8 + i) * wide;
        winograd_spread_all(runs, wide, z + i * slot, 8 * slot);
    }
}

static void transform(const zn_conv_grad_args *a, const plan *p, int chunk, zn_range r)
{
    const zn_conv_shape *s = &a->s;
    float *half = r.scratch, *edge = half + (int64_t)POINTS * most(p->cin_p, p->cout_p);
    const map x = { a->x, s->h, s->w, s->cin, half, edge }, dy = { a->dy, s->oh, s->ow, s->cout, half, edge };
    for (int64_t t = r.begin; t < r.end; t++) {
        const int64_t tile = (int64_t)chunk * p->chunk + t, image = (int64_t)p->rows * p->cols;
        const int n = (int)(tile / image), row = (int)(tile % image / p->cols) * OUTPUTS;
        const int col = (int)(tile % p->cols) * OUTPUTS;
        input_tile(&x, n, row - s->pad, col - s->pad, v_of(a) + t * p->cin_p, p->v_slot);
        gradient_tile(&dy, n, row, col, z_of(a, p) + t * p->cout_p, p->z_slot);
    }
}

static void multiply(const zn_conv_grad_args *a, const plan *p, int chunk, zn_range r)
{
    for (int64_t f = r.begin; f < r.end; f++) {
        const outer_args g = { .a = v_of(a) + f * p->v_slot,
                               .b = z_of(a, p) + f * p->z_slot,
                               .c = d_of(a, p) + f * p->d_slot,
                               .a_step = p->cin_p,
                               .b_step = p->cout_p,
                               .c_row = p->cout_p,
                               .k = least(p->chunk, p->tiles - (int64_t)chunk * p->chunk),
                               .more = chunk > 0 };
        outer(&g, a->s.cin, p->cout_p);
    }
}

/* Writes input channels [begin,end) of dw. */
static void gather(const zn_conv_grad_args *a, const plan *p, zn_range r)
{
    const int cout = a->s.cout;
    const int64_t tap = (int64_t)a->s.cin * cout;
    for (int64_t i = r.begin; i < r.end; i++)
        for (int o = 0; o < cout; o += VEC_LANES) {
            const float *d = d_of(a, p) + i * p->cout_p + o;
            float *dw = a->dw + i * cout + o;
            vec half[8][3];
            for (int row = 0; row < 8; row++) {
                vec u[8];
                for (int k = 0; k < 8; k++)
                    u[k] = vec_load(d + (row * 8 + k) * p->d_slot);
                winograd_gather(u, half[row]);
            }
            for (int kx = 0; kx < 3; kx++) {
                vec u[8], g[3];
                for (int row = 0; row < 8; row++)
                    u[row] = half[row][kx];
                winograd_gather(u, g);
                for (int ky = 0; ky < 3; ky++)
                    vec_store_part(dw + (ky * 3 + kx) * tap, g[ky], least(VEC_LANES, cout - o));
            }
        }
}

static void run(const void *args, zn_range r)
{
    const zn_conv_grad_args *a = args;
    const plan p = plan_of(&a->s);
    if (a->stage == 2 * p.chunks)
        gather(a, &p, r);
    else if (a->stage % 2 == 0)
        transform(a, &p, a->stage / 2, r);
    else
        multiply(a, &p, a->stage / 2, r);
}

/* Whether it is faster than conv_grad_direct. Both costs are in cycles of a Neoverse-V1: products near their peak,
 * and a fixed cost per channel for the transforms. */
static bool wins(const zn_conv_shape *s, const plan *p)
{
    const double product = (double)s->cin * p->cout_p, narrow = p->cout_p < OUTER_NR ? 7 : 14;
    const double tile = POINTS * product / narrow + 63.0 * p->cin_p + 80.0 * p->cout_p + 500;
    return (double)p->tiles * tile + POINTS * product / 4 < (double)s->n * s->oh * s->ow * 9 * product / narrow;
}

static bool supports(const zn_conv_shape *s)
{
    if (s->kh != 3 || s->kw != 3 || s->stride != 1 || s->pad > 2 || s->up2)
        return false;
    const plan p = plan_of(s);
    return p.cin_p <= CHANNELS_MOST && p.cout_p <= CHANNELS_MOST && wins(s, &p);
}

static size_t shared_bytes(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    return sizeof(float) * POINTS * (size_t)(p.v_slot + p.z_slot + p.d_slot);
}

static size_t scratch_bytes(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    return sizeof(float) * (POINTS + 8) * (size_t)most(p.cin_p, p.cout_p);
}

static int stages(const zn_conv_shape *s) { return 2 * plan_of(s).chunks + 1; }

static int64_t units(const zn_conv_shape *s, int stage)
{
    const plan p = plan_of(s);
    if (stage == 2 * p.chunks)
        return s->cin;
    return stage % 2 ? POINTS : least(p.chunk, p.tiles - (int64_t)(stage / 2) * p.chunk);
}

/* The products, and the transforms as implemented. */
static double flops(const zn_conv_shape *s)
{
    const plan p = plan_of(s);
    return (double)p.tiles * (2.0 * POINTS * s->cin * p.cout_p + 16 * 40.0 * p.cin_p + 14 * 30.0 * p.cout_p);
}

const zn_conv_grad_kernel ZN_KERNEL(conv_grad_winograd) = {
    .name = "winograd-grad-f32-" ZN_ISA_NAME,
    .math = ZN_PRECISION_F32,
    .cpu = VEC_CPU,
    .tolerance = 1.5e-5f,
    .supports = supports,
    .shared_bytes = shared_bytes,
    .scratch_bytes = scratch_bytes,
    .stages = stages,
    .units = units,
    .run = run,
    .flops = flops,
};
