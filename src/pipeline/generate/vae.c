/* The autoencoder: a codec (pipeline/codec) for as long as it is needed, so that large images keep to the budget. */
#include "pipeline/generate/generate.h"

#include "base/fail.h"
#include "models/flux/flux_vae.h"
#include "pipeline/codec/codec.h"

#include <stdio.h>

/* The model of the parts that are asked for; numbers that only config.json has come from there. */
static zn_status load(const zn_part_files *files, zn_part part, zn_model **out)
{
    const zn_config *preset;
    const zn_arch *arch = zn_arch_find("flux-vae", &preset);
    zn_naming naming[ZN_PARTS];
    zn_config config;
    zn_flux_naming own;
    zn_flux_form form;
    bool is_it = false;
    ZN_TRY(arch->recognise(files->files[0], &config, naming, &is_it));
    ZN_TRY(zn_flux_recognise(files->files, files->count, files->config.root, &form, &own));
    *(zn_flux_form *)zn_form_own(&config, sizeof form) = form;
    if (!naming[part].present)
        return ZN_FAIL(ZN_ENOTFOUND, "there is no %s in this autoencoder", zn_part_name(part));
    ZN_TRY(zn_model_new(arch, &config, out));
    const zn_status status = zn_model_load_part(*out, part, files->files[0], &naming[part]);
    if (status != ZN_OK)
        zn_model_free(*out);
    return status;
}

zn_status zn_generator_check_vae(const zn_part_files *files)
{
    zn_flux_naming naming;
    zn_flux_form form;
    return zn_flux_recognise(files->files, files->count, files->config.root, &form, &naming);
}

typedef zn_status (*codec_fn)(zn_codec *c, const void *from, void *to);

static zn_status encode(zn_codec *c, const void *from, void *to) { return zn_encode(c, from, to); }
static zn_status decode(zn_codec *c, const void *from, void *to) { return zn_decode(c, from, to); }

static zn_status run_codec(zn_generator *g, const zn_model *model, zn_stage_progress progress, codec_fn call,
                           const void *from, void *to)
{
    zn_options options = g->compute.options;
    zn_codec *codec;
    options.context = g->compute.context;
    options.threads = 0;
    options.progress = progress.call;
    options.user = progress.user;
    ZN_TRY(zn_codec_new(model, &options, &codec));
    const zn_status status = call(codec, from, to);
    zn_codec_free(codec);
    return status;
}

static zn_status run_part(zn_generator *g, zn_part part, zn_stage_progress progress, codec_fn call, const void *from,
                          void *to)
{
    const char *path = g->paths.part[ZN_GENERATOR_VAE];
    zn_part_files files;
    zn_model *model = NULL;
    ZN_TRY(zn_part_open(path, ZN_GENERATOR_VAE, &files));
    zn_status status = load(&files, part, &model);
    zn_part_close(&files); /* the model has floats of its own */
    if (status != ZN_OK)
        return zn_fail_in_file(status, path);
    status = run_codec(g, model, progress, call, from, to);
    zn_model_free(model);
    return status;
}

zn_status zn_generator_encode(zn_generator *g, const zn_image *image, zn_stage_progress progress, zn_latent **out)
{
    return run_part(g, ZN_ENCODER, progress, encode, image, out);
}

zn_status zn_generator_decode(zn_generator *g, const zn_latent *latent, zn_stage_progress progress, zn_image **out)
{
    return run_part(g, ZN_DECODER, progress, decode, latent, out);
}

typedef struct planned {
    zn_shape latent;
    size_t held; /* bytes of latent and image */
    char *text;
    size_t size;
} planned;

static zn_status plan(zn_codec *c, const void *from, void *to)
{
    (void)to;
    const planned *p = from;
    zn_runner *r;
    ZN_TRY(zn_codec_runner(c, ZN_DECODER, p->latent, p->held, &r));
    snprintf(p->text, p->size, "%s", zn_runner_plan(r));
    return ZN_OK;
}

zn_status zn_generator_plan_decoder(zn_generator *g, int width, int height, char *text, size_t size)
{
    enum { SCALE = 8, CHANNELS = 16 };
    const zn_shape latent = ZN_SHAPE(1, height / SCALE, width / SCALE, CHANNELS);
    const planned p = { latent, zn_image_bytes(width, height, 8) + sizeof(float) * (size_t)zn_shape_count(latent), text,
                        size };
    return run_part(g, ZN_DECODER, (zn_stage_progress){ 0 }, plan, &p, NULL);
}
