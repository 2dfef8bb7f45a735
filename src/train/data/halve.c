/* Reducing by two: each row and column of the small image is a weighted mean of eight. */
#include "train/data/halve.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/rng.h"
#include "io/image/pixels/enlarge.h"

enum { REACH = 4, BEST_QUALITY = 95 };

zn_halving zn_halving_of(uint64_t seed, const zn_damage_mix *mix)
{
    zn_rng rng = zn_rng_new(seed);
    zn_halving h = { .grey = (double)zn_rng_uniform(&rng) < mix->grey };
    if (zn_rng_uniform(&rng) < 0.5f)
        h.filter = (zn_halving_filter)(1 + zn_rng_next(&rng) % (ZN_HALVE_FILTERS - 1));
    if (zn_rng_uniform(&rng) < 0.25f) {
        h.quality = mix->quality + (int)(zn_rng_next(&rng) % (uint64_t)(BEST_QUALITY + 1 - mix->quality));
        h.subsampling = zn_rng_uniform(&rng) < 0.6f ? 420 : 444;
    }
    return h;
}

/* Weights of the pixels 0.5, 1.5, 2.5 and 3.5 away from the centre of a small one, to both sides. */
static const float *weights_of(zn_halving_filter filter)
{
    static const float area[REACH] = { 1, 0, 0, 0 }, triangle[REACH] = { 0.75f, 0.25f, 0, 0 };
    return filter == ZN_HALVE_AREA ? area : filter == ZN_HALVE_TRIANGLE ? triangle : zn_cubic_weights;
}

static int inside(int i, int n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

/* Every `lines` lines of `n` pixels become half as long. Pixels of a line are `step` floats apart, lines `next`, and in
 * the result `to_step` and `to_next`. */
static void reduce(const float *x, int lines, int n, int64_t next, int64_t step, const float *w, float *y,
                   int64_t to_next, int64_t to_step)
{
    for (int64_t i = 0; i < (int64_t)lines * ((n + 1) / 2); i++) {
        const int line = (int)(i / ((n + 1) / 2)), at = (int)(i % ((n + 1) / 2));
        const float *from = x + line * next;
        for (int c = 0; c < 3; c++) {
            float sum = 0;
            for (int k = 0; k < REACH; k++)
                sum +=
                    0.5f * w[k] * (from[inside(2 * at - k, n) * step + c] + from[inside(2 * at + 1 + k, n) * step + c]);
            y[line * to_next + at * to_step + c] = sum;
        }
    }
}

/* The small image, in y. */
static zn_status halve(const float *x, int width, int height, zn_halving_filter filter, float *y)
{
    const int w = (width + 1) / 2;
    float *narrow;
    ZN_TRY(zn_alloc_for("an image", sizeof *narrow * 3 * (size_t)w * (size_t)height, (void **)&narrow));
    reduce(x, height, width, (int64_t)width * 3, 3, weights_of(filter), narrow, (int64_t)w * 3, 3);
    reduce(narrow, w, height, 3, (int64_t)w * 3, weights_of(filter), y, 3, (int64_t)w * 3);
    zn_free(narrow);
    return ZN_OK;
}

zn_status zn_halve_and_enlarge(const float *x, int width, int height, const zn_halving *h, float *y)
{
    const int small_width = (width + 1) / 2, small_height = (height + 1) / 2;
    const size_t row = (size_t)small_width * 3;
    zn_image *image = NULL;
    float *small;
    zn_status status;
    ZN_TRY(zn_alloc_for("an image", sizeof *small * row * (size_t)small_height, (void **)&small));
    ZN_TRY_DONE(halve(x, width, height, h->filter, small));
    if (h->quality)
        ZN_TRY_DONE(zn_save_as_jpeg(small, small_width, small_height, h->quality, h->subsampling, small));
    if (h->grey)
        zn_make_map_grey(small, (int64_t)small_width * small_height);
    ZN_TRY_DONE(zn_image_new(small_width, small_height, 8, &image));
    zn_pixels_from_float(small, row, image, (zn_region){ 0, 0, small_width, small_height });
    zn_pixels_enlarged(image, (zn_region){ 0, 0, width, height }, y, (size_t)width * 3);
done:
    zn_image_free(image);
    zn_free(small);
    return status;
}
