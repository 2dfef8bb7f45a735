/* Reading LoRAs: each linear layer of the network asks the file for its pair, under all the names it may have. */
#include "models/zimage/lora.h"

#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef char name_text[320];

/* A linear layer, and the pair that a file has for it. */
typedef struct pair {
    char layer[128];
    int64_t in, out;
    const zn_weight *down, *up, *alpha; /* alpha may be NULL */
    int part, parts;                    /* the layer is this part of `up`, by rows */
} pair;

/* ---- names ---- */

static const char *const prefixes[] = { "", "transformer.", "diffusion_model.", "model.diffusion_model.",
                                        "base_model.model." };
static const char *const joined_prefixes[] = { "lora_unet_", "lora_transformer_", "lycoris_" };
static const char *const endings[][2] = { { ".lora_A.weight", ".lora_B.weight" },
                                          { ".lora_A.default.weight", ".lora_B.default.weight" },
                                          { ".lora_down.weight", ".lora_up.weight" },
                                          { ".lora.down.weight", ".lora.up.weight" } };

#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool find_endings(const zn_weights *w, const char *base, pair *p)
{
    for (size_t i = 0; i < COUNT(endings); i++) {
        p->down = zn_find_after(w, base, "%s", endings[i][0]);
        p->up = zn_find_after(w, base, "%s", endings[i][1]);
        p->alpha = zn_find_after(w, base, ".alpha");
        if (p->down && p->up)
            return true;
    }
    return false;
}

static bool find_named(const zn_weights *w, const char *layer, pair *p)
{
    name_text base;
    for (size_t i = 0; i < COUNT(prefixes); i++) {
        snprintf(base, sizeof base, "%s%s", prefixes[i], layer);
        if (find_endings(w, base, p))
            return true;
    }
    for (size_t i = 0; i < COUNT(joined_prefixes); i++) {
        snprintf(base, sizeof base, "%s%s", joined_prefixes[i], layer);
        for (char *c = base; *c; c++)
            *c = *c == '.' ? '_' : *c;
        if (find_endings(w, base, p))
            return true;
    }
    return false;
}

/* Under the names of diffusers, and of the original with q, k and v apart or together. */
static bool find_pair(const zn_weights *w, pair *p)
{
    static const zn_zimage_naming namings[] = { { .style = ZN_ZIMAGE_DIFFUSERS },
                                                { .style = ZN_ZIMAGE_ORIGINAL },
                                                { .style = ZN_ZIMAGE_ORIGINAL, .fused = true } };
    for (size_t i = 0; i < COUNT(namings); i++) {
        zn_place at = { .parts = 1 };
        snprintf(at.name, sizeof at.name, "%s.weight", p->layer);
        zn_zimage_place(&namings[i], &at);
        at.name[strlen(at.name) - strlen(".weight")] = 0;
        p->part = at.part;
        p->parts = at.parts;
        if (find_named(w, at.name, p))
            return true;
    }
    return false;
}

/* ---- matrices ---- */

static bool is_plain(const zn_weight *w) { return w->dtype <= ZN_BF16 && w->rank >= 2; }

/* Rows, and elements of a row: a convolution of 1x1 is as good as a matrix. */
static int64_t columns_of(const zn_weight *w)
{
    int64_t count = 1;
    for (int i = 1; i < w->rank; i++)
        count *= w->shape[i];
    return count;
}

static zn_status check(const pair *p)
{
    const zn_weight *a = p->down, *b = p->up;
    if (!is_plain(a) || !is_plain(b))
        return ZN_FAIL(ZN_EUNSUPPORTED, "'%s' is no matrix of floats", (is_plain(a) ? b : a)->name);
    if (a->shape[0] < 1 || columns_of(a) != p->in || b->shape[0] != p->out * p->parts || columns_of(b) != a->shape[0])
        return ZN_FAIL(
            ZN_ESHAPE,
            "'%s' makes %lld of %lld channels, but the layer has %lld and %lld: the LoRA is for another model", b->name,
            (long long)b->shape[0], (long long)columns_of(a), (long long)p->out * p->parts, (long long)p->in);
    return ZN_OK;
}

static zn_packed packed(const zn_weight *w)
{
    return (zn_packed){ .data = w->data, .row_bytes = w->bytes / (size_t)w->shape[0], .dtype = w->dtype };
}

static zn_status add(zn_lora *l, const pair *p, double strength)
{
    float alpha = (float)p->down->shape[0];
    ZN_TRY(check(p));
    if (p->alpha && p->alpha->bytes == zn_dtype_size(p->alpha->dtype))
        zn_to_f32(&alpha, p->alpha->data, p->alpha->dtype, 1);
    if (!isfinite(alpha))
        return ZN_FAIL(ZN_EFORMAT, "'%s' is no number", p->alpha->name);
    if (!ZN_GROW(l->adapters, l->capacity, l->count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a LoRA");
    zn_adapter *a = &l->adapters[l->count++];
    const zn_packed up = packed(p->up);
    *a = (zn_adapter){ .a = packed(p->down),
                       .b = zn_packed_from(&up, p->part * p->out),
                       .rank = (int)p->down->shape[0],
                       .factor = (float)(strength * (double)alpha / (double)p->down->shape[0]) };
    snprintf(a->layer, sizeof a->layer, "%s", p->layer);
    return ZN_OK;
}

/* ---- the file ---- */

static int count_layers(const zn_weights *w)
{
    int count = 0;
    for (int64_t i = 0; i < zn_weights_count(w); i++)
        for (size_t k = 0; k < COUNT(endings); k++)
            count += zn_ending(zn_weights_at(w, i)->name, endings[k][1]) != NULL;
    return count;
}

/* Every matrix of the network asks; the network is that of the smallest image. */
static zn_status ask(zn_lora *l, const zn_graph *g, double strength)
{
    ZN_TRY(zn_graph_status(g));
    for (int i = 0; i < zn_graph_count(g); i++) {
        const zn_node *n = zn_graph_at(g, i);
        pair p = { 0 };
        if (n->op != &zn_op_parameter || n->layout != ZN_LAYOUT_ROWS)
            continue;
        snprintf(p.layer, sizeof p.layer, "%.*s", (int)(strlen(n->name) - strlen(".weight")), n->name);
        p.out = n->shape.dim[2];
        p.in = n->shape.dim[3];
        if (!find_pair(l->file, &p))
            continue;
        ZN_TRY(add(l, &p, strength));
        l->fitting += p.part == 0;
    }
    l->layers = count_layers(l->file);
    return l->count ? ZN_OK
                    : ZN_FAIL(ZN_ENOTFOUND, "no tensor fits a layer of this transformer: this is no LoRA for Z-Image");
}

static zn_status read_pairs(zn_lora *l, const zn_zimage_form *k, double strength)
{
    zn_zimage_form plain = *k;
    plain.adapter_count = 0;
    zn_graph *g = zn_graph_new();
    if (!g)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    const zn_scope s = { g, "" };
    zn_node *latent = zn_graph_input(g, "latent", ZN_SHAPE(1, ZN_ZIMAGE_PATCH, ZN_ZIMAGE_PATCH, k->channels));
    zn_node *time = zn_graph_input(g, "time", ZN_SHAPE(1, 1, 1, ZN_ZIMAGE_TIME));
    zn_node *features = zn_graph_input(g, "features", ZN_SHAPE(1, 1, 1, k->caption));
    zn_zimage(s, latent, zn_zimage_modulation(s, time, &plain), zn_zimage_caption(s, features, &plain), &plain);
    const zn_status status = ask(l, g, strength);
    zn_graph_free(g);
    return status;
}

zn_status zn_lora_read(zn_weights *file, double strength, const zn_zimage_form *k, zn_lora *out)
{
    *out = (zn_lora){ .file = file };
    const zn_status status = read_pairs(out, k, strength);
    if (status != ZN_OK)
        zn_lora_close(out);
    return status;
}

zn_status zn_lora_open(const char *path, double strength, const zn_zimage_form *k, zn_lora *out)
{
    zn_weights *file;
    *out = (zn_lora){ 0 };
    ZN_TRY(zn_weights_open(path, &file));
    const zn_status status = zn_lora_read(file, strength, k, out);
    return status == ZN_OK ? ZN_OK : zn_fail_in_file(status, path);
}

void zn_lora_close(zn_lora *l)
{
    zn_free(l->adapters);
    zn_weights_close(l->file);
    *l = (zn_lora){ 0 };
}
