/* Drawing a chain of damages, and doing it. */
#include "train/data/photo.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/rng.h"
#include "io/image/pixels/pixels.h"
#include "train/data/filters.h"

#include <math.h>
#include <string.h>

enum { BEST_QUALITY = 95, MOST_REACH = 8 };

/* ---- drawing ---- */

static double between(zn_rng *rng, double low, double high) { return low + (high - low) * (double)zn_rng_uniform(rng); }
static bool chance(zn_rng *rng, double share) { return (double)zn_rng_uniform(rng) < share; }

static void draw_blur(zn_rng *rng, zn_photo_draw *d)
{
    static const double most[ZN_BLUR_STYLES] = { 2.2, 3, 2.5, 4.5 };
    d->blur_style = chance(rng, 0.5) ? ZN_BLUR_GAUSSIAN : (zn_blur_style)(zn_rng_next(rng) % ZN_BLUR_STYLES);
    d->blur = (float)between(rng, 0.4, most[d->blur_style]);
    d->angle = (float)between(rng, 0, 3.14159265);
}

static void draw_noise(zn_rng *rng, const zn_damage_mix *mix, zn_photo_draw *d)
{
    d->noise_style = chance(rng, 0.5) ? ZN_NOISE_RGB : (zn_noise_style)(zn_rng_next(rng) % ZN_NOISE_STYLES);
    d->noise = (float)between(rng, 0, mix->noise);
    d->shot = chance(rng, 0.3) ? (float)between(rng, 0, 1) : 0;
}

static void draw_impulses(zn_rng *rng, zn_photo_draw *d) { d->impulses = (float)between(rng, 0.2, 20); }

/* One damage and nothing else, in the shares that the mix asks for; false: what the other images get. */
static bool draw_alone(zn_rng *rng, const zn_damage_mix *mix, zn_photo_draw *d)
{
    if (mix->independent > 0 && chance(rng, mix->independent))
        d->noise = (float)between(rng, 0, mix->noise);
    else if (mix->impulses > 0 && chance(rng, mix->impulses))
        draw_impulses(rng, d);
    else if (mix->blur > 0 && chance(rng, mix->blur))
        draw_blur(rng, d);
    return d->noise > 0 || d->impulses > 0 || d->blur > 0;
}

/* A tenth is saved as WebP, in builds that can. */
static const double webp_from = 0.9;

static void draw_jpeg(zn_rng *rng, const zn_damage_mix *mix, zn_photo_draw *d, int index)
{
    const double kind = (double)zn_rng_uniform(rng);
    d->jpeg[index].quality = (int)between(rng, mix->quality, BEST_QUALITY + 1);
    d->jpeg[index].subsampling = kind < 0.6 ? 420 : kind < 0.7 ? 422 : 444;
    if (kind >= webp_from && zn_image_can_write("a.webp"))
        d->jpeg[index].subsampling = 0;
}

/* The task of a single damage, told to the network half of the time. */
static zn_task hint_of(zn_rng *rng, const zn_photo_draw *d)
{
    const int kinds = (d->noise > 0) + (d->impulses > 0) + (d->blur > 0) + (d->jpeg[0].quality > 0) + (d->scale > 0);
    const zn_task task = d->noise > 0 ? ZN_TASK_DENOISE : d->impulses > 0 ? ZN_TASK_IMPULSE : ZN_TASK_DEBLUR;
    return chance(rng, 0.5) && kinds == 1 && !d->jpeg[0].quality && d->scale == 0 ? task : ZN_TASK_AUTO;
}

zn_photo_draw zn_photo_draw_of(uint64_t seed, const zn_damage_mix *mix)
{
    zn_rng rng = zn_rng_new(seed);
    zn_photo_draw d = { .seed = zn_rng_next(&rng), .grey = chance(&rng, mix->grey) };
    if (chance(&rng, mix->clean))
        return d;
    if (draw_alone(&rng, mix, &d)) {
        d.hint = hint_of(&rng, &d);
        return d;
    }
    const double kind = (double)zn_rng_uniform(&rng);
    const bool all = kind >= 0.9; /* anything with anything */
    if (kind < 0.36 || (kind >= 0.6 && kind < 0.74) || (all && chance(&rng, 0.6)))
        draw_noise(&rng, mix, &d);
    if ((kind >= 0.36 && kind < 0.74) || (all && chance(&rng, 0.7)))
        draw_jpeg(&rng, mix, &d, 0);
    if ((kind >= 0.74 && kind < 0.81) || (all && chance(&rng, 0.1)))
        draw_impulses(&rng, &d);
    if ((kind >= 0.81 && kind < 0.9) || (all && chance(&rng, 0.4)))
        draw_blur(&rng, &d);
    if (all && chance(&rng, 0.5))
        d.scale = (float)between(&rng, 0.5, 0.95);
    if (d.jpeg[0].quality && chance(&rng, 0.15))
        draw_jpeg(&rng, mix, &d, 1);
    d.hint = hint_of(&rng, &d);
    return d;
}

/* ---- grey, noise ---- */

void zn_make_map_grey(float *x, int64_t pixels)
{
    for (int64_t i = 0; i < pixels; i++)
        x[3 * i] = x[3 * i + 1] = x[3 * i + 2] = 0.299f * x[3 * i] + 0.587f * x[3 * i + 1] + 0.114f * x[3 * i + 2];
}

/* Normal noise of deviation 1 in three channels, as the style says. */
static void draw_field(zn_rng *rng, zn_noise_style style, bool grey, int64_t pixels, float *noise)
{
    for (int64_t i = 0; i < pixels; i++) {
        float v[3];
        for (int c = 0; c < 3; c++)
            v[c] = zn_rng_normal(rng);
        if (style == ZN_NOISE_GREY || grey)
            v[1] = v[2] = v[0];
        if (style == ZN_NOISE_CHROMA && !grey) { /* v: luma, and the differences of red and blue to it */
            const float luma = 0.5f * v[0], red = 1.2f * v[1], blue = 1.2f * v[2];
            v[0] = luma + red;
            v[1] = luma - 0.509f * red - 0.194f * blue;
            v[2] = luma + blue;
        }
        memcpy(noise + 3 * i, v, sizeof v);
    }
}

/* A blur of the noise, and its deviation brought back to 1. */
static zn_status clump(float *noise, zn_shape map, float sigma)
{
    const int64_t count = zn_shape_count(map);
    float *soft;
    double squares = 0;
    ZN_TRY(zn_alloc_for("noise", sizeof *soft * (size_t)count, (void **)&soft));
    const zn_status status = zn_gaussian_blur(noise, map, sigma, soft);
    for (int64_t i = 0; i < count && status == ZN_OK; i++)
        squares += (double)soft[i] * (double)soft[i];
    const float factor = squares > 0 ? (float)sqrt((double)count / squares) : 0;
    for (int64_t i = 0; i < count && status == ZN_OK; i++)
        noise[i] = factor * soft[i];
    zn_free(soft);
    return status;
}

zn_status zn_add_photo_noise(float *x, int width, int height, const zn_photo_draw *d)
{
    enum { NOISE_SEED = 1 };
    const zn_shape map = ZN_SHAPE(1, height, width, 3);
    const int64_t count = zn_shape_count(map);
    zn_rng rng = zn_rng_new(d->seed + NOISE_SEED);
    float *noise;
    ZN_TRY(zn_alloc_for("noise", sizeof *noise * (size_t)count, (void **)&noise));
    draw_field(&rng, d->noise_style, d->grey, count / 3, noise);
    const zn_status status = d->noise_style == ZN_NOISE_CLUMPS ? clump(noise, map, 0.8f) : ZN_OK;
    const float variance = d->noise * d->noise / (255 * 255);
    for (int64_t i = 0; i < count && status == ZN_OK; i++) {
        const float light = x[i] < 0 ? 0 : x[i];
        x[i] += sqrtf(variance * (1 - d->shot + d->shot * 2 * light)) * noise[i];
    }
    zn_free(noise);
    return status;
}

static void add_impulses(float *x, int64_t count, const zn_photo_draw *d)
{
    enum { IMPULSE_SEED = 2 };
    zn_rng rng = zn_rng_new(d->seed + IMPULSE_SEED);
    const bool extreme = chance(&rng, 0.5), whole = d->grey || chance(&rng, 0.3);
    for (int64_t i = 0; i < count; i += 3) {
        bool hit = false;
        for (int c = 0; c < 3; c++) {
            const float u = zn_rng_uniform(&rng), v = zn_rng_uniform(&rng);
            hit = whole && c ? hit : u < d->impulses / 100;
            if (hit)
                x[i + c] = whole && c ? x[i] : extreme ? (float)(v > 0.5f) : v;
        }
    }
}

/* ---- blur, scaling ---- */

/* Weights [2r+1][2r+1] of a disc or of a line, in shares of a pixel by 4x4 samples of it; they add up to 1. */
static void make_kernel(const zn_photo_draw *d, int r, float *w)
{
    enum { SAMPLES = 4 };
    const double c = cos((double)d->angle), s = sin((double)d->angle);
    const int side = 2 * r + 1;
    double sum = 0;
    for (int i = 0; i < side * side; i++) {
        w[i] = 0;
        for (int k = 0; k < SAMPLES * SAMPLES; k++) {
            const double y = i / side - r + (k / SAMPLES + 0.5) / SAMPLES - 0.5;
            const double x = i % side - r + (k % SAMPLES + 0.5) / SAMPLES - 0.5;
            const double along = fabs(c * x + s * y), off = fabs(c * y - s * x);
            w[i] += d->blur_style == ZN_BLUR_DEFOCUS ? hypot(x, y) <= (double)d->blur + 0.5
                                                     : along <= (double)d->blur && off <= 0.5;
        }
        sum += (double)w[i];
    }
    for (int i = 0; i < side * side; i++)
        w[i] = sum > 0 ? (float)((double)w[i] / sum) : (float)(i == side * side / 2);
}

static int inside(int i, int n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

/* The edge pixel is repeated. */
static void convolve(const float *x, int width, int height, const float *w, int r, float *y)
{
    const int side = 2 * r + 1;
    for (int64_t p = 0; p < (int64_t)width * height; p++) {
        float sum[3] = { 0 };
        for (int k = 0; k < side * side; k++) {
            const int row = inside((int)(p / width) + k / side - r, height),
                      column = inside((int)(p % width) + k % side - r, width);
            const float *from = x + ((int64_t)row * width + column) * 3;
            for (int c = 0; c < 3; c++)
                sum[c] += w[k] * from[c];
        }
        memcpy(y + 3 * p, sum, sizeof sum);
    }
}

static zn_status blur(const float *x, int width, int height, const zn_photo_draw *d, float *y)
{
    const zn_shape map = ZN_SHAPE(1, height, width, 3);
    float weights[(2 * MOST_REACH + 1) * (2 * MOST_REACH + 1)];
    if (d->blur_style == ZN_BLUR_GAUSSIAN)
        return zn_gaussian_blur(x, map, d->blur, y);
    if (d->blur_style == ZN_BLUR_BOX) {
        zn_box_blur(x, map, 1 + 2 * (int)(d->blur + 0.5f), y);
        return ZN_OK;
    }
    const int r = (int)ceilf(d->blur) + 1;
    make_kernel(d, r < MOST_REACH ? r : MOST_REACH, weights);
    convolve(x, width, height, weights, r < MOST_REACH ? r : MOST_REACH, y);
    return ZN_OK;
}

/* Bilinear, from [h][w] to [oh][ow]. */
static void resample(const float *x, int w, int h, int ow, int oh, float *y)
{
    for (int64_t p = 0; p < (int64_t)ow * oh; p++) {
        const float fy = ((float)(p / ow) + 0.5f) * (float)h / (float)oh - 0.5f;
        const float fx = ((float)(p % ow) + 0.5f) * (float)w / (float)ow - 0.5f;
        const int y0 = (int)floorf(fy), x0 = (int)floorf(fx);
        const float v = fy - (float)y0, u = fx - (float)x0;
        for (int c = 0; c < 3; c++) {
            const float *top = x + (int64_t)inside(y0, h) * w * 3 + c,
                        *low = x + (int64_t)inside(y0 + 1, h) * w * 3 + c;
            const int l = 3 * inside(x0, w), r = 3 * inside(x0 + 1, w);
            y[3 * p + c] = (1 - v) * ((1 - u) * top[l] + u * top[r]) + v * ((1 - u) * low[l] + u * low[r]);
        }
    }
}

/* Reduced after a blur that keeps it from aliasing, and enlarged. */
static zn_status rescale(const float *x, int width, int height, float scale, float *y)
{
    const int w = (int)((float)width * scale) + 1, h = (int)((float)height * scale) + 1;
    float *small;
    ZN_TRY(zn_gaussian_blur(x, ZN_SHAPE(1, height, width, 3), 0.4f / scale, y));
    ZN_TRY(zn_alloc_for("an image", sizeof *small * 3 * (size_t)w * (size_t)h, (void **)&small));
    resample(y, width, height, w, h, small);
    resample(small, w, h, width, height, y);
    zn_free(small);
    return ZN_OK;
}

/* ---- JPEG, WebP ---- */

static zn_status save_as(const char *format, const float *x, int width, int height, const zn_image_write_options *o,
                         float *y)
{
    const zn_region all = { 0, 0, width, height };
    const size_t row = (size_t)width * 3;
    zn_image *image = NULL, *back = NULL;
    void *bytes = NULL;
    size_t size;
    zn_status status;
    ZN_TRY_DONE(zn_image_new(width, height, 8, &image));
    zn_pixels_from_float(x, row, image, all);
    ZN_TRY_DONE(zn_image_write_memory(format, image, o, &bytes, &size));
    ZN_TRY_DONE(zn_image_read_memory(bytes, size, NULL, &back));
    zn_pixels_to_float(back, all, y, row);
done:
    zn_memory_free(bytes);
    zn_image_free(image);
    zn_image_free(back);
    return status;
}

zn_status zn_save_as_jpeg(const float *x, int width, int height, int quality, int subsampling, float *y)
{
    const zn_image_write_options o = { .quality = quality, .subsampling = subsampling };
    return save_as("jpeg", x, width, height, &o, y);
}

zn_status zn_save_as_webp(const float *x, int width, int height, int quality, float *y)
{
    return save_as("webp", x, width, height, &(zn_image_write_options){ .quality = quality }, y);
}

/* ---- the chain ---- */

/* Saved the i-th time, in place. */
static zn_status save(float *y, int width, int height, const zn_photo_draw *d, int i)
{
    const int quality = d->jpeg[i].quality, subsampling = d->jpeg[i].subsampling;
    return subsampling ? zn_save_as_jpeg(y, width, height, quality, subsampling, y)
                       : zn_save_as_webp(y, width, height, quality, y);
}

static void round_to_8_bits(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = floorf((x[i] < 0 ? 0 : x[i] > 1 ? 1 : x[i]) * 255 + 0.5f) / 255;
}

zn_status zn_photo_damage(const float *x, int width, int height, const zn_photo_draw *d, float *y)
{
    const int64_t count = (int64_t)width * height * 3;
    const size_t bytes = sizeof *y * (size_t)count;
    float *other;
    zn_status status;
    ZN_TRY(zn_alloc_for("an image", bytes, (void **)&other));
    memcpy(y, x, bytes);
    if (d->blur > 0) {
        ZN_TRY_DONE(blur(y, width, height, d, other));
        memcpy(y, other, bytes);
    }
    if (d->scale > 0) {
        ZN_TRY_DONE(rescale(y, width, height, d->scale, other));
        memcpy(y, other, bytes);
    }
    if (d->noise > 0)
        ZN_TRY_DONE(zn_add_photo_noise(y, width, height, d));
    if (d->impulses > 0)
        add_impulses(y, count, d);
    round_to_8_bits(y, count);
    for (int i = 0; i < 2; i++)
        if (d->jpeg[i].quality)
            ZN_TRY_DONE(save(y, width, height, d, i));
    if (d->grey) /* JPEG may leave a tint of a level */
        zn_make_map_grey(y, count / 3);
    status = ZN_OK;
done:
    zn_free(other);
    return status;
}
