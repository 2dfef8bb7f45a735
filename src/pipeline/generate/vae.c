/* The autoencoder: a codec (pipeline/codec) for as long as it is needed, so that large images keep to the budget. */
#include "pipeline/generate/generate.h"

#include "base/fail.h"
#include "models/flux/flux_vae.h"
#include "pipeline/codec/codec.h"
#include "pipeline/generate/tiles.h"

#include <stdio.h>

enum { SCALE = 8 };

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

/* ---- a codec for one call ---- */

/* What a call on the codec needs: progress is reported as that of one of several tiles. */
typedef struct call {
    zn_status (*run)(struct call *c, zn_codec *codec);
    zn_stage_progress progress;
    int tile, tiles;
    const void *from;
    void *to;
    size_t size;  /* of text in `to` */
    double bytes; /* result: memory that it takes */
} call;

static int tell(void *self, double fraction)
{
    const call *c = self;
    return c->progress.call ? c->progress.call(c->progress.user, (c->tile + fraction) / c->tiles) : 0;
}

zn_options zn_generator_codec_options(const zn_generator *g)
{
    zn_options o = g->compute.options;
    o.context = g->compute.context;
    o.threads = 0;
    o.progress = NULL;
    o.precision = o.precision == ZN_PRECISION_INT8 ? ZN_PRECISION_DEFAULT : o.precision;
    return o;
}

static zn_status run_codec(zn_generator *g, const zn_model *model, call *c)
{
    zn_options options = zn_generator_codec_options(g);
    zn_codec *codec;
    options.progress = tell;
    options.user = c;
    c->tiles = 1;
    ZN_TRY(zn_codec_new(model, &options, &codec));
    const zn_status status = c->run(c, codec);
    zn_codec_free(codec);
    return status;
}

static zn_status run_part(zn_generator *g, zn_part part, call *c)
{
    const char *path = g->paths.part[ZN_GENERATOR_VAE];
    zn_part_files files;
    zn_model *model = NULL;
    ZN_TRY(zn_part_open(path, ZN_GENERATOR_VAE, &files));
    zn_status status = load(&files, part, &model);
    zn_part_close(&files); /* the model has floats of its own */
    if (status != ZN_OK)
        return zn_fail_in_file(status, path);
    status = run_codec(g, model, c);
    zn_model_free(model);
    return status;
}

/* ---- encoding ---- */

static zn_status encode(call *c, zn_codec *codec) { return zn_encode(codec, c->from, c->to); }

zn_status zn_generator_encode(zn_generator *g, const zn_image *image, zn_stage_progress progress, zn_latent **out)
{
    return run_part(g, ZN_ENCODER, &(call){ .run = encode, .progress = progress, .from = image, .to = out });
}

/* ---- decoding: whole if the budget allows it, else in the largest tiles that it allows ---- */

static zn_status prepare(zn_codec *codec, int width, int height, int channels, zn_runner **out)
{
    const zn_shape shape = ZN_SHAPE(1, height, width, channels);
    const size_t held = zn_image_bytes(width * SCALE, height * SCALE, 8);
    return zn_codec_runner(codec, ZN_DECODER, shape, held + sizeof(float) * (size_t)zn_shape_count(shape), out);
}

static zn_status choose(zn_codec *codec, int width, int height, int channels, zn_tiling *out, zn_runner **runner)
{
    static const int sides[] = { 1 << 20, 64, 48, 32, 16 };
    zn_status status = ZN_ENOMEM;
    for (size_t i = 0; i < sizeof sides / sizeof *sides && status == ZN_ENOMEM; i++) {
        *out = zn_tiling_of(width, height, sides[i]);
        status = prepare(codec, out->width, out->height, channels, runner);
    }
    return status;
}

static zn_status decode_tile(void *self, const zn_latent *tile, int number, zn_image **out)
{
    call *c = self;
    c->tile = number;
    return zn_decode_bits(c->to, tile, 16, out);
}

static zn_status decode(call *c, zn_codec *codec)
{
    const zn_latent *z = c->from;
    zn_image **out = c->to;
    zn_tiling t;
    zn_runner *r;
    ZN_TRY(zn_codec_check_latent(zn_model_info_of(codec->model), z));
    ZN_TRY(choose(codec, z->width, z->height, z->channels, &t, &r));
    c->tiles = t.columns * t.rows;
    c->bytes = (double)zn_runner_bytes(r) + (double)sizeof(float) * (double)zn_model_info_of(codec->model)->parameters +
               (double)zn_image_bytes(z->width * SCALE, z->height * SCALE, 8);
    if (c->tiles == 1)
        return zn_decode(codec, z, out);
    c->to = codec;
    return zn_tiling_decode(&t, z, decode_tile, c, out);
}

zn_status zn_generator_decode(zn_generator *g, const zn_latent *latent, zn_stage_progress progress, zn_image **out)
{
    call c = { .run = decode, .progress = progress, .from = latent, .to = out };
    const zn_status status = run_part(g, ZN_DECODER, &c);
    g->report.decoder_tiles = c.tiles;
    g->report.peak_bytes = c.bytes > g->report.peak_bytes ? c.bytes : g->report.peak_bytes;
    return status;
}

/* from: width and height of the image. */
static zn_status plan(call *c, zn_codec *codec)
{
    const int *sides = c->from;
    const int channels = zn_model_info_of(codec->model)->latent_channels;
    zn_tiling t;
    zn_runner *r;
    ZN_TRY(choose(codec, sides[0] / SCALE, sides[1] / SCALE, channels, &t, &r));
    if (t.columns * t.rows > 1)
        snprintf(c->to, c->size,
                 "%d tiles of %dx%d, mixed where they overlap, since the budget is small: colours may differ a little "
                 "from those of the whole image; each %s",
                 t.columns * t.rows, t.width * SCALE, t.height * SCALE, zn_runner_plan(r));
    else
        snprintf(c->to, c->size, "%s", zn_runner_plan(r));
    return ZN_OK;
}

zn_status zn_generator_plan_decoder(zn_generator *g, int width, int height, char *text, size_t size)
{
    const int sides[] = { width, height };
    return run_part(g, ZN_DECODER, &(call){ .run = plan, .from = sides, .to = text, .size = size });
}
