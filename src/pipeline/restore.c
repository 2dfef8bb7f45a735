/* Restoring: the picture and a hint through a network from picture to picture. */
#include <zenith/restore.h>

#include "base/fail.h"
#include "io/image/pixels.h"
#include "pipeline/codec.h"

/* The picture with its edge repeated up to the network's step, and a plane for each task beside its three colours. The
 * colours are put into the end of the map and spread from there. */
static void fill_input(const zn_image *image, zn_task task, zn_shape s, float *map)
{
    const int64_t pixels = s.dim[1] * s.dim[2], inputs = s.dim[3];
    const float *rgb = map + pixels * (inputs - 3);
    zn_pixels_to_float(image, (zn_region){ 0, 0, (int)s.dim[2], (int)s.dim[1] }, map + pixels * (inputs - 3),
                       (size_t)s.dim[2] * 3);
    for (int64_t i = 0; i < pixels; i++) {
        const float r = rgb[3 * i], g = rgb[3 * i + 1], b = rgb[3 * i + 2];
        float *to = map + i * inputs;
        to[0] = r, to[1] = g, to[2] = b;
        for (int64_t k = 3; k < inputs; k++)
            to[k] = k == 2 + (int64_t)task;
    }
}

static zn_status restore(zn_codec *c, const zn_image *image, zn_task task, zn_image **out)
{
    const zn_model_info *info = zn_model_info_of(c->model);
    const int64_t h = zn_round_up(image->height, info->downscale), w = zn_round_up(image->width, info->downscale);
    zn_runner *r;
    ZN_TRY(zn_codec_runner(c, ZN_ENCODER, ZN_SHAPE(1, h, w, zn_model_inputs(c->model, ZN_ENCODER)), &r));
    zn_runner_clear_rows(r);
    fill_input(image, task, zn_runner_input_shape(r), zn_runner_input(r));
    ZN_TRY(zn_runner_run(r));
    zn_image *result;
    ZN_TRY(zn_image_new(image->width, image->height, image->bits, &result));
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
