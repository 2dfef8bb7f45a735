/* One tensor of a PyTorch checkpoint: a view (offset, shape, strides) of a storage, which is one entry of the archive.
 * All of it comes from the file, so all of it is checked here before any byte is touched. */
#include "base/convert.h"
#include "base/fail.h"
#include "base/span.h"
#include "io/weights/pth.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_WRAPPERS = 8 };

typedef struct view {
    const char *name;
    const zn_pickle *arguments; /* of the function that makes the tensor */
    bool has_dtype;             /* the dtype is an argument, the storage is bytes */
    zn_dtype dtype;
    int rank;
    int64_t shape[ZN_MAX_RANK], stride[ZN_MAX_RANK];
    int64_t offset;      /* in elements */
    const uint8_t *data; /* of the storage */
    size_t elements;     /* in the storage */
} view;

static zn_status unsupported(const zn_pth *p, const view *v, const zn_pickle *what)
{
    char text[256];
    zn_pickle_describe(what, text, sizeof text);
    return ZN_FAIL(ZN_EUNSUPPORTED, "%s: tensor '%s' is made by %s, which is not supported", p->w->name, v->name, text);
}

static zn_status broken(const zn_pth *p, const view *v, const char *what)
{
    return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s': %s", p->w->name, v->name, what);
}

/* Follows parameters and subclasses to the call that makes the tensor itself. */
static zn_status unwrap(const zn_pth *p, view *v, const zn_pickle *call)
{
    const zn_pickle *function = call->a.origin;
    v->arguments = call->b.arguments;
    for (int i = 0; i < MAX_WRAPPERS; i++) {
        if (!function || function->kind != ZN_PICKLE_GLOBAL)
            return unsupported(p, v, function);
        if (function->role == ZN_ROLE_TENSOR || function->role == ZN_ROLE_TENSOR_DTYPE) {
            v->has_dtype = function->role == ZN_ROLE_TENSOR_DTYPE;
            return ZN_OK;
        }
        if (function->role == ZN_ROLE_PARAMETER) {
            const zn_pickle *inner = zn_pickle_item(v->arguments, 0);
            if (!inner || inner->kind != ZN_PICKLE_TENSOR)
                return unsupported(p, v, inner);
            function = inner->a.origin;
            v->arguments = inner->b.arguments;
        } else if (function->role == ZN_ROLE_SUBCLASS) {
            function = zn_pickle_item(v->arguments, 0);
            v->arguments = zn_pickle_item(v->arguments, 2);
        } else {
            return unsupported(p, v, function);
        }
    }
    return broken(p, v, "wrapped too often");
}

static zn_status read_sizes(const zn_pth *p, const view *v, const zn_pickle *list, int64_t *sizes, int *count)
{
    if (!list || (list->kind != ZN_PICKLE_TUPLE && list->kind != ZN_PICKLE_LIST))
        return broken(p, v, "its shape or strides are no tuple");
    for (*count = 0;; ++*count) {
        const zn_pickle *item = zn_pickle_item(list, (size_t)*count);
        if (!item)
            return ZN_OK;
        if (*count == ZN_MAX_RANK)
            return ZN_FAIL(ZN_EUNSUPPORTED, "%s: tensor '%s': its rank is more than %d", p->w->name, v->name,
                           ZN_MAX_RANK);
        if (item->kind != ZN_PICKLE_INT || item->a.integer < 0)
            return broken(p, v, "its shape or strides hold something that is not a size");
        sizes[*count] = item->a.integer;
    }
}

static zn_status read_dtype(const zn_pth *p, view *v, const zn_pickle *class)
{
    const zn_pickle *dtype = v->has_dtype ? zn_pickle_item(v->arguments, 6) : class;
    const int wanted = v->has_dtype ? ZN_ROLE_DTYPE : ZN_ROLE_STORAGE;
    if (!dtype || dtype->kind != ZN_PICKLE_GLOBAL || dtype->role != wanted) {
        char text[256];
        zn_pickle_describe(dtype, text, sizeof text);
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: tensor '%s' has the element type %s, which is not supported", p->w->name,
                       v->name, text);
    }
    v->dtype = (zn_dtype)dtype->dtype;
    return ZN_OK;
}

static zn_status find_storage(const zn_pth *p, const view *v, const zn_pickle *key, const uint8_t **data, size_t *size)
{
    char name[512];
    if (!key || key->kind != ZN_PICKLE_TEXT || p->prefix_length + 5 + key->count > sizeof name)
        return broken(p, v, "its storage has no usable key");
    memcpy(name, p->prefix, p->prefix_length);
    memcpy(name + p->prefix_length, "data/", 5);
    memcpy(name + p->prefix_length + 5, key->a.text, key->count);
    const size_t length = p->prefix_length + 5 + key->count;
    const zn_zip_entry *entry = zn_zip_find(&p->zip, name, length);
    if (!entry)
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s': its storage '%.*s' is not in the archive", p->w->name, v->name,
                       (int)length, name);
    return zn_zip_read(&p->zip, entry, data, size);
}

/* ("storage", class, key, device, elements). The entry may be longer than it says, never shorter. */
static zn_status read_storage(const zn_pth *p, view *v, const zn_pickle *storage)
{
    if (!storage || storage->kind != ZN_PICKLE_STORAGE)
        return broken(p, v, "it is built from something that is not a storage");
    const zn_pickle *id = storage->b.arguments, *kind = zn_pickle_item(id, 0), *class = zn_pickle_item(id, 1);
    const zn_pickle *elements = zn_pickle_item(id, 4);
    if (!kind || kind->kind != ZN_PICKLE_TEXT || kind->count != 7 || memcmp(kind->a.text, "storage", 7) != 0 ||
        !elements || elements->kind != ZN_PICKLE_INT || elements->a.integer < 0)
        return broken(p, v, "its storage is not described as one");
    ZN_TRY(read_dtype(p, v, class));
    size_t stated, stored = 0;
    const int untyped = class && class->kind == ZN_PICKLE_GLOBAL && class->role == ZN_ROLE_UNTYPED;
    const size_t unit = untyped ? 1 : zn_dtype_size(v->dtype);
    ZN_TRY(find_storage(p, v, zn_pickle_item(id, 2), &v->data, &stored));
    if (!zn_mul_size((size_t)elements->a.integer, unit, &stated) || stated > stored)
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s': its storage says %" PRId64 " elements but has %zu bytes",
                       p->w->name, v->name, elements->a.integer, stored);
    v->elements = stated / zn_dtype_size(v->dtype);
    return ZN_OK;
}

static zn_status read_view(const zn_pth *p, view *v)
{
    const zn_pickle *offset = zn_pickle_item(v->arguments, 1);
    const zn_pickle *flags = zn_pickle_item(v->arguments, v->has_dtype ? 7 : 6);
    int strides = 0;
    ZN_TRY(read_storage(p, v, zn_pickle_item(v->arguments, 0)));
    if (!offset || offset->kind != ZN_PICKLE_INT || offset->a.integer < 0)
        return broken(p, v, "its offset is not a size");
    v->offset = offset->a.integer;
    ZN_TRY(read_sizes(p, v, zn_pickle_item(v->arguments, 2), v->shape, &v->rank));
    ZN_TRY(read_sizes(p, v, zn_pickle_item(v->arguments, 3), v->stride, &strides));
    if (strides != v->rank)
        return broken(p, v, "its shape and strides differ in length");
    if (flags && flags->kind == ZN_PICKLE_DICT && flags->a.first)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: tensor '%s' is stored conjugated or negated", p->w->name, v->name);
    return ZN_OK;
}

/* The furthest element that the view reaches must lie in the storage. */
static zn_status check_reach(const zn_pth *p, const view *v, size_t count)
{
    size_t last = (size_t)v->offset, step;
    int fits = 1;
    for (int i = 0; i < v->rank && count; i++)
        fits = fits && zn_mul_size((size_t)(v->shape[i] - 1), (size_t)v->stride[i], &step) &&
               zn_add_size(last, step, &last);
    if (!fits || (count ? last >= v->elements : last > v->elements))
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s' reaches past the %zu elements of its storage", p->w->name, v->name,
                       v->elements);
    return ZN_OK;
}

static bool is_contiguous(const view *v)
{
    int64_t expected = 1;
    for (int i = v->rank - 1; i >= 0; i--) {
        if (v->shape[i] != 1 && v->stride[i] != expected)
            return false;
        expected *= v->shape[i];
    }
    return true;
}

static void copy_view(const view *v, const uint8_t *from, int axis, size_t size, uint8_t **to)
{
    if (axis == v->rank) {
        memcpy(*to, from, size);
        *to += size;
        return;
    }
    if (axis == v->rank - 1 && v->stride[axis] == 1) {
        memcpy(*to, from, (size_t)v->shape[axis] * size);
        *to += (size_t)v->shape[axis] * size;
        return;
    }
    for (int64_t i = 0; i < v->shape[axis]; i++)
        copy_view(v, from + (size_t)i * (size_t)v->stride[axis] * size, axis + 1, size, to);
}

/* A view may repeat elements, so that a few bytes of file ask for terabytes: there is a limit for all copies. */
static zn_status make_contiguous(zn_pth *p, const view *v, zn_weight *t)
{
    if (t->bytes > p->copy_limit - p->copied)
        return ZN_FAIL(ZN_ELIMIT, "%s: tensor '%s' is a view that expands to %zu bytes, far more than the file",
                       p->w->name, v->name, t->bytes);
    uint8_t *copy = zn_arena_alloc(&p->w->arena, t->bytes);
    if (!copy)
        return ZN_FAIL(ZN_ENOMEM, "out of memory: %zu bytes for tensor '%s' of %s", t->bytes, v->name, p->w->name);
    p->copied += t->bytes;
    const uint8_t *from = t->data;
    t->data = copy;
    copy_view(v, from, 0, zn_dtype_size(v->dtype), &copy);
    return ZN_OK;
}

zn_status zn_pth_tensor(zn_pth *p, const zn_pickle *call, const char *name, zn_weight *t)
{
    view v = { .name = name };
    size_t count = 0;
    ZN_TRY(unwrap(p, &v, call));
    ZN_TRY(read_view(p, &v));
    *t = (zn_weight){ .name = name, .dtype = v.dtype, .rank = v.rank };
    memcpy(t->shape, v.shape, sizeof t->shape);
    if (!zn_count_elements(v.shape, v.rank, &count) || !zn_mul_size(count, zn_dtype_size(v.dtype), &t->bytes))
        return broken(p, &v, "its shape overflows");
    ZN_TRY(check_reach(p, &v, count));
    t->data = v.data + (size_t)v.offset * zn_dtype_size(v.dtype);
    return count == 0 || is_contiguous(&v) ? ZN_OK : make_contiguous(p, &v, t);
}
