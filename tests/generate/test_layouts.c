/* The layouts of published models: all are found, and all give the same image; what is missing is named. */
#include "tiny_layouts.h"

#include "base/alloc.h"
#include "base/file.h"
#include "pipeline/generate/files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zenith/generate.h>
#include <zenith/weights.h>

#include "../skip.h"

enum { SIDE = 32, BYTES = SIDE * SIDE * 3 };

static char root[1024];
static uint8_t reference[BYTES];

static const char *in(const char *name)
{
    static char paths[8][2048];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", root, name);
    return path;
}

static void draw(const zn_generator_files *files, uint8_t *pixels)
{
    zn_generator *g;
    zn_generator_files f = *files;
    zn_image *image;
    f.size = sizeof f;
    f.cache = "";
    if (zn_generator_open(&f, NULL, &g) != ZN_OK)
        fail_msg("%s", zn_error_text());
    const zn_generation a = { .size = sizeof a, .prompt = "abc", .width = SIDE, .height = SIDE, .steps = 2, .seed = 7 };
    if (zn_generate(g, &a, &image) != ZN_OK)
        fail_msg("%s", zn_error_text());
    memcpy(pixels, image->pixels, BYTES);
    zn_image_free(image);
    zn_generator_free(g);
}

/* Mean difference of samples to the image of the diffusers folder. */
static double difference(const zn_generator_files *files)
{
    uint8_t pixels[BYTES];
    double sum = 0;
    draw(files, pixels);
    for (int i = 0; i < BYTES; i++)
        sum += abs(pixels[i] - reference[i]);
    return sum / BYTES;
}

static double difference_of(const char *model) { return difference(&(zn_generator_files){ .model = model }); }

static void must_refuse(const zn_generator_files *files, const char *const *words)
{
    zn_generator *g;
    zn_generator_files f = *files;
    f.size = sizeof f;
    if (zn_generator_open(&f, NULL, &g) == ZN_OK)
        fail_msg("opened, but lacks %s", words[0]);
    for (; *words; words++)
        if (!strstr(zn_error_text(), *words))
            fail_msg("no '%s' in: %s", *words, zn_error_text());
}
#define REFUSED(files, ...) must_refuse(&(zn_generator_files)files, (const char *const[]){ __VA_ARGS__, NULL })
#define FILES(...)                                                                                                     \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

static int make_root(void **state)
{
    (void)state;
    static char name[] = "/tmp/zenith-layouts-XXXXXX";
    assert_non_null(mkdtemp(name));
    snprintf(root, sizeof root, "%s", name);
    setenv("ZENITH_MODELS", root, 1);
    tiny_diffusers(in("z"));
    draw(&(zn_generator_files){ .model = in("z") }, reference);
    return 0;
}

static int remove_root(void **state)
{
    (void)state;
    char command[2048];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void folders_of_comfy(void **state)
{
    (void)state;
    tiny_comfy(in("comfy/models"), TINY_F32);
    assert_true(difference_of(in("comfy")) == 0);
    assert_true(difference_of(in("comfy/models/")) == 0);
    assert_true(difference_of(in("comfy/models/diffusion_models/a.safetensors")) == 0);
    assert_true(difference_of("comfy") == 0); /* from the places where models are searched */
    assert_true(difference(&(zn_generator_files){ .transformer = in("comfy/models/diffusion_models/a.safetensors"),
                                                  .text_encoder = in("z/text_encoder"),
                                                  .vae = in("z/vae") }) == 0);
    assert_true(difference(&(zn_generator_files){
                    .transformer = in("z/transformer/diffusion_pytorch_model.safetensors.index.json"),
                    .text_encoder = in("comfy/models/text_encoders/b.safetensors"),
                    .vae = in("comfy/models/vae/c.safetensors"),
                    .tokenizer = in("z/tokenizer") }) == 0);
}

static void one_folder_or_one_file(void **state)
{
    (void)state;
    tiny_tensors t = tiny_transformer(TINY_ORIGINAL, "model.diffusion_model."),
                 q = tiny_text_encoder("text_encoders.qwen3_4b.transformer.model."),
                 v = tiny_vae(TINY_ORIGINAL, "vae.");
    tiny_save(in("flat"), "one.safetensors", &t, TINY_F32);
    tiny_save(in("flat"), "two.safetensors", &q, TINY_F32);
    tiny_save(in("flat"), "three.safetensors", &v, TINY_F32);
    tiny_save_tokenizer(in("flat"));
    assert_true(difference_of(in("flat")) == 0);
    tiny_tensors all = { malloc(sizeof *all.list * (size_t)(t.count + q.count + v.count)), 0 };
    const tiny_tensors *const parts[] = { &t, &q, &v };
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < parts[p]->count; i++)
            all.list[all.count++] = parts[p]->list[i];
    tiny_save(in("whole"), "checkpoint.safetensors", &all, TINY_F32);
    tiny_save_tokenizer(in("whole"));
    assert_true(difference_of(in("whole/checkpoint.safetensors")) == 0);
    assert_true(difference_of(in("whole")) == 0);
    free(all.list);
    tiny_free(&t);
    tiny_free(&q);
    tiny_free(&v);
}

static void eight_bits(void **state)
{
    (void)state;
    tiny_comfy(in("fp8"), TINY_FP8);
    tiny_comfy(in("scaled"), TINY_FP8_SCALED);
    tiny_comfy(in("convrot"), TINY_CONVROT);
    const double fp8 = difference_of(in("fp8")), scaled = difference_of(in("scaled")),
                 convrot = difference_of(in("convrot"));
    print_message("mean difference of 255: fp8 %.3f, scaled %.3f, convrot %.3f\n", fp8, scaled, convrot);
    assert_true(fp8 > 0 && fp8 < 4);
    assert_true(scaled > 0 && scaled < 4);
    assert_true(convrot > 0 && convrot < 1.5);
}

static void quantise(const char *from, const char *folder, const char *name, zn_dtype dtype, int mlx_bits)
{
    char path[4096];
    const zn_quantisation how = { .size = sizeof how, .dtype = dtype, .mlx_bits = mlx_bits };
    assert_int_equal(zn_folder_make(folder), ZN_OK);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (zn_weights_quantise(from, path, &how) != ZN_OK)
        fail_msg("%s", zn_error_text());
}

/* Packed files of each type, from shards; the tokenizer comes from the metadata. */
static void quantised(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        zn_dtype dtype;
        double most;
    } types[] = { { "f32", ZN_F32, 0 },   { "bf16", ZN_BF16, 0.5 }, { "f16", ZN_F16, 0.1 },  { "q8_0", ZN_Q8_0, 1 },
                  { "q6_k", ZN_Q6_K, 3 }, { "q5_k", ZN_Q5_K, 6 },   { "q4_k", ZN_Q4_K, 12 }, { "q4_0", ZN_Q4_0, 16 } };
    tiny_tensors v = tiny_vae(TINY_ORIGINAL, "");
    char folder[2048];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        snprintf(folder, sizeof folder, "%s", in(types[i].name));
        quantise(in("z/transformer"), folder, "dit.gguf", types[i].dtype, 0);
        quantise(in("z/text_encoder"), folder, "qwen.gguf", types[i].dtype, 0);
        tiny_save(folder, "ae.safetensors", &v, TINY_F32);
        const double d = difference_of(folder);
        print_message("mean difference of 255: %s %.3f\n", types[i].name, d);
        assert_true(d <= types[i].most);
        assert_true(d > 0 || types[i].dtype == ZN_F32);
    }
    snprintf(folder, sizeof folder, "%s", in("mlx4"));
    quantise(in("z/transformer"), folder, "dit.safetensors", 0, 4);
    quantise(in("z/text_encoder"), folder, "qwen.safetensors", 0, 4);
    tiny_save(folder, "ae.safetensors", &v, TINY_F32);
    tiny_save_tokenizer(folder);
    const double d = difference_of(folder);
    print_message("mean difference of 255: mlx4 %.3f\n", d);
    assert_true(d > 0 && d < 16);
    tiny_free(&v);
}

static void same_bytes(const char *a, const char *b)
{
    zn_map x, y;
    assert_int_equal(zn_map_open(&x, a), ZN_OK);
    assert_int_equal(zn_map_open(&y, b), ZN_OK);
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.bytes, y.bytes, x.size);
    zn_map_close(&x);
    zn_map_close(&y);
}

/* Packing what is packed: from any layout to the same file. */
static void quantised_again(void **state)
{
    (void)state;
    tiny_comfy(in("other"), TINY_F32);
    quantise(in("z/transformer"), root, "a.gguf", ZN_Q4_0, 0);
    quantise(in("other/diffusion_models/a.safetensors"), root, "b.gguf", ZN_Q4_0, 0);
    same_bytes(in("a.gguf"), in("b.gguf"));
    quantise(in("z/text_encoder/model.safetensors.index.json"), root, "c.gguf", ZN_F32, 0);
    quantise(in("c.gguf"), root, "d.gguf", ZN_F32, 0);
    same_bytes(in("c.gguf"), in("d.gguf"));
    quantise(in("z/transformer"), root, "e.safetensors", 0, 8);
    quantise(in("e.safetensors"), root, "f.gguf", ZN_Q8_0, 0);
    const zn_quantisation how = { .size = sizeof how, .dtype = ZN_Q2_K };
    assert_int_equal(zn_weights_quantise(in("z/transformer"), in("g.gguf"), &how), ZN_EUNSUPPORTED);
    assert_int_equal(zn_weights_quantise(in("z"), in("g.gguf"), &(zn_quantisation){ .dtype = ZN_F32 }), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "/transformer"));
    assert_false(zn_exists(in("g.gguf")));
}

static void compare_tokens(const zn_tokenizer *a, const zn_tokenizer *b, const zn_json_node *text)
{
    zn_tokens x = { 0 }, y = { 0 };
    assert_int_equal(zn_tokenizer_chat(a, text->value.text, text->length, SIZE_MAX, &x), ZN_OK);
    assert_int_equal(zn_tokenizer_chat(b, text->value.text, text->length, SIZE_MAX, &y), ZN_OK);
    assert_int_equal(x.count, y.count);
    assert_memory_equal(x.ids, y.ids, x.count * sizeof *x.ids);
    zn_free(x.ids);
    zn_free(y.ids);
}

/* The real vocabulary goes through the metadata of a GGUF file and gives the same tokens. */
static void real_tokenizer(void **state)
{
    (void)state;
    const char *shared = getenv("ZENITH_SHARED");
    char command[8192], archive[2048], folder[2048];
    zn_tokenizer *plain, *packed;
    zn_map map;
    zn_json doc;
    int count = 0;
    snprintf(archive, sizeof archive, "%s/data/qwen/tokenizer.json.gz", shared && *shared ? shared : SHARED);
    skip_without_data(archive);
    tiny_tensors q = tiny_text_encoder("model.");
    snprintf(folder, sizeof folder, "%s", in("real"));
    tiny_save(folder, "q.safetensors", &q, TINY_F32);
    tiny_free(&q);
    snprintf(command, sizeof command, "gzip -dc '%s' > '%s/tokenizer.json'", archive, folder);
    assert_int_equal(system(command), 0);
    quantise(in("real/q.safetensors"), folder, "q.gguf", ZN_Q8_0, 0);
    assert_int_equal(zn_generator_tokenizer(in("real/tokenizer.json"), &plain), ZN_OK);
    if (zn_generator_tokenizer(in("real/q.gguf"), &packed) != ZN_OK)
        fail_msg("%s", zn_error_text());
    assert_int_equal(zn_map_open(&map, GOLDEN "/qwen_tokens.json"), ZN_OK);
    assert_int_equal(zn_json_parse(&doc, map.bytes, map.size, "qwen_tokens.json"), ZN_OK);
    ZN_JSON_EACH(c, zn_json_get(doc.root, "cases"))
    {
        compare_tokens(plain, packed, zn_json_get(c, "text"));
        count++;
    }
    assert_true(count > 100);
    zn_json_free(&doc);
    zn_map_close(&map);
    zn_tokenizer_free(plain);
    zn_tokenizer_free(packed);
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    tiny_tensors t = tiny_transformer(TINY_ORIGINAL, "");
    tiny_save(in("alone"), "dit.safetensors", &t, TINY_F32);
    REFUSED(FILES(.model = in("alone/dit.safetensors")), "no text encoder", "no autoencoder and no tokenizer",
            "qwen_3_4b.safetensors (8.0 GB)", "ae.safetensors", "tokenizer.json",
            "--text-encoder, --vae and --tokenizer");
    REFUSED(FILES(.model = in("z"), .vae = in("alone")), "has no autoencoder", "ae.safetensors");
    REFUSED(FILES(.model = in("z/vae/diffusion_pytorch_model.safetensors")), "not hold the transformer");
    REFUSED(FILES(.model = in("nowhere")), "no such file or folder");
    REFUSED(FILES(.model = "nowhere"), "no model 'nowhere'", root);
    REFUSED(FILES(.tokenizer = in("z/tokenizer")), "no model 'z-image-turbo'", root);
    tiny_save(in("alone"), "second.safetensors", &t, TINY_F32);
    REFUSED(FILES(.model = in("alone")), "dit.safetensors", "second.safetensors", "name one with --transformer");
    tiny_free(&t);
}

static void broken_indexes(void **state)
{
    (void)state;
    tiny_tensors t = tiny_transformer(TINY_DIFFUSERS, "");
    static const struct {
        const char *from, *to, *word;
    } lies[] = {
        { "m-00002-of-00002", "../00002-of-0002", "outside the folder" },
        { "m-00002-of-00002", "/tmp/2-of-000002", "outside the folder" },
        { "m-00002-of-00002", "m-00003-of-00002", "names the shard m-00003-of-00002.safetensors, which is not there" },
        { "m-00002-of-00002", "m-00001-of-00002", "not in m-00001" },
        { "weight_map", "weigth_map", "has no weight_map" },
    };
    char path[2048], index[1 << 16];
    tiny_save_shards(in("shards"), "m", &t, 2);
    snprintf(path, sizeof path, "%s", in("shards/m.safetensors.index.json"));
    FILE *f = fopen(path, "r");
    index[fread(index, 1, sizeof index - 1, f)] = 0;
    fclose(f);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        char *copy = strdup(index);
        memcpy(strstr(copy, lies[i].from), lies[i].to, strlen(lies[i].to));
        tiny_save_text(in("shards"), "m.safetensors.index.json", copy);
        REFUSED(FILES(.model = in("z"), .transformer = path), lies[i].word);
        free(copy);
    }
    tiny_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(folders_of_comfy),
                                        cmocka_unit_test(one_folder_or_one_file),
                                        cmocka_unit_test(eight_bits),
                                        cmocka_unit_test(quantised),
                                        cmocka_unit_test(quantised_again),
                                        cmocka_unit_test(real_tokenizer),
                                        cmocka_unit_test(what_is_missing_is_named),
                                        cmocka_unit_test(broken_indexes) };
    return cmocka_run_group_tests(tests, make_root, remove_root);
}
