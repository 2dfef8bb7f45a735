/* Finds the scales of FP8 and int8 layers. */
#include "io/weights/scaled.h"

#include "base/fail.h"
#include "base/json.h"
#include "base/packed.h"
#include "base/span.h"
#include "io/weights/reader.h"

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

static zn_status check_scales(const zn_weights *w, const zn_weight *weight, zn_scaled *out)
{
    const zn_weight *s = out->scales;
    const int64_t rows = weight->rank == 2 ? weight->shape[0] : 0;
    size_t count = 0;
    if (s->dtype != ZN_F32 && s->dtype != ZN_F16 && s->dtype != ZN_BF16)
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s' is %s, not F32, F16 or BF16", w->name, s->name,
                       zn_dtype_name(s->dtype));
    if (!zn_count_elements(s->shape, s->rank, &count) || (count != 1 && (int64_t)count != rows) ||
        (count > 1 && s->shape[0] != rows))
        return ZN_FAIL(
            ZN_EUNSUPPORTED,
            "%s: tensor '%s' has %zu scales for %lld rows: only one scale, or one for each row, is supported", w->name,
            s->name, count, (long long)rows);
    out->per_row = count > 1;
    return ZN_OK;
}

zn_status zn_scaled_find(const zn_weights *w, const char *name, const zn_weight *weight, zn_scaled *out)
{
    const zn_weight *format = part_of(w, name, "comfy_quant"), *scales = part_of(w, name, "weight_scale");
    const char *all = zn_weights_metadata(w, "_quantization_metadata");
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
    return out->scales ? check_scales(w, weight, out) : ZN_OK;
}
