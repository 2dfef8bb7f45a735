/* Looking into data sets: what is in them, and a contact sheet. */
#include <zenith/dataset.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/rng.h"
#include "base/threads.h"
#include "io/dataset/dataset.h"
#include "io/image/pixels/resize.h"

#include <stdio.h>
#include <string.h>

enum { HELD_OUT = 2, AHEAD = 8, SHEET_COUNT = 24, SHEET_SIDE = 160, SHEET_MOST = 10000, GAP = 4, GREY = 32 };

/* ---- what is in it ---- */

typedef struct seen {
    zn_status status;
    int width, height, frames; /* height: of one frame */
    char why[512];
} seen;

typedef struct look {
    const zn_dataset *set;
    seen *batch;
    int64_t first;
} look;

static void look_at(const void *args, zn_range range)
{
    const look *l = args;
    for (int64_t i = range.begin; i < range.end; i++) {
        seen *s = &l->batch[i];
        zn_image *image;
        s->status = zn_dataset_read(l->set, l->first + i, &image);
        if (s->status == ZN_OK) {
            s->width = image->width;
            s->frames = zn_dataset_frames(l->set, l->first + i);
            if (image->height % s->frames) /* not a clip, in spite of its name */
                s->frames = 1;
            s->height = image->height / s->frames;
        } else {
            snprintf(s->why, sizeof s->why, "%s", zn_error_text());
        }
        zn_image_free(image);
    }
}

static void count(zn_dataset_info *info, const seen *s, bool held_out)
{
    const bool first = info->pictures++ == 0;
    info->pixels += (int64_t)s->width * s->height * s->frames;
    info->held_out += held_out;
    info->for_training += !held_out;
    if (first || s->width < info->least_width)
        info->least_width = s->width;
    if (first || s->height < info->least_height)
        info->least_height = s->height;
    if (first || s->frames < info->least_frames)
        info->least_frames = s->frames;
    if (s->frames > info->most_frames)
        info->most_frames = s->frames;
    if (s->width > info->most_width)
        info->most_width = s->width;
    if (s->height > info->most_height)
        info->most_height = s->height;
}

static zn_status look_at_all(look *l, const zn_dataset_info_options *o, zn_pool *pool, zn_dataset_info *info)
{
    const int64_t all = zn_dataset_count(l->set), batch = (int64_t)AHEAD * zn_pool_threads(pool);
    for (l->first = 0; l->first < all; l->first += batch) {
        const int64_t now = all - l->first < batch ? all - l->first : batch;
        zn_pool_run(pool, now, 1, look_at, l, NULL, 0);
        for (int64_t i = 0; i < now; i++) {
            const seen *s = &l->batch[i];
            if (s->status == ZN_ENOMEM)
                return ZN_FAIL(ZN_ENOMEM, "%s", s->why);
            if (s->status == ZN_OK)
                count(info, s, zn_dataset_held_out(l->set, l->first + i, info->held_out_percent));
            else if (info->unreadable++, o->skipped)
                o->skipped(o->user, zn_dataset_name(l->set, l->first + i), s->why);
        }
        if (o->progress && o->progress(o->user, (double)(l->first + now) / (double)all))
            return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    }
    return ZN_OK;
}

zn_status zn_dataset_examine(const char *path, const zn_dataset_info_options *options, zn_dataset_info *out)
{
    static const zn_dataset_info_options defaults = { 0 };
    const zn_dataset_info_options *o = options ? options : &defaults;
    *out = (zn_dataset_info){ .held_out_percent = o->held_out ? o->held_out : HELD_OUT };
    zn_dataset *set;
    ZN_TRY(zn_dataset_open(path, &set));
    look l = { .set = set };
    zn_pool *pool = NULL;
    zn_status status;
    ZN_TRY_DONE(zn_pool_new(o->threads, &pool));
    ZN_TRY_DONE(
        zn_alloc_for("a look at pictures", sizeof *l.batch * AHEAD * (size_t)zn_pool_threads(pool), (void **)&l.batch));
    out->kind = set->kind->name;
    out->bytes = zn_dataset_bytes(set);
    status = look_at_all(&l, o, pool, out);
done:
    zn_free(l.batch);
    zn_pool_free(pool);
    zn_dataset_close(set);
    return status;
}

/* ---- contact sheet ---- */

/* `wanted` of the set's indices, ascending: each index is taken with the chance that leaves the right number. */
static void choose(int64_t all, int wanted, uint64_t seed, int64_t *chosen)
{
    zn_rng rng = zn_rng_new(seed);
    int found = 0;
    for (int64_t i = 0; i < all && found < wanted; i++)
        if ((int64_t)(zn_rng_next(&rng) % (uint64_t)(all - i)) < wanted - found)
            chosen[found++] = i;
}

static void paste(const zn_image *from, zn_image *sheet, int x, int y)
{
    for (int row = 0; row < from->height; row++)
        memcpy((uint8_t *)sheet->pixels + ((size_t)(y + row) * (size_t)sheet->width + (size_t)x) * 3,
               (const uint8_t *)from->pixels + (size_t)row * (size_t)from->width * 3, (size_t)from->width * 3);
}

/* A region of the picture, no larger than side x side, in the middle of the square at x, y. */
static zn_status place(const zn_image *picture, zn_region region, int side, zn_image *sheet, int x, int y)
{
    const int longer = region.width > region.height ? region.width : region.height;
    const double scale = longer > side ? (double)side / longer : 1;
    int w = (int)(region.width * scale + 0.5), h = (int)(region.height * scale + 0.5);
    w = w < 1 ? 1 : w;
    h = h < 1 ? 1 : h;
    zn_image *small;
    ZN_TRY(zn_image_shrink(picture, region, w, h, &small));
    paste(small, sheet, x + (side - w) / 2, y + (side - h) / 2);
    zn_image_free(small);
    return ZN_OK;
}

/* A clip: up to four of its frames, the first and the last of them, row by row. */
static zn_status place_frames(const zn_image *strip, int frames, int side, zn_image *sheet, int x, int y)
{
    const int columns = side > GAP + 1 ? 2 : 1, shown = frames < columns * columns ? frames : columns * columns;
    const int each = columns == 2 ? (side - GAP) / 2 : side, height = strip->height / frames;
    for (int i = 0; i < shown; i++) {
        const int frame = shown > 1 ? i * (frames - 1) / (shown - 1) : 0;
        ZN_TRY(place(strip, (zn_region){ 0, frame * height, strip->width, height }, each, sheet,
                     x + i % columns * (each + GAP), y + i / columns * (each + GAP)));
    }
    return ZN_OK;
}

static zn_status fill(const zn_dataset *set, const zn_dataset_sheet_options *o, const int64_t *chosen, int number,
                      int columns, int side, zn_image *sheet)
{
    memset(sheet->pixels, GREY, (size_t)sheet->width * (size_t)sheet->height * 3);
    for (int i = 0; i < number; i++) {
        const int x = GAP + i % columns * (side + GAP), y = GAP + i / columns * (side + GAP);
        zn_image *picture;
        zn_status status = zn_dataset_read(set, chosen[i], &picture);
        if (status == ZN_ENOMEM)
            return status;
        if (status != ZN_OK) {
            if (o->skipped)
                o->skipped(o->user, zn_dataset_name(set, chosen[i]), zn_error_text());
            continue;
        }
        const int frames = zn_dataset_frames(set, chosen[i]);
        if (frames > 1 && picture->height % frames == 0)
            status = place_frames(picture, frames, side, sheet, x, y);
        else
            status = place(picture, (zn_region){ 0, 0, picture->width, picture->height }, side, sheet, x, y);
        zn_image_free(picture);
        ZN_TRY(status);
    }
    return ZN_OK;
}

zn_status zn_dataset_sheet(const char *path, const zn_dataset_sheet_options *options, zn_image **out)
{
    static const zn_dataset_sheet_options defaults = { 0 };
    const zn_dataset_sheet_options *o = options ? options : &defaults;
    const int wanted = o->count ? o->count : SHEET_COUNT, side = o->side ? o->side : SHEET_SIDE;
    *out = NULL;
    if (wanted < 1 || wanted > SHEET_MOST || side < 1 || side > 4096)
        return ZN_FAIL(ZN_EINVALID, "a sheet has 1 to %d squares of 1 to 4096 pixels", SHEET_MOST);
    zn_dataset *set;
    ZN_TRY(zn_dataset_open(path, &set));
    const int64_t all = zn_dataset_count(set);
    const int number = all < wanted ? (int)all : wanted;
    int columns = 1;
    while (columns * columns * 2 < number * 3) /* about three to two */
        columns++;
    const int rows = (number + columns - 1) / columns;
    const int width = GAP + columns * (side + GAP), height = GAP + rows * (side + GAP);
    int64_t *chosen = NULL;
    zn_image *sheet = NULL;
    zn_status status;
    if (height > ZN_IMAGE_MAX_PIXELS / width)
        ZN_TRY_DONE(
            ZN_FAIL(ZN_ELIMIT, "a sheet of %dx%d pixels is too large: fewer squares, or smaller ones", width, height));
    ZN_TRY_DONE(zn_alloc_for("a contact sheet", sizeof *chosen * (size_t)number, (void **)&chosen));
    choose(all, number, o->seed, chosen);
    ZN_TRY_DONE(zn_image_new(width, height, 8, &sheet));
    ZN_TRY_DONE(fill(set, o, chosen, number, columns, side, sheet));
    *out = sheet;
    sheet = NULL;
done:
    zn_image_free(sheet);
    zn_free(chosen);
    zn_dataset_close(set);
    return status;
}
