/* The writer of GGUF files; gguf.c has the layout. */
#include "io/weights/gguf_write.h"

#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "base/span.h"

#include <string.h>

enum { ALIGNMENT = 32, VERSION = 3, BOOL = 7 };

static void put(zn_gguf_keys *k, const void *bytes, size_t size) { zn_json_out_raw(&k->bytes, bytes, size); }
static void put32(zn_gguf_keys *k, uint32_t value) { put(k, &value, sizeof value); }
static void put64(zn_gguf_keys *k, uint64_t value) { put(k, &value, sizeof value); }

void zn_gguf_string(zn_gguf_keys *k, const char *text, size_t size)
{
    put64(k, size);
    put(k, text, size);
}

static void put_key(zn_gguf_keys *k, const char *key, uint32_t type)
{
    zn_gguf_string(k, key, strlen(key));
    put32(k, type);
    k->count++;
}

void zn_gguf_key_text(zn_gguf_keys *k, const char *key, const char *text)
{
    put_key(k, key, ZN_GGUF_STRING);
    zn_gguf_string(k, text, strlen(text));
}

void zn_gguf_key_u32(zn_gguf_keys *k, const char *key, uint32_t value)
{
    put_key(k, key, ZN_GGUF_U32);
    put32(k, value);
}

void zn_gguf_key_f32(zn_gguf_keys *k, const char *key, float value)
{
    put_key(k, key, ZN_GGUF_F32);
    put(k, &value, sizeof value);
}

void zn_gguf_key_bool(zn_gguf_keys *k, const char *key, bool value)
{
    put_key(k, key, BOOL);
    put(k, value ? "\1" : "", 1);
}

void zn_gguf_key_copy(zn_gguf_keys *k, const zn_gguf_value *value)
{
    put_key(k, value->key, value->type);
    put(k, value->bytes, value->size);
}

void zn_gguf_key_array(zn_gguf_keys *k, const char *key, uint32_t type, uint64_t count)
{
    put_key(k, key, ZN_GGUF_ARRAY);
    put32(k, type);
    put64(k, count);
}

static size_t padding(size_t bytes) { return (ALIGNMENT - bytes % ALIGNMENT) % ALIGNMENT; }

void zn_gguf_pad(zn_outfile *out, size_t bytes)
{
    static const char zeros[ALIGNMENT];
    zn_outfile_write(out, zeros, padding(bytes));
}

static zn_status put_tensor(zn_gguf_keys *head, const char *path, const zn_weight *t, size_t *at)
{
    size_t elements, bytes;
    if (!zn_count_elements(t->shape, t->rank, &elements) || !zn_dtype_bytes(t->dtype, elements, &bytes) ||
        zn_gguf_type(t->dtype) < 0)
        return ZN_FAIL(ZN_EINVALID, "cannot write %s: tensor '%s' has no shape and dtype that GGUF files can hold",
                       path, t->name);
    zn_gguf_string(head, t->name, strlen(t->name));
    put32(head, (uint32_t)t->rank);
    for (int i = t->rank - 1; i >= 0; i--)
        put64(head, (uint64_t)t->shape[i]);
    put32(head, (uint32_t)zn_gguf_type(t->dtype));
    put64(head, *at);
    if (!zn_add_size(*at, bytes, at) || !zn_add_size(*at, padding(*at), at))
        return ZN_FAIL(ZN_EINVALID, "cannot write %s: its size overflows", path);
    return ZN_OK;
}

static zn_status put_head(zn_gguf_keys *head, const char *path, const zn_weight *tensors, int64_t count,
                          const zn_gguf_keys *keys)
{
    size_t at = 0;
    put(head, "GGUF", 4);
    put32(head, VERSION);
    put64(head, (uint64_t)count);
    put64(head, keys->count);
    put(head, keys->bytes.bytes, keys->bytes.size);
    for (int64_t i = 0; i < count; i++)
        ZN_TRY(put_tensor(head, path, &tensors[i], &at));
    return head->bytes.failed || keys->bytes.failed ? ZN_FAIL(ZN_ENOMEM, "out of memory: header of %s", path) : ZN_OK;
}

zn_status zn_gguf_begin(zn_outfile *out, const char *path, const zn_weight *tensors, int64_t count,
                        const zn_gguf_keys *keys)
{
    zn_gguf_keys head = { 0 };
    zn_status status;
    ZN_TRY_DONE(put_head(&head, path, tensors, count, keys));
    ZN_TRY_DONE(zn_outfile_open(out, path));
    zn_outfile_write(out, head.bytes.bytes, head.bytes.size);
    zn_gguf_pad(out, head.bytes.size);
done:
    zn_json_out_free(&head.bytes);
    return status;
}
