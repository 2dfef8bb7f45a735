/* The allow-list of the pickle reader: every module.name that means something to us. The names are only compared; none
 * is ever imported or called. All other globals give opaque values. */
#include "io/weights/pickle.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *module, *name;
    zn_pickle_role role;
} functions[] = {
    { "collections", "OrderedDict", ZN_ROLE_DICT },
    { "collections", "defaultdict", ZN_ROLE_DICT },
    { "collections", "Counter", ZN_ROLE_DICT },
    { "builtins", "dict", ZN_ROLE_DICT },
    { "__builtin__", "dict", ZN_ROLE_DICT },
    { "torch", "Size", ZN_ROLE_SIZE },
    { "torch._utils", "_rebuild_tensor", ZN_ROLE_TENSOR },
    { "torch._utils", "_rebuild_tensor_v2", ZN_ROLE_TENSOR },
    { "torch._utils", "_rebuild_tensor_v3", ZN_ROLE_TENSOR_DTYPE },
    { "torch._utils", "_rebuild_parameter", ZN_ROLE_PARAMETER },
    { "torch._utils", "_rebuild_parameter_with_state", ZN_ROLE_PARAMETER },
    { "torch.nn.parameter", "Parameter", ZN_ROLE_PARAMETER },
    { "torch._tensor", "_rebuild_from_type", ZN_ROLE_SUBCLASS },
    { "torch._tensor", "_rebuild_from_type_v2", ZN_ROLE_SUBCLASS },
    { "torch.tensor", "_rebuild_from_type", ZN_ROLE_SUBCLASS },
    { "torch.storage", "UntypedStorage", ZN_ROLE_UNTYPED },
    { "torch.storage", "_UntypedStorage", ZN_ROLE_UNTYPED },
    { "torch", "UntypedStorage", ZN_ROLE_UNTYPED },
};

static const struct {
    const char *storage; /* torch.XStorage, torch.cuda.XStorage; NULL if such tensors use untyped storages */
    const char *names[2];
    zn_dtype dtype;
} types[] = {
    { "DoubleStorage", { "float64", "double" }, ZN_F64 },
    { "FloatStorage", { "float32", "float" }, ZN_F32 },
    { "HalfStorage", { "float16", "half" }, ZN_F16 },
    { "BFloat16Storage", { "bfloat16", "bfloat16" }, ZN_BF16 },
    { "LongStorage", { "int64", "long" }, ZN_I64 },
    { "IntStorage", { "int32", "int" }, ZN_I32 },
    { "ShortStorage", { "int16", "short" }, ZN_I16 },
    { "CharStorage", { "int8", "int8" }, ZN_I8 },
    { "ByteStorage", { "uint8", "uint8" }, ZN_U8 },
    { "BoolStorage", { "bool", "bool" }, ZN_BOOL },
    { "Float8_e4m3fnStorage", { "float8_e4m3fn", "float8_e4m3fn" }, ZN_F8_E4M3 },
    { "Float8_e5m2Storage", { "float8_e5m2", "float8_e5m2" }, ZN_F8_E5M2 },
    { "UInt64Storage", { "uint64", "uint64" }, ZN_U64 },
    { "UInt32Storage", { "uint32", "uint32" }, ZN_U32 },
    { "UInt16Storage", { "uint16", "uint16" }, ZN_U16 },
};

static int equals(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

static bool ends_with(const char *text, size_t length, const char *word)
{
    const size_t n = strlen(word);
    return length >= n && memcmp(text + length - n, word, n) == 0;
}

static void classify_type(zn_pickle *g)
{
    const char *name = g->b.name;
    const size_t length = g->name_count;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const int is_storage = equals(name, length, types[i].storage);
        if (is_storage || equals(name, length, types[i].names[0]) || equals(name, length, types[i].names[1])) {
            g->role = is_storage ? ZN_ROLE_STORAGE : ZN_ROLE_DTYPE;
            g->dtype = (uint8_t)types[i].dtype;
            return;
        }
    }
    if (ends_with(name, length, "Storage"))
        g->role = ZN_ROLE_OTHER_STORAGE;
}

void zn_pickle_classify(zn_pickle *g)
{
    const char *module = g->a.text;
    g->role = ZN_ROLE_NONE;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (equals(module, g->count, functions[i].module) && equals(g->b.name, g->name_count, functions[i].name)) {
            g->role = (uint8_t)functions[i].role;
            return;
        }
    if (equals(module, g->count, "torch._utils") && g->name_count > 8 && memcmp(g->b.name, "_rebuild", 8) == 0)
        g->role = ZN_ROLE_OTHER_TENSOR;
    else if (equals(module, g->count, "torch") || equals(module, g->count, "torch.cuda") ||
             equals(module, g->count, "torch.storage"))
        classify_type(g);
}

void zn_pickle_describe(const zn_pickle *value, char *text, size_t size)
{
    if (value && (value->kind == ZN_PICKLE_OPAQUE || value->kind == ZN_PICKLE_TENSOR))
        value = value->a.origin;
    if (!value || value->kind != ZN_PICKLE_GLOBAL) {
        snprintf(text, size, "an unknown object");
        return;
    }
    const int module = value->count < 100 ? (int)value->count : 100;
    const int name = value->name_count < 100 ? (int)value->name_count : 100;
    snprintf(text, size, "%.*s.%.*s", module, value->a.text, name, value->b.name);
}
