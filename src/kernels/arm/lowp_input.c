/* Input side of the reduced-precision convolutions: tile grid, weight transform, and the fp32 input transform. */
#include "kernels/arm/lowp.h"

#include <arm_neon.h>
#include <string.h>

static int round_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

bool zn_lowp_supports(const zn_conv_shape *s)
{
    if (s->kh != 3 || s->kw != 3 || s->pad != 1 || s->cin % 16 || s->stride > 2 || (s->up2 && s->stride > 1))
        return false;
    /* few outputs would not pay for the transform of the input */
    return s->cout >= 16 && s->cin * (s->stride == 2 ? 4 : 1) <= ZN_LOWP_DEPTH;
}

zn_lowp_grid zn_lowp_grid_of(const zn_conv_shape *s)
{
    zn_lowp_grid g = { .step = s->up2 || s->stride == 2 ? 7 : 6,
                       .phases = s->up2 ? 4 : 1,
                       .parts = s->stride == 2 ? 4 : 1 };
    /* up2: tile t covers outputs 14t - 1 to 14t + 12 */
    g.tall = s->up2 ? (s->oh + 14) / 14 : (s->oh + g.step - 1) / g.step;
    g.wide = s->up2 ? (s->ow + 14) / 14 : (s->ow + g.step - 1) / g.step;
    g.cols = g.phases * round_up(s->cout, 8);
    g.depth = g.parts * s->cin;
    g.tiles = (int64_t)s->n * g.tall * g.wide;
    const int64_t units = (g.tiles + ZN_LOWP_TILES - 1) / ZN_LOWP_TILES; /* of even size */
    g.unit = (int)((g.tiles + 2 * units - 1) / (2 * units) * 2);
    return g;
}

zn_lowp_place zn_lowp_place_of(const zn_lowp_grid *g, int64_t tile)
{
    const int64_t each = (int64_t)g->tall * g->wide;
    const int in = (int)(tile % each), top = in / (2 * g->wide) * 2, rest = in % (2 * g->wide);
    const int rows = g->tall - top < 2 ? 1 : 2;
    return (zn_lowp_place){ .image = tile / each, .x = rest / rows, .y = top + rest % rows };
}

int64_t zn_lowp_units(const zn_conv_shape *s)
{
    const zn_lowp_grid g = zn_lowp_grid_of(s);
    return (g.tiles + g.unit - 1) / g.unit;
}

int zn_lowp_block(const zn_conv_shape *s) { return s->up2 ? 14 : zn_lowp_grid_of(s).step; }

/* Row p of G for `taps` weights: what polynomial g is worth at point p, over the product of the distances of the points
 * (and times 4 at +-1/2, see forward). */
static void evaluate(const double *g, int taps, double *u)
{
    static const double at[] = { 0, 1, -1, 2, -2, 0.5, -0.5 };
    static const double over[] = { 1, -4.5, -4.5, 90, 90, 45.0 / 128, 45.0 / 128 };
    for (int p = 0; p < 7; p++) {
        double sum = 0;
        for (int k = taps - 1; k >= 0; k--)
            sum = sum * at[p] + g[k];
        u[p] = sum / over[p];
    }
    u[7] = g[taps - 1];
}

/* The taps that three taps amount to along one axis: for even and odd outputs of a nearest x2 up-sampling, for even and
 * odd inputs of stride 2, or the same. */
static void fold(const zn_conv_shape *s, const double w[3], int parity, double g[3])
{
    g[0] = w[0], g[1] = w[1], g[2] = w[2];
    if (s->up2) {
        g[0] = parity ? w[0] + w[1] : w[0];
        g[1] = parity ? w[2] : w[1] + w[2];
    } else if (s->stride == 2) {
        g[0] = parity ? w[0] : 0;
        g[1] = parity ? w[2] : w[1];
    }
}

void zn_lowp_weights(const zn_conv_shape *s, const float *w, int channel, int column, float u[ZN_LOWP_FREQS])
{
    const int each = round_up(s->cout, 8), out = column % each, in = channel % s->cin;
    const int phase = s->up2 ? column / each : channel / s->cin, taps = s->up2 || s->stride == 2 ? 2 : 3;
    memset(u, 0, ZN_LOWP_FREQS * sizeof *u);
    if (out >= s->cout)
        return;
    double rows[3][8], cols[8], g[3];
    for (int ky = 0; ky < 3; ky++) {
        double t[3];
        for (int kx = 0; kx < 3; kx++)
            t[kx] = (double)w[((int64_t)(ky * 3 + kx) * s->cin + in) * s->cout + out];
        fold(s, t, phase % 2, g);
        evaluate(g, taps, rows[ky]);
    }
    for (int j = 0; j < 8; j++) {
        fold(s, (double[3]){ rows[0][j], rows[1][j], rows[2][j] }, phase / 2, g);
        evaluate(g, taps, cols);
        for (int i = 0; i < 8; i++)
            u[j * 8 + i] = (float)cols[i];
    }
}

typedef struct two {
    float32x4_t v[2];
} two;

#define INLINE static inline __attribute__((always_inline))
#define BOTH(x)                                                                                                        \
    for (int z = 0; z < 2; z++)                                                                                        \
    x

/* B^T along one axis with rows 5 and 6 divided by 4, for two vectors at a time: the core looks too few instructions
 * ahead to mix two transforms by itself. */
INLINE void forward(two d[8])
{
    two e, g, u, w, a1, a2, b1, b2, b3;
    BOTH(e.v[z] = vsubq_f32(d[2].v[z], d[4].v[z]));
    BOTH(g.v[z] = vsubq_f32(d[6].v[z], d[4].v[z]));
    BOTH(u.v[z] = vsubq_f32(d[1].v[z], d[3].v[z]));
    BOTH(w.v[z] = vsubq_f32(d[5].v[z], d[3].v[z]));
    BOTH(d[0].v[z] = vsubq_f32(d[0].v[z], d[6].v[z]));
    BOTH(d[7].v[z] = vsubq_f32(d[7].v[z], d[1].v[z]));
    BOTH(a1.v[z] = vaddq_f32(e.v[z], g.v[z]));
    BOTH(b1.v[z] = vaddq_f32(u.v[z], w.v[z]));
    BOTH(u.v[z] = vmulq_n_f32(u.v[z], 0.5f));
    BOTH(d[0].v[z] = vfmsq_n_f32(d[0].v[z], e.v[z], 5.25f));
    BOTH(d[7].v[z] = vfmsq_n_f32(d[7].v[z], w.v[z], 5.25f));
    BOTH(a1.v[z] = vfmsq_n_f32(a1.v[z], d[4].v[z], 2.25f));
    BOTH(b1.v[z] = vfmsq_n_f32(b1.v[z], d[3].v[z], 2.25f));
    BOTH(a2.v[z] = vfmaq_n_f32(g.v[z], e.v[z], 0.25f));
    BOTH(e.v[z] = vfmaq_n_f32(e.v[z], g.v[z], 0.25f));
    BOTH(b2.v[z] = vfmaq_n_f32(u.v[z], w.v[z], 2.0f));
    BOTH(b3.v[z] = vfmaq_n_f32(u.v[z], w.v[z], 0.125f));
    BOTH(d[1].v[z] = vaddq_f32(a1.v[z], b1.v[z]));
    BOTH(d[2].v[z] = vsubq_f32(a1.v[z], b1.v[z]));
    BOTH(d[3].v[z] = vaddq_f32(a2.v[z], b2.v[z]));
    BOTH(d[4].v[z] = vsubq_f32(a2.v[z], b2.v[z]));
    BOTH(d[5].v[z] = vaddq_f32(e.v[z], b3.v[z]));
    BOTH(d[6].v[z] = vsubq_f32(e.v[z], b3.v[z]));
}

/* Channels taken at a time: a cache line of each pixel, and little enough to stay in the first cache; and floats
 * between rows. */
enum { GROUP = 16, ROW = GROUP * 8 + 4 };

/* Along one row of pixels: t[GROUP / 4][8][4]. Stores run on (scattered ones cost twice as much). Fetches the next row.
 */
INLINE void along(const float *x, int64_t pixel, const float *next, float *t)
{
    for (int j = 0; j < 8; j++)
        __builtin_prefetch(next + j * pixel);
    for (int c = 0; c < GROUP; c += 8) {
        two d[8];
        for (int j = 0; j < 8; j++)
            BOTH(d[j].v[z] = vld1q_f32(x + j * pixel + c + z * 4));
        forward(d);
        for (int z = 0; z < 2; z++)
            for (int j = 0; j < 8; j++)
                vst1q_f32(t + (c + z * 4) * 8 + j * 4, d[j].v[z]);
    }
}

/* Down the columns of the eight rows from t on, into v. */
INLINE void down(const float *t, float *v)
{
    for (int c = 0; c < GROUP / 4; c++)
        for (int j = 0; j < 8; j += 2) {
            two d[8];
            for (int i = 0; i < 8; i++)
                BOTH(d[i].v[z] = vld1q_f32(t + i * ROW + c * 32 + (j + z) * 4));
            forward(d);
            for (int z = 0; z < 2; z++)
                for (int i = 0; i < 8; i++)
                    vst1q_f32(v + c * ZN_LOWP_V_STRIDE + ((j + z) * 8 + i) * 4, d[i].v[z]);
        }
}

/* Eight pixels from (y, x) on, `by` apart: NULL if the row is outside of the picture, in `edge` if part of it is. */
static const float *row_at(const zn_conv_args *a, int64_t image, int y, int x0, int by, float *edge)
{
    const zn_conv_shape *s = &a->s;
    const int64_t channels = s->cin;
    if (y < 0 || y >= s->h)
        return NULL;
    const float *x = a->x + (image * s->h + y) * s->w * channels;
    if (x0 >= 0 && x0 + 7 * by < s->w)
        return x + x0 * channels;
    for (int j = 0; j < 8; j++) {
        const int at = x0 + j * by;
        if (at >= 0 && at < s->w)
            memcpy(edge + j * by * channels, x + at * channels, sizeof *edge * (size_t)channels);
        else
            memset(edge + j * by * channels, 0, sizeof *edge * (size_t)channels);
    }
    return edge;
}

/* One part of the input of two tiles. The rows of the second begin at number `second`. */
static void transform(const zn_conv_args *a, int64_t pixel, const float *const row[16], int second, float *const v[2])
{
    for (int64_t c = 0; c < a->s.cin; c += GROUP) {
        float t[16][ROW];
        for (int i = 0; i < second + 8; i++)
            if (row[i])
                along(row[i] + c, pixel, i + 1 < second + 8 && row[i + 1] ? row[i + 1] + c : row[i], t[i]);
            else
                memset(t[i], 0, sizeof t[i]);
        for (int i = 0; i < 2; i++)
            down(t[i * second], v[i] + c / 4 * ZN_LOWP_V_STRIDE);
    }
}

void zn_lowp_input(const zn_conv_args *a, const zn_lowp_grid *g, const int64_t tile[2], float *edge, float *const v[2])
{
    const zn_lowp_place p[2] = { zn_lowp_place_of(g, tile[0]), zn_lowp_place_of(g, tile[1]) };
    const bool below = p[1].image == p[0].image && p[1].x == p[0].x && p[1].y == p[0].y + 1;
    const int second = below ? g->step : 8, by = g->parts == 4 ? 2 : 1;
    const int64_t pixel = (int64_t)by * a->s.cin;
    for (int part = 0; part < g->parts; part++) {
        const float *row[16];
        for (int i = 0; i < second + 8; i++) {
            const zn_lowp_place *q = &p[i >= second];
            const int y = q->y * g->step - 1 + (i >= second ? i - second : i), x = q->x * g->step - 1;
            row[i] = row_at(a, q->image, y * by + part / 2, x * by + part % 2, by, edge + i * 8 * pixel);
        }
        const int64_t at = part * a->s.cin / 4 * ZN_LOWP_V_STRIDE;
        transform(a, pixel, row, second, (float *[2]){ v[0] + at, v[1] + at });
    }
}
