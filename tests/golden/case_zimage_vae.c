/* FLUX.1's autoencoder as Z-Image uses it (specification 6): encoder and decoder with what they compute on the way, the
 * sampled latent, bytes of the picture, and the names of the original file. */
#include "golden.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "models/flux/flux_vae.h"
#include "network.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct setting {
    golden *g;
    zn_flux_form form;
    zn_flux_naming naming;
    zn_graph *graph;
    zn_exec *exec;
    zn_node *x, *y;
} setting;

static bool vae_matches(const golden *g)
{
    return golden_has(g, "out.", "moments") && golden_has(g, "out.", "dec.mid.attn");
}

static void close_network(setting *s)
{
    zn_exec_free(s->exec);
    zn_graph_free(s->graph);
    s->exec = NULL;
    s->graph = NULL;
}

/* Encoder or decoder, run on x. */
static zn_status run_network(setting *s, zn_node *(*build)(zn_scope, zn_node *, const zn_flux_form *), zn_shape shape,
                             const float *x, bool traced)
{
    const zn_weights *files[] = { s->g->file };
    const zn_stored from = { files, 1, zn_flux_place, &s->naming };
    s->graph = zn_graph_new();
    if (!s->graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    s->x = zn_graph_input(s->graph, "x", shape);
    s->y = build((zn_scope){ s->graph, "" }, s->x, &s->form);
    ZN_TRY(zn_stored_bind(&from, s->graph));
    ZN_TRY(graph_start(s->g, s->graph, s->y, traced, &s->exec));
    memcpy(s->x->data, x, sizeof *x * (size_t)zn_shape_count(shape));
    return zn_exec_run(s->exec);
}

static zn_status compare_layer(setting *s, const char *layer, const char *name)
{
    const zn_node *n = graph_layer(s->graph, layer);
    return n ? golden_compare(s->g, name, n->data, n->shape, GOLDEN_MAP, GOLDEN_FORWARD)
             : ZN_FAIL(ZN_EFORMAT, "the network has no layer '%s'", layer);
}

/* part "enc" or "dec", way "down" or "up". */
static zn_status compare_trace(setting *s, const char *part, const char *way)
{
    char layer[96], name[64];
    const int last = s->form.levels - 1;
    snprintf(layer, sizeof layer, "%soder.conv_in", part);
    snprintf(name, sizeof name, "%s.conv_in", part);
    ZN_TRY(compare_layer(s, layer, name));
    for (int i = 0; i <= last; i++) {
        snprintf(name, sizeof name, "%s.%s.%d", part, way, i);
        if (i < last)
            snprintf(layer, sizeof layer, "%soder.%s_blocks.%d.%ssamplers.0.conv", part, way, i, way);
        else
            snprintf(layer, sizeof layer, "%soder.%s_blocks.%d.resnets.%d", part, way, i,
                     s->form.blocks - (strcmp(way, "down") == 0));
        ZN_TRY(compare_layer(s, layer, name));
    }
    snprintf(layer, sizeof layer, "%soder.mid_block.attentions.0", part);
    snprintf(name, sizeof name, "%s.mid.attn", part);
    ZN_TRY(compare_layer(s, layer, name));
    snprintf(layer, sizeof layer, "%soder.mid_block.resnets.1", part);
    snprintf(name, sizeof name, "%s.mid", part);
    return compare_layer(s, layer, name);
}

/* ---- encoder ---- */

/* Latents of means and log-variances, in the middle and as eps draws them. */
static zn_status compare_latents(setting *s, const float *moments, zn_shape shape)
{
    zn_shape one;
    float *eps, *drawn = NULL;
    const int c = s->form.latent;
    ZN_TRY(golden_load(s->g, "in.", "eps", &one, &eps));
    const int64_t count = zn_shape_count(one);
    zn_status status = 2 * count == zn_shape_count(shape) && one.rank == 4 && one.dim[3] == c
                           ? zn_alloc_for("latents", sizeof *drawn * 2 * (size_t)count, (void **)&drawn)
                           : ZN_FAIL(ZN_EFORMAT, "in.eps is not of the latents' shape");
    for (int64_t i = 0; i < count && status == ZN_OK; i++) {
        const float *m = moments + i / c * 2 * c + i % c, variance = fminf(fmaxf(m[c], -30), 20);
        drawn[i] = m[0];
        drawn[count + i] = m[0] + expf(variance / 2) * eps[i];
    }
    if (status == ZN_OK) {
        zn_flux_normalise(&s->form, drawn, 2 * count);
        status = golden_compare(s->g, "latent_mode", drawn, one, GOLDEN_MAP, GOLDEN_FORWARD);
    }
    if (status == ZN_OK)
        status = golden_compare(s->g, "latent_sample", drawn + count, one, GOLDEN_MAP, GOLDEN_FORWARD);
    zn_free(drawn);
    zn_free(eps);
    return status;
}

static zn_status check_encoder(setting *s, bool traced)
{
    zn_shape shape;
    float *image;
    ZN_TRY(golden_load(s->g, "in.", "image", &shape, &image));
    zn_status status = run_network(s, zn_flux_encoder, shape, image, traced);
    if (status == ZN_OK && traced)
        status = compare_trace(s, "enc", "down");
    if (status == ZN_OK)
        status = golden_compare(s->g, "moments", s->y->data, s->y->shape, GOLDEN_MAP, GOLDEN_FORWARD);
    if (status == ZN_OK)
        status = compare_latents(s, s->y->data, s->y->shape);
    close_network(s);
    zn_free(image);
    return status;
}

/* ---- decoder ---- */

/* At most 1 off; the file has [h][w][3]. */
static zn_status compare_bytes(setting *s, const float *image, zn_shape shape)
{
    const int64_t count = zn_shape_count(shape);
    float *bytes;
    ZN_TRY(zn_alloc_for("bytes", 2 * sizeof *bytes * (size_t)count, (void **)&bytes));
    for (int64_t i = 0; i < count; i++) {
        bytes[i] = rintf(255 * fminf(fmaxf(image[i] / 2 + 0.5f, 0), 1));
        bytes[count + i] = 1;
    }
    const zn_status status = golden_compare_each(s->g, "image_rgb8", bytes, ZN_SHAPE(shape.dim[1], shape.dim[2], 3),
                                                 ZN_LAYOUT_PLAIN, bytes + count);
    zn_free(bytes);
    return status;
}

static zn_status check_decoder(setting *s, bool traced)
{
    zn_shape shape;
    float *latent;
    ZN_TRY(golden_load(s->g, "in.", "latent", &shape, &latent));
    zn_flux_restore(&s->form, latent, zn_shape_count(shape));
    zn_status status = golden_compare(s->g, "z", latent, shape, GOLDEN_MAP, GOLDEN_FORWARD);
    if (status == ZN_OK)
        status = run_network(s, zn_flux_decoder, shape, latent, traced);
    if (status == ZN_OK && traced)
        status = compare_trace(s, "dec", "up");
    if (status == ZN_OK)
        status = golden_compare(s->g, "image", s->y->data, s->y->shape, GOLDEN_MAP, GOLDEN_FORWARD);
    if (status == ZN_OK && s->y->shape.dim[0] == 1)
        status = compare_bytes(s, s->y->data, s->y->shape);
    close_network(s);
    zn_free(latent);
    return status;
}

/* ---- names ---- */

static void check_names(setting *s)
{
    const zn_flux_naming naming = { .original = true, .levels = s->form.levels };
    int right = 0, wrong = 0;
    ZN_JSON_EACH(key, zn_json_get(s->g->config, "original_names"))
    {
        zn_place at = { .parts = 1 };
        const char *want = zn_json_string(key + 1);
        snprintf(at.name, sizeof at.name, "%s", key->value.text);
        zn_flux_place(&naming, &at);
        const bool same = want && strcmp(at.name, want) == 0;
        same ? right++ : wrong++;
        if (!same)
            printf("%s becomes %s, not %s\n", key->value.text, at.name, want ? want : "?");
    }
    if (right + wrong == 0) /* the file lists none */
        return;
    printf("%-48s %d right, %d wrong  %s\n", "names of the original", right, wrong, wrong ? "FAIL" : "PASS");
    wrong ? s->g->failed++ : s->g->passed++;
}

/* Traced, and as for use. */
static zn_status vae_run(golden *g)
{
    const zn_weights *files[] = { g->file };
    setting s = { .g = g };
    ZN_TRY(zn_flux_recognise(files, 1, golden_network_config(g), &s.form, &s.naming));
    check_names(&s);
    for (int traced = 1; traced >= 0; traced--) {
        ZN_TRY(check_encoder(&s, traced));
        ZN_TRY(check_decoder(&s, traced));
    }
    return ZN_OK;
}

const golden_kind golden_zimage_vae = { "z-image autoencoder", vae_matches, vae_run };
