/* Writes the layouts of a small model. */
#include "tiny_layouts.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/convert.h"
#include "base/file.h"
#include "base/packed.h"
#include "io/weights/writer.h"
#include "models/flux/flux_vae.h"
#include "models/model.h"
#include "models/qwen3/qwen3.h"
#include "models/zimage/zimage.h"
#include "setting.h"
#include "small.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const zn_zimage_form transformer = { .dim = 256,
                                            .heads = 2,
                                            .layers = 2,
                                            .refiners = 1,
                                            .caption = 256,
                                            .channels = 16,
                                            .inner = 512,
                                            .time = 256,
                                            .modulation = 256,
                                            .axes = { 32, 48, 48 },
                                            .eps = 1e-5f,
                                            .theta = 256,
                                            .time_scale = 1000 };
static const zn_qwen3_form text = { .vocabulary = 512,
                                    .hidden = 256,
                                    .layers = 3,
                                    .heads = 4,
                                    .groups = 2,
                                    .head = 64,
                                    .inner = 512,
                                    .eps = 1e-6f,
                                    .theta = 1e6 };
static const zn_flux_form vae = {
    .levels = 4, .width = { 32, 32, 32, 32 }, .blocks = 2, .latent = 16, .groups = 32, .scale = 0.3611, .shift = 0.1159
};

/* ---- tensors ---- */

void tiny_free(tiny_tensors *t)
{
    for (int i = 0; i < t->count; i++) {
        zn_free((void *)(uintptr_t)t->list[i].data);
        zn_free((void *)(uintptr_t)t->list[i].name);
    }
    free(t->list);
    *t = (tiny_tensors){ 0 };
}

static zn_weight *add_tensor(tiny_tensors *t, const char *name, zn_dtype dtype, zn_shape s)
{
    size_t bytes;
    t->list = realloc(t->list, sizeof *t->list * (size_t)(t->count + 1));
    zn_weight *w = &t->list[t->count++];
    *w = (zn_weight){ .name = zn_strdup(name), .dtype = dtype, .rank = s.rank };
    memcpy(w->shape, s.dim, sizeof w->shape);
    assert_true(zn_dtype_bytes(dtype, (size_t)zn_shape_count(s), &bytes));
    w->bytes = bytes;
    w->data = zn_calloc(bytes + 1, 1);
    return w;
}

static zn_weight *find(tiny_tensors *t, const char *name)
{
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->list[i].name, name) == 0)
            return &t->list[i];
    return NULL;
}

/* The parameters of a graph; frees it. Parts of a fused tensor are put together. */
static tiny_tensors tensors_of(zn_graph *g, void (*place)(const void *naming, zn_place *out), const void *naming)
{
    tiny_tensors t = { 0 };
    assert_int_equal(zn_graph_status(g), ZN_OK);
    assert_int_equal(setting_fill(g), ZN_OK);
    for (int i = 0; i < zn_graph_count(g); i++) {
        const zn_node *n = zn_graph_at(g, i);
        zn_place p = { .parts = 1 };
        if (n->op != &zn_op_parameter)
            continue;
        zn_shape s = zn_weight_file_shape(n->shape, n->layout);
        const int64_t count = zn_shape_count(s);
        snprintf(p.name, sizeof p.name, "%s", n->name);
        place(naming, &p);
        s.dim[0] *= p.parts;
        zn_weight *w = find(&t, p.name);
        w = w ? w : add_tensor(&t, p.name, ZN_F32, s);
        zn_weight_export(n->data, n->shape, n->layout, (float *)(uintptr_t)w->data + p.part * count);
    }
    zn_graph_free(g);
    return t;
}

tiny_tensors tiny_transformer(tiny_style style, const char *prefix)
{
    zn_zimage_naming naming = { .style = style == TINY_DIFFUSERS  ? ZN_ZIMAGE_DIFFUSERS
                                         : style == TINY_ORIGINAL ? ZN_ZIMAGE_ORIGINAL
                                                                  : ZN_ZIMAGE_MLX,
                                .fused = style == TINY_ORIGINAL };
    const zn_zimage_form *k = &transformer;
    zn_graph *g = zn_graph_new();
    const zn_scope s = { g, "" };
    snprintf(naming.prefix, sizeof naming.prefix, "%s", prefix);
    zn_node *latent = zn_graph_input(g, "latent", ZN_SHAPE(1, 2, 2, k->channels));
    zn_node *time = zn_graph_input(g, "time", ZN_SHAPE(1, 1, 1, ZN_ZIMAGE_TIME));
    zn_node *features = zn_graph_input(g, "features", ZN_SHAPE(1, 1, 1, k->caption));
    zn_zimage(s, latent, zn_zimage_modulation(s, time, k), zn_zimage_caption(s, features, k), k);
    return tensors_of(g, zn_zimage_place, &naming);
}

tiny_tensors tiny_text_encoder(const char *prefix)
{
    zn_qwen3_naming naming = { .gguf = false };
    zn_graph *g = zn_graph_new();
    const zn_scope s = { g, "" };
    snprintf(naming.prefix, sizeof naming.prefix, "%s", prefix);
    zn_node *ids = zn_graph_input(g, "ids", ZN_SHAPE(1, 1, 1, 1));
    zn_qwen3_norm(s, zn_qwen3(s, ids, &text, text.layers, NULL), &text);
    return tensors_of(g, zn_qwen3_place, &naming);
}

tiny_tensors tiny_vae(tiny_style style, const char *prefix)
{
    zn_flux_naming naming = { .levels = 4, .original = style == TINY_ORIGINAL };
    zn_graph *g = zn_graph_new();
    const zn_scope s = { g, "" };
    snprintf(naming.prefix, sizeof naming.prefix, "%s", prefix);
    zn_flux_encoder(s, zn_graph_input(g, "image", ZN_SHAPE(1, 8, 8, 3)), &vae);
    zn_flux_decoder(s, zn_graph_input(g, "latent", ZN_SHAPE(1, 1, 1, 16)), &vae);
    return tensors_of(g, zn_flux_place, &naming);
}

/* ---- forms ---- */

/* Appends the layer of a matrix as FP8 or int8. */
static void add_packed(tiny_tensors *out, const zn_weight *w, tiny_form form)
{
    static const char described[] = "{\"format\":\"int8_tensorwise\",\"convrot\":true,\"convrot_groupsize\":256}";
    const int64_t rows = w->shape[0], columns = w->shape[1], scales = form == TINY_CONVROT ? rows : 1;
    float *x = zn_alloc(w->bytes), most = 0;
    char name[256];
    memcpy(x, w->data, w->bytes);
    zn_weight *codes = add_tensor(out, w->name, form == TINY_CONVROT ? ZN_I8 : ZN_F8_E4M3, ZN_SHAPE(rows, columns));
    uint8_t *to = (uint8_t *)(uintptr_t)codes->data;
    snprintf(name, sizeof name, "%.*s_scale", (int)strlen(w->name), w->name);
    float *scale =
        form == TINY_FP8 ? NULL : (float *)(uintptr_t)add_tensor(out, name, ZN_F32, ZN_SHAPE(scales, 1))->data;
    for (int64_t r = 0; r < rows && form == TINY_CONVROT; r++) {
        float *row = x + r * columns, peak = 0;
        zn_packed_rotate(row, columns, 256);
        for (int64_t i = 0; i < columns; i++)
            peak = fmaxf(peak, fabsf(row[i]));
        scale[r] = peak / 127;
        for (int64_t i = 0; i < columns; i++)
            to[r * columns + i] = (uint8_t)(int8_t)lrintf(row[i] / scale[r]);
    }
    for (int64_t i = 0; i < rows * columns; i++)
        most = fmaxf(most, fabsf(x[i]));
    if (form == TINY_FP8_SCALED)
        scale[0] = most / 448;
    if (form != TINY_CONVROT)
        zn_to_e4m3(to, x, scale ? scale[0] : 1, (size_t)(rows * columns));
    snprintf(name, sizeof name, "%.*s.comfy_quant", (int)(strlen(w->name) - strlen(".weight")), w->name);
    if (form == TINY_CONVROT)
        memcpy((void *)(uintptr_t)add_tensor(out, name, ZN_U8, ZN_SHAPE(sizeof described - 1))->data, described,
               sizeof described - 1);
    zn_free(x);
}

static bool is_layer(const zn_weight *w)
{
    return w->rank == 2 && w->shape[0] > 1 && w->shape[1] % 256 == 0 && strstr(w->name, "layers.") &&
           !strstr(w->name, "adaLN");
}

static tiny_tensors packed(const tiny_tensors *t, tiny_form form)
{
    tiny_tensors out = { 0 };
    for (int i = 0; i < t->count; i++) {
        const zn_weight *w = &t->list[i];
        zn_shape s = { .rank = w->rank };
        memcpy(s.dim, w->shape, sizeof s.dim);
        if (is_layer(w))
            add_packed(&out, w, form);
        else
            memcpy((void *)(uintptr_t)add_tensor(&out, w->name, w->dtype, s)->data, w->data, w->bytes);
    }
    return out;
}

/* ---- files ---- */

static void path_in(char *out, size_t size, const char *folder, const char *name)
{
    assert_int_equal(zn_folder_make(folder), ZN_OK);
    snprintf(out, size, "%s/%s", folder, name);
}

void tiny_save(const char *folder, const char *name, const tiny_tensors *t, tiny_form form)
{
    char path[4096];
    path_in(path, sizeof path, folder, name);
    tiny_tensors made = form == TINY_F32 ? (tiny_tensors){ 0 } : packed(t, form);
    const tiny_tensors *w = form == TINY_F32 ? t : &made;
    assert_int_equal(zn_safetensors_write(path, w->list, w->count, NULL, 0), ZN_OK);
    tiny_free(&made);
}

void tiny_save_text(const char *folder, const char *name, const char *content)
{
    char path[4096];
    path_in(path, sizeof path, folder, name);
    assert_int_equal(zn_file_write(path, content, strlen(content)), ZN_OK);
}

void tiny_save_shards(const char *folder, const char *stem, const tiny_tensors *t, int shards)
{
    char name[256], path[4096], *index = malloc(1 << 17), *at = index;
    at += sprintf(at, "{\"metadata\":{},\"weight_map\":{");
    for (int s = 0; s < shards; s++) {
        const int first = t->count * s / shards, end = t->count * (s + 1) / shards;
        snprintf(name, sizeof name, "%s-%05d-of-%05d.safetensors", stem, s + 1, shards);
        path_in(path, sizeof path, folder, name);
        assert_int_equal(zn_safetensors_write(path, t->list + first, end - first, NULL, 0), ZN_OK);
        for (int i = first; i < end; i++)
            at += sprintf(at, "%s\"%s\":\"%s\"", i ? "," : "", t->list[i].name, name);
    }
    sprintf(at, "}}");
    snprintf(name, sizeof name, "%s.safetensors.index.json", stem);
    tiny_save_text(folder, name, index);
    free(index);
}

void tiny_save_tokenizer(const char *folder)
{
    char *json = small_tokenizer("{\"id\":400,\"content\":\"<x>\",\"lstrip\":false},{\"id\":401,\"content\":\"<x>y\"}",
                                 "{\"id\":400,\"content\":\"<|im_start|>\"},{\"id\":401,\"content\":\"<|im_end|>\"}");
    tiny_save_text(folder, "tokenizer.json", json);
    free(json);
}

/* ---- models ---- */

void tiny_diffusers(const char *folder)
{
    char own[2048];
    tiny_tensors t = tiny_transformer(TINY_DIFFUSERS, ""), q = tiny_text_encoder("model."),
                 v = tiny_vae(TINY_DIFFUSERS, "");
    tiny_save_text(folder, "model_index.json", "{\"_class_name\":\"ZImagePipeline\"}");
    snprintf(own, sizeof own, "%s/transformer", folder);
    tiny_save_shards(own, "diffusion_pytorch_model", &t, 3);
    tiny_save_text(own, "config.json", "{\"axes_dims\":[32,48,48],\"n_kv_heads\":2}");
    snprintf(own, sizeof own, "%s/text_encoder", folder);
    tiny_save_shards(own, "model", &q, 2);
    tiny_save_text(own, "config.json", "{\"num_hidden_layers\":3,\"rms_norm_eps\":1e-6,\"rope_theta\":1000000.0}");
    snprintf(own, sizeof own, "%s/vae", folder);
    tiny_save(own, "diffusion_pytorch_model.safetensors", &v, TINY_F32);
    tiny_save_text(own, "config.json", "{\"latent_channels\":16,\"norm_num_groups\":32}");
    snprintf(own, sizeof own, "%s/tokenizer", folder);
    tiny_save_tokenizer(own);
    tiny_free(&t);
    tiny_free(&q);
    tiny_free(&v);
}

void tiny_comfy(const char *folder, tiny_form form)
{
    char own[2048];
    tiny_tensors t = tiny_transformer(TINY_ORIGINAL, ""), q = tiny_text_encoder("model."),
                 v = tiny_vae(TINY_ORIGINAL, "");
    snprintf(own, sizeof own, "%s/diffusion_models", folder);
    tiny_save(own, "a.safetensors", &t, form);
    snprintf(own, sizeof own, "%s/text_encoders", folder);
    tiny_save(own, "b.safetensors", &q, form);
    snprintf(own, sizeof own, "%s/vae", folder);
    tiny_save(own, "c.safetensors", &v, TINY_F32);
    tiny_save_tokenizer(folder);
    tiny_free(&t);
    tiny_free(&q);
    tiny_free(&v);
}
