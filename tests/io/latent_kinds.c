/* Latents in other programs' files: NumPy's .npy, ComfyUI's .latent, batches; and the scale of their numbers. */
#include "latent_make.h"

#include <math.h>
#include <unistd.h>
#include <zenith/latent.h>
#include <zenith/model.h>
#include <zenith/weights.h>

enum { SAFETENSORS, NPY, COMFY, PNG, KINDS };
static char file[KINDS][64];

static int make_names(void **state)
{
    (void)state;
    static const char *const extensions[KINDS] = { "safetensors", "npy", "latent", "png" };
    for (int i = 0; i < KINDS; i++)
        snprintf(file[i], sizeof file[i], "/tmp/zenith-kinds-%d.%s", (int)getpid(), extensions[i]);
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    for (int i = 0; i < KINDS; i++)
        unlink(file[i]);
    return 0;
}

static zn_latent *latent(int width, int height, int channels, float first)
{
    zn_latent *z;
    assert_int_equal(zn_latent_new(width, height, channels, &z), ZN_OK);
    for (int i = 0; i < width * height * channels; i++)
        z->data[i] = first + (float)(i * 7919 % 1201 - 600) / 199.0f;
    return z;
}

static blob npy(int major, const char *text, size_t numbers)
{
    blob b = { 0 };
    const size_t n = strlen(text);
    const uint8_t head[] = { 0x93, 'N', 'U', 'M', 'P', 'Y', (uint8_t)major, 0, (uint8_t)n, (uint8_t)(n >> 8), 0, 0 };
    static const float f32[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
    blob_add(&b, head, major == 1 ? 10 : 12);
    blob_add(&b, text, n);
    blob_add(&b, f32, numbers);
    return b;
}

/* As NumPy writes it: versions, order of keys, numbers of 2, 4 and 8 bytes, with and without a batch. */
static void arrays(void **state)
{
    (void)state;
    static const struct {
        int major;
        const char *text;
    } good[] = {
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 3), }" },
        { 2, "{'shape': (1, 2, 2, 3), 'fortran_order': False, 'descr': '<f4'}   \n" },
        { 3, "{\"descr\":\"<f4\",\"fortran_order\":False,\"shape\":(1,2,1,2,3,)}" },
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        blob b = npy(good[i].major, good[i].text, 48);
        zn_latent *z;
        assert_int_equal(read_blob(&b, &z), ZN_OK);
        assert_true(z->width == 3 && z->height == 2 && z->channels == 2 && !z->raw && !z->model[0]);
        assert_true(z->data[0] == 1 && z->data[1] == 7 && z->data[2] == 2 && z->data[11] == 12);
        zn_latent_free(z);
        blob_free(&b);
    }
}

static void broken_arrays(void **state)
{
    (void)state;
    static const struct {
        int major;
        const char *text;
        zn_status code;
        const char *word;
    } bad[] = {
        { 0, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 3)}", ZN_EUNSUPPORTED, "version 0" },
        { 4, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 3)}", ZN_EUNSUPPORTED, "version 4" },
        { 1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 2, 3)}", ZN_EUNSUPPORTED, "'>f4'" },
        { 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 2, 3)}", ZN_EUNSUPPORTED, "'<i4'" },
        { 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2, 3)}", ZN_EUNSUPPORTED, "Fortran" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 4)}", ZN_EFORMAT, "needs 64" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3)}", ZN_EFORMAT, "2 dimensions" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", ZN_EFORMAT, "needs 4" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 0, 3)}", ZN_EFORMAT, "needs 0" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, -2, 3)}", ZN_EFORMAT, "header" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999, 2, 3)}", ZN_EFORMAT, "header" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999, 9999999999, 3)}", ZN_EFORMAT,
          "overflows" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 3), 'shape': (2, 2, 3)}", ZN_EFORMAT, "header" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 2, 2, 3)}", ZN_EFORMAT, "header" },
        { 1, "{'descr': '<f4', 'fortran_order': False}", ZN_EFORMAT, "header" },
        { 1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 2, 3)}", ZN_EFORMAT, "header" },
        { 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 3)} x", ZN_EFORMAT, "header" },
        { 1, "{'descr': '<f4", ZN_EFORMAT, "header" },
        { 1, "", ZN_EFORMAT, "header" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        blob b = npy(bad[i].major, bad[i].text, 48);
        expect(&b, bad[i].code, bad[i].word);
        blob_free(&b);
    }
    blob b = npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2, 3)}", 48);
    const size_t whole = b.size, header = whole - 48;
    for (b.size = 6; b.size < whole; b.size++)
        expect(&b, ZN_EFORMAT, b.size < header ? "ends inside its header" : "bytes of numbers");
    blob_free(&b);
}

/* A file of three, written and read one by one; what does not go together is refused. */
static void batches(void **state)
{
    (void)state;
    zn_latent *in[3], *back;
    for (int i = 0; i < 3; i++)
        in[i] = latent(5, 3, 4, (float)i);
    const zn_latent *const *all = (const zn_latent *const *)in;
    for (int kind = SAFETENSORS; kind <= COMFY; kind++) {
        for (int i = 0; i < 3; i++)
            in[i]->raw = kind == COMFY;
        assert_int_equal(zn_latent_write_batch(file[kind], all, 3), ZN_OK);
        for (int i = 0; i < 3; i++) {
            int64_t count;
            assert_int_equal(zn_latent_read_at(file[kind], i, &back, &count), ZN_OK);
            assert_int_equal(count, 3);
            assert_int_equal(back->raw, kind == COMFY);
            assert_memory_equal(back->data, in[i]->data, sizeof(float) * 5 * 3 * 4);
            zn_latent_free(back);
        }
        assert_int_equal(zn_latent_read_at(file[kind], 3, &back, NULL), ZN_EINVALID);
        assert_int_equal(zn_latent_read_at(file[kind], -1, &back, NULL), ZN_EINVALID);
        assert_int_equal(zn_latent_read(file[kind], &back), ZN_EUNSUPPORTED);
        assert_non_null(strstr(zn_error_text(), "batch of 3"));
    }
    in[2]->image_width = in[2]->image_height = 9;
    assert_int_equal(zn_latent_write_batch(file[NPY], all, 3), ZN_ESHAPE);
    in[2]->image_width = in[2]->image_height = 0;
    in[1]->raw = 0;
    assert_int_equal(zn_latent_write_batch(file[NPY], all, 3), ZN_EINVALID);
    assert_int_equal(zn_latent_write_batch(file[NPY], all, 0), ZN_EINVALID);
    in[0]->raw = in[2]->raw = 0;
    assert_int_equal(zn_latent_write_batch(file[PNG], all, 3), ZN_EUNSUPPORTED);
    assert_int_equal(zn_latent_write_batch(file[PNG], all, 1), ZN_OK);
    assert_int_equal(zn_latent_read_at(file[PNG], 1, &back, NULL), ZN_EINVALID);
    for (int i = 0; i < 3; i++)
        zn_latent_free(in[i]);
}

/* ComfyUI's files: raw with the mark, raw times 0.18215 without it; scaled latents are not written as such. */
static void comfy(void **state)
{
    (void)state;
    static const float f32[4] = { 1, 2, 3, 4 };
    blob b = tensors("{\"latent_tensor\":{\"dtype\":\"F32\",\"shape\":[1,1,2,2],\"data_offsets\":[0,16]},"
                     "\"latent_format_version_0\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[16,16]}}",
                     f32, 16);
    zn_latent *z;
    assert_int_equal(read_blob(&b, &z), ZN_OK);
    assert_true(z->raw && z->data[3] == 4);
    zn_latent_free(z);
    blob_free(&b);
    b = tensors("{\"latent_tensor\":{\"dtype\":\"F32\",\"shape\":[1,1,2,2],\"data_offsets\":[0,16]}}", f32, 16);
    assert_int_equal(read_blob(&b, &z), ZN_OK);
    assert_true(z->raw && fabsf(z->data[3] - 4 / 0.18215f) < 1e-5f);
    zn_latent_free(z);
    blob_free(&b);
    z = latent(2, 2, 4, 0);
    assert_int_equal(zn_latent_write(file[COMFY], z), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "raw"));
    z->raw = 1;
    assert_int_equal(zn_latent_write(file[COMFY], z), ZN_OK);
    assert_int_equal(zn_latent_write(file[PNG], z), ZN_EUNSUPPORTED);
    zn_weights *w;
    assert_int_equal(zn_weights_open(file[COMFY], &w), ZN_OK);
    const zn_weight *mark = zn_weights_find(w, "latent_format_version_0");
    assert_true(mark && mark->rank == 1 && mark->shape[0] == 0 && zn_weights_count(w) == 2);
    zn_weights_close(w);
    zn_latent *back; /* our own file says so in its metadata */
    assert_int_equal(zn_latent_write(file[SAFETENSORS], z), ZN_OK);
    assert_int_equal(zn_latent_read(file[SAFETENSORS], &back), ZN_OK);
    assert_int_equal(back->raw, 1);
    zn_latent_free(back);
    zn_latent_free(z);
}

/* The numbers of diffusers' pipelines, there and back. */
static void scales(void **state)
{
    (void)state;
    static const struct {
        const char *family;
        int channels;
        double factor, shift; /* of channel 0 */
    } known[] = {
        { "sd", 4, 0.18215, 0 },       { "sdxl", 4, 0.13025, 0 },
        { "sd3", 16, 1.5305, 0.0609 }, { "flux", 16, 0.3611, 0.1159 },
        { "sana", 32, 0.41407, 0 },    { "wan2.1", 16, 1 / 2.8184, -0.7571 },
        { "none", 16, 1, 0 },          { "wan2.2", 48, 1 / 0.4765, -0.2289 },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        zn_latent *z = latent(3, 2, known[i].channels, 0);
        const double was = z->data[0], second = z->data[known[i].channels];
        assert_int_equal(zn_latent_rescale(z, known[i].family, 0), ZN_OK); /* it is scaled already */
        assert_true(z->data[0] == (float)was);
        z->raw = 1;
        assert_int_equal(zn_latent_rescale(z, known[i].family, 0), ZN_OK);
        assert_int_equal(z->raw, 0);
        assert_true(fabs(z->data[0] - (was - known[i].shift) * known[i].factor) < 1e-5);
        assert_true(fabs(z->data[known[i].channels] - (second - known[i].shift) * known[i].factor) < 1e-5);
        assert_int_equal(zn_latent_rescale(z, known[i].family, 1), ZN_OK);
        assert_true(z->raw && fabs(z->data[0] - was) < 1e-5);
        zn_latent_free(z);
    }
    zn_latent *z = latent(2, 2, 4, 0);
    assert_int_equal(zn_latent_rescale(z, "sd9", 1), ZN_ENOTFOUND);
    assert_int_equal(zn_latent_rescale(z, "wan2.1", 1), ZN_ESHAPE);
    zn_latent_free(z);
}

static void families(void **state)
{
    (void)state;
    static const struct {
        const char *architecture, *path, *family;
    } cases[] = {
        { "taesd", "weights/taesd", "sd" },
        { "taesd", "weights/taesdxl", "sdxl" },
        { "taesd", "/xl/models/taesd/encoder.safetensors", "sd" },
        { "taesd", "models/taesdxl/diffusion_pytorch_model.safetensors", "sdxl" },
        { "taesd3", "taesd3", "sd3" },
        { "taesd3", "models/taef1", "flux" },
        { "flux-vae", "ae.safetensors", "flux" },
        { "taew2_1", "x", "wan2.1" },
        { "zenith-r", "weights/zenith-r", "none" },
        { "taef2", "taef2", "flux2" },
        { "zenith-restore", "weights/zenith-restore", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const zn_model_info info = { .architecture = cases[i].architecture, .path = cases[i].path };
        const char *family = zn_model_family(&info);
        if (cases[i].family)
            assert_string_equal(family, cases[i].family);
        else
            assert_null(family);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays), cmocka_unit_test(broken_arrays), cmocka_unit_test(batches),
        cmocka_unit_test(comfy),  cmocka_unit_test(scales),        cmocka_unit_test(families),
    };
    return cmocka_run_group_tests(tests, make_names, remove_files);
}
