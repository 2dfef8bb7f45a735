/* Reads .safetensors files in place.
 *
 *     u64 n | n bytes of JSON, padded with spaces | tensor data
 *     {"__metadata__": {"k": "v"}, "NAME": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ...}
 *
 * The format forbids bytes that belong to no tensor, which could hide a second file. Writers that align tensors leave
 * a few zero bytes between them: those pass, anything else is refused. */
#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/span.h"
#include "io/weights/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEADER = 100 * 1000 * 1000, MAX_PADDING = 63 };

typedef struct file {
    zn_weights *w;
    const uint8_t *data;
    size_t size;
} file;

static zn_status read_dtype(const file *f, const zn_json_node *node, zn_weight *t)
{
    const char *name = zn_json_string(node);
    if (!name)
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s': dtype is not a string", f->w->name, t->name);
    if (!zn_dtype_parse(name, strlen(name), &t->dtype))
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: tensor '%s': unknown dtype '%s'", f->w->name, t->name, name);
    return ZN_OK;
}

static zn_status read_shape(const file *f, const zn_json_node *node, zn_weight *t)
{
    if (node->kind != ZN_JSON_ARRAY)
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s': shape is not an array", f->w->name, t->name);
    if (node->length > ZN_MAX_RANK)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: tensor '%s': rank %u is more than %d", f->w->name, t->name, node->length,
                       ZN_MAX_RANK);
    ZN_JSON_EACH(side, node)
    if (!zn_json_i64(side, &t->shape[t->rank++]) || t->shape[t->rank - 1] < 0)
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s': side %d of its shape is not a size", f->w->name, t->name,
                       t->rank - 1);
    return ZN_OK;
}

static zn_status read_offsets(const file *f, const zn_json_node *node, zn_weight *t)
{
    uint64_t begin, end;
    if (node->kind != ZN_JSON_ARRAY || node->length != 2 || !zn_json_u64(node + 1, &begin) ||
        !zn_json_u64(node + 2, &end))
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s': data_offsets are not two sizes", f->w->name, t->name);
    if (begin > end || end > f->size)
        return ZN_FAIL(ZN_EFORMAT,
                       "%s: tensor '%s': data_offsets %" PRIu64 " to %" PRIu64 " lie outside the %zu bytes of data",
                       f->w->name, t->name, begin, end, f->size);
    t->data = f->data + begin;
    t->bytes = (size_t)(end - begin);
    return ZN_OK;
}

static zn_status check_size(const file *f, const zn_weight *t)
{
    size_t count, bytes;
    if (!zn_count_elements(t->shape, t->rank, &count) || !zn_dtype_bytes(t->dtype, count, &bytes))
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s': its shape overflows", f->w->name, t->name);
    if (bytes != t->bytes)
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s': %zu bytes of data, but its shape and dtype %s need %zu",
                       f->w->name, t->name, t->bytes, zn_dtype_name(t->dtype), bytes);
    return ZN_OK;
}

static const struct {
    const char *name;
    zn_status (*read)(const file *, const zn_json_node *, zn_weight *);
} fields[] = { { "dtype", read_dtype }, { "shape", read_shape }, { "data_offsets", read_offsets } };

/* Fields of other names are allowed and mean nothing to us. */
static zn_status read_field(const file *f, const zn_json_node *key, zn_weight *t, int *seen)
{
    for (int i = 0; i < 3; i++) {
        if (key->length != strlen(fields[i].name) || memcmp(key->value.text, fields[i].name, key->length) != 0)
            continue;
        if (*seen & 1 << i)
            return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s' has two fields %s", f->w->name, t->name, fields[i].name);
        *seen |= 1 << i;
        return fields[i].read(f, key + 1, t);
    }
    return ZN_OK;
}

static zn_status read_tensor(const file *f, const zn_json_node *key)
{
    zn_weight t = { .name = zn_json_string(key) };
    int seen = 0;
    if (!t.name)
        return ZN_FAIL(ZN_EFORMAT, "%s: a tensor name holds a NUL character", f->w->name);
    if (key[1].kind != ZN_JSON_OBJECT)
        return ZN_FAIL(ZN_EFORMAT, "%s: the entry of tensor '%s' is not an object", f->w->name, t.name);
    ZN_JSON_EACH(field, key + 1) { ZN_TRY(read_field(f, field, &t, &seen)); }
    for (int i = 0; i < 3; i++)
        if (!(seen & 1 << i))
            return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s' has no field %s", f->w->name, t.name, fields[i].name);
    ZN_TRY(check_size(f, &t));
    return zn_weights_add(f->w, &t);
}

static zn_status read_metadata(zn_weights *w, const zn_json_node *node)
{
    if (node->kind == ZN_JSON_NULL)
        return ZN_OK;
    if (node->kind != ZN_JSON_OBJECT || w->metadata)
        return ZN_FAIL(ZN_EFORMAT, "%s: __metadata__ is not one object", w->name);
    w->metadata = zn_alloc(node->length * sizeof *w->metadata);
    if (!w->metadata)
        return ZN_FAIL(ZN_ENOMEM, "out of memory: metadata of %s", w->name);
    ZN_JSON_EACH(key, node)
    {
        zn_metadata pair = { zn_json_string(key), zn_json_string(key + 1) };
        if (!pair.key || !pair.value)
            return ZN_FAIL(ZN_EFORMAT, "%s: metadata '%s' is not a string", w->name, key->value.text);
        w->metadata[w->metadata_count++] = pair;
    }
    return ZN_OK;
}

/* [begin,end) belongs to no tensor: allowed if it is alignment. */
static zn_status check_gap(const file *f, size_t begin, size_t end)
{
    int zero = end - begin <= MAX_PADDING;
    for (size_t i = begin; zero && i < end; i++)
        zero = f->data[i] == 0;
    if (!zero)
        return ZN_FAIL(ZN_EFORMAT, "%s: bytes %zu to %zu of the data are a gap that belongs to no tensor", f->w->name,
                       begin, end);
    return ZN_OK;
}

static zn_status check_gaps(const file *f, const zn_weight *const *order)
{
    size_t end = 0;
    for (int64_t i = 0; i < f->w->count; i++) {
        const size_t begin = (size_t)((const uint8_t *)order[i]->data - f->data);
        ZN_TRY(check_gap(f, end, begin));
        end = begin + order[i]->bytes;
    }
    return check_gap(f, end, f->size);
}

static zn_status read_header(const file *f, const zn_json_node *root)
{
    if (root->kind != ZN_JSON_OBJECT)
        return ZN_FAIL(ZN_EFORMAT, "%s: the header is not a JSON object", f->w->name);
    ZN_JSON_EACH(key, root)
    {
        if (strcmp(key->value.text, "__metadata__") == 0 && key->length == 12)
            ZN_TRY(read_metadata(f->w, key + 1));
        else
            ZN_TRY(read_tensor(f, key));
    }
    const zn_weight **order;
    ZN_TRY(zn_weights_places(f->w, f->data, &order));
    const zn_status status = check_gaps(f, order);
    zn_free(order);
    return status;
}

static bool probe(const uint8_t *bytes, size_t size) { return size > 8 && bytes[8] == '{'; }

static zn_status read_file(zn_weights *w)
{
    const uint64_t header = zn_load64(w->bytes);
    zn_json doc;
    if (!zn_span_fits(8, header, w->size))
        return ZN_FAIL(ZN_EFORMAT, "%s: a header of %" PRIu64 " bytes does not fit in the file's %zu", w->name, header,
                       w->size);
    if (header > MAX_HEADER)
        return ZN_FAIL(ZN_ELIMIT, "%s: the header's %" PRIu64 " bytes are more than the limit of %d", w->name, header,
                       MAX_HEADER);
    ZN_TRY(zn_json_parse(&doc, w->bytes + 8, (size_t)header, w->name));
    w->text = doc.text; /* names and metadata point into it */
    doc.text = NULL;
    const file f = { w, w->bytes + 8 + header, w->size - 8 - (size_t)header };
    const zn_status status = read_header(&f, doc.root);
    zn_json_free(&doc);
    return status;
}

const zn_weights_reader zn_safetensors_reader = { "safetensors", probe, read_file };
