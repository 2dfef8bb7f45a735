/* Features of single images, and the distance of two folders by them. */
#include "pipeline/eval/features.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "graph/compute.h"
#include "graph/exec.h"
#include "io/dataset/dataset.h"
#include "io/image/pixels/resize.h"
#include "models/model.h"
#include "ops/ops.h"

#include <string.h>

enum { SIDE = 224 }; /* that the network was trained on */

struct zn_features {
    zn_compute compute;
    zn_model *model;
    int side; /* of the images that the graph takes; 0: there is none yet */
    zn_network network;
    zn_exec *exec;
};

static zn_status find(zn_model **out)
{
    if (zn_model_find("efficientnet-lite0", out) == ZN_OK)
        return ZN_OK;
    const zn_status status = zn_model_find("efficientnet_lite0", out);
    return status == ZN_OK || status == ZN_ENOMEM
               ? status
               : ZN_FAIL(status, "no weights of efficientnet-lite0 found; docs/scores.md tells where to get them");
}

zn_status zn_features_open(const zn_options *compute, zn_features **out)
{
    zn_features *f = *out = zn_calloc(1, sizeof *f);
    if (!f)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for features");
    zn_options own;
    zn_status status;
    ZN_TRY_DONE(zn_options_read(compute, &own));
    own.device = NULL;
    ZN_TRY_DONE(zn_compute_begin(&own, &f->compute));
    ZN_TRY_DONE(find(&f->model));
    if (!f->model->info.judges || f->model->config.latent != ZN_FEATURES)
        status = ZN_FAIL(ZN_EFORMAT, "%s: this is a %s, not efficientnet-lite0", f->model->info.path,
                         f->model->info.architecture);
done:
    if (status != ZN_OK) {
        zn_features_close(f);
        *out = NULL;
    }
    return status;
}

static void drop_network(zn_features *f)
{
    zn_exec_free(f->exec);
    zn_graph_free(f->network.graph);
    f->exec = NULL;
    f->network.graph = NULL;
    f->side = 0;
}

void zn_features_close(zn_features *f)
{
    if (!f)
        return;
    drop_network(f);
    zn_model_free(f->model);
    zn_compute_end(&f->compute);
    zn_free(f);
}

static zn_status prepare(zn_features *f, int side)
{
    if (f->side == side)
        return ZN_OK;
    drop_network(f);
    ZN_TRY(zn_model_network(f->model, ZN_ENCODER, 1, side, side, &f->network));
    zn_graph_fuse(f->network.graph, &f->network.output, 1);
    const zn_exec_options options = { .pool = f->compute.pool, .packs = f->compute.packs, .whole = true };
    ZN_TRY(zn_exec_new(f->network.graph, &f->network.output, 1, &options, &f->exec));
    f->side = side;
    return ZN_OK;
}

zn_status zn_features_of(zn_features *f, const zn_image *image, float out[ZN_FEATURES])
{
    const int square = image->width < image->height ? image->width : image->height, step = f->model->config.downscale;
    const int side = square < SIDE ? square / step * step : SIDE;
    const zn_region centre = { (image->width - square) / 2, (image->height - square) / 2, square, square };
    if (!side)
        return ZN_FAIL(ZN_ESHAPE, "an image of %dx%d is too small for features: sides of at least %d are needed",
                       image->width, image->height, step);
    zn_image *small;
    ZN_TRY(prepare(f, side));
    ZN_TRY(zn_image_shrink(image, centre, side, side, &small));
    zn_pixels_to_float(small, (zn_region){ 0, 0, side, side }, f->network.input[0]->data, (size_t)side * 3);
    zn_image_free(small);
    ZN_TRY(zn_exec_run(f->exec));
    memcpy(out, f->network.output->data, sizeof *out * ZN_FEATURES);
    return ZN_OK;
}

zn_status zn_features_add(zn_features *f, const zn_image *image, zn_spread *set)
{
    float features[ZN_FEATURES];
    ZN_TRY(zn_features_of(f, image, features));
    return zn_spread_add(set, features);
}

/* ---- folders ---- */

static zn_status add_all(zn_features *f, const zn_fid_options *o, int which, zn_spread *set)
{
    zn_dataset *data;
    ZN_TRY(zn_dataset_open(o->data[which], &data));
    const int64_t count = zn_dataset_count(data);
    zn_status status = ZN_OK;
    for (int64_t i = 0; i < count && status == ZN_OK; i++) {
        zn_image *image = NULL;
        status = zn_dataset_read(data, i, &image);
        if (status == ZN_OK)
            status = zn_features_add(f, image, set);
        zn_image_free(image);
        if (status != ZN_OK && status != ZN_ENOMEM) {
            if (o->skipped)
                o->skipped(o->user, zn_dataset_name(data, i), zn_error_text());
            status = ZN_OK;
        }
        if (status == ZN_OK && o->progress && o->progress(o->user, 0.5 * which + 0.5 * (double)(i + 1) / (double)count))
            status = ZN_FAIL(ZN_ECANCELLED, "cancelled");
    }
    zn_dataset_close(data);
    return status;
}

zn_status zn_fid(const zn_fid_options *o, zn_fid_result *out)
{
    zn_spread sets[2] = { { .width = ZN_FEATURES }, { .width = ZN_FEATURES } };
    zn_features *f;
    *out = (zn_fid_result){ 0 };
    ZN_TRY(zn_features_open(o->compute, &f));
    zn_status status;
    for (int i = 0; i < 2; i++) {
        ZN_TRY_DONE(add_all(f, o, i, &sets[i]));
        out->images[i] = sets[i].count;
    }
    status = zn_frechet_distance(&sets[0], &sets[1], &out->fid);
done:
    zn_features_close(f);
    zn_spread_free(&sets[0]);
    zn_spread_free(&sets[1]);
    return status;
}
