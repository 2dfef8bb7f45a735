/* Reads GGUF files in place, versions 2 and 3.
 *
 *     "GGUF" | u32 version | u64 tensors | u64 keys
 *     for each key:    string name | u32 type | value          string: u64 length, bytes
 *     for each tensor: string name | u32 rank | u64 sides, fastest first | u32 type | u64 offset in the data
 *     zeros up to a multiple of general.alignment (32 unless stated) | data
 *
 * Everything before the data is one pass over the bytes; a count is believed only if so many entries fit in what is
 * left of the file. */
#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/numbers.h"
#include "base/span.h"
#include "io/weights/reader.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_NESTING = 8, LEAST_KEY = 8 + 4 + 1, LEAST_TENSOR = 8 + 4 + 4 + 8, ALIGNMENT = 32 };

typedef struct cursor {
    zn_weights *w;
    size_t at;
    uint64_t alignment; /* 0: not stated */
} cursor;

static zn_status take(cursor *c, const char *what, uint64_t count, const uint8_t **bytes)
{
    if (!zn_span_fits(c->at, count, c->w->size))
        return ZN_FAIL(ZN_EFORMAT, "%s: %s at byte %zu needs %" PRIu64 " bytes, but the file ends after %zu",
                       c->w->name, what, c->at, count, c->w->size - c->at);
    *bytes = c->w->bytes + c->at;
    c->at += (size_t)count;
    return ZN_OK;
}

static zn_status take32(cursor *c, const char *what, uint32_t *value)
{
    const uint8_t *p = NULL;
    ZN_TRY(take(c, what, 4, &p));
    *value = zn_load32(p);
    return ZN_OK;
}

static zn_status take64(cursor *c, const char *what, uint64_t *value)
{
    const uint8_t *p = NULL;
    ZN_TRY(take(c, what, 8, &p));
    *value = zn_load64(p);
    return ZN_OK;
}

/* A string as text in the arena. */
static zn_status take_text(cursor *c, const char *what, const char **text)
{
    const uint8_t *p = NULL;
    uint64_t length;
    ZN_TRY(take64(c, what, &length));
    ZN_TRY(take(c, what, length, &p));
    if (memchr(p, 0, (size_t)length) || !zn_utf8_valid(p, (size_t)length))
        return ZN_FAIL(ZN_EFORMAT, "%s: %s at byte %zu is not UTF-8 text without NUL", c->w->name, what,
                       (size_t)(p - c->w->bytes));
    char *copy = zn_arena_alloc(&c->w->arena, (size_t)length + 1);
    if (!copy)
        return ZN_FAIL(ZN_ENOMEM, "out of memory: %s of %s", what, c->w->name);
    *text = memcpy(copy, p, (size_t)length);
    return ZN_OK;
}

/* Bytes of a value of a type, 0 for strings, arrays and what is unknown. */
static size_t value_size(uint32_t type)
{
    static const uint8_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    return type < sizeof sizes ? sizes[type] : 0;
}

static zn_status unknown_type(const cursor *c, const char *key, uint32_t type)
{
    return ZN_FAIL(ZN_EFORMAT, "%s: key '%s' has a value of unknown type %" PRIu32, c->w->name, key, type);
}

static zn_status skip_array(cursor *c, const char *key, int depth)
{
    const uint8_t *p = NULL;
    uint32_t type;
    uint64_t count, length;
    if (depth > MAX_NESTING)
        return ZN_FAIL(ZN_ELIMIT, "%s: key '%s': arrays nest more than %d deep", c->w->name, key, MAX_NESTING);
    ZN_TRY(take32(c, "the type of an array", &type));
    ZN_TRY(take64(c, "the length of an array", &count));
    const size_t least = type == ZN_GGUF_STRING ? 8 : type == ZN_GGUF_ARRAY ? 12 : value_size(type);
    if (!least)
        return unknown_type(c, key, type);
    if (count > (c->w->size - c->at) / least)
        return ZN_FAIL(ZN_EFORMAT, "%s: key '%s': an array of %" PRIu64 " values does not fit in the file's %zu bytes",
                       c->w->name, key, count, c->w->size);
    if (value_size(type))
        return take(c, "an array", count * least, &p);
    for (uint64_t i = 0; i < count && type == ZN_GGUF_ARRAY; i++)
        ZN_TRY(skip_array(c, key, depth + 1));
    for (uint64_t i = 0; i < count && type == ZN_GGUF_STRING; i++) {
        ZN_TRY(take64(c, "a string of an array", &length));
        ZN_TRY(take(c, "a string of an array", length, &p));
    }
    return ZN_OK;
}

#define AS(label, type, format, as)                                                                                    \
    case label: {                                                                                                      \
        type v;                                                                                                        \
        memcpy(&v, p, sizeof v);                                                                                       \
        return zn_arena_format(a, "%" format, (as)v);                                                                  \
    }

/* A number as text; as exact as it is stored. */
static const char *number_text(zn_arena *a, uint32_t type, const uint8_t *p)
{
    switch (type) {
        AS(0, uint8_t, PRIu32, uint32_t)
        AS(1, int8_t, PRId32, int32_t)
        AS(2, uint16_t, PRIu32, uint32_t)
        AS(3, int16_t, PRId32, int32_t)
        AS(4, uint32_t, PRIu32, uint32_t)
        AS(5, int32_t, PRId32, int32_t)
        AS(6, float, ".9g", double)
        AS(10, uint64_t, PRIu64, uint64_t)
        AS(11, int64_t, PRId64, int64_t)
        AS(12, double, ".17g", double)
    default: /* 7, true or false */
        return *p ? "true" : "false";
    }
}

static zn_status note_alignment(cursor *c, uint32_t type, const uint8_t *value)
{
    const uint32_t alignment = type == 4 ? zn_load32(value) : 0;
    if (alignment == 0 || (alignment & (alignment - 1)))
        return ZN_FAIL(ZN_EFORMAT, "%s: general.alignment is not a power of two stored as u32", c->w->name);
    if (c->alignment)
        return ZN_FAIL(ZN_EFORMAT, "%s: general.alignment is stated twice", c->w->name);
    c->alignment = alignment;
    return ZN_OK;
}

/* A value that is no array, as text. */
static zn_status read_value(cursor *c, const char *key, uint32_t type)
{
    zn_metadata pair = { .key = key };
    const uint8_t *p = NULL;
    const int is_alignment = strcmp(pair.key, "general.alignment") == 0;
    if (type == ZN_GGUF_STRING && !is_alignment) {
        ZN_TRY(take_text(c, "a value", &pair.value));
    } else {
        if (!value_size(type) && !is_alignment)
            return unknown_type(c, pair.key, type);
        ZN_TRY(take(c, "a value", value_size(type), &p));
        if (is_alignment)
            ZN_TRY(note_alignment(c, type, p));
        pair.value = number_text(&c->w->arena, type, p);
    }
    if (!pair.value)
        return ZN_FAIL(ZN_ENOMEM, "out of memory: metadata of %s", c->w->name);
    c->w->metadata[c->w->metadata_count++] = pair;
    return ZN_OK;
}

static zn_status read_key(cursor *c)
{
    zn_gguf_value v = { 0 };
    ZN_TRY(take_text(c, "a key", &v.key));
    ZN_TRY(take32(c, "the type of a value", &v.type));
    v.bytes = c->w->bytes + c->at;
    if (v.type == ZN_GGUF_ARRAY && strcmp(v.key, "general.alignment") != 0)
        ZN_TRY(skip_array(c, v.key, 1));
    else
        ZN_TRY(read_value(c, v.key, v.type));
    v.size = (size_t)(c->w->bytes + c->at - v.bytes);
    c->w->values[c->w->value_count++] = v;
    return ZN_OK;
}

const zn_gguf_value *zn_gguf_find(const zn_weights *w, const char *key)
{
    for (int64_t i = 0; i < w->value_count; i++)
        if (strcmp(w->values[i].key, key) == 0)
            return &w->values[i];
    return NULL;
}

uint64_t zn_gguf_array(const zn_weights *w, const char *key, uint32_t type, const uint8_t **elements)
{
    const zn_gguf_value *v = zn_gguf_find(w, key);
    if (!v || v->type != ZN_GGUF_ARRAY || zn_load32(v->bytes) != type)
        return 0;
    *elements = v->bytes + 12;
    return zn_load64(v->bytes + 4);
}

static const uint8_t types[] = {
    /* 0 where there is none or it is not read; ZN_F64 is 0 too, and type 28 */
    [0] = ZN_F32,  [1] = ZN_F16,   [2] = ZN_Q4_0,  [3] = ZN_Q4_1,  [6] = ZN_Q5_0,  [7] = ZN_Q5_1,
    [8] = ZN_Q8_0, [10] = ZN_Q2_K, [11] = ZN_Q3_K, [12] = ZN_Q4_K, [13] = ZN_Q5_K, [14] = ZN_Q6_K,
    [24] = ZN_I8,  [25] = ZN_I16,  [26] = ZN_I32,  [27] = ZN_I64,  [28] = ZN_F64,  [30] = ZN_BF16
};

static zn_status read_type(const cursor *c, uint32_t type, zn_weight *t)
{
    if (type >= sizeof types || (types[type] == ZN_F64 && type != 28))
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: tensor '%s': tensors of type %" PRIu32 " are not read", c->w->name,
                       t->name, type);
    t->dtype = (zn_dtype)types[type];
    return ZN_OK;
}

int zn_gguf_type(zn_dtype dtype)
{
    for (int i = 0; i < (int)sizeof types; i++)
        if (types[i] == dtype && (dtype != ZN_F64 || i == 28))
            return i;
    return -1;
}

static zn_status check_size(const cursor *c, zn_weight *t)
{
    size_t count;
    const int64_t row = t->rank ? t->shape[t->rank - 1] : 1;
    if (row % (int64_t)zn_dtype_block(t->dtype))
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s': rows of %" PRId64 " elements are no whole number of %s blocks",
                       c->w->name, t->name, row, zn_dtype_name(t->dtype));
    if (!zn_count_elements(t->shape, t->rank, &count) || !zn_dtype_bytes(t->dtype, count, &t->bytes))
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s': its shape overflows", c->w->name, t->name);
    return ZN_OK;
}

/* Where the data begins is known only after the last tensor: until then t.data is the start of the file plus offset. */
static zn_status read_tensor(cursor *c)
{
    zn_weight t = { 0 };
    uint32_t rank, type;
    uint64_t side, offset;
    ZN_TRY(take_text(c, "a tensor's name", &t.name));
    ZN_TRY(take32(c, "a tensor's rank", &rank));
    if (rank > ZN_MAX_RANK)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: tensor '%s': rank %" PRIu32 " is more than %d", c->w->name, t.name, rank,
                       ZN_MAX_RANK);
    t.rank = (int)rank;
    for (int i = t.rank - 1; i >= 0; i--) {
        ZN_TRY(take64(c, "a tensor's shape", &side));
        if (side > INT64_MAX)
            return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s': its shape overflows", c->w->name, t.name);
        t.shape[i] = (int64_t)side;
    }
    ZN_TRY(take32(c, "a tensor's type", &type));
    ZN_TRY(read_type(c, type, &t));
    ZN_TRY(take64(c, "a tensor's offset", &offset));
    ZN_TRY(check_size(c, &t));
    const uint64_t alignment = c->alignment ? c->alignment : ALIGNMENT;
    if (offset % alignment)
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s': offset %" PRIu64 " is no multiple of %" PRIu64, c->w->name, t.name,
                       offset, alignment);
    if (!zn_span_fits(offset, t.bytes, c->w->size))
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s': %zu bytes at offset %" PRIu64 " do not fit in the file's %zu",
                       c->w->name, t.name, t.bytes, offset, c->w->size);
    t.data = c->w->bytes + offset;
    return zn_weights_add(c->w, &t);
}

/* Moves every tensor after the header, which ends where the cursor is. */
static zn_status place(const cursor *c)
{
    zn_weights *w = c->w;
    const size_t alignment = (size_t)(c->alignment ? c->alignment : ALIGNMENT), rest = c->at % alignment;
    const size_t padding = rest ? alignment - rest : 0, start = padding < w->size - c->at ? c->at + padding : w->size;
    for (int64_t i = 0; i < w->count; i++) {
        zn_weight *t = &w->items[i];
        const size_t offset = (size_t)((const uint8_t *)t->data - w->bytes);
        if (!zn_span_fits(offset, t->bytes, w->size - start))
            return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s': bytes %zu to %zu lie outside the %zu bytes of data", w->name,
                           t->name, offset, offset + t->bytes, w->size - start);
        t->data = w->bytes + start + offset;
    }
    const zn_weight **order;
    ZN_TRY(zn_weights_places(w, w->bytes + start, &order));
    zn_free(order);
    return ZN_OK;
}

static bool probe(const uint8_t *bytes, size_t size) { return size >= 4 && memcmp(bytes, "GGUF", 4) == 0; }

static zn_status read_version(cursor *c)
{
    uint32_t version;
    ZN_TRY(take32(c, "the version", &version));
    if (version != 2 && version != 3)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s is a GGUF file of version %" PRIu32 "%s; 2 and 3 are read", c->w->name,
                       version, version && version % 65536 == 0 ? " (or big-endian)" : "");
    return ZN_OK;
}

static zn_status check_count(const cursor *c, const char *what, uint64_t count, size_t least)
{
    if (count > (c->w->size - c->at) / least)
        return ZN_FAIL(ZN_EFORMAT, "%s: %" PRIu64 " %s do not fit in the file's %zu bytes", c->w->name, count, what,
                       c->w->size);
    return ZN_OK;
}

static zn_status read_all(zn_weights *w)
{
    cursor c = { .w = w, .at = 4 };
    uint64_t tensors, keys;
    ZN_TRY(read_version(&c));
    ZN_TRY(take64(&c, "the number of tensors", &tensors));
    ZN_TRY(take64(&c, "the number of keys", &keys));
    ZN_TRY(check_count(&c, "keys", keys, LEAST_KEY));
    ZN_TRY(zn_alloc_for("metadata", (size_t)keys * sizeof *w->metadata, (void **)&w->metadata));
    ZN_TRY(zn_alloc_for("metadata", (size_t)keys * sizeof *w->values, (void **)&w->values));
    for (uint64_t i = 0; i < keys; i++)
        ZN_TRY(read_key(&c));
    ZN_TRY(check_count(&c, "tensors", tensors, LEAST_TENSOR));
    for (uint64_t i = 0; i < tensors; i++)
        ZN_TRY(read_tensor(&c));
    return place(&c);
}

static zn_status read_file(zn_weights *w)
{
    const locale_t old = zn_numbers_begin();
    const zn_status status = read_all(w);
    zn_numbers_end(old);
    return status;
}

const zn_weights_reader zn_gguf_reader = { "gguf", probe, read_file };
