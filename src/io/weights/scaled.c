/* Finds the scales of FP8 and int8 layers. */
#include "io/weights/scaled.h"

#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/span.h"
#include "base/text.h"
#include "io/weights/reader.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_NAME = 1024, MAX_JSON = 1 << 16 };

static const zn_weight *part_of(const zn_weights *w, const char *name, const char *part)
{
    char full[MAX_NAME];
    const int length = snprintf(full, sizeof full, "%s.%s", name, part);
    return length > 0 && length < MAX_NAME ? zn_weights_find(w, full) : NULL;
}

static bool is_true(const zn_json_node *n) { return n && n->kind == ZN_JSON_BOOL && n->value.magnitude; }

static bool is_known(const char *format)
{
    return strcmp(format, "float8_e4m3fn") == 0 || strcmp(format, "float8_e5m2") == 0 ||
           strcmp(format, "int8_tensorwise") == 0;
}

/* The description of a layer: {"format": "int8_tensorwise", "convrot": true, "convrot_groupsize": 256}. */
static zn_status read_format(const zn_weights *w, const char *name, const zn_json_node *layer, zn_scaled *out)
{
    const char *format = zn_json_string(zn_json_get(layer, "format"));
    int64_t group = ZN_PACKED_ROTATED;
    if (format && !is_known(format))
        return ZN_FAIL(ZN_EUNSUPPORTED,
                       "%s: layer '%s' is quantised as '%s', which is not supported: take a bf16, fp8, int8 or GGUF "
                       "file of this model",
                       w->name, name, format);
    if (!is_true(zn_json_get(layer, "convrot")))
        return ZN_OK;
    const zn_json_node *size = zn_json_get(layer, "convrot_groupsize");
    if ((size && !zn_json_i64(size, &group)) || (group != 4 && group != 16 && group != 64 && group != 256))
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: layer '%s' is rotated in groups that are not of 4, 16, 64 or 256", w->name,
                       name);
    out->rotated = (int)group;
    return ZN_OK;
}

static zn_status read_tensor(const zn_weights *w, const char *name, const zn_weight *t, zn_scaled *out)
{
    zn_json doc;
    if (t->dtype != ZN_U8 || t->bytes > MAX_JSON)
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s' is not a description of a layer", w->name, t->name);
    ZN_TRY(zn_json_parse(&doc, t->data, t->bytes, t->name));
    const zn_status status = read_format(w, name, doc.root, out);
    zn_json_free(&doc);
    return status;
}

/* Newer files describe all layers in their metadata. */
static zn_status read_metadata(const zn_weights *w, const char *name, const char *text, zn_scaled *out)
{
    zn_json doc;
    ZN_TRY(zn_json_parse(&doc, text, strlen(text), w->name));
    const zn_json_node *layer = zn_json_get(zn_json_get(doc.root, "layers"), name);
    const zn_status status = layer ? read_format(w, name, layer, out) : ZN_OK;
    zn_json_free(&doc);
    return status;
}

static zn_status check_finite(const zn_weights *w, const zn_weight *s, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float scale;
        zn_to_f32(&scale, (const char *)s->data + i * zn_dtype_size(s->dtype), s->dtype, 1);
        if (!isfinite(scale))
            return ZN_FAIL(ZN_ENUMERIC, "%s: tensor '%s': the scale of row %zu is not finite", w->name, s->name, i);
    }
    return ZN_OK;
}

/* Whether scales are [1][1][1][outputs] for [height][width][inputs][outputs]. */
static bool are_for_last(const zn_weight *s, const zn_weight *weight)
{
    return weight->rank == 4 && s->rank == 4 && s->shape[0] == 1 && s->shape[1] == 1 && s->shape[2] == 1 &&
           s->shape[3] > 1 && s->shape[3] == weight->shape[3];
}

static zn_status check_scales(const zn_weights *w, const zn_weight *weight, zn_scaled *out)
{
    const zn_weight *s = out->scales;
    const int64_t rows = weight->rank >= 2 ? weight->shape[0] : 0;
    size_t count = 0;
    if (s->dtype != ZN_F32 && s->dtype != ZN_F16 && s->dtype != ZN_BF16)
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s' is %s, not F32, F16 or BF16", w->name, s->name,
                       zn_dtype_name(s->dtype));
    if (are_for_last(s, weight)) {
        out->outputs_last = s->shape[3];
        return check_finite(w, s, (size_t)s->shape[3]);
    }
    if (!zn_count_elements(s->shape, s->rank, &count) || (count != 1 && (int64_t)count != rows) ||
        (count > 1 && s->shape[0] != rows))
        return ZN_FAIL(
            ZN_EUNSUPPORTED,
            "%s: tensor '%s' has %zu scales for %lld rows: only one scale, or one for each row, is supported", w->name,
            s->name, count, (long long)rows);
    out->per_row = count > 1;
    return check_finite(w, s, count);
}

zn_status zn_scaled_find(const zn_weights *w, const char *name, const zn_weight *weight, zn_scaled *out)
{
    const zn_weight *format = part_of(w, name, "comfy_quant"), *scales = part_of(w, name, "weight_scale");
    const char *all = zn_weights_metadata(w, ZN_SCALED_METADATA);
    *out = (zn_scaled){ .scales = scales ? scales : part_of(w, name, "scale_weight") };
    if (format)
        ZN_TRY(read_tensor(w, name, format, out));
    else if (all && out->scales)
        ZN_TRY(read_metadata(w, name, all, out));
    if (part_of(w, name, "weight_scale_inv") || weight->dtype == ZN_U8)
        return ZN_FAIL(ZN_EUNSUPPORTED,
                       "%s: the scales of layer '%s' belong to blocks of its matrix, which is not supported: take a "
                       "bf16, fp8 or GGUF file of this model",
                       w->name, name);
    if (out->rotated && (!out->scales || weight->rank != 2 || weight->shape[1] % out->rotated))
        return ZN_FAIL(ZN_EFORMAT, "%s: layer '%s' is rotated in groups of %d, but has no scales or no such groups",
                       w->name, name, out->rotated);
    if (!out->scales && weight->dtype == ZN_I8 && weight->rank >= 2)
        return ZN_FAIL(ZN_EFORMAT, "%s: layer '%s' is I8, but '%s.weight_scale' is missing", w->name, name, name);
    return out->scales ? check_scales(w, weight, out) : ZN_OK;
}

/* The layer of NAME.weight of 8-bit numbers; false if it is another tensor. */
static bool layer_of(const zn_weight *t, char *name)
{
    const char *end = zn_ending(t->name, ".weight");
    if ((t->dtype != ZN_F8_E4M3 && t->dtype != ZN_F8_E5M2 && t->dtype != ZN_I8) || t->rank < 1 || !end ||
        end - t->name >= MAX_NAME)
        return false;
    snprintf(name, MAX_NAME, "%.*s", (int)(end - t->name), t->name);
    return true;
}

bool zn_scaled_has(const zn_weights *w, const zn_weight *weight)
{
    char name[MAX_NAME];
    return layer_of(weight, name) && (part_of(w, name, "weight_scale") || part_of(w, name, "scale_weight"));
}

const zn_weight *zn_scaled_owner(const zn_weights *w, const zn_weight *part)
{
    static const char *const ends[] = { ".weight_scale", ".scale_weight", ".comfy_quant" };
    for (int i = 0; i < 3; i++) {
        const char *end = zn_ending(part->name, ends[i]);
        char name[MAX_NAME];
        if (!end || end - part->name >= MAX_NAME)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(end - part->name), part->name);
        const zn_weight *owner = part_of(w, name, "weight");
        return owner && zn_scaled_has(w, owner) ? owner : NULL;
    }
    return NULL;
}

zn_status zn_scaled_rows(const zn_weights *w, const zn_weight *weight, zn_packed *out)
{
    char name[MAX_NAME];
    const size_t rows = weight->shape[0] > 0 ? (size_t)weight->shape[0] : 1;
    zn_scaled s = { 0 };
    if (layer_of(weight, name))
        ZN_TRY(zn_scaled_find(w, name, weight, &s));
    *out = (zn_packed){ .data = weight->data,
                        .row_bytes = weight->bytes / rows,
                        .dtype = weight->dtype,
                        .scales = s.scales ? s.scales->data : NULL,
                        .scale_dtype = s.scales ? s.scales->dtype : ZN_F32,
                        .groups = (size_t)s.per_row,
                        .period = s.outputs_last,
                        .rotated = s.rotated };
    return ZN_OK;
}

zn_status zn_scaled_unpack(const zn_weights *w, const zn_weight *weight, zn_weight *out, float **copy)
{
    char name[MAX_NAME];
    zn_packed rows;
    *out = *weight;
    *copy = NULL;
    if (!layer_of(weight, name))
        return ZN_OK;
    ZN_TRY(zn_scaled_rows(w, weight, &rows));
    if (!rows.scales)
        return ZN_OK;
    const int64_t columns = (int64_t)rows.row_bytes; /* of a byte each */
    ZN_TRY(zn_alloc_for("a weight", sizeof **copy * weight->bytes, (void **)copy));
    for (int64_t r = 0; r < weight->shape[0]; r++)
        zn_packed_row(&rows, r, 0, columns, *copy + r * columns);
    out->dtype = ZN_F32;
    out->data = *copy;
    out->bytes = sizeof **copy * weight->bytes;
    return ZN_OK;
}
