/* The gradient of the weights of a gated depthwise convolution. A unit is a strip of channels of one image. Bands of
 * its rows are copied with a border of zeros, since pixels of wide maps lie a multiple of a cache's size apart; then
 * each block of eight channels goes through a list of the pixels where it is open, with its nine sums in registers. */
#include "kernels/gates.h"
#include "kernels/simd/vec_math.h"

void ZN_KERNEL(sparse_depthwise_weight_grad)(const void *args, zn_range r);

/* CHUNK: channels whose pixels are listed together, a block or a vector; VECTORS of them. */
enum {
    STRIP = ZN_SPARSE_STRIP,
    BLOCK = ZN_GATE_BLOCK,
    CHUNK = (int)VEC_LANES > (int)BLOCK ? (int)VEC_LANES : (int)BLOCK,
    VECTORS = CHUNK / VEC_LANES,
};

/* A pixel of the band, and the float of the band where its nine neighbours begin. */
typedef struct place {
    int32_t pixel, corner;
} place;

/* Some rows of the channels [first, first + width) of an image. */
typedef struct strip {
    const zn_sparse_args *a;
    int64_t pixel; /* first of the image */
    int first, width;
    int row, rows; /* the band */
    float *band;   /* [rows + 2][wide + 2][STRIP] */
    place *open;   /* pixels of the band for the chunk at hand */
    int open_count;
} strip;

static int least(int a, int b) { return a < b ? a : b; }

static strip strip_of(const zn_sparse_args *a, int64_t unit, float *scratch)
{
    const int64_t strips = zn_sparse_strips(a);
    strip s = { .a = a, .pixel = unit / strips * a->h * a->wide, .first = (int)(unit % strips) * STRIP };
    s.width = least(a->c - s.first, STRIP);
    s.rows = zn_sparse_rows(a->h, a->wide);
    s.band = scratch;
    s.open = (place *)(s.band + (int64_t)(s.rows + 2) * (a->wide + 2) * STRIP);
    if (s.width < STRIP) /* lanes beyond the last channel */
        memset(scratch, 0, zn_sparse_scratch(a->h, a->wide));
    return s;
}

static const float *masks_of(const strip *s, int64_t pixel)
{
    return s->a->mask + pixel * (s->a->c / BLOCK) + s->first / BLOCK;
}

/* The band from `row` on, with the rows and columns around it; zeros outside the image. */
static void take_band(strip *s, int row)
{
    const zn_sparse_args *a = s->a;
    const int across = (a->wide + 2) * STRIP;
    s->row = row;
    s->rows = least(s->rows, a->h - row);
    for (int y = -1; y <= s->rows; y++) {
        float *line = s->band + (int64_t)(y + 1) * across;
        if (row + y < 0 || row + y >= a->h) {
            memset(line, 0, sizeof(float) * (size_t)across);
            continue;
        }
        memset(line, 0, sizeof(float) * STRIP);
        memset(line + across - STRIP, 0, sizeof(float) * STRIP);
        for (int ox = 0; ox < a->wide; ox++)
            memcpy(line + (ox + 1) * STRIP, a->x + (s->pixel + (int64_t)(row + y) * a->wide + ox) * a->c + s->first,
                   sizeof(float) * (size_t)s->width);
    }
}

/* Sorts the pixels of the band by the masks of the chunk at k; without masks all are open. */
static void list(strip *s, int k, bool masked)
{
    const int wide = s->a->wide, blocks = least(CHUNK / BLOCK, (s->width - k) / BLOCK);
    const int64_t step = s->a->c / BLOCK;
    const float *m = masked ? masks_of(s, s->pixel + (int64_t)s->row * wide) + k / BLOCK : NULL;
    s->open_count = 0;
    for (int y = 0, p = 0; y < s->rows; y++)
        for (int x = 0; x < wide; x++, p++) {
            bool open = !masked;
            for (int b = 0; masked && b < blocks; b++)
                open |= m[p * step + b] != 0;
            s->open[s->open_count] = (place){ p, (y * (wide + 2) + x) * STRIP };
            s->open_count += open;
        }
}

/* The masks of a vector of channels, lane by lane where it spans several blocks. */
VEC_INLINE vec mask_vector(const strip *s, int64_t pixel, int k)
{
    const float *m = masks_of(s, pixel) + k / BLOCK;
    if ((int)VEC_LANES <= (int)BLOCK)
        return vec_splat(*m);
    float t[VEC_LANES];
    for (int i = 0; i < VEC_LANES; i++)
        t[i] = k + i < s->width ? m[i / BLOCK] : 0;
    return vec_load(t);
}

/* Adds the open pixels of a band to the nine sums of one vector of channels. */
VEC_INLINE void weigh(const strip *s, int k, vec sum[9])
{
    const zn_sparse_args *a = s->a;
    const int64_t first = s->pixel + (int64_t)s->row * a->wide, across = (int64_t)(a->wide + 2) * STRIP;
    const int lanes = least(s->width - k, VEC_LANES);
    vec t[9];
    memcpy(t, sum, sizeof t);
    for (int i = 0; i < s->open_count; i++) {
        const int64_t pixel = first + s->open[i].pixel;
        const float *dy = a->dy + pixel * a->c + s->first + k, *x = s->band + s->open[i].corner + k;
        vec d = lanes == VEC_LANES ? vec_load(dy) : vec_load_part(dy, lanes);
        if (a->mask)
            d = d * mask_vector(s, pixel, k);
#pragma GCC unroll 9
        for (int j = 0; j < 9; j++)
            t[j] = t[j] + d * vec_load(x + j / 3 * across + j % 3 * STRIP);
    }
    memcpy(sum, t, sizeof t);
}

void ZN_KERNEL(sparse_depthwise_weight_grad)(const void *args, zn_range r)
{
    const zn_sparse_args *a = args;
    for (int64_t u = r.begin; u < r.end; u++) {
        strip s = strip_of(a, u, r.scratch);
        const int rows = s.rows;
        vec sums[STRIP / VEC_LANES][9];
        memset(sums, 0, sizeof sums);
        for (int row = 0; row < a->h; row += rows) {
            s.rows = rows;
            take_band(&s, row);
            for (int k = 0; k < s.width; k += CHUNK) {
                list(&s, k, a->mask != NULL);
                for (int at = k; at < k + CHUNK && at < s.width; at += VEC_LANES)
                    weigh(&s, at, sums[at / VEC_LANES]);
            }
        }
        float *dw = a->partial + u / zn_sparse_strips(a) * 9 * a->c + 9 * s.first;
        for (int k = 0; k < s.width; k++)
            for (int i = 0; i < 9; i++)
                dw[9 * k + i] = ((const float *)&sums[k / VEC_LANES][i])[k % VEC_LANES];
    }
}
