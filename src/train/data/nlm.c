/* Non-local means, one band of rows at a time. For every offset of the search window the squared differences of a band
 * are summed over patches, which takes a few additions a pixel whatever the patch. */
#include "train/data/filters.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

enum { BAND = 32 };

/* The table of A. Buades, B. Coll, J.-M. Morel, "Non-Local Means Denoising" (IPOL 2011) for colour images. */
static const struct {
    float most;        /* deviation up to which the row holds, of 255 */
    int patch, search; /* reach of each: the side is 2 r + 1 */
    float decay;       /* of the weights, in deviations */
} settings[] = { { 25, 1, 10, 0.55f }, { 55, 2, 17, 0.40f }, { 1e9f, 3, 17, 0.35f } };

typedef struct nlm {
    const float *x; /* three planes [h + 2 margin][w + 2 margin], edges repeated */
    int width, height, margin, patch, search;
    float noise, decay; /* variance of a difference, and h^2 */
    float *y;
} nlm;

/* What a thread needs for a band: all rows as long as the image is wide, the first two widened by the patch. */
typedef struct band {
    float *differences; /* squared, BAND rows and the patch around them */
    float *columns;     /* their sums over the patch's rows */
    float *weight, *sum[3];
    float *now; /* weights of the offset at hand, one row */
} band;

static int64_t wide_of(const nlm *k) { return k->width + 2 * k->patch; }

static size_t scratch_floats(const nlm *k)
{
    return (size_t)(wide_of(k) * (BAND + 2 * k->patch + 1) + (int64_t)k->width * (4 * BAND + 1));
}

static band band_in(const nlm *k, float *scratch)
{
    band b = { .differences = scratch };
    const int64_t plane = (int64_t)k->width * BAND;
    b.columns = b.differences + wide_of(k) * (BAND + 2 * k->patch);
    b.weight = b.columns + wide_of(k);
    for (int c = 0; c < 3; c++)
        b.sum[c] = b.weight + (c + 1) * plane;
    b.now = b.weight + 4 * plane;
    return b;
}

static const float *at(const nlm *k, int plane, int64_t row, int64_t column)
{
    const int64_t wide = k->width + 2 * k->margin, high = k->height + 2 * k->margin;
    return k->x + (plane * high + row + k->margin) * wide + column + k->margin;
}

/* Squared differences between the band, widened by the patch, and itself moved by (dx, dy). */
static void differences(const nlm *k, int64_t top, int64_t rows, int dx, int dy, float *restrict d)
{
    const int64_t wide = wide_of(k);
    for (int64_t row = -k->patch; row < rows + k->patch; row++, d += wide)
        for (int c = 0; c < 3; c++) {
            const float *restrict a = at(k, c, top + row, -k->patch);
            const float *restrict b = at(k, c, top + row + dy, dx - k->patch);
            for (int64_t i = 0; i < wide; i++)
                d[i] = (c ? d[i] : 0) + (a[i] - b[i]) * (a[i] - b[i]);
        }
}

/* e^-x, at most 1, to 1e-6 of it: 2^n by its bits times a polynomial, written so that compilers do several at once. */
static inline float decay_of(float x)
{
    const float magic = 12582912; /* numbers near it have no fraction, and their last bits are the integer */
    union {
        float f;
        uint32_t u;
    } n, p;
    const float t = x > 0 ? (x < 80 ? -1.44269504f * x : -115.4f) : 0;
    n.f = t + magic;
    const float r = t - (n.f - magic);
    p.f = 1 + r * (0.693147182f + r * (0.240226462f + r * (0.0555032f + r * (0.00961853f + r * 0.00133989f))));
    p.u += n.u << 23;
    return p.f;
}

/* Weights of one row from the sums of columns. */
static void weigh(const nlm *k, const float *restrict columns, float *restrict weight)
{
    const int side = 2 * k->patch + 1;
    const float scale = 1.0f / ((float)(3 * side * side) * k->decay), offset = k->noise / k->decay;
    memcpy(weight, columns, sizeof *weight * (size_t)k->width);
    for (int j = 1; j < side; j++)
        for (int64_t i = 0; i < k->width; i++)
            weight[i] += columns[i + j];
    for (int64_t i = 0; i < k->width; i++)
        weight[i] = decay_of(weight[i] * scale - offset);
}

/* Adds the pixels of a row moved by (dx, dy) with their weights. */
static void add_row(const nlm *k, const band *b, int64_t top, int64_t row, int dx, int dy)
{
    const float *restrict now = b->now;
    float *restrict weight = b->weight + row * k->width;
    for (int64_t i = 0; i < k->width; i++)
        weight[i] += now[i];
    for (int c = 0; c < 3; c++) {
        const float *restrict moved = at(k, c, top + row + dy, dx);
        float *restrict sum = b->sum[c] + row * k->width;
        for (int64_t i = 0; i < k->width; i++)
            sum[i] += now[i] * moved[i];
    }
}

static void sum_columns(const nlm *k, const float *restrict d, float *restrict columns)
{
    const int64_t wide = wide_of(k);
    memcpy(columns, d, sizeof *columns * (size_t)wide);
    for (int j = 1; j < 2 * k->patch + 1; j++)
        for (int64_t i = 0; i < wide; i++)
            columns[i] += d[j * wide + i];
}

static void do_band(const nlm *k, int64_t top, float *scratch)
{
    const int64_t rows = k->height - top < BAND ? k->height - top : BAND;
    const band b = band_in(k, scratch);
    memset(b.weight, 0, sizeof *b.weight * (size_t)(k->width * BAND * 4));
    for (int dy = -k->search; dy <= k->search; dy++)
        for (int dx = -k->search; dx <= k->search; dx++) {
            differences(k, top, rows, dx, dy, b.differences);
            for (int64_t row = 0; row < rows; row++) {
                sum_columns(k, b.differences + row * wide_of(k), b.columns);
                weigh(k, b.columns, b.now);
                add_row(k, &b, top, row, dx, dy);
            }
        }
    for (int64_t i = 0; i < rows * k->width; i++)
        for (int c = 0; c < 3; c++)
            k->y[(top * k->width + i) * 3 + c] = b.sum[c][i] / b.weight[i];
}

static void bands(const void *args, zn_range r)
{
    for (int64_t i = r.begin; i < r.end; i++)
        do_band(args, i * BAND, r.scratch);
}

/* Three planes with their edges repeated. */
static void extend(const float *x, int width, int height, int margin, float *out)
{
    for (int c = 0; c < 3; c++)
        for (int row = -margin; row < height + margin; row++)
            for (int i = -margin; i < width + margin; i++) {
                const int y = row < 0 ? 0 : row >= height ? height - 1 : row;
                const int k = i < 0 ? 0 : i >= width ? width - 1 : i;
                *out++ = x[((int64_t)y * width + k) * 3 + c];
            }
}

zn_status zn_nlm(const float *x, int width, int height, float sigma, zn_pool *pool, float *y)
{
    int row = 0;
    while (sigma * 255 > settings[row].most)
        row++;
    nlm k = { .width = width,
              .height = height,
              .patch = settings[row].patch,
              .search = settings[row].search,
              .margin = settings[row].patch + settings[row].search,
              .noise = 2 * sigma * sigma,
              .decay = settings[row].decay * settings[row].decay * sigma * sigma,
              .y = y };
    k.decay = k.decay > 1e-12f ? k.decay : 1e-12f;
    const size_t wide = (size_t)(width + 2 * k.margin), high = (size_t)(height + 2 * k.margin);
    const size_t scratch = scratch_floats(&k), threads = (size_t)zn_pool_threads(pool);
    float *memory;
    ZN_TRY(zn_alloc_for("non-local means", sizeof *memory * (wide * high * 3 + scratch * threads), (void **)&memory));
    extend(x, width, height, k.margin, memory);
    k.x = memory;
    zn_pool_run(pool, (height + BAND - 1) / BAND, 1, bands, &k, memory + wide * high * 3, sizeof *memory * scratch);
    zn_free(memory);
    return ZN_OK;
}
