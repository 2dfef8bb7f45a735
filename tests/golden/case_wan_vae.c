/* Wan: the autoencoders 2.1 and 2.2, pictures with traces, clips whole and in pieces (specification 2 and 3). */
#include "clips.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "models/wan.h"

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
    return check_form(g, &k, "clip", false);
}

const golden_kind golden_wan_vae = { "wan autoencoder", matches, run };
