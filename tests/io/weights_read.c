/* Reading weight files that are right: written by the reference implementations (make_pth.py) or built here. */
#include "weights_test.h"

static void assert_floats(const zn_weights *w, const char *name, int count, const float *values)
{
    const zn_weight *t = zn_weights_find(w, name);
    assert_non_null(t);
    assert_int_equal(t->dtype, ZN_F32);
    assert_int_equal(t->bytes, (size_t)count * sizeof *values);
    assert_memory_equal(t->data, values, t->bytes);
}

static void checkpoints_equal_their_twin(void **state)
{
    (void)state;
    zn_weights *twin = must_open(TEST_DATA "/checkpoint.safetensors");
    assert_int_equal(zn_weights_count(twin), 36);
    assert_string_equal(zn_weights_format(twin), "safetensors");
    const char *paths[] = { TEST_DATA "/checkpoint_p2.pth", TEST_DATA "/checkpoint_p4.pth" };
    for (int i = 0; i < 2; i++) {
        zn_weights *w = must_open(paths[i]);
        assert_string_equal(zn_weights_format(w), "pytorch");
        assert_same_tensors(twin, w);
        zn_weights_close(w);
    }
    zn_weights_close(twin);
}

/* Values worked out by hand: numbers(...) of make_pth.py is 0.75 i - 2. */
static void values_are_right(void **state)
{
    (void)state;
    zn_weights *w = must_open(TEST_DATA "/checkpoint_p2.pth");
    assert_floats(w, "state_dict.view.expanded", 8, (float[]){ 5, 5, 5, 5, 6, 6, 6, 6 });
    assert_floats(w, "state_dict.view.columns", 12,
                  (float[]){ -1.25f, 0.25f, 1.75f, 3.25f, 4.75f, 6.25f, 7.75f, 9.25f, 10.75f, 12.25f, 13.75f, 15.25f });
    const zn_weight *transposed = zn_weights_find(w, "state_dict.view.transposed");
    assert_memory_equal(transposed->data, ((float[]){ -2, 2.5f, 7, 11.5f, -1.25f }), 20);
    assert_int_equal(transposed->shape[0], 6);
    assert_floats(w, "state_dict.scalar", 1, (float[]){ 1.5f });
    assert_floats(w, "optimizer_states.0.state.1.1", 2, (float[]){ -2, -1.25f });
    assert_floats(w, "state_dict.na\xc3\xafve.\xf0\x9f\x98\x80", 1, (float[]){ -2 });
    const zn_weight *empty = zn_weights_find(w, "state_dict.empty"), *scalar = zn_weights_find(w, "state_dict.scalar");
    assert_int_equal(empty->bytes, 0);
    assert_int_equal(empty->rank, 2);
    assert_non_null(empty->data);
    assert_int_equal(scalar->rank, 0);
    const uint16_t halves[] = { 0xc000, 0xbd00, 0xb800 }; /* -2, -1.25, -0.5 */
    assert_memory_equal(zn_weights_find(w, "state_dict.type.float16")->data, halves, sizeof halves);
    assert_null(zn_weights_find(w, "hyper_parameters.schedule.buffer"));
    assert_null(zn_weights_find(w, "state_dict"));
    assert_null(zn_weights_at(w, -1));
    assert_null(zn_weights_at(w, zn_weights_count(w)));
    assert_int_equal(zn_weights_metadata_count(w), 0);
    zn_weights_close(w);
}

static void every_dtype_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        zn_dtype dtype;
    } types[] = { { "float64", ZN_F64 },
                  { "float32", ZN_F32 },
                  { "float16", ZN_F16 },
                  { "bfloat16", ZN_BF16 },
                  { "float8_e4m3fn", ZN_F8_E4M3 },
                  { "float8_e5m2", ZN_F8_E5M2 },
                  { "int64", ZN_I64 },
                  { "int32", ZN_I32 },
                  { "int16", ZN_I16 },
                  { "int8", ZN_I8 },
                  { "uint64", ZN_U64 },
                  { "uint32", ZN_U32 },
                  { "uint16", ZN_U16 },
                  { "uint8", ZN_U8 },
                  { "bool", ZN_BOOL } };
    zn_weights *w = must_open(TEST_DATA "/checkpoint_p4.pth");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char name[64];
        snprintf(name, sizeof name, "state_dict.type.%s", types[i].name);
        const zn_weight *t = zn_weights_find(w, name);
        assert_non_null(t);
        assert_int_equal(t->dtype, types[i].dtype);
    }
    assert_int_equal(sizeof types / sizeof *types, ZN_Q4_0); /* all without blocks */
    zn_weights_close(w);
}

static void metadata_is_decoded(void **state)
{
    (void)state;
    zn_weights *w = must_open(TEST_DATA "/checkpoint.safetensors");
    const char *value;
    int seen = 0;
    assert_int_equal(zn_weights_metadata_count(w), 2);
    for (int64_t i = 0; i < 2; i++)
        seen += strcmp(zn_weights_metadata_at(w, i, &value), "text") == 0 && value == zn_weights_metadata(w, "text");
    assert_int_equal(seen, 1);
    assert_string_equal(zn_weights_metadata(w, "text"), "quote \" backslash \\ newline \n \xc3\xa9 \xf0\x9f\x98\x80");
    assert_string_equal(zn_weights_metadata(w, "made_by"), "make_pth.py");
    assert_null(zn_weights_metadata(w, "absent"));
    assert_null(zn_weights_metadata_at(w, 2, &value));
    zn_weights_close(w);
}

/* Things real .safetensors files contain. */
static void tolerated_safetensors(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t data;
        int zero, tensors;
    } files[] = {
        { "{}", 0, 0, 0 },
        { "{\"__metadata__\":null}   \n\t", 0, 0, 0 },
        { "{\"__metadata__\":{},\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, 0, 1 },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2],\"extra\":{\"x\":[1,2,{}]}}}", 2, 0, 1 },
        { "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]},\"a\":{\"shape\":[1],\"data_offsets\":[0,1],"
          "\"dtype\":\"I8\"}}",
          3, 0, 2 },
        { "{\"e\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[0,0]},\"f\":{\"dtype\":\"F32\",\"shape\":[3,0],"
          "\"data_offsets\":[0,0]}}",
          0, 0, 2 },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"b\":{\"dtype\":\"U8\",\"shape\":[1],"
          "\"data_offsets\":[64,65]}}",
          128, 1, 2 },
        { "{\"\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}", 1, 0, 1 },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        bytes b = make_safetensors(files[i].header, files[i].data);
        if (files[i].zero)
            memset(b.data + b.size - files[i].data, 0, files[i].data);
        zn_weights *w = must_open_bytes(&b);
        assert_int_equal(zn_weights_count(w), files[i].tensors);
        zn_weights_close(w);
        bytes_free(&b);
    }
}

static void unaligned_offsets_and_order(void **state)
{
    (void)state;
    bytes b = make_safetensors("{\"late\":{\"dtype\":\"U16\",\"shape\":[2],\"data_offsets\":[1,5]},"
                               "\"early\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
                               5);
    zn_weights *w = must_open_bytes(&b);
    assert_string_equal(zn_weights_at(w, 0)->name, "late");
    assert_memory_equal(zn_weights_at(w, 0)->data, "\1\2\3\4", 4);
    assert_memory_equal(zn_weights_find(w, "early")->data, "\0", 1);
    zn_weights_close(w);
    bytes_free(&b);
}

static const tensor_call sixteen = { .elements = 16, .rank = 1, .shape = { 16 }, .stride = { 1 } };

/* A bare tensor, a list of tensors, and Python 2's OrderedDict([[key, value], ...]). */
static void other_roots(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        bytes p = { 0 };
        bytes_put(&p, "\x80\x02", 2);
        bytes_text(&p, kind == 1 ? "](" : kind == 2 ? "ccollections\nOrderedDict\n(](](U\1k" : "");
        pickle_tensor(&p, &sixteen);
        bytes_text(&p, kind == 1 ? "e" : kind == 2 ? "eetR" : "");
        bytes_put(&p, ".", 1);
        bytes b = make_checkpoint(p.data, p.size, 64);
        zn_weights *w = must_open_bytes(&b);
        assert_int_equal(zn_weights_count(w), 1);
        assert_string_equal(zn_weights_at(w, 0)->name, kind == 1 ? "0" : kind == 2 ? "k" : "tensor");
        assert_int_equal(((const uint8_t *)zn_weights_at(w, 0)->data)[63], 63);
        zn_weights_close(w);
        bytes_free(&b);
        bytes_free(&p);
    }
}

/* Under a class as a key, as Lightning keeps the states of callbacks, or an object, tensors are skipped. */
static void classes_as_keys_are_skipped(void **state)
{
    (void)state;
    static const char *const keys[] = { "clab.config\nEarlyStopping\n", "clab.config\nKey\n)R" };
    for (int i = 0; i < 2; i++) {
        bytes p = { 0 };
        bytes_put(&p, "\x80\x02}(", 4);
        pickle_text(&p, "callbacks");
        bytes_text(&p, "}(");
        bytes_text(&p, keys[i]);
        bytes_text(&p, "}");
        pickle_text(&p, "best_score");
        pickle_tensor(&p, &sixteen);
        bytes_text(&p, "su");
        pickle_text(&p, "state_dict");
        bytes_text(&p, "}");
        pickle_text(&p, "w");
        pickle_tensor(&p, &sixteen);
        bytes_text(&p, "su.");
        bytes b = make_checkpoint(p.data, p.size, 64);
        zn_weights *w = must_open_bytes(&b);
        assert_int_equal(zn_weights_count(w), 1);
        assert_string_equal(zn_weights_at(w, 0)->name, "state_dict.w");
        zn_weights_close(w);
        bytes_free(&b);
        bytes_free(&p);
    }
}

static void zip64_and_prefixes(void **state)
{
    (void)state;
    static const char *const prefixes[] = { "", "archive/", "a/b/c/", "na\xc3\xafve model/" };
    bytes p = { 0 };
    bytes_put(&p, "\x80\x02", 2);
    pickle_tensor(&p, &sixteen);
    bytes_put(&p, ".", 1);
    uint8_t data[64] = { 42 };
    for (int i = 0; i < 8; i++) {
        char pickle[64], storage[64];
        snprintf(pickle, sizeof pickle, "%sdata.pkl", prefixes[i / 2]);
        snprintf(storage, sizeof storage, "%sdata/0", prefixes[i / 2]);
        const zip_item items[] = { { .name = storage, .data = data, .size = 64 },
                                   { .name = pickle, .data = p.data, .size = p.size } };
        bytes b = make_zip(items, 2, i % 2 ? ZIP64_ALWAYS : ZIP64_NEVER);
        zn_weights *w = must_open_bytes(&b);
        assert_int_equal(((const uint8_t *)zn_weights_at(w, 0)->data)[0], 42);
        zn_weights_close(w);
        bytes_free(&b);
    }
    bytes_free(&p);
}

static void arguments_and_paths(void **state)
{
    (void)state;
    zn_weights *w = (zn_weights *)1;
    assert_int_equal(zn_weights_open(TEST_DATA "/absent.pth", &w), ZN_ENOTFOUND);
    assert_null(w);
    assert_non_null(strstr(zn_error_text(), "absent.pth"));
    assert_int_equal(zn_weights_open(TEST_DATA, &w), ZN_EIO);
    assert_non_null(strstr(zn_error_text(), "directory"));
    assert_int_equal(zn_weights_open(NULL, &w), ZN_EINVALID);
    assert_int_equal(zn_weights_open("x", NULL), ZN_EINVALID);
    assert_int_equal(zn_weights_open_memory(NULL, 0, "x", &w), ZN_EINVALID);
    zn_weights_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checkpoints_equal_their_twin),
        cmocka_unit_test(values_are_right),
        cmocka_unit_test(every_dtype_is_known),
        cmocka_unit_test(metadata_is_decoded),
        cmocka_unit_test(tolerated_safetensors),
        cmocka_unit_test(unaligned_offsets_and_order),
        cmocka_unit_test(other_roots),
        cmocka_unit_test(classes_as_keys_are_skipped),
        cmocka_unit_test(zip64_and_prefixes),
        cmocka_unit_test(arguments_and_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
