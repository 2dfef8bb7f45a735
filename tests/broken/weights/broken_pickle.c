/* PyTorch archives whose pickle lies: broken programs, bombs, tensors that leave their storage. */
#include "broken.h"

#include <string.h>

#define P(text) .pickle = text, .size = sizeof text - 1
#define HEAD    "\x80\x02"
#define REBUILD "ctorch._utils\n_rebuild_tensor_v2\n"
#define STORAGE                                                                                                        \
    "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0"                                                                 \
    "0X\3\0\0\0cpuK\4tQ"
#define VIEW "K\0K\1\x85K\1\x85\x89N"

static bytes finished(bytes *pickle)
{
    bytes_put(pickle, ".", 1);
    bytes b = make_checkpoint(pickle->data, pickle->size, 64);
    bytes_free(pickle);
    return b;
}

static bytes started(void)
{
    bytes b = { 0 };
    bytes_put(&b, HEAD, 2);
    return b;
}

/* {"w": tensor} */
static bytes with_tensor(const tensor_call *call)
{
    bytes p = started();
    bytes_put(&p, "}", 1);
    pickle_text(&p, "w");
    pickle_tensor(&p, call);
    bytes_put(&p, "s", 1);
    return finished(&p);
}

#define TENSOR_CASE(name, ...)                                                                                         \
    static bytes name(void) { return with_tensor(&(tensor_call){ __VA_ARGS__ }); }

TENSOR_CASE(complex_numbers, .storage = "torch ComplexFloatStorage", .elements = 1, .rank = 1, .shape = { 1 },
            .stride = { 1 })
TENSOR_CASE(untyped, .storage = "torch.storage UntypedStorage", .elements = 4, .rank = 1, .shape = { 1 },
            .stride = { 1 })
TENSOR_CASE(strange_class, .storage = "os system", .elements = 4, .rank = 1, .shape = { 1 }, .stride = { 1 })
TENSOR_CASE(no_storage, .key = "7", .elements = 1, .rank = 1, .shape = { 1 }, .stride = { 1 })
TENSOR_CASE(escaping_key, .key = "../data.pkl", .elements = 1, .rank = 1, .shape = { 1 }, .stride = { 1 })
TENSOR_CASE(storage_too_small, .elements = 17, .rank = 1, .shape = { 1 }, .stride = { 1 })
TENSOR_CASE(storage_overflow, .elements = INT64_MAX, .rank = 1, .shape = { 1 }, .stride = { 1 })
TENSOR_CASE(storage_negative, .elements = -1, .rank = 1, .shape = { 1 }, .stride = { 1 })
TENSOR_CASE(offset_past, .elements = 16, .offset = 16, .rank = 1, .shape = { 1 }, .stride = { 1 })
TENSOR_CASE(offset_negative, .elements = 16, .offset = -1, .rank = 1, .shape = { 1 }, .stride = { 1 })
TENSOR_CASE(offset_huge, .elements = 16, .offset = INT64_MAX, .rank = 1, .shape = { 16 }, .stride = { 1 })
TENSOR_CASE(offset_of_nothing, .elements = 16, .offset = 17, .rank = 1, .shape = { 0 }, .stride = { 1 })
TENSOR_CASE(shape_past, .elements = 16, .rank = 2, .shape = { 4, 5 }, .stride = { 5, 1 })
TENSOR_CASE(shape_negative, .elements = 16, .rank = 1, .shape = { -1 }, .stride = { 1 })
TENSOR_CASE(shape_overflow, .elements = 16, .rank = 2, .shape = { 1LL << 32, 1LL << 32 }, .stride = { 0, 0 })
TENSOR_CASE(stride_past, .elements = 16, .rank = 2, .shape = { 2, 2 }, .stride = { 15, 1 })
TENSOR_CASE(stride_overflow, .elements = 16, .rank = 2, .shape = { 3, 3 }, .stride = { INT64_MAX, INT64_MAX })
TENSOR_CASE(stride_negative, .elements = 16, .offset = 8, .rank = 1, .shape = { 2 }, .stride = { -1 })
TENSOR_CASE(rank_nine, .elements = 16, .rank = 9, .shape = { 1, 1, 1, 1, 1, 1, 1, 1, 1 })
TENSOR_CASE(expansion_bomb, .elements = 16, .rank = 2, .shape = { 1 << 20, 1 << 20 }, .stride = { 0, 0 })

/* Each list holds the one before it twice. */
static bytes billion_laughs(void)
{
    bytes p = started();
    bytes_put(&p, "]", 1);
    for (int i = 0; i < 50; i++)
        bytes_put(&p, "q\0]h\0ah\0a", 9);
    return finished(&p);
}

static bytes deep_lists(void)
{
    bytes p = started();
    for (int i = 0; i < 100000; i++)
        bytes_put(&p, "]", 1);
    for (int i = 0; i < 99999; i++)
        bytes_put(&p, "a", 1);
    return finished(&p);
}

static bytes deep_tuples(void)
{
    bytes p = started();
    bytes_put(&p, ")", 1);
    for (int i = 0; i < 1000; i++)
        bytes_put(&p, "\x85", 1);
    return finished(&p);
}

static const tensor_call good = { .elements = 16, .rank = 1, .shape = { 16 }, .stride = { 1 } };

static bytes same_name(void)
{
    bytes p = started();
    bytes_put(&p, "}", 1);
    pickle_text(&p, "a.b");
    pickle_tensor(&p, &good);
    bytes_put(&p, "s", 1);
    pickle_text(&p, "a");
    bytes_put(&p, "}", 1);
    pickle_text(&p, "b");
    pickle_tensor(&p, &good);
    bytes_put(&p, "ss", 2);
    return finished(&p);
}

static bytes keyed(const char *key, size_t size)
{
    bytes p = started();
    bytes_put(&p, "}", 1);
    bytes_put(&p, key, size);
    pickle_tensor(&p, &good);
    bytes_put(&p, "s", 1);
    return finished(&p);
}

static bytes tuple_key(void) { return keyed("K\1K\2\x86", 5); }
static bytes none_key(void) { return keyed("N", 1); }
static bytes bad_utf8_key(void) { return keyed("X\1\0\0\0\xff", 6); }
static bytes nul_key(void) { return keyed("X\3\0\0\0a\0b", 8); }

static bytes long_key(void)
{
    char key[5 + 2000];
    memcpy(key, "X\xd0\7\0\0", 5);
    memset(key + 5, 'k', 2000);
    return keyed(key, sizeof key);
}

/* One tensor under ten thousand keys, in a dictionary with a name of a thousand bytes. */
static bytes long_names(void)
{
    char name[1001] = { 0 };
    memset(name, 'n', 1000);
    bytes p = started();
    pickle_tensor(&p, &good);
    bytes_put(&p,
              "q\0"
              "0}",
              4);
    pickle_text(&p, name);
    bytes_put(&p, "}(", 2);
    for (int i = 0; i < 10000; i++) {
        bytes_put(&p, "M", 1);
        bytes_number(&p, (uint64_t)i, 2);
        bytes_put(&p, "h\0", 2);
    }
    bytes_put(&p, "us", 2);
    return finished(&p);
}

static bytes parameters_of_parameters(void)
{
    bytes p = started();
    bytes_put(&p, "}", 1);
    pickle_text(&p, "w");
    for (int i = 0; i < 20; i++)
        bytes_text(&p, "ctorch._utils\n_rebuild_parameter\n(");
    pickle_tensor(&p, &good);
    for (int i = 0; i < 20; i++)
        bytes_put(&p, "\x88NtR", 4);
    bytes_put(&p, "s", 1);
    return finished(&p);
}

const broken_case broken_pickles[] = {
    { "pickle-empty.pth", ZN_EUNSUPPORTED, "protocol", P("") },
    { "pickle-protocol-0.pth", ZN_EUNSUPPORTED, "protocol 0", P("I1\n.") },
    { "pickle-protocol-9.pth", ZN_EUNSUPPORTED, "protocol 9", P("\x80\x09N.") },
    { "pickle-no-stop.pth", ZN_EFORMAT, "cut off", P(HEAD "N") },
    { "pickle-only-proto.pth", ZN_EFORMAT, "cut off", P("\x80") },
    { "pickle-nothing.pth", ZN_EFORMAT, "stack", P(HEAD ".") },
    { "pickle-unknown-opcode.pth", ZN_EFORMAT, "0xff", P(HEAD "\xff.") },
    { "pickle-inst.pth", ZN_EUNSUPPORTED, "0x69", P(HEAD "(ios\nsystem\n.") },
    { "pickle-extension.pth", ZN_EUNSUPPORTED, "0x82", P(HEAD "\x82\1.") },
    { "pickle-buffer.pth", ZN_EUNSUPPORTED, "0x97", P("\x80\5\x97.") },
    { "pickle-long-text.pth", ZN_EFORMAT, "longer",
      P(HEAD "X\xff\xff\xff\x7f"
             "ab.") },
    { "pickle-long-text8.pth", ZN_EFORMAT, "longer",
      P("\x80\4\x8d\0\0\0\0\0\0\0\x80"
        "ab.") },
    { "pickle-long-integer.pth", ZN_EFORMAT, "longer", P(HEAD "\x8b\xff\xff\xff\xff\1.") },
    { "pickle-cut-integer.pth", ZN_EFORMAT, "cut off", P(HEAD "J\1\2") },
    { "pickle-frame.pth", ZN_EFORMAT, "frame", P("\x80\4\x95\xff\0\0\0\0\0\0\0N.") },
    { "pickle-memo-unset.pth", ZN_EFORMAT, "memo", P(HEAD "Nq\1h\0.") },
    { "pickle-memo-beyond.pth", ZN_EFORMAT, "memo", P(HEAD "Nq\0h\1.") },
    { "pickle-memo-huge.pth", ZN_EFORMAT, "memo index", P(HEAD "Nr\xff\xff\xff\x7f.") },
    { "pickle-memo-of-nothing.pth", ZN_EFORMAT, "stack", P(HEAD "q\0.") },
    { "pickle-no-mark.pth", ZN_EFORMAT, "mark", P(HEAD "Nt.") },
    { "pickle-below-mark.pth", ZN_EFORMAT, "stack", P(HEAD "]N(a.") },
    { "pickle-short-tuple.pth", ZN_EFORMAT, "stack", P(HEAD "N\x87.") },
    { "pickle-append-to-int.pth", ZN_EFORMAT, "no list", P(HEAD "K\1Na.") },
    { "pickle-append-to-dict.pth", ZN_EFORMAT, "list items", P(HEAD "}Na.") },
    { "pickle-set-in-list.pth", ZN_EFORMAT, "pairs", P(HEAD "]NNs.") },
    { "pickle-odd-items.pth", ZN_EFORMAT, "pairs", P(HEAD "}(NNNu.") },
    { "pickle-cut-global.pth", ZN_EFORMAT, "no end", P(HEAD "cos\nsystem") },
    { "pickle-global-of-ints.pth", ZN_EFORMAT, "without a name", P("\x80\4K\1K\2\x93.") },
    { "pickle-call.pth", ZN_EUNSUPPORTED, "os.system", P(HEAD "cos\nsystem\nX\2\0\0\0ls\x85R.") },
    { "pickle-call-deeper.pth", ZN_EUNSUPPORTED, "builtins.eval",
      P("\x80\4}X\1\0\0\0mX\x8\0\0\0builtinsX\4\0\0\0eval\x93X\1\0\0\0"
        "1\x85Rs.") },
    { "pickle-whole-model.pth", ZN_EUNSUPPORTED, "state_dict",
      P(HEAD "ctorch.nn.modules.container\nSequential\n)\x81}X\1\0\0\0wK\1sb.") },
    { "pickle-bad-pairs.pth", ZN_EFORMAT, "pair", P(HEAD "ccollections\nOrderedDict\n]K\1a\x85R.") },
    { "pickle-list-in-itself.pth", ZN_ELIMIT, "nesting", P(HEAD "]q\0h\0a.") },
    { "pickle-dict-in-itself.pth", ZN_ELIMIT, "nesting", P(HEAD "}q\0K\1h\0s.") },
    { "pickle-billion-laughs.pth", ZN_ELIMIT, "again", .make = billion_laughs },
    { "pickle-deep-lists.pth", ZN_ELIMIT, "nesting", .make = deep_lists },
    { "pickle-deep-tuples.pth", ZN_ELIMIT, "nesting", .make = deep_tuples },
    { "pickle-same-name.pth", ZN_EFORMAT, "named 'a.b'", .make = same_name },
    { "pickle-tuple-key.pth", ZN_EUNSUPPORTED, "neither text", .make = tuple_key },
    { "pickle-none-key.pth", ZN_EUNSUPPORTED, "neither text", .make = none_key },
    { "pickle-bad-utf8-key.pth", ZN_EUNSUPPORTED, "UTF-8", .make = bad_utf8_key },
    { "pickle-nul-key.pth", ZN_EUNSUPPORTED, "UTF-8", .make = nul_key },
    { "pickle-long-key.pth", ZN_EUNSUPPORTED, "1024", .make = long_key },
    { "pickle-long-names.pth", ZN_ELIMIT, "names", .make = long_names },
    { "tensor-of-object.pth", ZN_EFORMAT, "not a storage",
      P(HEAD "}X\1\0\0\0w" REBUILD "(cos\nsystem\n)R" VIEW "tRs.") },
    { "tensor-of-text.pth", ZN_EFORMAT, "not a storage", P(HEAD "}X\1\0\0\0w" REBUILD "(X\1\0\0\0x" VIEW "tRs.") },
    { "tensor-no-arguments.pth", ZN_EFORMAT, "not a storage", P(HEAD REBUILD ")R.") },
    { "tensor-argument-number.pth", ZN_EFORMAT, "not a storage", P(HEAD REBUILD "K\1R.") },
    { "tensor-bad-id.pth", ZN_EFORMAT, "not described", P(HEAD REBUILD "(K\1\x85Q" VIEW "tR.") },
    { "tensor-shape-number.pth", ZN_EFORMAT, "no tuple", P(HEAD REBUILD "(" STORAGE "K\0K\1K\1\x85\x89NtR.") },
    { "tensor-shape-text.pth", ZN_EFORMAT, "not a size",
      P(HEAD REBUILD "(" STORAGE "K\0X\1\0\0\0x\x85K\1\x85\x89NtR.") },
    { "tensor-stride-count.pth", ZN_EFORMAT, "differ", P(HEAD REBUILD "(" STORAGE "K\0K\1\x85K\1K\1\x86\x89NtR.") },
    { "tensor-conjugated.pth", ZN_EUNSUPPORTED, "conjugated",
      P(HEAD REBUILD "(" STORAGE VIEW "}X\4\0\0\0conj\x88stR.") },
    { "tensor-quantised.pth", ZN_EUNSUPPORTED, "_rebuild_qtensor",
      P(HEAD "}X\1\0\0\0wctorch._utils\n_rebuild_qtensor\n(" STORAGE VIEW "tRs.") },
    { "tensor-parameter-of-object.pth", ZN_EUNSUPPORTED, "lab.Thing",
      P(HEAD "ctorch._utils\n_rebuild_parameter\n(clab\nThing\n)R\x88NtR.") },
    { "tensor-subclass-of-nothing.pth", ZN_EUNSUPPORTED, "unknown",
      P(HEAD "ctorch._tensor\n_rebuild_from_type_v2\n)R.") },
    { "tensor-no-dtype.pth", ZN_EUNSUPPORTED, "element type",
      P(HEAD "ctorch._utils\n_rebuild_tensor_v3\n(" STORAGE VIEW "K\5tR.") },
    { "tensor-wrapped.pth", ZN_EFORMAT, "wrapped", .make = parameters_of_parameters },
    { "tensor-complex.pth", ZN_EUNSUPPORTED, "ComplexFloatStorage", .make = complex_numbers },
    { "tensor-untyped.pth", ZN_EUNSUPPORTED, "UntypedStorage", .make = untyped },
    { "tensor-strange-class.pth", ZN_EUNSUPPORTED, "os.system", .make = strange_class },
    { "tensor-no-storage.pth", ZN_EFORMAT, "t/data/7", .make = no_storage },
    { "tensor-escaping-key.pth", ZN_EFORMAT, "not in the archive", .make = escaping_key },
    { "tensor-storage-small.pth", ZN_EFORMAT, "17 elements", .make = storage_too_small },
    { "tensor-storage-overflow.pth", ZN_EFORMAT, "elements", .make = storage_overflow },
    { "tensor-storage-negative.pth", ZN_EFORMAT, "not described", .make = storage_negative },
    { "tensor-offset-past.pth", ZN_EFORMAT, "'w' reaches past", .make = offset_past },
    { "tensor-offset-negative.pth", ZN_EFORMAT, "offset", .make = offset_negative },
    { "tensor-offset-huge.pth", ZN_EFORMAT, "reaches past", .make = offset_huge },
    { "tensor-offset-of-nothing.pth", ZN_EFORMAT, "reaches past", .make = offset_of_nothing },
    { "tensor-shape-past.pth", ZN_EFORMAT, "reaches past", .make = shape_past },
    { "tensor-shape-negative.pth", ZN_EFORMAT, "not a size", .make = shape_negative },
    { "tensor-shape-overflow.pth", ZN_EFORMAT, "overflows", .make = shape_overflow },
    { "tensor-stride-past.pth", ZN_EFORMAT, "reaches past", .make = stride_past },
    { "tensor-stride-overflow.pth", ZN_EFORMAT, "reaches past", .make = stride_overflow },
    { "tensor-stride-negative.pth", ZN_EFORMAT, "not a size", .make = stride_negative },
    { "tensor-rank-nine.pth", ZN_EUNSUPPORTED, "rank", .make = rank_nine },
    { "tensor-expansion-bomb.pth", ZN_ELIMIT, "expands", .make = expansion_bomb },
    { 0 },
};
