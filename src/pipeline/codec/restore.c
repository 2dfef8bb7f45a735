/* Restoring and upscaling: an image and a hint through a network from image to image. */
#include <zenith/restore.h>

#include "base/fail.h"
#include "io/image/pixels/enlarge.h"
#include "io/image/pixels/focus.h"
#include "io/image/pixels/impulses.h"
#include "models/zenith/zenith.h"
#include "pipeline/codec/codec.h"

#include <limits.h>

/* What the network looks at: an image, or one that is enlarged by two on the way in. */
typedef struct source {
    const zn_image *image;
    zn_task task;
    const zn_focus *focus; /* NULL: blur is damage everywhere */
    void (*read)(const zn_image *image, zn_region region, float *rgb, size_t stride);
    size_t held; /* bytes of other images in memory */
} source;

static void read_source(void *from, zn_region a, float *map)
{
    const source *s = from;
    const int64_t pixels = (int64_t)a.width * a.height;
    s->read(s->image, a, zn_restore_colours(map, pixels), (size_t)a.width * 3);
    zn_restore_spread(map, pixels, (int)s->task);
    for (int64_t i = 0; s->focus && i < pixels; i++)
        if (zn_focus_is_soft(s->focus, a.x + (int)(i % a.width), a.y + (int)(i / a.width)))
            zn_restore_hint(map, i, ZN_TASK_DENOISE);
}

/* A runner for results of this size. images: bytes of the images in memory. The lock is held. */
static zn_status runner_for(zn_codec *c, int width, int height, size_t images, zn_runner **out)
{
    const int downscale = zn_model_info_of(c->model)->downscale;
    const zn_shape shape =
        ZN_SHAPE(1, zn_round_up(height, downscale), zn_round_up(width, downscale), ZN_RESTORE_INPUTS);
    return zn_codec_runner(c, ZN_ENCODER, shape, images, out);
}

/* The lock is held. */
static zn_status run(zn_codec *c, source *from, int width, int height, zn_image **out)
{
    const zn_image *image = from->image;
    zn_runner *r;
    const size_t bytes = zn_image_bytes(image->width, image->height, image->bits) +
                         zn_image_bytes(width, height, image->bits) + from->held;
    ZN_TRY(runner_for(c, width, height, bytes, &r));
    zn_runner_clear_rows(r);
    zn_image *result;
    ZN_TRY(zn_image_new(width, height, image->bits, &result));
    result->grey = image->grey;
    const zn_runner_io io = { .read = read_source, .from = from, .write = zn_codec_write_image, .to = result };
    return zn_codec_finish(result, zn_runner_stream(r, &io), out);
}

static zn_status check(const zn_codec *c)
{
    const zn_model_info *info = zn_model_info_of(c->model);
    if (!info->restores)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: %s is an autoencoder; restoring needs a model such as zenith-restore",
                       info->path, info->architecture);
    return ZN_OK;
}

static zn_status restore(zn_codec *c, const zn_image *image, zn_task task, size_t held, zn_image **out)
{
    zn_focus focus = { 0 };
    source from = { image, task, NULL, zn_pixels_to_float, held };
    if (task == ZN_TASK_AUTO || task == ZN_TASK_JPEG) {
        ZN_TRY(zn_focus_of(image, &focus));
        from.focus = &focus;
    }
    pthread_mutex_lock(&c->lock);
    zn_status status = run(c, &from, image->width, image->height, out);
    pthread_mutex_unlock(&c->lock);
    if (status == ZN_OK && from.focus) {
        zn_focus_bound(&focus, image, *out);
        status = zn_focus_keep_clean(&focus, image, *out);
    }
    zn_focus_free(&focus);
    if (status != ZN_OK) {
        zn_image_free(*out);
        *out = NULL;
    }
    return status;
}

zn_status zn_restore(zn_codec *c, const zn_image *image, zn_task task, zn_image **out)
{
    *out = NULL;
    if (!zn_task_name((int)task))
        return ZN_FAIL(ZN_EINVALID, "task %d is not known", (int)task);
    ZN_TRY(check(c));
    zn_image *filled = NULL;
    if (task != ZN_TASK_DENOISE && task != ZN_TASK_DEBLUR)
        ZN_TRY(zn_impulses_fill(image, &filled));
    const size_t held = filled ? zn_image_bytes(image->width, image->height, image->bits) : 0;
    const zn_status status = restore(c, filled ? filled : image, task, held, out);
    zn_image_free(filled);
    return status;
}

static zn_status enlarge(zn_codec *c, const zn_image *image, zn_image **out)
{
    source from = { image, ZN_TASK_AUTO, NULL, zn_pixels_enlarged, 0 };
    if (image->width > INT_MAX / 2 || image->height > INT_MAX / 2)
        return ZN_FAIL(ZN_ELIMIT, "an image of %dx%d is too large to be enlarged", image->width, image->height);
    pthread_mutex_lock(&c->lock);
    const zn_status status = run(c, &from, 2 * image->width, 2 * image->height, out);
    pthread_mutex_unlock(&c->lock);
    return status;
}

/* Refuses what only the second pass would refuse, after the first has taken its time. */
static zn_status check_second_pass(zn_codec *c, const zn_image *image)
{
    const int width = image->width, height = image->height;
    zn_runner *r;
    if (width > INT_MAX / 4 || height > INT_MAX / 4)
        return ZN_FAIL(ZN_ELIMIT, "an image of %dx%d is too large to be enlarged by 4", width, height);
    pthread_mutex_lock(&c->lock);
    const zn_status status = runner_for(
        c, 4 * width, 4 * height,
        zn_image_bytes(2 * width, 2 * height, image->bits) + zn_image_bytes(4 * width, 4 * height, image->bits), &r);
    pthread_mutex_unlock(&c->lock);
    return status;
}

zn_status zn_upscale(zn_codec *c, const zn_image *image, int factor, zn_image **out)
{
    *out = NULL;
    if (factor != 2 && factor != 4)
        return ZN_FAIL(ZN_EINVALID, "images can be enlarged by 2 or 4, not by %d", factor);
    ZN_TRY(check(c));
    if (factor == 4 && c->compute.options.memory)
        ZN_TRY(check_second_pass(c, image));
    zn_image *twice;
    ZN_TRY(enlarge(c, image, &twice));
    if (factor == 2) {
        *out = twice;
        return ZN_OK;
    }
    const zn_status status = enlarge(c, twice, out);
    zn_image_free(twice);
    return status;
}
