/* The public face of weight files: opening by content, finding by name. Readers do the parsing (see reader.h). */
#include "base/alloc.h"
#include "base/fail.h"
#include "io/weights/reader.h"

#include <stdlib.h>
#include <string.h>

static const zn_weights_reader *const readers[] = { &zn_gguf_reader, &zn_safetensors_reader, &zn_pytorch_reader };

zn_status zn_weights_add(zn_weights *w, const zn_weight *item)
{
    if (!ZN_GROW(w->items, w->capacity, w->count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory: list of %lld tensors of %s", (long long)w->count + 1, w->name);
    w->items[w->count++] = *item;
    return ZN_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const zn_weight *const *)a)->name, (*(const zn_weight *const *)b)->name);
}

/* Sorting also finds names that occur twice, in time that no choice of names can make quadratic. */
zn_status zn_weights_index(zn_weights *w)
{
    w->sorted = zn_alloc((size_t)w->count * sizeof *w->sorted);
    if (!w->sorted)
        return ZN_FAIL(ZN_ENOMEM, "out of memory: index of %lld tensors of %s", (long long)w->count, w->name);
    for (int64_t i = 0; i < w->count; i++)
        w->sorted[i] = &w->items[i];
    qsort(w->sorted, (size_t)w->count, sizeof *w->sorted, by_name);
    for (int64_t i = 1; i < w->count; i++)
        if (strcmp(w->sorted[i - 1]->name, w->sorted[i]->name) == 0)
            return ZN_FAIL(ZN_EFORMAT, "%s: two tensors are named '%s'", w->name, w->sorted[i]->name);
    return ZN_OK;
}

static int by_place(const void *a, const void *b)
{
    const zn_weight *x = *(const zn_weight *const *)a, *y = *(const zn_weight *const *)b;
    const uintptr_t p = (uintptr_t)x->data, q = (uintptr_t)y->data;
    return p != q ? (p > q) - (p < q) : (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

zn_status zn_weights_places(const zn_weights *w, const uint8_t *data, const zn_weight ***order)
{
    const zn_weight **o = zn_alloc((size_t)w->count * sizeof *o);
    if (!o)
        return ZN_FAIL(ZN_ENOMEM, "out of memory: order of %lld tensors of %s", (long long)w->count, w->name);
    for (int64_t i = 0; i < w->count; i++)
        o[i] = &w->items[i];
    qsort(o, (size_t)w->count, sizeof *o, by_place);
    for (int64_t i = 1; i < w->count; i++) {
        const size_t end = (size_t)((const uint8_t *)o[i - 1]->data - data) + o[i - 1]->bytes;
        const size_t begin = (size_t)((const uint8_t *)o[i]->data - data);
        if (begin < end) {
            const zn_status status = ZN_FAIL(ZN_EFORMAT, "%s: tensors '%s' and '%s' overlap at byte %zu of the data",
                                             w->name, o[i - 1]->name, o[i]->name, begin);
            zn_free(o);
            return status;
        }
    }
    *order = o;
    return ZN_OK;
}

static bool starts_with(const zn_weights *w, const char *magic, size_t length)
{
    return w->size >= length && memcmp(w->bytes, magic, length) == 0;
}

/* What people hand over by mistake gets its own sentence. */
static zn_status refuse(const zn_weights *w)
{
    if (w->size == 0)
        return ZN_FAIL(ZN_EFORMAT, "%s is empty", w->name);
    if (starts_with(w, "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14))
        return ZN_FAIL(ZN_EUNSUPPORTED,
                       "%s is in the legacy format of PyTorch before 1.6 (not a zip archive): load it in PyTorch and "
                       "save it again",
                       w->name);
    if (w->bytes[0] == 0x80 && w->size > 1 && w->bytes[1] <= 5)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s is a bare pickle, not a PyTorch zip archive or .safetensors file", w->name);
    if (starts_with(w, "version https://git-lfs", 23))
        return ZN_FAIL(ZN_EFORMAT, "%s is a Git LFS pointer, not the file itself: fetch it with git lfs pull", w->name);
    if (starts_with(w, "<!DOCTYPE", 9) || starts_with(w, "<!doctype", 9) || starts_with(w, "<html", 5))
        return ZN_FAIL(ZN_EFORMAT, "%s is a web page, not a weight file: the download went wrong", w->name);
    return ZN_FAIL(ZN_EFORMAT, "%s: neither a .safetensors, a GGUF nor a PyTorch file", w->name);
}

static zn_status read_any(zn_weights *w)
{
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        if (readers[i]->probe(w->bytes, w->size)) {
            w->format = readers[i]->format;
            ZN_TRY(readers[i]->read(w));
            return zn_weights_index(w);
        }
    return refuse(w);
}

static zn_status new_weights(const char *name, zn_weights **out)
{
    zn_weights *w = zn_calloc(1, sizeof *w);
    if (w)
        w->name = zn_arena_copy(&w->arena, name);
    if (!w || !w->name) {
        zn_free(w);
        return ZN_FAIL(ZN_ENOMEM, "out of memory for %s", name);
    }
    *out = w;
    return ZN_OK;
}

static zn_status finish(zn_weights *w, zn_status status, zn_weights **out)
{
    if (status == ZN_OK)
        *out = w;
    else
        zn_weights_close(w);
    return status;
}

zn_status zn_weights_open(const char *path, zn_weights **out)
{
    zn_weights *w = NULL;
    if (!path || !out)
        return ZN_FAIL(ZN_EINVALID, "zn_weights_open: path and out must not be NULL");
    *out = NULL;
    ZN_TRY(new_weights(path, &w));
    zn_status status = zn_map_open(&w->map, path);
    w->bytes = w->map.bytes;
    w->size = w->map.size;
    if (status == ZN_OK)
        status = read_any(w);
    return finish(w, status, out);
}

zn_status zn_weights_open_memory(const void *bytes, size_t size, const char *name, zn_weights **out)
{
    zn_weights *w = NULL;
    if (!bytes || !name || !out)
        return ZN_FAIL(ZN_EINVALID, "zn_weights_open_memory: bytes, name and out must not be NULL");
    *out = NULL;
    ZN_TRY(new_weights(name, &w));
    w->bytes = bytes;
    w->size = size;
    return finish(w, read_any(w), out);
}

void zn_weights_close(zn_weights *w)
{
    if (!w)
        return;
    zn_map_close(&w->map);
    zn_free(w->items);
    zn_free(w->sorted);
    zn_free(w->metadata);
    zn_free(w->values);
    zn_free(w->text);
    zn_arena_free(&w->arena);
    zn_free(w);
}

const char *zn_weights_format(const zn_weights *w) { return w->format; }
int64_t zn_weights_count(const zn_weights *w) { return w->count; }

const zn_weight *zn_weights_at(const zn_weights *w, int64_t index)
{
    return index >= 0 && index < w->count ? &w->items[index] : NULL;
}

const zn_weight *zn_weights_find(const zn_weights *w, const char *name)
{
    int64_t low = 0, high = w->count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const int order = strcmp(name, w->sorted[middle]->name);
        if (order == 0)
            return w->sorted[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

int64_t zn_weights_metadata_count(const zn_weights *w) { return w->metadata_count; }

const char *zn_weights_metadata_at(const zn_weights *w, int64_t index, const char **value)
{
    if (index < 0 || index >= w->metadata_count)
        return NULL;
    if (value)
        *value = w->metadata[index].value;
    return w->metadata[index].key;
}

const char *zn_weights_metadata(const zn_weights *w, const char *key)
{
    for (int64_t i = 0; i < w->metadata_count; i++)
        if (strcmp(w->metadata[i].key, key) == 0)
            return w->metadata[i].value;
    return NULL;
}
