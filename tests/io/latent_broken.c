/* Broken latent files: tensors that are no latent, facts that are no facts or contradict each other. */
#include "latent_make.h"

#include <png.h>

static void broken_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        zn_status code;
        const char *word;
    } cases[] = {
        { "{}", ZN_EFORMAT, "no tensor" },
        { "{\"latent\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", ZN_EFORMAT, "no tensor" },
        { "{\"latent\":{\"dtype\":\"I32\",\"shape\":[1,2,2],\"data_offsets\":[0,16]}}", ZN_EFORMAT, "I32" },
        { "{\"latent\":{\"dtype\":\"F32\",\"shape\":[2,1,2,1],\"data_offsets\":[0,16]}}", ZN_EUNSUPPORTED,
          "batch of 2" },
        { "{\"latent\":{\"dtype\":\"F32\",\"shape\":[2,1,1,2,1],\"data_offsets\":[0,16]}}", ZN_EUNSUPPORTED,
          "batch of 2" },
        { "{\"latent\":{\"dtype\":\"F32\",\"shape\":[1,1,1,2,1,2],\"data_offsets\":[0,16]}}", ZN_EFORMAT, "no tensor" },
        { "{\"latent\":{\"dtype\":\"F32\",\"shape\":[1,0,2,1],\"data_offsets\":[0,0]},"
          "\"pad\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}",
          ZN_EFORMAT, "empty" },
        { "{\"a\":{\"dtype\":\"F16\",\"shape\":[1,2,2],\"data_offsets\":[0,8]},"
          "\"b\":{\"dtype\":\"F16\",\"shape\":[1,2,2],\"data_offsets\":[8,16]}}",
          ZN_EFORMAT, "'a' and 'b'" },
        { "{\"latent\":{\"dtype\":\"F32\",\"shape\":[1,2,200],\"data_offsets\":[0,1600]}}", ZN_EFORMAT, "latent" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        blob b = tensors(cases[i].header, "0123456789abcdef", 16);
        expect(&b, cases[i].code, cases[i].word);
        blob_free(&b);
    }
    blob long_side =
        tensors("{\"latent\":{\"dtype\":\"F8_E4M3\",\"shape\":[1,1,65537],\"data_offsets\":[0,65537]}}", "", 0);
    uint8_t *zeros = calloc(1, 65537);
    blob_add(&long_side, zeros, 65537);
    expect(&long_side, ZN_ELIMIT, "65537x1");
    free(zeros);
    blob_free(&long_side);
    expect(&(blob){ (uint8_t *)"nonsense", 8 }, ZN_EFORMAT, "neither");
    expect(&(blob){ (uint8_t *)"", 0 }, ZN_EFORMAT, "empty");
}

/* Facts as the metadata of a 2x2 latent of four channels, in both kinds of file. */
static const struct {
    const char *key, *value;
    zn_status code;
    const char *word;
} bad_facts[] = {
    { "version", "2", ZN_EUNSUPPORTED, "version 2" },
    { "version", "one", ZN_EFORMAT, "'one'" },
    { "image_width", "0", ZN_EFORMAT, "image_width" },
    { "image_width", "-5", ZN_EFORMAT, "image_width" },
    { "image_width", "", ZN_EFORMAT, "image_width" },
    { "image_width", "16 ", ZN_EFORMAT, "image_width" },
    { "image_width", "99999999999999999999", ZN_EFORMAT, "image_width" },
    { "image_width", "17", ZN_EFORMAT, "17x16" },
    { "image_height", "17", ZN_EFORMAT, "16x17" },
    { "image_frames", "0", ZN_EFORMAT, "image_frames" },
    { "grey", "no", ZN_EFORMAT, "grey" },
    { "downscale", "7", ZN_EFORMAT, "1/7" },
    { "downscale", "8x", ZN_EFORMAT, "downscale" },
    { "model", "a name of more than sixty-three bytes, which is more than fits in", ZN_EFORMAT, "longer" },
    { "model", "tab\there", ZN_EFORMAT, "printable" },
};

enum { FACTS = 7 };
static const char *names[FACTS] = { "version",   "image_width", "image_height", "image_frames",
                                    "downscale", "grey",        "model" };
static const char *values[FACTS] = { "1", "16", "16", "1", "8", "1", "taesd" };

static blob tensor_with(const char *key, const char *value, const char *without)
{
    char header[1024] = "{\"__metadata__\":{\"format\":\"zenith-latent\"";
    for (int i = 0; i < FACTS; i++) {
        char escaped[128] = "", *to = escaped;
        for (const char *from = !strcmp(key, names[i]) ? value : values[i]; *from; from++)
            to += sprintf(to, *from < 32 ? "\\u%04x" : "%c", *from);
        if (strcmp(names[i], without))
            sprintf(header + strlen(header), ",\"%s\":\"%s\"", names[i], escaped);
    }
    strcat(header, "},\"latent\":{\"dtype\":\"F32\",\"shape\":[1,4,2,2],\"data_offsets\":[0,64]}}");
    static const float zeros[16];
    return tensors(header, zeros, sizeof zeros);
}

static void put_bytes(png_structp png, png_bytep data, size_t size) { blob_add(png_get_io_ptr(png), data, size); }
static void put_nothing(png_structp png) { (void)png; }

static blob picture_with(const char *key, const char *value, const char *without)
{
    blob b = { 0 };
    uint8_t row[8] = { 0 };
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &b, put_bytes, put_nothing);
    png_set_IHDR(png, info, 2, 2, 8, PNG_COLOR_TYPE_RGB_ALPHA, 0, 0, 0);
    for (int i = 0; i < FACTS; i++) {
        char name[64], text[128];
        snprintf(name, sizeof name, "zenith:%s", names[i]);
        snprintf(text, sizeof text, "%s", !strcmp(key, names[i]) ? value : values[i]);
        png_text entry = {
            .compression = PNG_TEXT_COMPRESSION_NONE, .key = name, .text = text, .text_length = strlen(text)
        };
        if (strcmp(names[i], without))
            png_set_text(png, info, &entry, 1);
    }
    png_write_info(png, info);
    png_write_row(png, row);
    png_write_row(png, row);
    png_write_end(png, info);
    png_destroy_write_struct(&png, &info);
    return b;
}

static void broken_facts(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        blob (*with)(const char *, const char *, const char *) = kind ? picture_with : tensor_with;
        for (size_t i = 0; i < sizeof bad_facts / sizeof *bad_facts; i++) {
            blob b = with(bad_facts[i].key, bad_facts[i].value, "");
            expect(&b, bad_facts[i].code, bad_facts[i].word);
            blob_free(&b);
        }
        blob half = with("", "", "image_width");
        expect(&half, ZN_EFORMAT, "0x16");
        blob_free(&half);
        blob good = with("", "", "version");
        zn_latent *z;
        assert_int_equal(read_blob(&good, &z), ZN_OK);
        assert_int_equal(z->image_width, 16);
        assert_string_equal(z->model, "taesd");
        zn_latent_free(z);
        blob_free(&good);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_tensors),
        cmocka_unit_test(broken_facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
