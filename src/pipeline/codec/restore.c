/* Restoring: the picture and a hint through a network from picture to picture. */
#include <zenith/restore.h>

#include "base/fail.h"
#include "io/image/pixels/pixels.h"
#include "models/zenith/zenith.h"
#include "pipeline/codec/codec.h"

typedef struct damaged {
    const zn_image *image;
    zn_task task;
} damaged;

static void read_damaged(void *from, zn_region a, float *map)
{
    const damaged *d = from;
    const int64_t pixels = (int64_t)a.width * a.height;
    zn_pixels_to_float(d->image, a, zn_restore_colours(map, pixels), (size_t)a.width * 3);
    zn_restore_spread(map, pixels, (int)d->task);
}

static zn_status restore(zn_codec *c, const zn_image *image, zn_task task, zn_image **out)
{
    const zn_model_info *info = zn_model_info_of(c->model);
    const int64_t h = zn_round_up(image->height, info->downscale), w = zn_round_up(image->width, info->downscale);
    zn_runner *r;
    const size_t bytes = zn_image_bytes(image->width, image->height, image->bits);
    ZN_TRY(zn_codec_runner(c, ZN_ENCODER, ZN_SHAPE(1, h, w, ZN_RESTORE_INPUTS), 2 * bytes, &r));
    zn_runner_clear_rows(r);
    zn_image *result;
    ZN_TRY(zn_image_new(image->width, image->height, image->bits, &result));
    result->grey = image->grey;
    damaged from = { image, task };
    const zn_runner_io io = { .read = read_damaged, .from = &from, .write = zn_codec_write_image, .to = result };
    return zn_codec_finish(result, zn_runner_stream(r, &io), out);
}

zn_status zn_restore(zn_codec *c, const zn_image *image, zn_task task, zn_image **out)
{
    *out = NULL;
    if (!zn_task_name((int)task))
        return ZN_FAIL(ZN_EINVALID, "task %d is not known", (int)task);
    const zn_model_info *info = zn_model_info_of(c->model);
    if (!info->restores)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: %s is an autoencoder; restoring needs a model such as zenith-restore",
                       info->path, info->architecture);
    pthread_mutex_lock(&c->lock);
    const zn_status status = restore(c, image, task, out);
    pthread_mutex_unlock(&c->lock);
    return status;
}
