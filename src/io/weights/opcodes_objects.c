/* The opcodes that make objects: names of classes and functions, calls of them, and what lies outside of the pickle.
 * Nothing is called: a tensor, a storage and a dictionary are written down, whatever else there is becomes opaque. */
#include "base/fail.h"
#include "io/weights/unpickler.h"

const zn_pickle zn_pickle_opaque = { .kind = ZN_PICKLE_OPAQUE };

static zn_status push_opaque(zn_unpickler *m, const zn_pickle *origin)
{
    zn_pickle *v = NULL;
    while (origin && origin->kind == ZN_PICKLE_OPAQUE)
        origin = origin->a.origin;
    if (!origin)
        return zn_unpickler_push(m, &zn_pickle_opaque);
    ZN_TRY(zn_unpickler_push_new(m, ZN_PICKLE_OPAQUE, &v));
    v->a.origin = origin;
    return ZN_OK;
}

zn_status zn_opcode_global(zn_unpickler *m, int op)
{
    zn_pickle *v = NULL;
    ZN_TRY(zn_unpickler_new(m, ZN_PICKLE_GLOBAL, &v));
    if (op == 'c') {
        ZN_TRY(zn_unpickler_take_line(m, &v->a.text, &v->count));
        ZN_TRY(zn_unpickler_take_line(m, &v->b.name, &v->name_count));
    } else {
        const zn_pickle *module = NULL, *name = NULL;
        ZN_TRY(zn_unpickler_pop(m, &name));
        ZN_TRY(zn_unpickler_pop(m, &module));
        if (module->kind != ZN_PICKLE_TEXT || name->kind != ZN_PICKLE_TEXT)
            return zn_unpickler_broken(m, "a global without a name");
        v->a.text = module->a.text;
        v->count = module->count;
        v->b.name = name->a.text;
        v->name_count = name->count;
    }
    zn_pickle_classify(v);
    return zn_unpickler_push(m, v);
}

/* OrderedDict() or, from Python 2, OrderedDict([[key, value], ...]); other arguments say nothing about the items. */
static zn_status push_dict(zn_unpickler *m, const zn_pickle *arguments)
{
    zn_pickle *v = NULL;
    const zn_pickle *pairs = zn_pickle_item(arguments, 0);
    ZN_TRY(zn_unpickler_push_new(m, ZN_PICKLE_DICT, &v));
    if (!pairs || (pairs->kind != ZN_PICKLE_LIST && pairs->kind != ZN_PICKLE_TUPLE))
        return ZN_OK;
    void *block = NULL;
    ZN_TRY(zn_unpickler_alloc(m, sizeof(zn_pickle_chunk), &block));
    v->a.first = v->b.last = block;
    v->a.first->pairs = pairs;
    return ZN_OK;
}

zn_status zn_opcode_call(zn_unpickler *m, int op)
{
    const zn_pickle *function = NULL, *arguments = NULL, *keywords = NULL;
    zn_pickle *v = NULL;
    if (op == 0x92)
        ZN_TRY(zn_unpickler_pop(m, &keywords));
    ZN_TRY(zn_unpickler_pop(m, &arguments));
    ZN_TRY(zn_unpickler_pop(m, &function));
    if (function->kind != ZN_PICKLE_GLOBAL)
        return push_opaque(m, function->kind == ZN_PICKLE_OPAQUE ? function : NULL);
    const zn_pickle *first = zn_pickle_item(arguments, 0);
    switch (function->role) {
    case ZN_ROLE_DICT:
        return push_dict(m, arguments);
    case ZN_ROLE_SIZE:
        return first ? zn_unpickler_push(m, first) : push_opaque(m, function);
    case ZN_ROLE_TENSOR:
    case ZN_ROLE_TENSOR_DTYPE:
    case ZN_ROLE_PARAMETER:
    case ZN_ROLE_SUBCLASS:
    case ZN_ROLE_OTHER_TENSOR:
        ZN_TRY(zn_unpickler_push_new(m, ZN_PICKLE_TENSOR, &v));
        v->a.origin = function;
        v->b.arguments = arguments;
        return ZN_OK;
    default:
        return push_opaque(m, function);
    }
}

/* State for an object. What we keep (tensors, dictionaries) has no state we need. */
zn_status zn_opcode_build(zn_unpickler *m, int op)
{
    (void)op;
    const zn_pickle *state = NULL;
    zn_pickle *object = NULL;
    ZN_TRY(zn_unpickler_pop(m, &state));
    return zn_unpickler_top(m, &object);
}

zn_status zn_opcode_persistent(zn_unpickler *m, int op)
{
    (void)op;
    const zn_pickle *id = NULL;
    zn_pickle *v = NULL;
    ZN_TRY(zn_unpickler_pop(m, &id));
    if (id->kind != ZN_PICKLE_TUPLE)
        return zn_unpickler_push(m, &zn_pickle_opaque);
    ZN_TRY(zn_unpickler_push_new(m, ZN_PICKLE_STORAGE, &v));
    v->b.arguments = id;
    return ZN_OK;
}
