/* The autoencoder: a codec (pipeline/codec) for as long as it is needed, so that large images keep to the budget. */
#include "pipeline/generate/generate.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "models/flux/flux_vae.h"
#include "pipeline/codec/codec.h"
#include "pipeline/generate/tiles.h"

#include <stdio.h>

enum { SCALE = 8 };

/* Latents of a small autoencoder as a transformer knows them: (own - mean) / deviation, a channel at a time. */
enum { MOST_CHANNELS = 128 };
typedef struct norm {
    int channels; /* 0: they are the same */
    double mean[MOST_CHANNELS], deviation[MOST_CHANNELS];
} norm;

static zn_status load_part(const zn_arch *arch, const zn_config *config, const zn_naming *naming, zn_part part,
                           const zn_weights *w, zn_model **out)
{
    if (!naming[part].present)
        return ZN_FAIL(ZN_ENOTFOUND, "there is no %s in this autoencoder", zn_part_name(part));
    ZN_TRY(zn_model_new(arch, config, out));
    const zn_status status = zn_model_load_part(*out, part, w, &naming[part]);
    if (status != ZN_OK) {
        zn_model_free(*out);
        *out = NULL;
    }
    return status;
}

/* ---- FLUX's: numbers that only config.json has come from there ---- */

static zn_status recognise_flux(const zn_part_files *files, zn_flux_form *form)
{
    zn_flux_naming naming;
    *form = (zn_flux_form){ 0 };
    if (files->count > 1)
        return ZN_FAIL(ZN_EUNSUPPORTED, "the autoencoder is in %d files: zenith convert joins them", files->count);
    ZN_TRY(zn_flux_recognise(files->files, files->count, files->config.root, form, &naming));
    if (1 << (form->levels - 1) != SCALE)
        return ZN_FAIL(ZN_EUNSUPPORTED, "the autoencoder's latents are at 1/%d, and generators need 1/%d",
                       1 << (form->levels - 1), SCALE);
    return ZN_OK;
}

static zn_status load_flux(const zn_part_files *files, zn_part part, zn_model **out)
{
    const zn_config *preset;
    const zn_arch *arch = zn_arch_find("flux-vae", &preset);
    zn_naming naming[ZN_PARTS];
    zn_config config = { 0 };
    zn_flux_form form;
    bool is_it = false;
    ZN_TRY(recognise_flux(files, &form));
    ZN_TRY(arch->recognise(files->files[0], &config, naming, &is_it));
    if (!is_it)
        return ZN_FAIL(ZN_EUNSUPPORTED, "its tensors are not those of an autoencoder");
    *(zn_flux_form *)zn_form_own(&config, sizeof form) = form;
    return load_part(arch, &config, naming, part, files->files[0], out);
}

/* ---- any other at 1/8 whose config.json has the statistics of its latents ---- */

static bool read_numbers(const zn_json_node *list, double *out, int count, double least)
{
    int i = 0;
    ZN_JSON_EACH(value, list)
    {
        if (i == count || !zn_json_double(value, &out[i]) || !(out[i] > least))
            return false;
        i++;
    }
    return i == count;
}

static bool read_norm(const zn_json_node *config, int channels, norm *out)
{
    out->channels = channels;
    return channels <= MOST_CHANNELS && read_numbers(zn_json_get(config, "latents_mean"), out->mean, channels, -1e6) &&
           read_numbers(zn_json_get(config, "latents_std"), out->deviation, channels, 1e-6);
}

/* The architecture of such an autoencoder, or NULL. */
static const zn_arch *find_other(const zn_part_files *files, zn_config *config, zn_naming naming[ZN_PARTS], norm *n)
{
    if (!files->count || !zn_json_get(files->config.root, "latents_mean"))
        return NULL;
    for (int i = 0; zn_archs[i]; i++) {
        const zn_arch *arch = zn_archs[i];
        bool is_it = false;
        if (!arch->encode || !arch->decode || arch->recognise(files->files[0], config, naming, &is_it) != ZN_OK ||
            !is_it)
            continue;
        return config->downscale == SCALE && read_norm(files->config.root, config->latent, n) ? arch : NULL;
    }
    return NULL;
}

static zn_status load(const zn_part_files *files, zn_part part, norm *n, zn_model **out)
{
    zn_naming naming[ZN_PARTS];
    zn_config config;
    const zn_arch *other = find_other(files, &config, naming, n);
    if (other)
        return load_part(other, &config, naming, part, files->files[0], out);
    n->channels = 0;
    return load_flux(files, part, out);
}

zn_status zn_generator_check_vae(const zn_part_files *files, int *channels)
{
    zn_naming other[ZN_PARTS];
    zn_flux_form form;
    zn_config config;
    norm n;
    if (find_other(files, &config, other, &n)) {
        *channels = config.latent;
        return ZN_OK;
    }
    const zn_status status = recognise_flux(files, &form);
    *channels = form.latent;
    return status;
}

static void normalise(const norm *n, zn_latent *z)
{
    const int64_t count = (int64_t)z->width * z->height * n->channels;
    for (int64_t i = 0; i < count; i++) {
        const int64_t c = i % n->channels;
        z->data[i] = (float)(((double)z->data[i] - n->mean[c]) / n->deviation[c]);
    }
}

/* A copy as the autoencoder knows it. */
static zn_status restore(const norm *n, const zn_latent *z, zn_latent **out)
{
    const int64_t count = (int64_t)z->width * z->height * n->channels;
    ZN_TRY(zn_latent_new(z->width, z->height, z->channels, out));
    (*out)->downscale = z->downscale;
    for (int64_t i = 0; i < count; i++)
        (*out)->data[i] = (float)((double)z->data[i] * n->deviation[i % n->channels] + n->mean[i % n->channels]);
    return ZN_OK;
}

/* ---- a codec for one call ---- */

/* An autoencoder's part, ready to work. */
typedef struct call call;
struct zn_autoencoder {
    zn_model *model;
    zn_codec *codec;
    norm norm;
    const call *now; /* the call that it works for */
    size_t bytes;    /* of the device */
};

/* What a call on the codec needs: progress is reported as that of one of several tiles. */
struct call {
    zn_generator *generator;
    zn_status (*run)(call *c, zn_codec *codec);
    zn_stage_progress progress;
    int tile, tiles;
    int side; /* of tiles in pixels: as in zn_generation; result: as in zn_generation_report */
    zn_part part;
    const void *from;
    void *to;
    size_t size;  /* of text in `to` */
    double bytes; /* result: memory that it takes */
    norm norm;
};

static int tell(void *self, double fraction)
{
    const call *c = ((const zn_autoencoder *)self)->now;
    return c->progress.call ? c->progress.call(c->progress.user, (c->tile + fraction) / c->tiles) : 0;
}

zn_options zn_generator_codec_options(const zn_generator *g)
{
    zn_options o = g->compute.options;
    o.context = g->compute.context;
    o.device = g->device[0] ? g->device : NULL;
    o.threads = 0;
    o.tile = ZN_TILE_AUTO;
    o.progress = NULL;
    if (o.precision == ZN_PRECISION_INT8)
        o.precision = ZN_PRECISION_DEFAULT;
    else if (o.precision == ZN_PRECISION_FP8)
        o.precision = ZN_PRECISION_BF16;
    return o;
}

void zn_autoencoder_free(zn_autoencoder *a)
{
    if (!a)
        return;
    zn_codec_free(a->codec);
    zn_model_free(a->model);
    zn_free(a);
}

static zn_status fill(zn_generator *g, zn_part part, zn_autoencoder *a)
{
    const char *path = g->paths.part[ZN_GENERATOR_VAE];
    zn_part_files files;
    ZN_TRY(zn_part_open(path, ZN_GENERATOR_VAE, &files));
    const zn_status status = load(&files, part, &a->norm, &a->model);
    zn_part_close(&files); /* the model has floats of its own */
    if (status != ZN_OK)
        return zn_fail_in_file(status, path);
    zn_options options = zn_generator_codec_options(g);
    options.progress = tell;
    options.user = a;
    if (g->compute.device ? !options.memory : g->kept > 0) /* on a device others are freed where it is needed */
        options.memory = zn_generator_budget(g) + (g->compute.device ? zn_device_overhead(g->compute.device) : 0);
    return zn_codec_new(a->model, &options, &a->codec);
}

/* Opens the part, unless that of the last image is there. */
static zn_status open_part(zn_generator *g, zn_part part)
{
    if (g->vae[part])
        return ZN_OK;
    zn_autoencoder *a = zn_calloc(1, sizeof *a);
    if (!a)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for an autoencoder");
    const zn_status status = fill(g, part, a);
    if (status != ZN_OK)
        zn_autoencoder_free(a);
    else
        g->vae[part] = a;
    return status;
}

static zn_status run_part(zn_generator *g, zn_part part, call *c)
{
    zn_status status = open_part(g, part);
    if (status == ZN_OK) {
        c->generator = g;
        c->norm = g->vae[part]->norm;
        c->tiles = 1;
        g->vae[part]->now = c;
        status = c->run(c, g->vae[part]->codec);
    }
    zn_generator_end_stage(g, ZN_GENERATOR_VAE, status);
    return status;
}

/* ---- whole if the budget allows it, else in the largest tiles that it allows ---- */

static zn_part other_of(zn_part part) { return part == ZN_DECODER ? ZN_ENCODER : ZN_DECODER; }

/* How much a new runner takes is known when it exists, so the networks of other parts are freed before it is made where
 * the budget is not simply all that there is, and otherwise if it cannot be made; then encoder or decoder too. They
 * stay when it runs again. */
static zn_status make_runner(zn_generator *g, zn_codec *codec, zn_part part, zn_shape input, size_t held,
                             zn_runner **out)
{
    zn_autoencoder **beside = &g->vae[other_of(part)];
    const zn_runner *last = codec->runner[part];
    const bool is_new = !last || !zn_shape_equal(zn_runner_input_shape(last), input);
    const bool others = g->compute.device && (g->text || g->transformer || *beside);
    if (is_new && others && g->compute.options.memory)
        zn_generator_free_others(g, ZN_GENERATOR_VAE);
    codec->beside = *beside ? (*beside)->bytes : 0;
    zn_status status = zn_codec_runner(codec, part, input, held, out);
    if (status == ZN_ENOMEM && others) {
        zn_generator_free_others(g, ZN_GENERATOR_VAE);
        zn_autoencoder_free(*beside);
        *beside = NULL;
        codec->beside = 0;
        status = zn_codec_runner(codec, part, input, held, out);
    }
    return status;
}

static zn_status prepare(zn_generator *g, zn_codec *codec, zn_part part, int width, int height, zn_runner **out)
{
    const int channels = zn_model_info_of(codec->model)->latent_channels;
    const zn_shape latent = ZN_SHAPE(1, height, width, channels);
    const size_t held =
        zn_image_bytes(width * SCALE, height * SCALE, 8) + sizeof(float) * (size_t)zn_shape_count(latent);
    ZN_TRY(make_runner(g, codec, part, part == ZN_DECODER ? latent : ZN_SHAPE(1, height * SCALE, width * SCALE, 3),
                       held, out));
    g->vae[part]->bytes = zn_runner_bytes(*out);
    const zn_autoencoder *other = g->vae[other_of(part)];
    g->needs[ZN_GENERATOR_VAE] = g->vae[part]->bytes + (other ? other->bytes : 0);
    zn_generator_make_room(g, ZN_GENERATOR_VAE, g->needs[ZN_GENERATOR_VAE]);
    return ZN_OK;
}

/* width, height: of the latent; tile: as in zn_generation. */
static zn_status choose(zn_generator *g, zn_codec *codec, zn_part part, int width, int height, int tile, zn_tiling *out,
                        zn_runner **runner)
{
    static const int whole = 1 << 20, sides[] = { 1 << 20, 64, 48, 32, 16 };
    if (tile != ZN_TILE_AUTO) {
        *out = zn_tiling_of(width, height, tile == ZN_TILE_OFF ? whole : tile / SCALE);
        return prepare(g, codec, part, out->width, out->height, runner);
    }
    zn_status status = ZN_ENOMEM;
    for (size_t i = 0; i < sizeof sides / sizeof *sides && status == ZN_ENOMEM; i++) {
        *out = zn_tiling_of(width, height, sides[i]);
        status = prepare(g, codec, part, out->width, out->height, runner);
    }
    if (status == ZN_ENOMEM && out->columns * out->rows > 1) {
        char why[1024];
        snprintf(why, sizeof why, "%s", zn_error_text());
        return ZN_FAIL(ZN_ENOMEM, "%dx%d pixels do not fit into memory, even in tiles: %s", width * SCALE,
                       height * SCALE, why);
    }
    return status;
}

/* Chooses the tiles of a call, and notes how many they are and what memory it takes. */
static zn_status choose_for(call *c, zn_codec *codec, zn_part part, int width, int height, zn_tiling *t)
{
    zn_runner *r;
    ZN_TRY(choose(c->generator, codec, part, width, height, c->side, t, &r));
    c->tiles = t->columns * t->rows;
    c->side = c->tiles == 1 ? ZN_TILE_OFF : (t->width > t->height ? t->width : t->height) * SCALE;
    c->bytes = (double)zn_runner_bytes(r) + (double)sizeof(float) * (double)zn_model_info_of(codec->model)->parameters +
               (double)zn_image_bytes(width * SCALE, height * SCALE, 8);
    return ZN_OK;
}

static void note_peak(zn_generator *g, const call *c)
{
    g->report.peak_bytes = c->bytes > g->report.peak_bytes ? c->bytes : g->report.peak_bytes;
}

/* ---- encoding ---- */

static zn_status encode_tile(void *self, const zn_image *tile, int number, zn_latent **out)
{
    call *c = self;
    c->tile = number;
    return zn_encode(c->to, tile, out);
}

static zn_status encode(call *c, zn_codec *codec)
{
    const zn_image *image = c->from;
    zn_latent **out = c->to;
    zn_tiling t;
    ZN_TRY(choose_for(c, codec, ZN_ENCODER, image->width / SCALE, image->height / SCALE, &t));
    if (c->tiles == 1)
        return zn_encode(codec, image, out);
    c->to = codec;
    return zn_tiling_encode(&t, image, encode_tile, c, out);
}

zn_status zn_generator_encode(zn_generator *g, const zn_image *image, int tile, zn_stage_progress progress,
                              zn_latent **out)
{
    call c = { .run = encode, .progress = progress, .from = image, .to = out, .side = tile };
    const zn_status status = run_part(g, ZN_ENCODER, &c);
    if (status == ZN_OK && c.norm.channels)
        normalise(&c.norm, *out);
    g->report.encoder_tiles = c.tiles;
    g->report.encoder_tile = c.side;
    note_peak(g, &c);
    return status;
}

/* ---- decoding ---- */

static zn_status decode_tile(void *self, const zn_latent *tile, int number, zn_image **out)
{
    call *c = self;
    c->tile = number;
    return zn_decode_bits(c->to, tile, 16, out);
}

static zn_status decode_latent(call *c, zn_codec *codec, const zn_latent *z)
{
    zn_image **out = c->to;
    zn_tiling t;
    ZN_TRY(choose_for(c, codec, ZN_DECODER, z->width, z->height, &t));
    if (c->tiles == 1)
        return zn_decode(codec, z, out);
    c->to = codec;
    return zn_tiling_decode(&t, z, decode_tile, c, out);
}

static zn_status decode(call *c, zn_codec *codec)
{
    zn_latent *own = NULL;
    ZN_TRY(zn_codec_check_latent(zn_model_info_of(codec->model), c->from));
    zn_status status = c->norm.channels ? restore(&c->norm, c->from, &own) : ZN_OK;
    if (status == ZN_OK)
        status = decode_latent(c, codec, own ? own : c->from);
    zn_latent_free(own);
    return status;
}

zn_status zn_generator_decode(zn_generator *g, const zn_latent *latent, int tile, zn_stage_progress progress,
                              zn_image **out)
{
    call c = { .run = decode, .progress = progress, .from = latent, .to = out, .side = tile };
    const zn_status status = run_part(g, ZN_DECODER, &c);
    g->report.decoder_tiles = c.tiles;
    g->report.decoder_tile = c.side;
    note_peak(g, &c);
    return status;
}

/* ---- previews ---- */

zn_status zn_autoencoder_open_small(const zn_generator *g, const zn_options *options, zn_autoencoder **out)
{
    zn_part_files files;
    zn_naming naming[ZN_PARTS];
    zn_config config;
    *out = NULL;
    ZN_TRY(zn_part_open(g->paths.part[ZN_GENERATOR_VAE], ZN_GENERATOR_VAE, &files));
    zn_autoencoder *a = zn_calloc(1, sizeof *a);
    zn_status status = a ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a preview");
    const zn_arch *arch = a ? find_other(&files, &config, naming, &a->norm) : NULL;
    if (arch)
        status = load_part(arch, &config, naming, ZN_DECODER, files.files[0], &a->model);
    if (arch && status == ZN_OK)
        status = zn_codec_new(a->model, options, &a->codec);
    zn_part_close(&files);
    if (arch && status == ZN_OK)
        *out = a;
    else
        zn_autoencoder_free(a);
    return status;
}

zn_status zn_autoencoder_decode(zn_autoencoder *a, const zn_latent *latent, zn_image **out)
{
    zn_latent *own;
    ZN_TRY(restore(&a->norm, latent, &own));
    const zn_status status = zn_decode(a->codec, own, out);
    zn_latent_free(own);
    return status;
}

/* ---- the plan as text ---- */

static zn_status plan(call *c, zn_codec *codec)
{
    const zn_generation *q = c->from;
    zn_tiling t;
    zn_runner *r;
    ZN_TRY(choose(c->generator, codec, c->part, q->width / SCALE, q->height / SCALE, c->side, &t, &r));
    if (t.columns * t.rows > 1)
        snprintf(c->to, c->size,
                 "%d tiles of %dx%d, mixed where they overlap%s: colours may differ a little from those of the whole "
                 "image; each %s",
                 t.columns * t.rows, t.width * SCALE, t.height * SCALE,
                 c->side == ZN_TILE_AUTO ? ", since the budget is small" : "", zn_runner_plan(r));
    else
        snprintf(c->to, c->size, "%s", zn_runner_plan(r));
    return ZN_OK;
}

zn_status zn_generator_plan_vae(zn_generator *g, const zn_generation *request, zn_part part, char *text, size_t size)
{
    return run_part(g, part,
                    &(call){ .run = plan,
                             .from = request,
                             .to = text,
                             .size = size,
                             .part = part,
                             .side = part == ZN_ENCODER ? request->encoder_tile : request->decoder_tile });
}
