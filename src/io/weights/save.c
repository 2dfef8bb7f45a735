/* zn_weights_save: a copy of a weight file as .safetensors, with other dtypes if asked for. Scaled 8-bit layers become
 * floats (scaled.h), and for ZN_I8 and ZN_F8_E4M3 large weights become such layers. */
#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/span.h"
#include "base/text.h"
#include "io/weights/scaled.h"
#include "io/weights/writer.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum {
    CHUNK = 1 << 14,    /* elements converted at a time: whole blocks of every dtype */
    LEAST = 1 << 12,    /* elements of a weight in 8 bits: less saves nothing, and the ends of networks are small */
    LARGEST_KERNEL = 11 /* side of a convolution's */
};

typedef enum way { KEEP, CONVERT, UNPACK, QUANTISE, SCALES } way;

typedef struct item {
    way way;
    const zn_weight *from; /* SCALES: of the item before */
} item;

typedef struct work {
    const zn_weights *w;
    zn_weight *as; /* what is written */
    item *items;
    int64_t count;
    zn_arena names;
    zn_metadata *metadata;
    int64_t metadata_count;
    zn_json_out described;  /* the description of ComfyUI's layers among them */
    float *floats, *scales; /* a row or a chunk; of a weight */
    void *narrow;           /* the same as floats in another dtype */
} work;

static bool is_number(zn_dtype dtype) { return zn_dtype_is_float(dtype) || zn_dtype_block(dtype) > 1; }

/* Whether weights get scales. */
static bool is_scaled_type(zn_dtype dtype) { return dtype == ZN_I8 || dtype == ZN_F8_E4M3; }

static size_t elements(const zn_weight *t) { return t->bytes / zn_dtype_size(t->dtype) * zn_dtype_block(t->dtype); }

/* Whether a convolution is [height][width][inputs][outputs], as in Zenith's own networks; elsewhere outputs are first.
 */
static bool has_outputs_last(const zn_weight *t)
{
    return t->rank == 4 && t->shape[0] <= LARGEST_KERNEL && t->shape[1] <= LARGEST_KERNEL &&
           (t->shape[2] > LARGEST_KERNEL || t->shape[3] > LARGEST_KERNEL);
}

static int64_t outputs(const zn_weight *t) { return has_outputs_last(t) ? t->shape[3] : t->shape[0]; }

static way way_of(const zn_weights *w, const zn_weight *t, int convert, zn_dtype dtype)
{
    const bool scaled = zn_scaled_has(w, t);
    if (!convert || (!is_number(t->dtype) && !scaled))
        return KEEP;
    if (!is_scaled_type(dtype))
        return scaled ? UNPACK : t->dtype == dtype ? KEEP : CONVERT;
    return t->dtype != dtype && t->rank >= 2 && outputs(t) > 1 && elements(t) >= LEAST && zn_ending(t->name, ".weight")
               ? QUANTISE
               : KEEP;
}

/* Scales whose weight does without them in the copy. */
static bool is_left_out(const zn_weights *w, const zn_weight *t, int convert, zn_dtype dtype)
{
    const zn_weight *owner = zn_scaled_owner(w, t);
    return owner && way_of(w, owner, convert, dtype) != KEEP;
}

static void add(work *k, way how, const zn_weight *from, const zn_weight *as)
{
    k->items[k->count] = (item){ how, from };
    k->as[k->count++] = *as;
}

static void plan_tensors(work *k, int convert, zn_dtype dtype)
{
    for (int64_t i = 0; i < k->w->count; i++) {
        const zn_weight *t = &k->w->items[i];
        const way how = way_of(k->w, t, convert, dtype);
        zn_weight as = *t;
        if (is_left_out(k->w, t, convert, dtype))
            continue;
        if (how != KEEP)
            as.dtype = dtype;
        add(k, how, t, &as);
        if (how != QUANTISE)
            continue;
        zn_weight scales = {
            .name = zn_arena_format(&k->names, "%s_scale", t->name), .dtype = ZN_F32, .rank = 1, .shape = { outputs(t) }
        };
        if (dtype == ZN_F8_E4M3) {
            scales.shape[0] = 1;
        } else if (has_outputs_last(t)) {
            scales.rank = 4;
            memcpy(scales.shape, (int64_t[4]){ 1, 1, 1, outputs(t) }, 4 * sizeof *scales.shape);
        }
        add(k, SCALES, t, &scales);
    }
}

/* Writes the descriptions of ComfyUI's layers whose weights are kept; returns how many there are. */
static int describe_layers(work *k, const zn_json_node *layers, int convert, zn_dtype dtype)
{
    int kept = 0;
    zn_json_out_raw(&k->described, "{", 1);
    ZN_JSON_EACH(layer, layers)
    {
        const char *name = zn_arena_format(&k->names, "%s.weight", layer->value.text);
        const zn_weight *t = name ? zn_weights_find(k->w, name) : NULL;
        if (!t || way_of(k->w, t, convert, dtype) != KEEP)
            continue;
        zn_json_out_format(&k->described, "%s", kept++ ? "," : "");
        zn_json_out_node(&k->described, layer);
        zn_json_out_raw(&k->described, ":", 1);
        zn_json_out_node(&k->described, layer + 1);
    }
    zn_json_out_raw(&k->described, "}", 1);
    return kept;
}

/* Copies the description of ComfyUI's layers without those that the copy has in another form. Called once. */
static zn_status plan_description(work *k, const zn_metadata *m, int convert, zn_dtype dtype)
{
    zn_json doc;
    ZN_TRY(zn_json_parse(&doc, m->value, strlen(m->value), k->w->name));
    const zn_json_node *layers = zn_json_get(doc.root, "layers");
    const bool has_layers = layers && layers->kind == ZN_JSON_OBJECT;
    int kept = 0;
    zn_json_out_raw(&k->described, "{", 1);
    ZN_JSON_EACH(key, has_layers ? doc.root : NULL)
    {
        zn_json_out_format(&k->described, "%s", key == doc.root + 1 ? "" : ",");
        zn_json_out_node(&k->described, key);
        zn_json_out_raw(&k->described, ":", 1);
        if (key + 1 == layers)
            kept = describe_layers(k, layers, convert, dtype);
        else
            zn_json_out_node(&k->described, key + 1);
    }
    zn_json_out_raw(&k->described, "}", sizeof "}");
    zn_json_free(&doc);
    if (k->described.failed)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for metadata");
    if (kept)
        k->metadata[k->metadata_count++] = (zn_metadata){ m->key, k->described.bytes };
    return ZN_OK;
}

static zn_status plan_metadata(work *k, int convert, zn_dtype dtype)
{
    const char *first = zn_weights_metadata(k->w, ZN_SCALED_METADATA); /* readers ignore others of this key */
    for (int64_t i = 0; i < k->w->metadata_count; i++) {
        const zn_metadata *m = &k->w->metadata[i];
        if (!convert || strcmp(m->key, ZN_SCALED_METADATA) != 0)
            k->metadata[k->metadata_count++] = *m;
        else if (m->value == first)
            ZN_TRY(plan_description(k, m, convert, dtype));
    }
    return ZN_OK;
}

static void write_converted(zn_outfile *out, const zn_weight *t, zn_dtype dtype, const work *k)
{
    const size_t size = zn_dtype_size(t->dtype), block = zn_dtype_block(t->dtype), count = elements(t);
    for (size_t i = 0; i < count; i += CHUNK) {
        const size_t n = count - i < CHUNK ? count - i : CHUNK;
        zn_to_f32(k->floats, (const char *)t->data + i / block * size, t->dtype, n);
        zn_from_f32(k->narrow, dtype, k->floats, n);
        zn_outfile_write(out, k->narrow, n * zn_dtype_size(dtype));
    }
}

/* The largest magnitude of every output, in order from the first element; NaN if a number is not finite. each: how many
 * elements in a row belong to one output. */
static void find_largest(const float *x, size_t count, size_t each, float *most, int64_t outputs)
{
    for (size_t i = 0; i < count; i++) {
        float *own = &most[i / each % (size_t)outputs];
        *own = x[i] - x[i] == 0 && !isnan(*own) ? fmaxf(*own, fabsf(x[i])) : NAN;
    }
}

/* Scales of all outputs of a weight, or the one of a weight in E4M3, in k->scales. */
static zn_status find_scales(const zn_weight *t, zn_dtype dtype, const zn_packed *packed, const work *k)
{
    const size_t columns = elements(t) / (size_t)t->shape[0];
    const bool one = dtype == ZN_F8_E4M3, last = has_outputs_last(t);
    const int64_t count = one ? 1 : outputs(t);
    const float largest = one ? 448 : 127;
    for (int64_t i = 0; i < count; i++)
        k->scales[i] = 0;
    for (int64_t r = 0; r < t->shape[0]; r++) {
        const bool across = last && !one;
        zn_packed_row(packed, r, 0, (int64_t)columns, k->floats);
        find_largest(k->floats, columns, across ? 1 : columns, k->scales + (across || one ? 0 : r),
                     across ? outputs(t) : 1);
    }
    for (int64_t i = 0; i < count; i++) {
        if (isnan(k->scales[i]))
            return ZN_FAIL(ZN_ENUMERIC, "tensor '%s' has numbers that are not finite", t->name);
        k->scales[i] = k->scales[i] / largest >= FLT_MIN ? k->scales[i] / largest : 0;
    }
    return ZN_OK;
}

/* The nearest of 255 numbers. */
static int8_t quantise(float x, float scale)
{
    const float inverse = scale > 0 ? 1 / scale : 0;
    return (int8_t)lrintf(fminf(fmaxf(x * inverse, -127), 127));
}

static void write_row(zn_outfile *out, const item *t, int64_t row, size_t columns, zn_dtype dtype, const work *k)
{
    const bool last = has_outputs_last(t->from);
    if (t->way != QUANTISE)
        zn_from_f32(k->narrow, dtype, k->floats, columns);
    else if (dtype == ZN_F8_E4M3)
        zn_to_e4m3(k->narrow, k->floats, k->scales[0] > 0 ? k->scales[0] : INFINITY, columns);
    else
        for (size_t i = 0; i < columns; i++)
            ((int8_t *)k->narrow)[i] =
                quantise(k->floats[i], k->scales[last ? i % (size_t)outputs(t->from) : (size_t)row]);
    zn_outfile_write(out, k->narrow, columns * zn_dtype_size(dtype));
}

static zn_status write_rows(zn_outfile *out, const item *t, zn_dtype dtype, const work *k)
{
    const int64_t rows = t->from->shape[0];
    const size_t columns = rows ? elements(t->from) / (size_t)rows : 0;
    zn_packed packed;
    ZN_TRY(zn_scaled_rows(k->w, t->from, &packed));
    if (t->way == QUANTISE)
        ZN_TRY(find_scales(t->from, dtype, &packed, k));
    for (int64_t r = 0; r < rows; r++) {
        zn_packed_row(&packed, r, 0, (int64_t)columns, k->floats);
        write_row(out, t, r, columns, dtype, k);
    }
    return ZN_OK;
}

static zn_status write_item(zn_outfile *out, const item *t, const zn_weight *as, const work *k)
{
    if (t->way == KEEP)
        zn_outfile_write(out, t->from->data, t->from->bytes);
    else if (t->way == CONVERT)
        write_converted(out, t->from, as->dtype, k);
    else if (t->way == SCALES)
        zn_outfile_write(out, k->scales, sizeof *k->scales * (size_t)as->shape[as->rank - 1]);
    else
        return write_rows(out, t, as->dtype, k);
    return ZN_OK;
}

static zn_status make_buffers(work *k)
{
    size_t longest = CHUNK, rows = 1; /* rows: scales */
    for (int64_t i = 0; i < k->count; i++) {
        const item *t = &k->items[i];
        if ((t->way != QUANTISE && t->way != UNPACK) || t->from->shape[0] < 1)
            continue;
        const size_t own = (size_t)t->from->shape[0], columns = elements(t->from) / own;
        rows = outputs(t->from) > (int64_t)rows ? (size_t)outputs(t->from) : rows;
        longest = columns > longest ? columns : longest;
    }
    ZN_TRY(zn_alloc_for("conversion", sizeof *k->floats * longest, (void **)&k->floats));
    ZN_TRY(zn_alloc_for("conversion", sizeof *k->scales * rows, (void **)&k->scales));
    return zn_alloc_for("conversion", 8 * longest, &k->narrow);
}

static zn_status write_file(work *k, const char *path)
{
    zn_outfile out;
    zn_status status = ZN_OK;
    ZN_TRY(zn_safetensors_begin(&out, path, k->as, k->count, k->metadata, k->metadata_count));
    for (int64_t i = 0; i < k->count && status == ZN_OK; i++)
        status = write_item(&out, &k->items[i], &k->as[i], k);
    if (status == ZN_OK)
        return zn_outfile_commit(&out);
    zn_outfile_abandon(&out);
    return status;
}

zn_status zn_weights_save(const zn_weights *w, const char *path, int convert, zn_dtype dtype)
{
    if (!w || !path)
        return ZN_FAIL(ZN_EINVALID, "zn_weights_save: weights and path must not be NULL");
    if (convert && !zn_dtype_is_float(dtype) && dtype != ZN_I8)
        return ZN_FAIL(ZN_EINVALID, "cannot convert weights to %s: neither a floating dtype nor I8",
                       zn_dtype_name(dtype));
    work k = { .w = w };
    const size_t most = 2 * (size_t)w->count;
    zn_status status;
    ZN_TRY_DONE(zn_alloc_for("the list of tensors", most * sizeof *k.as, (void **)&k.as));
    ZN_TRY_DONE(zn_alloc_for("the list of tensors", most * sizeof *k.items, (void **)&k.items));
    ZN_TRY_DONE(zn_alloc_for("metadata", (size_t)w->metadata_count * sizeof *k.metadata, (void **)&k.metadata));
    plan_tensors(&k, convert, dtype);
    ZN_TRY_DONE(plan_metadata(&k, convert, dtype));
    ZN_TRY_DONE(k.names.failed ? ZN_FAIL(ZN_ENOMEM, "out of memory: names of tensors") : ZN_OK);
    ZN_TRY_DONE(make_buffers(&k));
    status = write_file(&k, path);
done:
    zn_free(k.as);
    zn_free(k.items);
    zn_free(k.metadata);
    zn_free(k.floats);
    zn_free(k.scales);
    zn_free(k.narrow);
    zn_json_out_free(&k.described);
    zn_arena_free(&k.names);
    return status;
}
