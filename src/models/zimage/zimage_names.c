/* Z-Image in files: which of three namings they have, and what sizes. */
#include "base/fail.h"
#include "models/zimage/zimage.h"

#include <stdio.h>
#include <string.h>

/* ---- names: the first line whose `from` a name holds, and so on with the others ---- */

typedef struct renaming {
    const char *from, *to;
} renaming;

static const renaming original[] = {
    { "all_x_embedder.2-1.", "x_embedder." },       { "all_final_layer.2-1.", "final_layer." },
    { ".attention.to_out.0.", ".attention.out." },  { ".attention.norm_q.", ".attention.q_norm." },
    { ".attention.norm_k.", ".attention.k_norm." }, { NULL, NULL },
};

static const renaming mlx[] = {
    { "all_x_embedder.2-1.", "x_embedder." },
    { "all_final_layer.2-1.adaLN_modulation.1.", "final_layer.adaLN_modulation.layers.1." },
    { "all_final_layer.2-1.", "final_layer." },
    { ".attention.to_out.0.", ".attention.to_out." },
    { ".adaLN_modulation.0.", ".adaLN_modulation." },
    { "t_embedder.mlp.0.", "t_embedder.linear1." },
    { "t_embedder.mlp.2.", "t_embedder.linear2." },
    { "cap_embedder.", "cap_embedder.layers." },
    { NULL, NULL },
};

static const renaming *const styles[] = { [ZN_ZIMAGE_ORIGINAL] = original, [ZN_ZIMAGE_MLX] = mlx };

typedef char short_name[128];

static void replace(short_name name, const renaming *r)
{
    short_name rest;
    char *at = strstr(name, r->from);
    if (!at)
        return;
    snprintf(rest, sizeof rest, "%s", at + strlen(r->from));
    snprintf(at, sizeof rest - (size_t)(at - name), "%s%s", r->to, rest);
}

void zn_zimage_place(const void *self, zn_place *out)
{
    static const char *const parts[] = { ".attention.to_q.", ".attention.to_k.", ".attention.to_v." };
    const zn_zimage_naming *n = self;
    short_name name;
    snprintf(name, sizeof name, "%.127s", out->name);
    if (n->style != ZN_ZIMAGE_DIFFUSERS)
        for (const renaming *r = styles[n->style]; r->from; r++)
            replace(name, r);
    for (int i = 0; i < 3 && n->fused; i++)
        if (strstr(name, parts[i])) {
            replace(name, &(renaming){ parts[i], ".attention.qkv." });
            out->part = i;
            out->parts = 3;
        }
    snprintf(out->name, sizeof out->name, "%s%s", n->prefix, name);
}

bool zn_zimage_in_main_block(const char *layer) { return strncmp(layer, "layers.", strlen("layers.")) == 0; }

/* ---- recognition ---- */

static bool find_naming(const zn_weights *const *files, int count, zn_zimage_naming *n)
{
    *n = (zn_zimage_naming){ .style = ZN_ZIMAGE_MLX };
    if (zn_find_prefix(files, count, "cap_embedder.layers.0.weight", n->prefix, sizeof n->prefix))
        return true;
    const zn_stored s = { files, count, zn_zimage_place, n };
    n->style = ZN_ZIMAGE_DIFFUSERS;
    if (!zn_find_prefix(files, count, "cap_embedder.0.weight", n->prefix, sizeof n->prefix))
        return false;
    if (!zn_stored_find(&s, "all_x_embedder.2-1.bias", NULL, NULL))
        n->style = ZN_ZIMAGE_ORIGINAL;
    n->fused = !zn_stored_find(&s, "layers.0.attention.to_q.weight", NULL, NULL);
    return true;
}

static int count_blocks(const zn_stored *s, const char *group)
{
    enum { MOST = 1024 };
    int count = 0;
    for (char name[96]; count < MOST; count++) {
        snprintf(name, sizeof name, "%s.%d.attention_norm1.weight", group, count);
        if (!zn_stored_find(s, name, NULL, NULL))
            break;
    }
    return count;
}

static int side(const zn_stored *s, const char *name) { return (int)zn_stored_side(s, name, 0); }

/* The published network has 2, 3 and 3 eighths of a head on its axes. */
static void default_axes(zn_zimage_form *k, int head)
{
    for (int i = 0; i < ZN_ZIMAGE_AXES; i++)
        k->axes[i] = head / 8 * (i ? 3 : 2);
}

static zn_status read_config(const zn_json_node *config, zn_zimage_form *k)
{
    double eps = (double)k->eps;
    int groups = k->heads, axis = 0;
    zn_json_update_double(config, "norm_eps", &eps);
    zn_json_update_double(config, "rope_theta", &k->theta);
    zn_json_update_double(config, "t_scale", &k->time_scale);
    zn_json_update_int(config, "n_kv_heads", &groups);
    k->eps = (float)eps;
    ZN_JSON_EACH(width, zn_json_get(config, "axes_dims"))
    {
        int64_t value;
        if (axis == ZN_ZIMAGE_AXES || !zn_json_i64(width, &value) || value < 2 || value > 1 << 16)
            return ZN_FAIL(ZN_EFORMAT, "axes_dims are not three widths");
        k->axes[axis++] = (int)value;
    }
    return groups == k->heads
               ? ZN_OK
               : ZN_FAIL(ZN_EUNSUPPORTED, "%d heads of keys for %d of queries are not supported", groups, k->heads);
}

zn_status zn_zimage_recognise(const zn_weights *const *files, int count, const zn_json_node *config, zn_zimage_form *k,
                              zn_zimage_naming *naming)
{
    if (!find_naming(files, count, naming))
        return ZN_FAIL(ZN_ENOTFOUND, "there is no embedder of captions: this is no Z-Image transformer");
    const zn_stored s = { files, count, zn_zimage_place, naming };
    const int head = side(&s, "layers.0.attention.norm_q.weight");
    *k = zn_zimage_turbo;
    k->dim = side(&s, "layers.0.attention_norm1.weight");
    k->caption = side(&s, "cap_embedder.0.weight");
    k->inner = side(&s, "layers.0.feed_forward.w1.weight");
    k->time = side(&s, "t_embedder.mlp.0.bias");
    k->modulation = side(&s, "t_embedder.mlp.2.bias");
    k->channels = side(&s, "all_final_layer.2-1.linear.bias") / (ZN_ZIMAGE_PATCH * ZN_ZIMAGE_PATCH);
    k->layers = count_blocks(&s, "layers");
    k->refiners = count_blocks(&s, "noise_refiner");
    if (head < 2 || k->dim < head || k->dim % head || k->caption < 1 || k->inner < 1 || k->time < 1 ||
        k->modulation < 1 || k->channels < 1 || k->refiners != count_blocks(&s, "context_refiner"))
        return ZN_FAIL(ZN_EFORMAT, "these are not blocks of Z-Image: %d channels, heads of %d, %d inner channels",
                       k->dim, head, k->inner);
    k->heads = k->dim / head;
    default_axes(k, head);
    ZN_TRY(read_config(config, k));
    if (k->axes[0] + k->axes[1] + k->axes[2] != head || k->axes[0] % 2 || k->axes[1] % 2 || k->axes[2] % 2)
        return ZN_FAIL(ZN_EFORMAT, "axes of %d, %d and %d channels do not make a head of %d", k->axes[0], k->axes[1],
                       k->axes[2], head);
    return ZN_OK;
}
