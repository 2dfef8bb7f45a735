/* Damage by name ("gaussian:25") or drawn for training: noise, wrong pixels, blur and their mixtures. */
#include "train/data/corrupt.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/numbers.h"
#include "base/rng.h"
#include "io/image/pixels/pixels.h"
#include "models/zenith/zenith.h"
#include "train/data/filters.h"
#include "train/data/halve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    zn_task task;
    double least, most;
} damages[] = {
    [ZN_DAMAGE_NONE] = { "none", ZN_TASK_AUTO, 0, 0 },
    [ZN_DAMAGE_GAUSSIAN] = { "gaussian", ZN_TASK_DENOISE, 0, 255 },
    [ZN_DAMAGE_SALT] = { "salt", ZN_TASK_IMPULSE, 0, 100 },
    [ZN_DAMAGE_RANDOM] = { "random", ZN_TASK_IMPULSE, 0, 100 },
    [ZN_DAMAGE_BLUR] = { "blur", ZN_TASK_DEBLUR, 0, 50 },
    [ZN_DAMAGE_BOX] = { "box", ZN_TASK_DEBLUR, 1, 99 },
    [ZN_DAMAGE_GREY] = { "grey", ZN_TASK_DENOISE, 0, 255 },
    [ZN_DAMAGE_JPEG] = { "jpeg", ZN_TASK_JPEG, 1, 100 },
    [ZN_DAMAGE_JPEG444] = { "jpeg444", ZN_TASK_JPEG, 1, 100 },
    [ZN_DAMAGE_SCALE] = { "scale", ZN_TASK_AUTO, 2, 2 },
    [ZN_DAMAGE_WEBP] = { "webp", ZN_TASK_JPEG, 1, 100 },
};
enum { DAMAGES = sizeof damages / sizeof *damages };

const char *zn_task_name(int task)
{
    static const char *const names[] = { "auto", "denoise", "impulse", "deblur", "jpeg" };
    return task >= 0 && task < (int)(sizeof names / sizeof *names) ? names[task] : NULL;
}

static bool is_known(zn_damage d) { return (int)d >= 0 && (int)d < DAMAGES; }
static const char *name_of(zn_damage d) { return is_known(d) ? damages[d].name : "?"; }

const char *zn_corruption_text(zn_corruption c, char text[32])
{
    const locale_t old = zn_numbers_begin();
    if (c.damage == ZN_DAMAGE_NONE)
        snprintf(text, 32, "%s", name_of(c.damage));
    else if (c.then == ZN_DAMAGE_NONE)
        snprintf(text, 32, "%s:%g", name_of(c.damage), c.amount);
    else
        snprintf(text, 32, "%s:%g+%s:%g", name_of(c.damage), c.amount, name_of(c.then), c.then_amount);
    zn_numbers_end(old);
    return text;
}

zn_task zn_corruption_task(zn_corruption c) { return is_known(c.damage) ? damages[c.damage].task : ZN_TASK_AUTO; }

static bool is_jpeg(zn_damage d) { return d == ZN_DAMAGE_JPEG || d == ZN_DAMAGE_JPEG444; }

int zn_corruption_of_task(zn_task task, int index, zn_corruption *out)
{
    static const zn_corruption judged[] = {
        { ZN_DAMAGE_GAUSSIAN, 15, 0, 0 },
        { ZN_DAMAGE_GAUSSIAN, 25, 0, 0 },
        { ZN_DAMAGE_GAUSSIAN, 50, 0, 0 },
        { ZN_DAMAGE_GREY, 25, 0, 0 },
        { ZN_DAMAGE_GAUSSIAN, 20, ZN_DAMAGE_JPEG, 90 },
        { ZN_DAMAGE_SALT, 5, 0, 0 },
        { ZN_DAMAGE_SALT, 10, 0, 0 },
        { ZN_DAMAGE_RANDOM, 5, 0, 0 },
        { ZN_DAMAGE_RANDOM, 10, 0, 0 },
        { ZN_DAMAGE_BLUR, 1, 0, 0 },
        { ZN_DAMAGE_BLUR, 2, 0, 0 },
        { ZN_DAMAGE_BOX, 5, 0, 0 },
        { ZN_DAMAGE_JPEG, 10, 0, 0 },
        { ZN_DAMAGE_JPEG, 25, 0, 0 },
        { ZN_DAMAGE_JPEG, 50, 0, 0 },
    };
    const bool saves = zn_image_can_write("a.jpg");
    for (size_t i = 0; i < sizeof judged / sizeof *judged; i++)
        if ((saves || !(is_jpeg(judged[i].damage) || is_jpeg(judged[i].then))) &&
            (task == ZN_TASK_AUTO || zn_corruption_task(judged[i]) == task) && index-- == 0) {
            *out = judged[i];
            return 1;
        }
    return 0;
}

static zn_status check_one(zn_damage damage, double amount)
{
    if (!is_known(damage))
        return ZN_FAIL(ZN_EINVALID, "damage %d is not known", (int)damage);
    if (!(amount >= damages[damage].least && amount <= damages[damage].most))
        return ZN_FAIL(ZN_EINVALID, "%s must be from %g to %g, not %g", damages[damage].name, damages[damage].least,
                       damages[damage].most, amount);
    if (damage == ZN_DAMAGE_BOX && (amount != floor(amount) || (int)amount % 2 == 0))
        return ZN_FAIL(ZN_EINVALID, "the side of a box must be odd, not %g", amount);
    if ((is_jpeg(damage) || damage == ZN_DAMAGE_WEBP) && amount != floor(amount))
        return ZN_FAIL(ZN_EINVALID, "the quality of a JPEG or WebP must be a whole number, not %g", amount);
    return ZN_OK;
}

static zn_status check(zn_corruption c)
{
    ZN_TRY(check_one(c.damage, c.amount));
    return check_one(c.then, c.then_amount);
}

/* A damage and its amount, up to `end`; false if it is none. */
static bool parse_one(const char *text, const char *end, zn_damage *damage, double *amount)
{
    const size_t n = strcspn(text, ":+");
    char *over = (char *)text + n;
    *amount = 0;
    for (int i = 0; i < DAMAGES; i++) {
        if (strlen(damages[i].name) != n || strncmp(text, damages[i].name, n))
            continue;
        *damage = (zn_damage)i;
        const bool has_amount = text[n] == ':' && text + n + 1 < end;
        const locale_t old = zn_numbers_begin();
        if (has_amount)
            *amount = strtod(text + n + 1, &over);
        zn_numbers_end(old);
        return over == end && (i != ZN_DAMAGE_NONE) == has_amount;
    }
    return false;
}

zn_status zn_corruption_parse(const char *text, zn_corruption *out)
{
    const char *plus = strchr(text, '+'), *end = text + strlen(text);
    *out = (zn_corruption){ 0 };
    if (parse_one(text, plus ? plus : end, &out->damage, &out->amount) &&
        (!plus || (out->damage != ZN_DAMAGE_NONE && parse_one(plus + 1, end, &out->then, &out->then_amount) &&
                   out->then != ZN_DAMAGE_NONE)))
        return check(*out);
    return ZN_FAIL(ZN_EINVALID,
                   "'%s' is not a damage: use gaussian:25, grey:25, salt:5, random:5, blur:1.5, box:5, jpeg:25, "
                   "jpeg444:25, webp:25, scale:2, or two such as gaussian:20+jpeg:90",
                   text);
}

/* ---- drawing ---- */

static double between(zn_rng *rng, double low, double high) { return low + (high - low) * (double)zn_rng_uniform(rng); }

zn_draw zn_draw_training(uint64_t seed)
{
    zn_rng rng = zn_rng_new(seed);
    zn_draw d = { .seed = zn_rng_next(&rng) };
    const float kind = zn_rng_uniform(&rng);
    if (kind < 0.42f) {
        d.what = (zn_corruption){ .damage = ZN_DAMAGE_GAUSSIAN, .amount = between(&rng, 0, 55) };
    } else if (kind < 0.72f) {
        d.what.damage = zn_rng_uniform(&rng) < 0.5f ? ZN_DAMAGE_SALT : ZN_DAMAGE_RANDOM;
        d.what.amount = between(&rng, 1, 22);
        d.whole_pixels = zn_rng_uniform(&rng) < 0.25f;
    } else if (kind < 0.88f) {
        d.what = (zn_corruption){ .damage = ZN_DAMAGE_BLUR, .amount = between(&rng, 0.4, 2.2) };
    } else {
        d.what = (zn_corruption){ .damage = ZN_DAMAGE_BOX, .amount = 3 + 2 * (double)(zn_rng_next(&rng) % 3) };
    }
    if (zn_corruption_task(d.what) == ZN_TASK_DEBLUR && zn_rng_uniform(&rng) < 0.25f)
        d.grain = (float)between(&rng, 0, 2);
    d.hint = zn_rng_uniform(&rng) < 0.5f ? zn_corruption_task(d.what) : ZN_TASK_AUTO;
    return d;
}

/* ---- doing ---- */

static void add_noise(const float *x, int64_t count, float deviation, zn_rng *rng, float *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] + deviation * zn_rng_normal(rng);
}

static void add_grey_noise(const float *x, int64_t pixels, float deviation, zn_rng *rng, float *y)
{
    for (int64_t i = 0; i < pixels; i++) {
        const float noise = deviation * zn_rng_normal(rng);
        for (int c = 0; c < 3; c++)
            y[3 * i + c] = x[3 * i + c] + noise;
    }
}

/* The numbers drawn do not depend on what is hit, so that a larger share hits the same places and more. */
static void add_impulses(const float *x, int64_t pixels, const zn_draw *d, zn_rng *rng, float *y)
{
    const float share = (float)(d->what.amount / 100);
    for (int64_t i = 0; i < pixels; i++) {
        bool hit = false;
        for (int c = 0; c < 3; c++) {
            const float u = zn_rng_uniform(rng), v = zn_rng_uniform(rng);
            hit = d->whole_pixels && c ? hit : u < share;
            const float wrong = d->what.damage == ZN_DAMAGE_RANDOM ? v : d->whole_pixels && c ? y[3 * i] : v > 0.5f;
            y[3 * i + c] = hit ? wrong : x[3 * i + c];
        }
    }
}

static void store(float *y, int64_t count, int levels)
{
    const float top = (float)levels;
    for (int64_t i = 0; i < count; i++) {
        const float v = y[i] < 0 ? 0 : y[i] > 1 ? 1 : y[i];
        y[i] = levels > 0 ? floorf(v * top + 0.5f) / top : v;
    }
}

/* The second of two damages, in place. */
static zn_status corrupt_again(float *y, int width, int height, const zn_draw *d, int levels)
{
    const size_t floats = (size_t)width * (size_t)height * 3;
    const zn_draw second = { .what = { .damage = d->what.then, .amount = d->what.then_amount }, .seed = d->seed + 1 };
    float *first;
    ZN_TRY(zn_alloc_for("an image", sizeof *first * floats, (void **)&first));
    memcpy(first, y, sizeof *first * floats);
    const zn_status status = zn_corrupt_map(first, width, height, &second, levels, y);
    zn_free(first);
    return status;
}

zn_status zn_corrupt_map(const float *x, int width, int height, const zn_draw *d, int levels, float *y)
{
    const zn_shape map = ZN_SHAPE(1, height, width, 3);
    const int64_t count = zn_shape_count(map);
    zn_rng rng = zn_rng_new(d->seed);
    ZN_TRY(check(d->what));
    switch (d->what.damage) {
    case ZN_DAMAGE_GAUSSIAN:
        add_noise(x, count, (float)d->what.amount / 255, &rng, y);
        break;
    case ZN_DAMAGE_SALT:
    case ZN_DAMAGE_RANDOM:
        add_impulses(x, count / 3, d, &rng, y);
        break;
    case ZN_DAMAGE_BLUR:
        ZN_TRY(zn_gaussian_blur(x, map, (float)d->what.amount, y));
        break;
    case ZN_DAMAGE_BOX:
        zn_box_blur(x, map, (int)d->what.amount, y);
        break;
    case ZN_DAMAGE_GREY:
        add_grey_noise(x, count / 3, (float)d->what.amount / 255, &rng, y);
        break;
    case ZN_DAMAGE_JPEG:
    case ZN_DAMAGE_JPEG444:
        ZN_TRY(zn_save_as_jpeg(x, width, height, (int)d->what.amount, d->what.damage == ZN_DAMAGE_JPEG ? 420 : 444, y));
        break;
    case ZN_DAMAGE_WEBP:
        ZN_TRY(zn_save_as_webp(x, width, height, (int)d->what.amount, y));
        break;
    case ZN_DAMAGE_SCALE:
        ZN_TRY(zn_halve_and_enlarge(x, width, height, &(zn_halving){ .filter = ZN_HALVE_CUBIC }, y));
        break;
    default:
        memcpy(y, x, sizeof *y * (size_t)count);
    }
    if (d->grain > 0)
        add_noise(y, count, d->grain / 255, &rng, y);
    store(y, count, levels);
    return d->what.then == ZN_DAMAGE_NONE ? ZN_OK : corrupt_again(y, width, height, d, levels);
}

zn_status zn_restore_input_of(const float *picture, int size, const zn_draw *d, float *input)
{
    const int64_t pixels = (int64_t)size * size;
    ZN_TRY(zn_corrupt_map(picture, size, size, d, 255, zn_restore_colours(input, pixels)));
    zn_restore_spread(input, pixels, (int)d->hint);
    return ZN_OK;
}

static zn_status photo_input(const zn_damage_mix *mix, float *picture, int size, uint64_t seed, float *input)
{
    const int64_t pixels = (int64_t)size * size;
    const zn_photo_draw d = zn_photo_draw_of(seed, mix);
    if (d.grey)
        zn_make_map_grey(picture, pixels);
    ZN_TRY(zn_photo_damage(picture, size, size, &d, zn_restore_colours(input, pixels)));
    zn_restore_spread(input, pixels, (int)d.hint);
    return ZN_OK;
}

static zn_status halved_input(const zn_damage_mix *mix, float *picture, int size, uint64_t seed, float *input)
{
    const int64_t pixels = (int64_t)size * size;
    const zn_halving h = zn_halving_of(seed, mix);
    if (h.grey)
        zn_make_map_grey(picture, pixels);
    ZN_TRY(zn_halve_and_enlarge(picture, size, size, &h, zn_restore_colours(input, pixels)));
    zn_restore_spread(input, pixels, ZN_TASK_AUTO);
    return ZN_OK;
}

zn_status zn_restore_input(const void *mix, float *picture, int size, uint64_t seed, float *input)
{
    const zn_damage_mix *m = mix;
    if (m->kind == ZN_DAMAGE_MIX_PHOTO)
        return photo_input(m, picture, size, seed, input);
    if (m->kind == ZN_DAMAGE_MIX_UPSCALE)
        return halved_input(m, picture, size, seed, input);
    const zn_draw d = zn_draw_training(seed);
    return zn_restore_input_of(picture, size, &d, input);
}

zn_status zn_corrupt(const zn_image *image, zn_corruption c, uint64_t seed, zn_image **out)
{
    *out = NULL;
    const zn_region all = { 0, 0, image->width, image->height };
    const size_t row = (size_t)image->width * 3, floats = row * (size_t)image->height;
    float *clean;
    ZN_TRY(zn_alloc_for("a picture", sizeof *clean * floats * 2, (void **)&clean));
    zn_pixels_to_float(image, all, clean, row);
    zn_image *result = NULL;
    zn_status status;
    ZN_TRY_DONE(
        zn_corrupt_map(clean, image->width, image->height, &(zn_draw){ .what = c, .seed = seed }, 0, clean + floats));
    ZN_TRY_DONE(zn_image_new(image->width, image->height, image->bits, &result));
    zn_pixels_from_float(clean + floats, row, result, all);
    *out = result;
done:
    zn_free(clean);
    return status;
}

/* ---- wavelet pictures ---- */

void zn_add_gaussian(const float *x, const float *noise, int64_t count, float deviation, float *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] + deviation * noise[i];
}

void zn_add_shot(const float *x, const float *u, const float *v, int64_t count, float p, float magnitude, float *y)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = u[i] < p ? x[i] + (v[i] > 0.5f ? magnitude : -magnitude) : x[i];
}
