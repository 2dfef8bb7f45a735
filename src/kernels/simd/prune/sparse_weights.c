/* The weight gradient of a gated depthwise convolution. A unit is a strip of channels of one image. Bands of its
 * rows are copied with a border of zeros, because pixels of wide maps are a multiple of the cache size apart. Then
 * each block of eight channels processes a list of the pixels where it is open, with its nine sums in registers. */
#include "base/least.h"
#include "kernels/gates.h"
#include "kernels/simd/vec_math.h"

void ZN_KERNEL(sparse_depthwise_weight_grad)(const void *args, zn_range r);

/* CHUNK: channels whose pixels are listed together, a block or a vector; it has VECTORS vectors. */
enum {
    STRIP = ZN_SPARSE_STRIP,
    BLOCK = ZN_GATE_BLOCK,
    CHUNK = (int)VEC_LANES > (int)BLOCK ? (int)VEC_LANES : (int)BLOCK,
    VECTORS = CHUNK / VEC_LANES,
};

/* A pixel of the band, and the offset in the band where its nine neighbours begin. */
typedef struct place {
    int32_t pixel, corner;
} place;

_Static_assert(STRIP == 8 * BLOCK, "a strip's blocks have a byte of bits");

/* Some rows of channels [first, first + width) of an image. */
typedef struct strip {
    const zn_sparse_args *a;
    int64_t pixel; /* first pixel of the image */
    int first, width;
    int row, rows; /* the band */
    float *band;   /* [rows + 2][wide + 2][STRIP] */
    place *open;   /* open pixels of the band for the current chunk */
    int open_count;
    uint8_t *bits; /* per pixel of the band: the open blocks of the strip */
    uint8_t used;  /* blocks that are open anywhere in the band */
    bool plain;    /* every mask of the band is 0 or 1 */
} strip;

static strip strip_of(const zn_sparse_args *a, int64_t unit, float *scratch)
{
    const int64_t strips = zn_sparse_strips(a);
    strip s = { .a = a, .pixel = unit / strips * a->h * a->wide, .first = (int)(unit % strips) * STRIP };
    s.width = zn_least(a->c - s.first, STRIP);
    s.rows = zn_sparse_rows(a->h, a->wide);
    s.band = scratch;
    s.open = (place *)(s.band + (int64_t)(s.rows + 2) * (a->wide + 2) * STRIP);
    s.bits = (uint8_t *)(s.open + (int64_t)s.rows * a->wide);
    if (s.width < STRIP) /* lanes past the last channel */
        memset(scratch, 0, zn_sparse_scratch(a->h, a->wide));
    return s;
}

static const float *masks_of(const strip *s, int64_t pixel)
{
    return s->a->mask + pixel * (s->a->c / BLOCK) + s->first / BLOCK;
}

/* Finds what is open in the band. */
static void look(strip *s)
{
    const zn_sparse_args *a = s->a;
    const int64_t words = zn_sparse_words(a->c), first = s->pixel + (int64_t)s->row * a->wide;
    s->used = a->mask ? 0 : UINT8_MAX;
    s->plain = true;
    for (int p = 0; p < s->rows * a->wide; p++) {
        const uint64_t *open = a->mask ? a->open + (first + p) * words : NULL;
        s->bits[p] = open ? (uint8_t)(open[s->first / BLOCK / 64] >> s->first / BLOCK % 64) : UINT8_MAX;
        s->used |= s->bits[p];
        s->plain &= !open || (open[words - 1] & ZN_SPARSE_PLAIN);
    }
}

/* Copies the channels of one pixel, only the cache lines that are used. */
static void take_pixel(const strip *s, const float *x, float *to)
{
    enum { LINE = 2 * BLOCK };
    for (int k = 0; k < s->width; k += LINE)
        if (s->used >> k / BLOCK & 3)
            memcpy(to + k, x + k, sizeof(float) * (size_t)zn_least(LINE, s->width - k));
}

/* Copies the band from `row`, with the rows and columns around it; zeros outside the image. */
static void take_band(strip *s, int row)
{
    const zn_sparse_args *a = s->a;
    const int across = (a->wide + 2) * STRIP;
    s->row = row;
    s->rows = zn_least(s->rows, a->h - row);
    look(s);
    for (int y = -1; y <= s->rows; y++) {
        float *line = s->band + (int64_t)(y + 1) * across;
        if (row + y < 0 || row + y >= a->h) {
            memset(line, 0, sizeof(float) * (size_t)across);
            continue;
        }
        memset(line, 0, sizeof(float) * STRIP);
        memset(line + across - STRIP, 0, sizeof(float) * STRIP);
        const float *x = a->x + (s->pixel + (int64_t)(row + y) * a->wide) * a->c + s->first;
        for (int ox = 0; ox < a->wide; ox++)
            if (s->used == UINT8_MAX && s->width == STRIP)
                memcpy(line + (ox + 1) * STRIP, x + (int64_t)ox * a->c, sizeof(float) * STRIP);
            else
                take_pixel(s, x + (int64_t)ox * a->c, line + (ox + 1) * STRIP);
    }
}

enum { CHUNK_BITS = (1 << CHUNK / BLOCK) - 1 };

/* Lists the pixels of the band where a block of the chunk at k is open. */
static void list(strip *s, int k)
{
    const int wide = s->a->wide;
    s->open_count = 0;
    for (int y = 0, p = 0; y < s->rows; y++)
        for (int x = 0; x < wide; x++, p++) {
            s->open[s->open_count] = (place){ p, (y * (wide + 2) + x) * STRIP };
            s->open_count += (s->bits[p] >> k / BLOCK & CHUNK_BITS) != 0;
        }
}

/* The masks of a vector of channels, per lane if it spans several blocks. */
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
    const int lanes = zn_least(s->width - k, VEC_LANES);
    const bool masked = a->mask && !(s->plain && (int)CHUNK == (int)BLOCK); /* an open block is then all ones */
    vec t[9];
    memcpy(t, sum, sizeof t);
    for (int i = 0; i < s->open_count; i++) {
        const int64_t pixel = first + s->open[i].pixel;
        const float *dy = a->dy + pixel * a->c + s->first + k, *x = s->band + s->open[i].corner + k;
        vec d = lanes == VEC_LANES ? vec_load(dy) : vec_load_part(dy, lanes);
        if (masked)
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
                if (!(s.used >> k / BLOCK & CHUNK_BITS))
                    continue;
                list(&s, k);
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
