/* Which tensors a packed file gets. */
#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/text.h"
#include "io/weights/mlx.h"
#include "io/weights/scaled.h"
#include "models/model.h"
#include "models/zimage/zimage.h"
#include "pipeline/convert/pack.h"

#include <stdio.h>
#include <string.h>

enum { MLX_GROUP = 32 };

/* ---- types ---- */

/* Layers at the network's ends are small, and errors in them reach everything. */
static bool is_end(const char *name)
{
    static const char *const words[] = { "x_embedder.", "cap_embedder.", "t_embedder.", "final_layer." };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i]))
            return true;
    return false;
}

static bool is_whole(zn_dtype dtype, int64_t columns) { return columns % (int64_t)zn_dtype_block(dtype) == 0; }

/* The type of a matrix when `asked` is what most get. */
static zn_dtype type_of(const char *name, int64_t columns, zn_dtype asked)
{
    zn_dtype dtype = asked;
    if (zn_dtype_block(asked) > 1 && is_end(name))
        dtype = ZN_BF16;
    else if (zn_dtype_block(asked) > 1 && asked != ZN_Q8_0 && strstr(name, "adaLN_modulation."))
        dtype = ZN_Q8_0;
    else if (zn_dtype_block(asked) > 1 && asked != ZN_Q8_0 && strcmp(name, "token_embd.weight") == 0)
        dtype = ZN_Q6_K;
    if (!is_whole(dtype, columns))
        dtype = ZN_Q8_0;
    return is_whole(dtype, columns) ? dtype : ZN_F16;
}

static void choose_type(zn_pack_item *t, const zn_quantisation *how)
{
    if (how->mlx_bits && t->rank == 2 && t->columns % MLX_GROUP == 0 && zn_ending(t->name, ".weight"))
        t->mlx = true;
    else if (how->mlx_bits)
        t->dtype = ZN_F16;
    else if (t->rank == 2 && zn_ending(t->name, ".weight"))
        t->dtype = type_of(t->name, t->columns, how->dtype);
    else
        t->dtype = t->rank > 2 && zn_dtype_block(how->dtype) > 1 ? ZN_F16 : t->rank > 2 ? how->dtype : ZN_F32;
}

static zn_status add(zn_pack_plan *p, const zn_pack_item *t)
{
    if (!ZN_GROW(p->items, p->capacity, p->count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory: list of %zu tensors", p->count + 1);
    p->items[p->count++] = *t;
    return ZN_OK;
}

/* ---- networks that are known: their graphs say which parameters there are ---- */

typedef struct network {
    void (*from)(const void *naming, zn_place *out), (*to)(const void *naming, zn_place *out);
    const void *from_naming, *to_naming;
} network;

static zn_status add_parameter(zn_pack_plan *p, const zn_node *n, const network *net, const zn_quantisation *how)
{
    const zn_shape s = zn_weight_file_shape(n->shape, n->layout);
    zn_place at = { .parts = 1 };
    snprintf(at.name, sizeof at.name, "%s", n->name);
    net->to(net->to_naming, &at);
    if (at.part > 0) { /* of a tensor that begins with other parameters */
        zn_pack_item *t = &p->items[p->count - 1];
        if (!p->count || strcmp(t->name, at.name) != 0 || t->parts != at.part || !n->packed)
            return ZN_FAIL(ZN_EFORMAT, "tensor '%s' cannot be put together", at.name);
        t->part[t->parts++] = *n->packed;
        t->shape[0] += t->rows;
        return ZN_OK;
    }
    zn_pack_item t = { .rank = s.rank, .parts = 1, .rows = 1, .columns = zn_shape_count(s) };
    snprintf(t.name, sizeof t.name, "%s", at.name);
    memcpy(t.shape, s.dim, sizeof t.shape);
    if (n->packed) {
        t.rows = s.dim[0];
        t.columns = s.dim[1];
        t.part[0] = *n->packed;
    } else {
        t.part[0] = zn_packed_floats(n->data, t.columns);
    }
    if (!n->packed && t.rank == 2) /* a pad token: [1][dim] */
        t.dtype = how->mlx_bits ? ZN_F16 : ZN_F32;
    else
        choose_type(&t, how);
    return add(p, &t);
}

static zn_status add_network(zn_pack_plan *p, const network *net, const zn_quantisation *how)
{
    const zn_stored stored = { p->files.files, p->files.count, net->from, net->from_naming };
    ZN_TRY(zn_stored_bind(&stored, p->graph));
    for (int i = 0; i < zn_graph_count(p->graph); i++)
        if (zn_graph_at(p->graph, i)->op == &zn_op_parameter)
            ZN_TRY(add_parameter(p, zn_graph_at(p->graph, i), net, how));
    return ZN_OK;
}

static zn_status add_zimage(zn_pack_plan *p, const zn_zimage_form *k, const zn_zimage_naming *from,
                            const zn_quantisation *how)
{
    const zn_zimage_naming to = { .style = how->mlx_bits ? ZN_ZIMAGE_MLX : ZN_ZIMAGE_ORIGINAL,
                                  .fused = !how->mlx_bits };
    const network net = { zn_zimage_place, zn_zimage_place, from, &to };
    const zn_scope s = { p->graph, "" };
    zn_node *latent = zn_graph_input(p->graph, "latent", ZN_SHAPE(1, ZN_ZIMAGE_PATCH, ZN_ZIMAGE_PATCH, k->channels));
    zn_node *time = zn_graph_input(p->graph, "time", ZN_SHAPE(1, 1, 1, ZN_ZIMAGE_TIME));
    zn_node *features = zn_graph_input(p->graph, "features", ZN_SHAPE(1, 1, 1, k->caption));
    zn_zimage(s, latent, zn_zimage_modulation(s, time, k), zn_zimage_caption(s, features, k), k);
    p->architecture = "lumina2";
    return add_network(p, &net, how);
}

static zn_status add_qwen3(zn_pack_plan *p, const zn_qwen3_naming *from, const zn_quantisation *how)
{
    const zn_qwen3_naming to = { .prefix = "model.", .gguf = !how->mlx_bits };
    const network net = { zn_qwen3_place, zn_qwen3_place, from, &to };
    const zn_scope s = { p->graph, "" };
    zn_node *ids = zn_graph_input(p->graph, "ids", ZN_SHAPE(1, 1, 1, 1));
    zn_qwen3_norm(s, zn_qwen3(s, ids, &p->text, p->text.layers, NULL), &p->text);
    p->architecture = "qwen3";
    return add_network(p, &net, how);
}

/* ---- any other network: tensor by tensor ---- */

/* Scales are applied to what they belong to. */
static zn_status add_tensor(zn_pack_plan *p, const zn_weights *file, const zn_weight *w, const zn_quantisation *how)
{
    zn_pack_item t = { .rank = w->rank, .parts = 1, .rows = w->rank > 1 ? w->shape[0] : 1, .columns = 1 };
    if (zn_scaled_owner(file, w))
        return ZN_OK;
    if (zn_ending(w->name, ".scales") || zn_ending(w->name, ".weight_scale") || zn_ending(w->name, ".scale_weight"))
        return ZN_FAIL(ZN_EUNSUPPORTED, "tensor '%s': packed layers of a network that is not known", w->name);
    for (int i = w->rank > 1; i < w->rank; i++)
        t.columns *= w->shape[i];
    snprintf(t.name, sizeof t.name, "%s", w->name);
    memcpy(t.shape, w->shape, sizeof t.shape);
    if (t.rows < 1 || t.columns < 1)
        return ZN_FAIL(ZN_EUNSUPPORTED, "tensor '%s' is empty", w->name);
    if (zn_scaled_has(file, w))
        ZN_TRY(zn_scaled_rows(file, w, &t.part[0]));
    else
        t.part[0] = (zn_packed){ .data = w->data, .row_bytes = w->bytes / (size_t)t.rows, .dtype = w->dtype };
    choose_type(&t, how);
    return add(p, &t);
}

static zn_status add_tensors(zn_pack_plan *p, const zn_quantisation *how)
{
    p->architecture = "unknown";
    for (int f = 0; f < p->files.count; f++)
        for (int64_t i = 0; i < zn_weights_count(p->files.files[f]); i++)
            ZN_TRY(add_tensor(p, p->files.files[f], zn_weights_at(p->files.files[f], i), how));
    return ZN_OK;
}

/* ---- all of it ---- */

static zn_status reopen(zn_pack_plan *p, const char *in, zn_generator_part part)
{
    zn_part_close(&p->files);
    return zn_part_open(in, part, &p->files);
}

static zn_status recognise(zn_pack_plan *p, const char *in, const zn_quantisation *how)
{
    zn_zimage_form z;
    zn_zimage_naming z_naming;
    zn_qwen3_naming q_naming;
    ZN_TRY(reopen(p, in, ZN_GENERATOR_TRANSFORMER));
    zn_status status = zn_zimage_recognise(p->files.files, p->files.count, p->files.config.root, &z, &z_naming);
    if (status == ZN_OK)
        return add_zimage(p, &z, &z_naming, how);
    if (status != ZN_ENOTFOUND)
        return status;
    ZN_TRY(reopen(p, in, ZN_GENERATOR_TEXT));
    status = zn_qwen3_recognise(p->files.files, p->files.count, p->files.config.root, &p->text, &q_naming);
    return status == ZN_OK ? add_qwen3(p, &q_naming, how) : add_tensors(p, how);
}

zn_status zn_pack_check_folder(const char *in)
{
    char inside[4096];
    if (snprintf(inside, sizeof inside, "%s/transformer", in) < (int)sizeof inside && zn_is_folder(inside))
        return ZN_FAIL(ZN_EINVALID, "%s has several networks: convert %s and %s/text_encoder one by one", in, inside,
                       in);
    return ZN_OK;
}

zn_status zn_pack_plan_make(const char *in, const zn_quantisation *how, zn_pack_plan *plan)
{
    *plan = (zn_pack_plan){ 0 };
    ZN_TRY(zn_pack_check_folder(in));
    plan->graph = zn_graph_new();
    if (!plan->graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    const zn_status status = recognise(plan, in, how);
    return status == ZN_OK ? ZN_OK : zn_fail_in_file(status, in);
}

void zn_pack_plan_free(zn_pack_plan *plan)
{
    zn_free(plan->items);
    zn_graph_free(plan->graph);
    zn_part_close(&plan->files);
    *plan = (zn_pack_plan){ 0 };
}
