/* Reads PyTorch checkpoints: a zip archive with a pickle that describes the tensors and one entry for each storage.
 *
 *     PREFIX/data.pkl   PREFIX/byteorder   PREFIX/data/0   PREFIX/data/1   ...
 *
 * Dictionaries, lists and tuples are walked and every tensor gets the dotted path to it as its name:
 * "state_dict.0.bias". Objects of other classes (hyper-parameters, callbacks) are passed over, and so is what lies
 * under a class or an object as a key, as the states of Lightning's callbacks do. */
#include "io/weights/pth.h"

#include "base/fail.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DEPTH = 64 };

typedef struct walk {
    zn_pth *p;
    char path[ZN_PTH_MAX_NAME + 1];
    size_t steps, names; /* values looked at and bytes of names made, against bombs of shared lists */
    size_t step_limit, name_limit;
    const zn_pickle *passed_over; /* the first object that was */
} walk;

static zn_status visit(walk *w, const zn_pickle *value, size_t length, int depth, const char *problem);

/* Appends a key to the path; a key that cannot be part of a name is a problem only if a tensor lies under it. */
static size_t extend(walk *w, size_t length, const zn_pickle *key, int64_t index, const char **problem)
{
    char number[24] = "";
    const char *text = number;
    size_t size = 0;
    if (key && key->kind == ZN_PICKLE_TEXT) {
        text = key->a.text;
        size = key->count;
    } else if (!key || key->kind == ZN_PICKLE_INT) {
        size = (size_t)snprintf(number, sizeof number, "%" PRId64, key ? key->a.integer : index);
    } else {
        *problem = "a key that is neither text nor a number";
    }
    if (size + (length > 0) > ZN_PTH_MAX_NAME - length)
        *problem = "a name of more than 1024 bytes";
    else if (memchr(text, 0, size) || !zn_utf8_valid(text, size))
        *problem = "a key that is not UTF-8 text";
    if (*problem)
        return length;
    if (length > 0)
        w->path[length++] = '.';
    memcpy(w->path + length, text, size);
    return length + size;
}

/* Remembers the first class or object that is skipped, for the message if there are no tensors. */
static void pass_over(walk *w, const zn_pickle *value)
{
    const zn_pickle *origin = value->kind == ZN_PICKLE_OPAQUE ? value->a.origin : value;
    if (!w->passed_over && origin)
        w->passed_over = value;
}

static zn_status visit_entry(walk *w, const zn_pickle *key, int64_t index, const zn_pickle *value, size_t length,
                             int depth, const char *problem)
{
    if (++w->steps > w->step_limit)
        return ZN_FAIL(ZN_ELIMIT, "%s: pickle: lists that contain each other again and again", w->p->w->name);
    if (value->kind != ZN_PICKLE_DICT && value->kind != ZN_PICKLE_LIST && value->kind != ZN_PICKLE_TUPLE &&
        value->kind != ZN_PICKLE_TENSOR && value->kind != ZN_PICKLE_OPAQUE)
        return ZN_OK;
    if (key && (key->kind == ZN_PICKLE_GLOBAL || key->kind == ZN_PICKLE_OPAQUE)) {
        pass_over(w, key);
        return ZN_OK;
    }
    const size_t extended = extend(w, length, key, index, &problem);
    return visit(w, value, extended, depth + 1, problem);
}

static zn_status visit_items(walk *w, const zn_pickle *list, size_t length, int depth, const char *problem)
{
    int64_t index = 0;
    for (uint32_t i = 0; list->kind == ZN_PICKLE_TUPLE && i < list->count; i++)
        ZN_TRY(visit_entry(w, NULL, i, list->a.items[i], length, depth, problem));
    for (const zn_pickle_chunk *c = list->kind == ZN_PICKLE_LIST ? list->a.first : NULL; c; c = c->next)
        for (size_t i = 0; i < c->count; i++)
            ZN_TRY(visit_entry(w, NULL, index++, c->values[i], length, depth, problem));
    return ZN_OK;
}

static zn_status visit_pair(walk *w, const zn_pickle *pair, size_t length, int depth, const char *problem)
{
    const zn_pickle *key = zn_pickle_item(pair, 0), *value = zn_pickle_item(pair, 1);
    if (!value)
        return ZN_FAIL(ZN_EFORMAT, "%s: pickle: a dictionary made from something that is no pair", w->p->w->name);
    return visit_entry(w, key, 0, value, length, depth, problem);
}

static zn_status visit_dict(walk *w, const zn_pickle *dict, size_t length, int depth, const char *problem)
{
    for (const zn_pickle_chunk *c = dict->a.first; c; c = c->next) {
        for (size_t i = 0; i + 1 < c->count; i += 2)
            ZN_TRY(visit_entry(w, c->values[i], 0, c->values[i + 1], length, depth, problem));
        const zn_pickle *pairs = c->pairs;
        for (uint32_t i = 0; pairs && pairs->kind == ZN_PICKLE_TUPLE && i < pairs->count; i++)
            ZN_TRY(visit_pair(w, pairs->a.items[i], length, depth, problem));
        const int is_list = pairs && pairs->kind == ZN_PICKLE_LIST;
        for (const zn_pickle_chunk *l = is_list ? pairs->a.first : NULL; l; l = l->next)
            for (size_t i = 0; i < l->count; i++)
                ZN_TRY(visit_pair(w, l->values[i], length, depth, problem));
    }
    return ZN_OK;
}

static zn_status visit_tensor(walk *w, const zn_pickle *call, size_t length, const char *problem)
{
    zn_weights *weights = w->p->w;
    zn_weight tensor;
    w->path[length] = 0;
    if (problem)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: a tensor under '%s' has %s", weights->name, w->path, problem);
    w->names += length + 1;
    if (w->names > w->name_limit)
        return ZN_FAIL(ZN_ELIMIT, "%s: the names of its tensors are far longer than the file", weights->name);
    char *name = zn_arena_copy(&weights->arena, w->path);
    if (!name)
        return ZN_FAIL(ZN_ENOMEM, "out of memory: name of tensor '%s' of %s", w->path, weights->name);
    ZN_TRY(zn_pth_tensor(w->p, call, name, &tensor));
    return zn_weights_add(weights, &tensor);
}

static zn_status visit(walk *w, const zn_pickle *value, size_t length, int depth, const char *problem)
{
    if (depth > MAX_DEPTH)
        return ZN_FAIL(ZN_ELIMIT, "%s: pickle: more than %d levels of nesting", w->p->w->name, MAX_DEPTH);
    switch (value->kind) {
    case ZN_PICKLE_DICT:
        return visit_dict(w, value, length, depth, problem);
    case ZN_PICKLE_LIST:
    case ZN_PICKLE_TUPLE:
        return visit_items(w, value, length, depth, problem);
    case ZN_PICKLE_TENSOR:
        return visit_tensor(w, value, length, problem);
    case ZN_PICKLE_OPAQUE:
        pass_over(w, value);
        return ZN_OK;
    default:
        return ZN_OK;
    }
}

static zn_status read_checkpoint(zn_pth *p, const uint8_t *pickle, size_t size, zn_arena *arena)
{
    const zn_pickle *root = NULL;
    walk w = { .p = p, .step_limit = 4 * size + 65536, .name_limit = 16 * size + 4096 };
    char text[256];
    ZN_TRY(zn_pickle_read(arena, pickle, size, p->w->name, &root));
    size_t length = 0;
    if (root->kind == ZN_PICKLE_TENSOR) /* a file of one bare tensor */
        length = (size_t)snprintf(w.path, sizeof w.path, "tensor");
    ZN_TRY(visit(&w, root, length, 0, NULL));
    if (p->w->count > 0 || (root->kind != ZN_PICKLE_OPAQUE && !w.passed_over))
        return ZN_OK;
    zn_pickle_describe(w.passed_over, text, sizeof text);
    return ZN_FAIL(ZN_EUNSUPPORTED,
                   "%s holds no tensors outside Python objects (%s): load it in PyTorch and save its state_dict()",
                   p->w->name, text);
}

/* The entry "PREFIX/data.pkl" nearest to the top names the prefix. */
static zn_status find_pickle(zn_pth *p, const zn_zip_entry **pickle)
{
    size_t best = SIZE_MAX;
    int ties = 0;
    for (size_t i = 0; i < p->zip.count; i++) {
        const zn_zip_entry *e = &p->zip.entries[i];
        const size_t prefix = e->name_length < 8 ? 0 : e->name_length - 8u;
        if (e->name_length < 8 || memcmp(e->name + prefix, "data.pkl", 8) != 0 ||
            (prefix && e->name[prefix - 1] != '/'))
            continue;
        size_t depth = 0;
        for (size_t k = 0; k < prefix; k++)
            depth += e->name[k] == '/';
        ties = depth == best ? 1 : depth < best ? 0 : ties;
        if (depth < best) {
            best = depth;
            *pickle = e;
            p->prefix = e->name;
            p->prefix_length = prefix;
        }
    }
    if (best == SIZE_MAX)
        return ZN_FAIL(ZN_EFORMAT, "%s is a zip archive without data.pkl: not a PyTorch file", p->w->name);
    if (ties || p->prefix_length > 256)
        return ZN_FAIL(ZN_EFORMAT, "%s: more than one data.pkl, or one in a folder with too long a name", p->w->name);
    return ZN_OK;
}

static zn_status check_byte_order(const zn_pth *p)
{
    char name[272];
    const int length = snprintf(name, sizeof name, "%.*sbyteorder", (int)p->prefix_length, p->prefix);
    const zn_zip_entry *entry = zn_zip_find(&p->zip, name, (size_t)length);
    const uint8_t *text = NULL;
    size_t size = 0;
    if (!entry)
        return ZN_OK;
    ZN_TRY(zn_zip_read(&p->zip, entry, &text, &size));
    if (size == 3 && memcmp(text, "big", 3) == 0)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s is in big-endian byte order", p->w->name);
    return ZN_OK;
}

static zn_status read_archive(zn_pth *p)
{
    const zn_zip_entry *entry = NULL;
    const uint8_t *pickle = NULL;
    size_t size = 0;
    zn_arena arena = { 0 };
    ZN_TRY(find_pickle(p, &entry));
    ZN_TRY(check_byte_order(p));
    ZN_TRY(zn_zip_read(&p->zip, entry, &pickle, &size));
    const zn_status status = read_checkpoint(p, pickle, size, &arena);
    zn_arena_free(&arena);
    return status;
}

static bool probe(const uint8_t *bytes, size_t size)
{
    return size >= 4 && (memcmp(bytes, "PK\3\4", 4) == 0 || memcmp(bytes, "PK\5\6", 4) == 0);
}

static zn_status read_file(zn_weights *w)
{
    zn_pth p = { .w = w, .copy_limit = 4 * w->size + 65536 };
    ZN_TRY(zn_zip_open(&p.zip, w->bytes, w->size, w->name));
    const zn_status status = read_archive(&p);
    zn_zip_close(&p.zip);
    return status;
}

const zn_weights_reader zn_pytorch_reader = { "pytorch", probe, read_file };
