/* Wan: the autoencoders 2.1 and 2.2, pictures with traces, clips whole and in pieces (specification 2 and 3), large
 * pictures in tiles and the names of diffusers (2.1, 8). */
#include "clips.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "models/wan/wan.h"
#include "models/wan/wan_tiles.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool matches(const golden *g)
{
    const char *own = zn_weights_metadata(g->file, "case");
    return own && (strcmp(own, "wan21") == 0 || strcmp(own, "wan22") == 0);
}

static void read_numbers(const zn_json_node *list, float *out, int most)
{
    int count = 0;
    ZN_JSON_EACH(n, list)
    {
        double value;
        if (count < most && zn_json_double(n, &value))
            out[count++] = (float)value;
    }
}

static void form_of(const golden *g, zn_wan_form *k)
{
    *k = (zn_wan_form){ .staged = strcmp(zn_weights_metadata(g->file, "case"), "wan22") == 0,
                        .width = (int)golden_int(g, "dim", 0),
                        .blocks = (int)golden_int(g, "num_res_blocks", 0),
                        .latent = (int)golden_int(g, "z_dim", 0) };
    k->back_width = (int)golden_int(g, "dec_dim", k->width);
    ZN_JSON_EACH(m, zn_json_get(g->config, "dim_mult"))
    {
        int64_t value = 0;
        if (k->levels < ZN_WAN_LEVELS && zn_json_i64(m, &value))
            k->mult[k->levels++] = (int)value;
    }
    int level = 0;
    ZN_JSON_EACH(t, zn_json_get(g->config, "temperal_downsample"))
    {
        if (level < ZN_WAN_LEVELS)
            k->time[level++] = t->kind == ZN_JSON_BOOL && t->value.magnitude;
    }
    read_numbers(zn_json_get(g->config, "latents_mean"), k->mean, ZN_WAN_LATENT);
    read_numbers(zn_json_get(g->config, "latents_std"), k->deviation, ZN_WAN_LATENT);
}

static zn_node *encoder(zn_scope s, zn_node *x, const void *k, zn_stream *m) { return zn_wan_encoder(s, x, k, m); }
static zn_node *decoder(zn_scope s, zn_node *x, const void *k, zn_stream *m) { return zn_wan_decoder(s, x, k, m); }

/* out.image.trace.NAME is the result of a layer or block: of the last sum or convolution that bears its name. */
static void look(golden *g, zn_graph *graph, void *self)
{
    zn_status *status = self;
    for (int64_t i = 0; i < zn_weights_count(g->file) && *status == ZN_OK; i++) {
        const char *name = zn_weights_at(g->file, i)->name + 4, *layer = name + 12;
        const zn_node *last = NULL;
        if (strncmp(name - 4, "out.image.trace.", 16) != 0)
            continue;
        const size_t length = strlen(layer);
        for (int k = 0; k < zn_graph_count(graph); k++) {
            const zn_node *n = zn_graph_at(graph, k);
            if ((n->op == &zn_op_add || n->op == &zn_op_conv) && strncmp(n->name, layer, length) == 0 &&
                (n->name[length] == '.' || n->name[length] == 0))
                last = n;
        }
        if (last)
            *status = clip_compare(g, name, &(clip){ last->shape, last->data }, 0, last->shape.dim[0], CHANNELS_FIRST);
    }
}

/* out.FORM.mu of the encoder's result, [..,2C] of which the first half are means; out.FORM.mu_raw before they are
 * normalised. */
static zn_status compare_means(golden *g, const zn_wan_form *k, const char *form, const clip *y)
{
    char name[64];
    clip mean = { y->shape, NULL };
    mean.shape.dim[3] = k->latent;
    const int64_t rows = zn_shape_count(mean.shape) / k->latent;
    ZN_TRY(zn_alloc_for("means", sizeof(float) * (size_t)(rows * k->latent), (void **)&mean.data));
    for (int64_t i = 0; i < rows; i++)
        memcpy(mean.data + i * k->latent, y->data + i * 2 * k->latent, sizeof(float) * (size_t)k->latent);
    snprintf(name, sizeof name, "%s.mu_raw", form);
    zn_status status = clip_compare(g, name, &mean, 0, mean.shape.dim[0], CHANNELS_FIRST);
    zn_wan_normalise(k, mean.data, rows);
    snprintf(name, sizeof name, "%s.mu", form);
    if (status == ZN_OK)
        status = clip_compare(g, name, &mean, 0, mean.shape.dim[0], CHANNELS_FIRST);
    clip_free(&mean);
    return status;
}

static zn_status compare_clip(golden *g, const zn_wan_form *k, const char *form, const clip *y)
{
    char name[64];
    (void)k;
    snprintf(name, sizeof name, "%s.dec", form);
    return clip_compare(g, name, y, 0, y->shape.dim[0], CHANNELS_FIRST);
}

/* The file as a model, whose latents are normalised by nobody, since a file does not say how. */
static zn_status check_model(golden *g, const zn_wan_form *k, const char *form, zn_part part)
{
    char name[64];
    clip x = { 0 }, y = { 0 };
    zn_status status;
    snprintf(name, sizeof name, "%s.%s", form, part == ZN_ENCODER ? "x" : "z");
    ZN_TRY_DONE(clip_load(g, name, CHANNELS_FIRST, &x));
    if (part == ZN_DECODER)
        zn_wan_restore(k, x.data, zn_shape_count(x.shape) / k->latent);
    ZN_TRY_DONE(clip_model(g, part, &x, true, &y));
    if (part == ZN_ENCODER)
        zn_wan_normalise(k, y.data, zn_shape_count(y.shape) / k->latent);
    snprintf(name, sizeof name, "%s.%s", form, part == ZN_ENCODER ? "mu" : "dec");
    status = clip_compare(g, name, &y, 0, y.shape.dim[0], CHANNELS_FIRST);
done:
    clip_free(&x);
    clip_free(&y);
    return status;
}

typedef zn_status (*compare_fn)(golden *g, const zn_wan_form *k, const char *form, const clip *y);

/* Whole and, unless `sizes` is NULL, in two ways of pieces. */
static zn_status check(golden *g, const clip_network *n, const clip *x, const char *form, compare_fn compare,
                       const int (*sizes)[2])
{
    clip y = { 0 };
    zn_status status = clip_whole(g, n, x, &y);
    if (status == ZN_OK)
        status = compare(g, n->k, form, &y);
    for (int i = 0; i < 2 && sizes && status == ZN_OK; i++) {
        clip_free(&y);
        status = clip_pieces(g, n, x, sizes[i], 2, &y);
        if (status == ZN_OK)
            status = compare(g, n->k, form, &y);
    }
    clip_free(&y);
    return status;
}

static zn_status check_form(golden *g, const zn_wan_form *k, const char *form, bool traced)
{
    static const int pictures[2][2] = { { 1, 4 }, { 5, 4 } }, latents[2][2] = { { 1, 1 }, { 1, 2 } };
    char name[64];
    clip x = { 0 };
    zn_status status, seen = ZN_OK;
    clip_network n = { .prefix = "", .build = encoder, .k = k, .look = traced ? look : NULL, .self = &seen };
    snprintf(name, sizeof name, "%s.x", form);
    ZN_TRY_DONE(clip_load(g, name, CHANNELS_FIRST, &x));
    ZN_TRY_DONE(check(g, &n, &x, form, compare_means, traced ? NULL : pictures));
    clip_free(&x);
    snprintf(name, sizeof name, "%s.z", form);
    ZN_TRY_DONE(clip_load(g, name, CHANNELS_FIRST, &x));
    zn_wan_restore(k, x.data, zn_shape_count(x.shape) / k->latent);
    n.build = decoder;
    ZN_TRY_DONE(check(g, &n, &x, form, compare_clip, traced ? NULL : latents));
    status = seen;
done:
    clip_free(&x);
    return status;
}

static zn_status run(golden *g)
{
    zn_wan_form k;
    form_of(g, &k);
    ZN_TRY(check_form(g, &k, "image", true));
    ZN_TRY(check_form(g, &k, "image", false));
    ZN_TRY(check_form(g, &k, "clip", false));
    for (int part = ZN_ENCODER; part <= ZN_DECODER; part++) {
        ZN_TRY(check_model(g, &k, "image", (zn_part)part));
        ZN_TRY(check_model(g, &k, "clip", (zn_part)part));
    }
    g->math = ZN_PRECISION_BF16; /* against the exact values */
    const zn_status status = check_form(g, &k, "clip", false);
    g->math = ZN_PRECISION_DEFAULT;
    return status;
}

const golden_kind golden_wan_vae = { "wan autoencoder", matches, run };

/* ---- tiles ---- */

static bool tiled_matches(const golden *g)
{
    const char *own = zn_weights_metadata(g->file, "case");
    return own && (strcmp(own, "wan21_tiled") == 0 || strcmp(own, "wan22_tiled") == 0);
}

typedef struct tiled {
    golden *weights; /* the file that has them */
    clip_network network;
} tiled;

static zn_status one_tile(void *self, const float *x, zn_shape in, float *y, zn_shape out)
{
    const tiled *t = self;
    clip whole, given = { in, NULL };
    ZN_TRY(zn_alloc_for("a tile", sizeof(float) * (size_t)zn_shape_count(in), (void **)&given.data));
    memcpy(given.data, x, sizeof(float) * (size_t)zn_shape_count(in));
    zn_status status = clip_whole(t->weights, &t->network, &given, &whole);
    if (status == ZN_OK && !zn_shape_equal(whole.shape, out))
        status = ZN_FAIL(ZN_ESHAPE, "a tile has another size than its place");
    if (status == ZN_OK)
        memcpy(y, whole.data, sizeof(float) * (size_t)zn_shape_count(out));
    clip_free(&whole);
    clip_free(&given);
    return status;
}

static void clamp(clip *y)
{
    for (int64_t i = 0; i < zn_shape_count(y->shape); i++)
        y->data[i] = fminf(fmaxf(y->data[i], -1), 1);
}

/* out.PART_whole and out.PART_tiled. */
static zn_status check_tiles(golden *g, tiled *t, const char *input, const char *part, const zn_wan_tiles *tiles)
{
    const bool decodes = t->network.build == decoder;
    clip x = { 0 }, y = { 0 };
    char name[64];
    zn_status status;
    ZN_TRY_DONE(clip_load(g, input, CHANNELS_FIRST, &x));
    ZN_TRY_DONE(clip_whole(t->weights, &t->network, &x, &y));
    const zn_shape out = y.shape;
    if (decodes)
        clamp(&y);
    snprintf(name, sizeof name, "%s_whole", part);
    ZN_TRY_DONE(clip_compare(g, name, &y, 0, out.dim[0], CHANNELS_FIRST));
    ZN_TRY_DONE(zn_wan_tiled(tiles, one_tile, t, x.data, x.shape, y.data, out));
    if (decodes)
        clamp(&y);
    snprintf(name, sizeof name, "%s_tiled", part);
    status = clip_compare(g, name, &y, 0, out.dim[0], CHANNELS_FIRST);
done:
    clip_free(&x);
    clip_free(&y);
    return status;
}

/* Every name of the configuration's table. */
static zn_status check_names(const golden *g, const zn_wan_form *k)
{
    const zn_json_node *names = zn_json_get(g->config, "names");
    int count = 0;
    ZN_JSON_EACH(key, names)
    {
        const char *ours = zn_json_string(key), *theirs = zn_json_string(zn_json_get(names, ours ? ours : ""));
        char name[256];
        zn_wan_diffusers_name(k, ours ? ours : "", name, sizeof name);
        if (!theirs || strcmp(name, theirs) != 0)
            return ZN_FAIL(ZN_EFORMAT, "'%s' is not '%s' but '%s'", ours, name, theirs ? theirs : "");
        count++;
    }
    return count ? ZN_OK : ZN_FAIL(ZN_ENOTFOUND, "the configuration has no table of names");
}

static zn_status check_tiled(golden *g, golden *weights)
{
    const int side = (int)golden_int(g, "tile_sample_min", 256), step = (int)golden_int(g, "tile_sample_stride", 192);
    zn_wan_form k;
    form_of(weights, &k);
    tiled t = { weights, { .prefix = "", .build = encoder, .k = &k } };
    const int downscale = 1 << (k.levels - 1 + k.staged);
    const zn_wan_tiles down = zn_wan_encode_tiles(downscale, side, step),
                       up = zn_wan_decode_tiles(downscale, side, step);
    ZN_TRY(check_names(g, &k));
    ZN_TRY(check_tiles(g, &t, "x", "enc", &down));
    t.network.build = decoder;
    return check_tiles(g, &t, "z", "dec", &up);
}

/* The weights lie in another file of the same folder. */
static zn_status tiled_run(golden *g)
{
    const char *from = zn_json_string(zn_json_get(g->config, "weights_from")), *slash = strrchr(g->path, '/');
    char path[4096];
    golden weights = { .path = path, .pool = g->pool };
    snprintf(path, sizeof path, "%.*s%s.safetensors", slash ? (int)(slash - g->path) + 1 : 0, g->path,
             from ? from : "");
    ZN_TRY(zn_weights_open(path, &weights.file));
    const char *config = zn_weights_metadata(weights.file, "config");
    zn_status status = config ? zn_json_parse(&weights.config_doc, config, strlen(config), path)
                              : ZN_FAIL(ZN_EFORMAT, "%s: no configuration", path);
    if (status == ZN_OK) {
        weights.config = weights.config_doc.root;
        status = check_tiled(g, &weights);
        zn_json_free(&weights.config_doc);
    }
    zn_weights_close(weights.file);
    return status;
}

const golden_kind golden_wan_tiled = { "wan tiles", tiled_matches, tiled_run };
