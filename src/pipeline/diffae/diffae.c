/* The public promise of diffusion autoencoders: the handle with the network of each part as it was used last, and the
 * way from pictures to conditions. */
#include "pipeline/diffae/diffae.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/pixels/resample.h"
#include "models/diffae/diffae_files.h"
#include "ops/passes/pairs.h"
#include "train/data/pictures.h"

#include <math.h>
#include <string.h>

zn_status zn_diffae_new(const zn_model *model, const zn_options *options, zn_diffae **out)
{
    *out = NULL;
    if (!model->info.diffuses)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s is a %s, not a diffusion autoencoder", model->info.path,
                       model->info.architecture);
    if (!model->has[ZN_DECODER])
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no decoder", model->info.path);
    zn_diffae *d = zn_calloc(1, sizeof *d);
    if (!d)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a diffusion autoencoder");
    d->model = model;
    pthread_mutex_init(&d->lock, NULL);
    zn_status status = zn_compute_begin(options, &d->compute);
    if (status == ZN_OK)
        status = zn_compute_refuse_fp8(&d->compute, "diffusion autoencoders");
    if (status != ZN_OK)
        zn_diffae_free(d);
    else
        *out = d;
    return status;
}

static void forget(zn_diffae_kept *k)
{
    zn_exec_free(k->exec);
    zn_graph_free(k->network.graph);
    *k = (zn_diffae_kept){ 0 };
}

void zn_diffae_free(zn_diffae *d)
{
    if (!d)
        return;
    for (int part = 0; part < ZN_PARTS; part++)
        forget(&d->part[part]);
    zn_compute_end(&d->compute);
    pthread_mutex_destroy(&d->lock);
    zn_free(d);
}

int zn_diffae_width(const zn_diffae *d) { return d->model->config.latent; }

size_t zn_diffae_noise_size(const zn_diffae *d, int count)
{
    const size_t side = (size_t)zn_diffae_side(d);
    const zn_mamba_form *k = zn_diffae_mamba(&d->model->config);
    return (size_t)count * side * side * (k->kind ? (size_t)zn_field_channels(k) : ZN_DIFFAE_CHANNELS);
}

zn_status zn_diffae_network(zn_diffae *d, zn_part part, int64_t n, zn_diffae_kept **out)
{
    zn_diffae_kept *k = &d->part[part];
    *out = k;
    if (!d->model->has[part])
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no %s", d->model->info.path, zn_part_name(part));
    if (k->exec && k->n == n)
        return ZN_OK;
    forget(k);
    const int side = zn_diffae_side(d);
    ZN_TRY(zn_model_network(d->model, part, n, side, side, &k->network));
    zn_graph_fuse(k->network.graph, &k->network.output, 1);
    zn_graph_fuse_pairs(k->network.graph, &k->network.output, 1, d->compute.math, zn_device_flags(d->compute.device));
    k->n = n;
    const zn_exec_options options = { .pool = d->compute.pool,
                                      .device = d->compute.device,
                                      .packs = d->compute.packs,
                                      .math = d->compute.math,
                                      .whole = true };
    return zn_exec_new(k->network.graph, &k->network.output, 1, &options, &k->exec);
}

double zn_diffae_precision_share(const zn_diffae *d)
{
    double share = NAN;
    for (int part = 0; part < ZN_PARTS; part++)
        if (d->part[part].exec)
            share = fmax(share, zn_exec_coarse(d->part[part].exec));
    return share;
}

zn_status zn_diffae_check_picture(const zn_diffae *d, const zn_image *picture)
{
    const int side = zn_diffae_side(d);
    if (picture->width == side && picture->height == side)
        return ZN_OK;
    return ZN_FAIL(ZN_ESHAPE, "the image is %dx%d, but %s is made for %dx%d", picture->width, picture->height,
                   d->model->info.architecture, side, side);
}

zn_status zn_diffae_fit(const zn_diffae *d, const zn_image *photo, zn_image **out)
{
    return zn_image_fit(photo, zn_diffae_side(d), zn_diffae_side(d), out);
}

static zn_status encode(zn_diffae *d, const zn_image *picture, float *cond)
{
    zn_diffae_kept *k;
    ZN_TRY(zn_diffae_check_picture(d, picture));
    if (!zn_diffae_width(d))
        return ZN_OK;
    ZN_TRY(zn_diffae_network(d, ZN_ENCODER, 1, &k));
    zn_picture_signed(picture, k->network.input[0]->data);
    ZN_TRY(zn_exec_run(k->exec));
    ZN_TRY(zn_exec_check_finite(k->exec));
    memcpy(cond, k->network.output->data, sizeof *cond * (size_t)zn_diffae_width(d));
    return ZN_OK;
}

zn_status zn_diffae_encode(zn_diffae *d, const zn_image *picture, float *cond)
{
    pthread_mutex_lock(&d->lock);
    const zn_status status = encode(d, picture, cond);
    pthread_mutex_unlock(&d->lock);
    return status;
}

const float *zn_diffae_statistic(const zn_diffae *d, const char *name)
{
    const zn_model_parameter *p = zn_model_parameter_find(d->model, name);
    return p ? p->data : NULL;
}
