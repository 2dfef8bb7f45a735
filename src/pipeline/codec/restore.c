/* Restoring: the picture and a hint through a network from picture to picture. */
#include <zenith/restore.h>

#include "base/fail.h"
#include "io/image/pixels.h"
#include "models/zenith/zenith.h"
#include "pipeline/codec/codec.h"

static zn_status restore(zn_codec *c, const zn_image *image, zn_task task, zn_image **out)
{
    const zn_model_info *info = zn_model_info_of(c->model);
    const int64_t h = zn_round_up(image->height, info->downscale), w = zn_round_up(image->width, info->downscale);
    zn_runner *r;
    ZN_TRY(zn_codec_runner(c, ZN_ENCODER, ZN_SHAPE(1, h, w, ZN_RESTORE_INPUTS), &r));
    zn_runner_clear_rows(r);
    float *map = zn_runner_input(r);
    zn_pixels_to_float(image, (zn_region){ 0, 0, (int)w, (int)h }, zn_restore_colours(map, h * w), (size_t)w * 3);
    zn_restore_spread(map, h * w, (int)task);
    ZN_TRY(zn_runner_run(r));
    zn_image *result;
    ZN_TRY(zn_image_new(image->width, image->height, image->bits, &result));
    result->grey = image->grey;
    zn_pixels_from_float(zn_runner_output(r), (size_t)w * 3, result, (zn_region){ 0, 0, image->width, image->height });
    *out = result;
    return ZN_OK;
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
