/* 3x3 convolutions of small maps with heavy weights, and of large maps where memory is short: Winograd with tiles of
 * 2x2 or 4x4 outputs, fp32.
 *
 *     Y = A' [ (G g G') . (B' d B) ] A       4x4 or 6x6 inputs, and so many products in place of 36 or 144
 *
 * Such a convolution waits for its weights. Those of conv_winograd.c, with tiles of 6x6, take 7.1 times the memory;
 * these take 1.8 or 4 times, and smaller tiles reach less far over the edge of a small map. A unit is a block of tiles
 * and a group of panels of outputs: the weights of a panel are read once, all frequencies in a row, and multiplied with
 * all tiles of the block. */
#include "kernels/conv.h"
#include "kernels/simd/conv/gemm.h"

extern const zn_conv_kernel ZN_KERNEL(conv_small2), ZN_KERNEL(conv_small4);

/* tile, in what follows: 2 or 4, a compile-time constant. */
#define SIDE(tile)   ((tile) + 2)
#define POINTS(tile) (SIDE(tile) * SIDE(tile))
enum { MOST_TILE = 4, MOST_SIDE = 6, BLOCK_MOST = 60, BLOCK_LEAST = 6, GROUP = 128 };
static const int64_t block_floats = 1 << 20; /* of inputs of a block, transformed */

static int least(int64_t a, int64_t b) { return (int)(a < b ? a : b); }
static int ceil_div(int64_t a, int64_t b) { return (int)((a + b - 1) / b); }

typedef struct plan {
    int across, down; /* tiles of an image */
    int64_t tiles;    /* of all */
    int block;        /* tiles of a unit */
    int cout, group;  /* outputs, whole vectors; those of a unit, whole panels */
    int groups;
    int64_t units;
} plan;

static plan plan_of(int tile, const zn_conv_shape *s)
{
    plan p = { .across = ceil_div(s->ow, tile), .down = ceil_div(s->oh, tile), .cout = VEC_ROUND(s->cout) };
    p.tiles = (int64_t)s->n * p.across * p.down;
    const int most = least(BLOCK_MOST, block_floats / POINTS(tile) / s->cin);
    const int blocks = ceil_div(p.tiles, most < BLOCK_LEAST ? BLOCK_LEAST : most);
    p.block = ceil_div(p.tiles, blocks);
    const int wanted = ceil_div(2 * zn_conv_threads(s), blocks), even = ceil_div(p.cout, wanted);
    p.group = ceil_div(even > GROUP ? GROUP : even, GEMM_NR) * GEMM_NR;
    p.groups = ceil_div(p.cout, p.group);
    p.units = (int64_t)blocks * p.groups;
    return p;
}

/* ---- weights: [panel][frequency][cin][outputs of the panel] ---- */

/* G g, for one column or row of taps. */
static void filter(int tile, const double g[3], double o[MOST_SIDE])
{
    if (tile == 2) {
        o[0] = g[0];
        o[1] = (g[0] + g[1] + g[2]) / 2;
        o[2] = (g[0] - g[1] + g[2]) / 2;
        o[3] = g[2];
    } else {
        o[0] = g[0] / 4;
        o[1] = -(g[0] + g[1] + g[2]) / 6;
        o[2] = -(g[0] - g[1] + g[2]) / 6;
        o[3] = g[0] / 24 + g[1] / 12 + g[2] / 6;
        o[4] = g[0] / 24 - g[1] / 12 + g[2] / 6;
        o[5] = g[2];
    }
}

/* w: of one input and one output, taps `step` floats apart; `slot` floats between frequencies. */
static void pack_one(int tile, const float *w, int64_t step, float *to, int64_t slot)
{
    double half[3][MOST_SIDE];
    for (int ky = 0; ky < 3; ky++) {
        const double row[3] = { (double)w[3 * ky * step], (double)w[(3 * ky + 1) * step],
                                (double)w[(3 * ky + 2) * step] };
        filter(tile, row, half[ky]);
    }
    for (int x = 0; x < SIDE(tile); x++) {
        const double column[3] = { half[0][x], half[1][x], half[2][x] };
        double o[MOST_SIDE];
        filter(tile, column, o);
        for (int y = 0; y < SIDE(tile); y++)
            to[(y * SIDE(tile) + x) * slot] = (float)o[y];
    }
}

static size_t packed_floats(int tile, const zn_conv_shape *s)
{
    return (size_t)POINTS(tile) * (size_t)s->cin * (size_t)VEC_ROUND(s->cout);
}

static void pack(int tile, const zn_conv_shape *s, const float *w, float *packed)
{
    const int cout = VEC_ROUND(s->cout);
    memset(packed, 0, sizeof(float) * packed_floats(tile, s));
    for (int first = 0; first < cout; first += GEMM_NR) {
        const int width = least(GEMM_NR, cout - first), real = least(width, s->cout - first);
        for (int i = 0; i < s->cin; i++)
            for (int o = 0; o < real; o++)
                pack_one(tile, w + (int64_t)i * s->cout + first + o, (int64_t)s->cin * s->cout, packed + i * width + o,
                         (int64_t)s->cin * width);
        packed += (int64_t)POINTS(tile) * s->cin * width;
    }
}

/* ---- tiles ---- */

/* B' d. */
VEC_INLINE void input_line(const int tile, const vec d[MOST_SIDE], vec o[MOST_SIDE])
{
    if (tile == 2) {
        o[0] = d[0] - d[2];
        o[1] = d[1] + d[2];
        o[2] = d[2] - d[1];
        o[3] = d[1] - d[3];
    } else {
        const vec four = vec_splat(4), five = vec_splat(5), two = vec_splat(2);
        const vec even = vec_fms(four, d[2], d[4]), odd = vec_fms(four, d[1], d[3]);
        const vec near = d[4] - d[2], twice = two * (d[3] - d[1]);
        o[0] = vec_fma(four, d[0], vec_fms(five, d[2], d[4]));
        o[1] = even + odd;
        o[2] = even - odd;
        o[3] = near + twice;
        o[4] = near - twice;
        o[5] = vec_fma(four, d[1], vec_fms(five, d[3], d[5]));
    }
}

/* A' m. */
VEC_INLINE void output_line(const int tile, const vec m[MOST_SIDE], vec o[MOST_TILE])
{
    const vec s1 = m[1] + m[2], d1 = m[1] - m[2];
    if (tile == 2) {
        o[0] = m[0] + s1;
        o[1] = d1 - m[3];
    } else {
        const vec s2 = m[3] + m[4], d2 = m[3] - m[4];
        o[0] = m[0] + s1 + s2;
        o[1] = vec_fma(vec_splat(2), d2, d1);
        o[2] = vec_fma(vec_splat(4), s2, s1);
        o[3] = vec_fma(vec_splat(8), d2, d1 + m[5]);
    }
}

typedef struct place {
    int n, y, x; /* of the first output */
} place;

static place place_of(int tile, const plan *p, int64_t i)
{
    const int64_t row = i / p->across;
    return (place){ (int)(row / p->down), (int)(row % p->down) * tile, (int)(i % p->across) * tile };
}

/* The inputs of a tile into v, `slot` floats between frequencies; zeros: [cin]. */
VEC_INLINE void input_tile(const int tile, const zn_conv_args *a, place at, const float *zeros, float *v, int64_t slot)
{
    const zn_conv_shape *s = &a->s;
    const float *from[MOST_SIDE][MOST_SIDE];
    for (int r = 0; r < SIDE(tile); r++)
        for (int i = 0; i < SIDE(tile); i++) {
            const int y = at.y - s->pad + r, x = at.x - s->pad + i;
            const bool inside = y >= 0 && y < s->h && x >= 0 && x < s->w;
            from[r][i] = inside ? a->x + (((int64_t)at.n * s->h + y) * s->w + x) * s->cin : zeros;
        }
    for (int c = 0; c < s->cin; c += VEC_LANES) {
        vec half[MOST_SIDE][MOST_SIDE]; /* [column of frequencies][row] */
        for (int r = 0; r < SIDE(tile); r++) {
            vec d[MOST_SIDE], o[MOST_SIDE];
            for (int i = 0; i < SIDE(tile); i++)
                d[i] = vec_load(from[r][i] + c);
            input_line(tile, d, o);
            for (int i = 0; i < SIDE(tile); i++)
                half[i][r] = o[i];
        }
        for (int i = 0; i < SIDE(tile); i++) {
            vec o[MOST_SIDE];
            input_line(tile, half[i], o);
            for (int r = 0; r < SIDE(tile); r++)
                vec_store(v + (r * SIDE(tile) + i) * slot + c, o[r]);
        }
    }
}

/* y = act(sum + bias + residual) for `lanes` outputs from channel c on; at: of the pixel. */
VEC_INLINE void finish(const zn_conv_args *a, vec sum, int64_t at, int c, int lanes)
{
    const vec floor = vec_splat(a->relu ? 0 : -__builtin_inff());
    const bool whole = lanes == VEC_LANES;
    if (a->bias)
        sum = sum + (whole ? vec_load(a->bias + c) : vec_load_part(a->bias + c, lanes));
    if (a->residual)
        sum = sum + (whole ? vec_load(a->residual + at + c) : vec_load_part(a->residual + at + c, lanes));
    if (whole)
        vec_store(a->y + at + c, vec_max(sum, floor));
    else
        vec_store_part(a->y + at + c, vec_max(sum, floor), lanes);
}

/* The sums of a tile, for the outputs [first, first + width), to the pixels of y. */
VEC_INLINE void output_tile(const int tile, const zn_conv_args *a, place at, const float *m, int64_t slot, int first,
                            int width)
{
    const zn_conv_shape *s = &a->s;
    const int real = least(width, s->cout - first);
    for (int c = 0; c < real; c += VEC_LANES) {
        vec half[MOST_TILE][MOST_SIDE];
        for (int i = 0; i < SIDE(tile); i++) {
            vec d[MOST_SIDE], o[MOST_TILE];
            for (int r = 0; r < SIDE(tile); r++)
                d[r] = vec_load(m + (r * SIDE(tile) + i) * slot + c);
            output_line(tile, d, o);
            for (int r = 0; r < tile; r++)
                half[r][i] = o[r];
        }
        for (int r = 0; r < tile && at.y + r < s->oh; r++) {
            vec o[MOST_TILE];
            output_line(tile, half[r], o);
            for (int i = 0; i < tile && at.x + i < s->ow; i++) {
                const int64_t pixel = ((int64_t)at.n * s->oh + at.y + r) * s->ow + at.x + i;
                finish(a, o[i], pixel * s->cout, first + c, least(VEC_LANES, real - c));
            }
        }
    }
}

/* ---- units ---- */

typedef struct buffers {
    float *v, *m, *zeros; /* [frequency][tile][cin]; [frequency][tile][GEMM_NR] */
} buffers;

static int64_t carve(int tile, const zn_conv_shape *s, float *base, buffers *b)
{
    const plan p = plan_of(tile, s);
    const int64_t v = (int64_t)POINTS(tile) * p.block * s->cin, m = (int64_t)POINTS(tile) * p.block * GEMM_NR;
    if (b)
        *b = (buffers){ base, base + v, base + v + m };
    return v + m + s->cin;
}

static void multiply(int points, const zn_conv_shape *s, const float *panel, int count, int width, const buffers *b)
{
    for (int f = 0; f < points; f++) {
        const gemm_args g = { .a = b->v + (int64_t)f * count * s->cin,
                              .b = panel + (int64_t)f * s->cin * width,
                              .c = b->m + (int64_t)f * count * width,
                              .row = s->cin,
                              .c_row = width,
                              .segments = 1,
                              .k = s->cin,
                              .depth = s->cin,
                              .streams = !GEMM_FETCHES };
        ZN_KERNEL(gemm)(&g, count, width);
    }
}

VEC_INLINE void run(const int tile, const zn_conv_args *a, zn_range r)
{
    const zn_conv_shape *s = &a->s;
    const plan p = plan_of(tile, s);
    buffers b;
    carve(tile, s, r.scratch, &b);
    memset(b.zeros, 0, sizeof(float) * (size_t)s->cin);
    int64_t transformed = -1; /* the block that v is of */
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const int64_t block = unit / p.groups, first = block * p.block;
        const int count = least(p.block, p.tiles - first), begin = (int)(unit % p.groups) * p.group;
        for (int t = 0; t < count && block != transformed; t++)
            input_tile(tile, a, place_of(tile, &p, first + t), b.zeros, b.v + (int64_t)t * s->cin,
                       (int64_t)count * s->cin);
        transformed = block;
        for (int o = begin; o < least(begin + p.group, p.cout); o += GEMM_NR) {
            const int width = least(GEMM_NR, p.cout - o);
            multiply(POINTS(tile), s, (const float *)a->packed + (int64_t)POINTS(tile) * s->cin * o, count, width, &b);
            for (int t = 0; t < count; t++)
                output_tile(tile, a, place_of(tile, &p, first + t), b.m + (int64_t)t * width, (int64_t)count * width, o,
                            width);
        }
    }
}

/* ---- the kernels ---- */

static bool supports(const zn_conv_shape *s)
{
    return s->kh == 3 && s->kw == 3 && s->stride == 1 && !s->up2 && !s->unshuffle && !s->shuffle &&
           s->cin % VEC_LANES == 0 && s->cin >= 2 * GEMM_K_LEAST && s->cout >= GEMM_NR;
}

/* Time of a convolution, in that of a product of all inputs with all outputs. In the time of 13, a weight of each comes
 * from memory (Cascade Lake and Sapphire Rapids, one thread). points: products of a tile; 9: without transforms. */
static int64_t time_of(const zn_conv_shape *s, int tile, int points)
{
    enum { FETCH = 13 };
    const int64_t tiles = (int64_t)s->n * ceil_div(s->ow, tile) * ceil_div(s->oh, tile);
    return points * (tiles > FETCH ? tiles : FETCH);
}

/* Not where the product is assembly that fetches weights ahead: it was not measured there. Tiles of 2x2 also take the
 * place of larger ones whose weights take too much memory. */
static bool pays(int tile, const zn_conv_shape *s, const zn_conv_wish *wish)
{
    enum { MANY_WEIGHTS = 1 << 14, LARGE_TILE = 6, LARGE_POINTS = 64 };
    const int64_t time = time_of(s, tile, POINTS(tile)), other = time_of(s, 6 - tile, POINTS(6 - tile));
    if (GEMM_FETCHES || wish->changing || (int64_t)s->cin * s->cout < MANY_WEIGHTS || time >= time_of(s, 1, 9))
        return false;
    if (wish->lean)
        return wish->lean == 1 && tile == 2;
    return wish->whole && time <= other && time < time_of(s, LARGE_TILE, LARGE_POINTS);
}

/* Additions of the transforms of a tile, for each channel. */
static double sums_in(int tile) { return 2.0 * SIDE(tile) * (tile == 2 ? 4 : 12); }
static double sums_out(int tile) { return (SIDE(tile) + tile) * (tile == 2 ? 4.0 : 10.0); }

static double flops(int tile, const zn_conv_shape *s)
{
    const plan p = plan_of(tile, s);
    return (double)p.tiles * (2.0 * POINTS(tile) * s->cin * p.cout + sums_in(tile) * s->cin + sums_out(tile) * p.cout);
}

static double slots(int tile, const zn_conv_shape *s)
{
    const plan p = plan_of(tile, s);
    return (double)p.tiles *
           ((double)POINTS(tile) * s->cin * s->cout + sums_in(tile) * s->cin + sums_out(tile) * s->cout);
}

#define DEFINE(tile)                                                                                                   \
    static bool pays_##tile(const zn_conv_shape *s, const zn_conv_wish *wish) { return pays(tile, s, wish); }          \
    static size_t packed_bytes_##tile(const zn_conv_shape *s) { return sizeof(float) * packed_floats(tile, s); }       \
    static void pack_##tile(const zn_conv_shape *s, const float *w, void *packed) { pack(tile, s, w, packed); }        \
    static size_t scratch_bytes_##tile(const zn_conv_shape *s)                                                         \
    {                                                                                                                  \
        return sizeof(float) * (size_t)carve(tile, s, NULL, NULL);                                                     \
    }                                                                                                                  \
    static int64_t units_##tile(const zn_conv_shape *s) { return plan_of(tile, s).units; }                             \
    static void run_##tile(const void *args, zn_range r) { run(tile, args, r); }                                       \
    static double flops_##tile(const zn_conv_shape *s) { return flops(tile, s); }                                      \
    static double slots_##tile(const zn_conv_shape *s) { return slots(tile, s); }                                      \
    static int block_##tile(const zn_conv_shape *s) { return (void)s, tile; }                                          \
    const zn_conv_kernel ZN_KERNEL(conv_small##tile) = {                                                               \
        .name = "winograd" #tile "-f32-" ZN_ISA_NAME,                                                                  \
        .math = ZN_PRECISION_F32,                                                                                      \
        .cpu = VEC_CPU,                                                                                                \
        .tolerance = tile == 2 ? 3e-6f : 8e-6f,                                                                        \
        .supports = supports,                                                                                          \
        .pays = pays_##tile,                                                                                           \
        .packed_bytes = packed_bytes_##tile,                                                                           \
        .pack = pack_##tile,                                                                                           \
        .scratch_bytes = scratch_bytes_##tile,                                                                         \
        .units = units_##tile,                                                                                         \
        .run = run_##tile,                                                                                             \
        .flops = flops_##tile,                                                                                         \
        .slots = slots_##tile,                                                                                         \
        .block = block_##tile,                                                                                         \
    };
DEFINE(2)
DEFINE(4)
