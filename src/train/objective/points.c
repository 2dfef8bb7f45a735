/* Points of images for training fields: pixels drawn without repetition, with their values and scan orders. */
#include "base/alloc.h"
#include "base/fail.h"
#include "train/objective/noising.h"

#include <math.h>
#include <string.h>

/* The first `count` of a random permutation of [0,all) stand at the beginning of `list`. */
static void draw_some(int32_t *list, int64_t all, int64_t count, zn_rng *rng)
{
    for (int64_t i = 0; i < all; i++)
        list[i] = (int32_t)i;
    for (int64_t i = 0; i < count; i++) {
        const int64_t other = i + (int64_t)(zn_rng_next(rng) % (uint64_t)(all - i));
        const int32_t swap = list[i];
        list[i] = list[other];
        list[other] = swap;
    }
}

/* Between the two shares; at least one pixel, at most `capacity`. */
static int64_t draw_count(const zn_points_choice *how, int64_t capacity, zn_rng *rng)
{
    const double all = (double)how->side * how->side, u = (double)zn_rng_uniform(rng);
    const int64_t count = (int64_t)lround(all * (how->least + u * (how->most - how->least)));
    return count < 1 ? 1 : count > capacity ? capacity : count;
}

/* zn_scan_orders for a single sample of a table of many. */
static zn_status set_orders(const zn_points *p, const zn_points_choice *how, int picture, int64_t count, float *table)
{
    const zn_shape s = p->at.orders->shape;
    const int64_t length = s.dim[3], each = ZN_SCAN_WAYS * length, half = s.dim[1] * each;
    ZN_TRY(zn_scan_orders(p->at.points->data + 2 * picture * length, &count, 1, length, how->grid, table));
    for (int i = 0; i < 2; i++)
        memcpy(p->at.orders->data + i * half + picture * each, table + i * each, sizeof(float) * (size_t)each);
    return ZN_OK;
}

zn_status zn_points_draw(const zn_points *p, const zn_points_choice *how, int picture, const float *image, zn_rng *rng)
{
    const int64_t length = p->values->shape.dim[2], pixels = (int64_t)how->side * how->side;
    const int64_t count = draw_count(how, length, rng);
    void *memory;
    ZN_TRY(zn_alloc_for("points", sizeof(float) * (size_t)(2 * ZN_SCAN_WAYS * length + pixels), &memory));
    float *table = memory, *points = p->at.points->data + 2 * picture * length;
    float *values = p->values->data + ZN_FIELD_COLOURS * picture * length;
    int32_t *chosen = (int32_t *)(table + 2 * ZN_SCAN_WAYS * length);
    draw_some(chosen, pixels, count, rng);
    for (int64_t i = 0; i < length; i++) {
        const int64_t from = i < count ? chosen[i] : 0;
        zn_cell_centre(from, how->side, how->side, points + 2 * i);
        for (int c = 0; c < ZN_FIELD_COLOURS; c++)
            values[ZN_FIELD_COLOURS * i + c] = i < count ? 2 * image[ZN_FIELD_COLOURS * from + c] - 1 : 0;
    }
    const zn_status status = set_orders(p, how, picture, count, table);
    zn_free(memory);
    return status;
}

zn_status zn_mask_draw(zn_node *mask, const zn_points_choice *how, int picture, zn_rng *rng)
{
    const int64_t pixels = (int64_t)how->side * how->side, count = draw_count(how, pixels, rng);
    float *to = mask->data + picture * pixels;
    int32_t *chosen;
    ZN_TRY(zn_alloc_for("pixels", sizeof *chosen * (size_t)pixels, (void **)&chosen));
    draw_some(chosen, pixels, count, rng);
    memset(to, 0, sizeof *to * (size_t)pixels);
    for (int64_t i = 0; i < count; i++)
        to[chosen[i]] = 1;
    zn_free(chosen);
    return ZN_OK;
}
