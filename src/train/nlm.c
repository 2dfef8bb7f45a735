/* Non-local means, one band of rows at a time. For every offset of the search window the squared differences of a band
 * are summed over patches, which takes a few additions a pixel whatever the patch. */
#include "train/filters.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <math.h>
#include <string.h>

enum { BAND = 32 };

/* The table of A. Buades, B. Coll, J.-M. Morel, "Non-Local Means Denoising" (IPOL 2011) for colour pictures. */
static const struct {
    float most;        /* deviation up to which the row holds, of 255 */
    int patch, search; /* reach of each: the side is 2 r + 1 */
    float decay;       /* of the weights, in deviations */
} settings[] = { { 25, 1, 10, 0.55f }, { 55, 2, 17, 0.40f }, { 1e9f, 3, 17, 0.35f } };

typedef struct nlm {
    const float *x; /* [h + 2 margin][w + 2 margin][3], edges repeated */
    int width, height, margin, patch, search;
    float noise, decay; /* variance of a difference, and h^2 */
    float *y;
} nlm;

/* Memory of one thread: squared differences, their sums along columns, weights and weighted sums of a band. */
static size_t scratch_floats(const nlm *k)
{
    const size_t wide = (size_t)(k->width + 2 * k->patch);
    return wide * (size_t)(BAND + 2 * k->patch) + wide + (size_t)k->width * BAND * 4;
}

static const float *at(const nlm *k, int64_t row, int64_t column)
{
    return k->x + ((row + k->margin) * (k->width + 2 * k->margin) + column + k->margin) * 3;
}

/* Squared differences between the band, widened by the patch, and itself moved by (dx, dy). */
static void differences(const nlm *k, int64_t top, int64_t rows, int dx, int dy, float *d)
{
    const int64_t wide = k->width + 2 * k->patch;
    for (int64_t row = 0; row < rows + 2 * k->patch; row++) {
        const float *a = at(k, top + row - k->patch, -k->patch), *b = at(k, top + row - k->patch + dy, dx - k->patch);
        for (int64_t i = 0; i < wide; i++) {
            const float r = a[3 * i] - b[3 * i], g = a[3 * i + 1] - b[3 * i + 1], v = a[3 * i + 2] - b[3 * i + 2];
            d[row * wide + i] = r * r + g * g + v * v;
        }
    }
}

/* Adds the pixels moved by (dx, dy) with their weights to one row. */
static void add_row(const nlm *k, const float *columns, const float *moved, float *weight, float *sum)
{
    const int side = 2 * k->patch + 1;
    const float mean = 1.0f / (float)(3 * side * side);
    for (int64_t i = 0; i < k->width; i++) {
        float total = 0;
        for (int j = 0; j < side; j++)
            total += columns[i + j];
        const float far = (total * mean - k->noise) / k->decay;
        if (far > 16)
            continue; /* counts for nothing */
        const float w = far > 0 ? expf(-far) : 1;
        weight[i] += w;
        for (int c = 0; c < 3; c++)
            sum[3 * i + c] += w * moved[3 * i + c];
    }
}

static void do_band(const nlm *k, int64_t top, float *scratch)
{
    const int64_t rows = k->height - top < BAND ? k->height - top : BAND, wide = k->width + 2 * k->patch;
    float *d = scratch, *columns = d + wide * (BAND + 2 * k->patch), *weight = columns + wide;
    float *sum = weight + (int64_t)k->width * BAND;
    memset(weight, 0, sizeof *weight * (size_t)(k->width * BAND * 4));
    for (int dy = -k->search; dy <= k->search; dy++)
        for (int dx = -k->search; dx <= k->search; dx++) {
            differences(k, top, rows, dx, dy, d);
            for (int64_t row = 0; row < rows; row++) {
                memset(columns, 0, sizeof *columns * (size_t)wide);
                for (int j = 0; j < 2 * k->patch + 1; j++)
                    for (int64_t i = 0; i < wide; i++)
                        columns[i] += d[(row + j) * wide + i];
                add_row(k, columns, at(k, top + row + dy, dx), weight + row * k->width, sum + row * k->width * 3);
            }
        }
    for (int64_t i = 0; i < rows * k->width * 3; i++)
        k->y[top * k->width * 3 + i] = sum[i] / weight[i / 3];
}

static void bands(const void *args, zn_range r)
{
    for (int64_t band = r.begin; band < r.end; band++)
        do_band(args, band * BAND, r.scratch);
}

static void extend(const float *x, int width, int height, int margin, float *out)
{
    const int wide = width + 2 * margin;
    for (int row = 0; row < height + 2 * margin; row++)
        for (int i = 0; i < wide; i++) {
            const int y = row < margin ? 0 : row - margin >= height ? height - 1 : row - margin;
            const int k = i < margin ? 0 : i - margin >= width ? width - 1 : i - margin;
            memcpy(out + ((int64_t)row * wide + i) * 3, x + ((int64_t)y * width + k) * 3, sizeof *out * 3);
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
