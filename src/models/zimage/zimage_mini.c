/* zimage-mini: the form, and the values that training begins with. */
#include "models/zimage/zimage_mini.h"

#include "base/fail.h"
#include "models/arch.h"
#include "nn/start.h"

#include <math.h>
#include <string.h>

enum { WORDS = ZN_ZIMAGE_BLOCK, HEAD = 64 };

/* 384 channels, 8 layers: 21 million parameters with the text encoder. */
static const zn_zimage_mini_form mini = {
    .dit = { .dim = 384,
             .heads = 6,
             .layers = 8,
             .refiners = 1,
             .caption = 256,
             .channels = 16,
             .inner = 1024,
             .time = 256,
             .modulation = 128,
             .axes = { 16, 24, 24 },
             .eps = 1e-5f,
             .theta = 256,
             .time_scale = 1000 },
    /* the states before the last block are used, so there is one block less */
    .text = { .vocabulary = 1024,
              .hidden = 256,
              .layers = 3,
              .heads = 4,
              .groups = 2,
              .head = 64,
              .inner = 640,
              .eps = 1e-6f,
              .theta = 1e6 },
};

static const zn_config configs[] = {
    { .name = "zimage-mini",
      .aliases = "",
      .description = "Z-Image in a small form with its text encoder: images from prompts, trained here",
      .latent = 16,
      .downscale = ZN_ZIMAGE_SCALE * ZN_ZIMAGE_PATCH,
      .width = 384,
      .preset_form = &mini },
    { .name = NULL },
};

static const zn_preset presets[] = {
    { "generate", "images from prompts: a small Z-Image and its text encoder, from images with captions",
      "model: zimage-mini\ntask: generate\nsteps: 30000\nbatch: 64\nlr: 5e-4\nwarmup: 500\nema: 0.9995\n"
      "eval_every: 1000\ncheckpoint_every: 1000\n" },
    { NULL, NULL, NULL },
};

/* ---- the networks ---- */

static zn_node *features_of(zn_scope s, zn_node *ids, const zn_qwen3_form *k)
{
    return zn_qwen3(s, ids, k, k->layers - 1, NULL);
}

static int inputs(const zn_config *k, zn_part part, int64_t n, int64_t h, int64_t w, zn_shape *shapes)
{
    const zn_zimage_mini_form *f = zn_form_of(k);
    if (part == ZN_ENCODER) {
        shapes[0] = ZN_SHAPE(n, 1, WORDS, 1);
        return 1;
    }
    shapes[0] = ZN_SHAPE(n, h / ZN_ZIMAGE_SCALE, w / ZN_ZIMAGE_SCALE, f->dit.channels);
    shapes[1] = ZN_SHAPE(1, 1, n, ZN_ZIMAGE_TIME);
    shapes[2] = ZN_SHAPE(n, 1, WORDS, f->dit.caption);
    return 3;
}

static zn_node *network(zn_scope s, zn_part part, zn_node *const *in, const zn_config *k)
{
    const zn_zimage_mini_form *f = zn_form_of(k);
    if (part == ZN_ENCODER)
        return features_of(s, in[0], &f->text);
    zn_node *caption = zn_zimage_caption(s, in[2], &f->dit), *times = zn_zimage_modulation(s, in[1], &f->dit);
    return zn_zimage(s, in[0], times, caption, &f->dit);
}

zn_node *zn_zimage_mini_velocity(zn_graph *g, zn_node *latent, zn_node *times, zn_node *ids,
                                 const zn_zimage_mini_form *k)
{
    const zn_scope s = { g, "" };
    zn_node *caption = zn_zimage_captions(s, features_of(s, ids, &k->text), ids, &k->dit);
    return zn_zimage(s, latent, zn_zimage_modulation(s, times, &k->dit), caption, &k->dit);
}

/* ---- as a model ---- */

/* Published folders are not one file: pipeline/generate finds them. */
static zn_status recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it)
{
    (void)w;
    (void)k;
    memset(naming, 0, sizeof *naming * ZN_PARTS);
    *is_it = false;
    return ZN_OK;
}

static zn_status resize(zn_config *k, const zn_wishes *want)
{
    zn_zimage_mini_form *f = zn_form_own(k, sizeof *f);
    const int width = want->width ? want->width : f->dit.dim;
    if (width % HEAD)
        return ZN_FAIL(ZN_EINVALID, "%s needs a width that is a multiple of %d, not %d", k->name, HEAD, width);
    f->dit.dim = k->width = width;
    f->dit.heads = width / HEAD;
    f->dit.inner = (width * 8 / 3 + 63) / 64 * 64;
    f->dit.channels = k->latent = want->latent ? want->latent : k->latent;
    f->dit.layers = want->layers ? want->layers : f->dit.layers;
    f->text.vocabulary = want->vocabulary ? want->vocabulary : f->text.vocabulary;
    return ZN_OK;
}

static int layers(const zn_config *k) { return ((const zn_zimage_mini_form *)zn_form_of(k))->dit.layers; }

/* Rows of weights, [..][inputs]. */
static void start_rows(const zn_fresh *p, float a)
{
    zn_start_normal(p, a / sqrtf((float)p->shape.dim[p->shape.rank - 1]));
}

/* Where the network says nothing else (zimage_dit.c). */
static const zn_start start[ZN_ROLES] = { [ZN_ROLE_WEIGHT] = { start_rows, 1 },
                                          [ZN_ROLE_BIAS] = { zn_start_value, 0 },
                                          [ZN_ROLE_GAIN] = { zn_start_value, 1 },
                                          [ZN_ROLE_EMBEDDING] = { zn_start_normal, 0.25f } };

const zn_arch zn_arch_zimage = { .name = "zimage",
                                 .configs = configs,
                                 .presets = presets,
                                 .scope = { "", "" },
                                 .can = ZN_GENERATES,
                                 .named_only = true,
                                 .network = network,
                                 .inputs = inputs,
                                 .recognise = recognise,
                                 .resize = resize,
                                 .layers = layers,
                                 .start = start };
