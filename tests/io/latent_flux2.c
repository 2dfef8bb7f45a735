/* FLUX.2's latents, packed and normalised, against NumPy's results (latent_flux2.inc). */
#include "latent_make.h"

#include "latent_flux2.inc"

#include <math.h>
#include <unistd.h>
#include <zenith/codec.h>

enum { CHANNELS = 32, WIDTH = 2, HEIGHT = 4, COUNT = CHANNELS * WIDTH * HEIGHT };
static char file[64];

static int make_name(void **state)
{
    (void)state;
    snprintf(file, sizeof file, "/tmp/zenith-flux2-%d.latent", (int)getpid());
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    unlink(file);
    return 0;
}

/* A latent of numbers [C,H,W]. */
static zn_latent *latent(const float *planes, int width, int height, int channels)
{
    zn_latent *z;
    assert_int_equal(zn_latent_new(width, height, channels, &z), ZN_OK);
    for (int i = 0; i < width * height * channels; i++)
        z->data[i % (width * height) * channels + i / (width * height)] = planes[i];
    return z;
}

static void assert_near(const zn_latent *z, const float *planes, int width, int height, int channels)
{
    assert_true(z->width == width && z->height == height && z->channels == channels);
    for (int i = 0; i < width * height * channels; i++) {
        const float is = z->data[i % (width * height) * channels + i / (width * height)];
        if (fabsf(is - planes[i]) > 1e-5f * (1 + fabsf(planes[i])))
            fail_msg("number %d is %g, not %g", i, is, planes[i]);
    }
}

static void write_bytes(const void *data, size_t size)
{
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

/* A file with the two tensors of the VAE that matter. */
static void write_vae(const char *second, const float *variances)
{
    char header[256];
    float both[256];
    memcpy(both, mean, sizeof mean);
    memcpy(both + 128, variances, sizeof variance);
    snprintf(header, sizeof header,
             "{\"bn.running_mean\":{\"dtype\":\"F32\",\"shape\":[128],\"data_offsets\":[0,512]},"
             "\"%s\":{\"dtype\":\"F32\",\"shape\":[128],\"data_offsets\":[512,1024]}}",
             second);
    blob b = tensors(header, both, sizeof both);
    write_bytes(b.data, b.size);
    blob_free(&b);
}

/* Raw to packed and normalised in either order, and back. */
static void as_numpy(void **state)
{
    (void)state;
    zn_latent_statistics s;
    write_vae("bn.running_var", variance);
    assert_int_equal(zn_latent_statistics_read(file, &s), ZN_OK);
    for (int order = 0; order < 2; order++) {
        zn_latent *z = latent(raw, WIDTH, HEIGHT, CHANNELS);
        z->raw = 1;
        if (order)
            assert_int_equal(zn_latent_pack(z, 1), ZN_OK);
        assert_int_equal(zn_latent_normalise(z, &s, 0), ZN_OK);
        assert_int_equal(zn_latent_normalise(z, &s, 0), ZN_OK); /* it is normalised already */
        assert_int_equal(zn_latent_pack(z, 1), ZN_OK);
        assert_near(z, packed, WIDTH / 2, HEIGHT / 2, 4 * CHANNELS);
        assert_true(!z->raw && z->downscale == 16);
        if (order)
            assert_int_equal(zn_latent_pack(z, 0), ZN_OK);
        assert_int_equal(zn_latent_normalise(z, &s, 1), ZN_OK);
        assert_int_equal(zn_latent_pack(z, 0), ZN_OK);
        assert_near(z, raw, WIDTH, HEIGHT, CHANNELS);
        assert_true(z->raw && z->downscale == 8);
        zn_latent_free(z);
    }
}

/* Without the statistics there is a sentence that says what is missing. */
static void without_statistics(void **state)
{
    (void)state;
    zn_latent_statistics s;
    zn_latent *z = latent(raw, WIDTH, HEIGHT, CHANNELS);
    z->raw = 1;
    assert_int_equal(zn_latent_rescale(z, "flux2", 0), ZN_EUNSUPPORTED);
    assert_non_null(strstr(zn_error_text(), "bn.running_mean"));
    z->raw = 0;
    assert_int_equal(zn_latent_rescale(z, "flux2", 0), ZN_OK);
    assert_near(z, raw, WIDTH, HEIGHT, CHANNELS);
    zn_latent_free(z);
    write_vae("bn.weight", variance);
    assert_int_equal(zn_latent_statistics_read(file, &s), ZN_EFORMAT);
    assert_non_null(strstr(zn_error_text(), "bn.running_var"));
    float wrong[128];
    memcpy(wrong, variance, sizeof wrong);
    wrong[7] = -1;
    write_vae("bn.running_var", wrong);
    assert_int_equal(zn_latent_statistics_read(file, &s), ZN_EFORMAT);
    assert_non_null(strstr(zn_error_text(), "number 7"));
}

/* Odd sides come back as they were, also in clips; other latents are refused. */
static void sizes(void **state)
{
    (void)state;
    float many[CHANNELS * 5 * 3];
    for (int i = 0; i < CHANNELS * 5 * 3; i++)
        many[i] = (float)(i * 7919 % 1201);
    zn_latent *z = latent(many, 5, 3, CHANNELS), *clip = NULL;
    z->image_width = 37;
    z->image_height = 24;
    for (int frame = 0; frame < 2; frame++)
        assert_int_equal(zn_latent_append(&clip, z), ZN_OK);
    assert_int_equal(zn_latent_pack(z, 1), ZN_OK);
    assert_true(z->width == 3 && z->height == 2);
    assert_true(z->data[2 * 128 + 1] == z->data[2 * 128]); /* the column that was added repeats the last */
    assert_int_equal(zn_latent_pack(z, 0), ZN_OK);
    assert_near(z, many, 5, 3, CHANNELS);
    z->image_width = z->image_height = 0;
    assert_int_equal(zn_latent_pack(z, 1), ZN_OK);
    assert_int_equal(zn_latent_pack(z, 0), ZN_OK);
    assert_true(z->width == 6 && z->height == 4); /* the size of the image is not known */
    assert_int_equal(zn_latent_pack(clip, 1), ZN_OK);
    assert_int_equal(zn_latent_pack(clip, 0), ZN_OK);
    assert_true(clip->frames == 2 && clip->width == 5 && clip->height == 3);
    assert_memory_equal(clip->data, clip->data + CHANNELS * 5 * 3, sizeof many);
    zn_latent_free(clip);
    zn_latent_free(z);
    z = latent(many, 2, 2, 16);
    assert_int_equal(zn_latent_pack(z, 1), ZN_ESHAPE);
    assert_int_equal(zn_latent_pack(z, 0), ZN_ESHAPE);
    zn_latent_free(z);
    z = latent(many, 1, 3, CHANNELS); /* Sana's are not FLUX.2's */
    z->downscale = 32;
    assert_int_equal(zn_latent_pack(z, 1), ZN_ESHAPE);
    zn_latent_free(z);
}

/* ComfyUI keeps packed latents, and they are normalised. */
static void comfy(void **state)
{
    (void)state;
    zn_latent *z = latent(packed, WIDTH / 2, HEIGHT / 2, 4 * CHANNELS), *back;
    z->raw = 1;
    assert_int_equal(zn_latent_write(file, z), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "normalised"));
    z->raw = 0;
    assert_int_equal(zn_latent_write(file, z), ZN_OK);
    assert_int_equal(zn_latent_read(file, &back), ZN_OK);
    assert_false(back->raw);
    assert_near(back, packed, WIDTH / 2, HEIGHT / 2, 4 * CHANNELS);
    zn_latent_free(back);
    zn_latent_free(z);
}

/* A decoder of FLUX.2's latents takes both forms, and gives the same image. */
static void decoding(void **state)
{
    (void)state;
    zn_model *model;
    zn_codec *codec;
    zn_image *one, *two;
    assert_int_equal(zn_model_random("taef2", 1, &model), ZN_OK);
    assert_int_equal(zn_codec_new(model, NULL, &codec), ZN_OK);
    zn_latent *z = latent(raw, WIDTH, HEIGHT, CHANNELS);
    z->image_width = 15;
    z->image_height = 25;
    assert_int_equal(zn_decode(codec, z, &one), ZN_OK);
    assert_false(zn_codec_unpacks(zn_model_info_of(model), z));
    assert_int_equal(zn_latent_pack(z, 1), ZN_OK);
    assert_true(zn_codec_unpacks(zn_model_info_of(model), z));
    assert_int_equal(zn_decode(codec, z, &two), ZN_OK);
    assert_true(two->width == 15 && two->height == 25);
    assert_memory_equal(one->pixels, two->pixels, (size_t)15 * 25 * 3);
    zn_image_free(one);
    zn_image_free(two);
    zn_latent_free(z);
    zn_codec_free(codec);
    zn_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_numpy), cmocka_unit_test(without_statistics), cmocka_unit_test(sizes),
        cmocka_unit_test(comfy),    cmocka_unit_test(decoding),
    };
    return cmocka_run_group_tests(tests, make_name, remove_file);
}
