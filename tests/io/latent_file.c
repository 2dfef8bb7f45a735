/* Latent files: exact round trips, files of other programs, memory that runs out. */
#include "latent_make.h"

#include "base/alloc.h"

#include <math.h>
#include <png.h>
#include <unistd.h>
#include <zenith/latent.h>
#include <zenith/weights.h>

static char file[2][64]; /* .safetensors and .png */

static int make_names(void **state)
{
    (void)state;
    snprintf(file[0], sizeof file[0], "/tmp/zenith-latent-%d.safetensors", (int)getpid());
    snprintf(file[1], sizeof file[1], "/tmp/zenith-latent-%d.PNG", (int)getpid());
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    unlink(file[0]);
    unlink(file[1]);
    return 0;
}

static zn_latent *latent(int width, int height, int channels)
{
    zn_latent *z;
    assert_int_equal(zn_latent_new(width, height, channels, &z), ZN_OK);
    for (int i = 0; i < width * height * channels; i++) {
        assert_true(z->data[i] == 0);
        z->data[i] = (float)(i * 7919 % 1201 - 600) / 199.0f; /* a little beyond [-3,3] */
    }
    return z;
}

static void facts(zn_latent *z, int w, int h, int downscale, const char *model)
{
    z->image_width = w;
    z->image_height = h;
    z->downscale = downscale;
    snprintf(z->model, sizeof z->model, "%s", model);
}

static void same_facts(const zn_latent *a, const zn_latent *b)
{
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->height, b->height);
    assert_int_equal(a->channels, b->channels);
    assert_int_equal(a->image_width, b->image_width);
    assert_int_equal(a->image_height, b->image_height);
    assert_int_equal(a->downscale, b->downscale);
    assert_string_equal(a->model, b->model);
}

static void tensors_are_exact(void **state)
{
    (void)state;
    static const int shapes[][3] = { { 1, 1, 1 }, { 5, 3, 4 }, { 2, 9, 16 }, { 7, 1, 3 }, { 1, 4, 129 } };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        zn_latent *z = latent(shapes[i][0], shapes[i][1], shapes[i][2]), *back;
        if (i % 2)
            facts(z, shapes[i][0] * 8 - 3, shapes[i][1] * 8, 8, "taesd \"quoted\" \\ /");
        z->data[0] = -0.0f;
        assert_int_equal(zn_latent_write(file[0], z), ZN_OK);
        assert_int_equal(zn_latent_read(file[0], &back), ZN_OK);
        same_facts(z, back);
        assert_memory_equal(z->data, back->data,
                            (size_t)z->width * (size_t)z->height * (size_t)z->channels * sizeof(float));
        zn_latent_free(z);
        zn_latent_free(back);
    }
}

/* A clip of three frames, put together one by one; channels are the slowest side of the file. */
static void clips_are_exact(void **state)
{
    (void)state;
    zn_latent *clip = NULL, *back, *frame = latent(5, 3, 4), *other = latent(5, 4, 4);
    facts(frame, 40, 24, 8, "wan21-vae");
    frame->image_frames = 1;
    const size_t count = 5 * 3 * 4;
    for (int i = 0; i < 3; i++) {
        frame->data[0] = (float)i;
        assert_int_equal(zn_latent_append(&clip, frame), ZN_OK);
        frame->image_frames = 4;
    }
    assert_int_equal(zn_latent_append(&clip, other), ZN_ESHAPE);
    assert_int_equal(clip->frames, 3);
    assert_int_equal(clip->image_frames, 9);
    assert_int_equal(zn_latent_write(file[0], clip), ZN_OK);
    assert_int_equal(zn_latent_write(file[1], clip), ZN_EUNSUPPORTED);
    assert_int_equal(zn_latent_read(file[0], &back), ZN_OK);
    same_facts(clip, back);
    assert_int_equal(back->frames, 3);
    assert_int_equal(back->image_frames, 9);
    assert_memory_equal(clip->data, back->data, 3 * count * sizeof(float));
    assert_true(back->data[2 * count] == 2);
    zn_weights *w;
    assert_int_equal(zn_weights_open(file[0], &w), ZN_OK);
    const zn_weight *t = zn_weights_find(w, "latent");
    assert_int_equal(t->rank, 5);
    assert_int_equal(t->shape[1], 4);
    assert_int_equal(t->shape[2], 3);
    assert_true(((const float *)t->data)[15] == 1 && ((const float *)t->data)[45] == frame->data[1]);
    zn_weights_close(w);
    assert_int_equal(zn_latent_append(&back, clip), ZN_OK);
    assert_int_equal(back->frames, 6);
    zn_latent *const same = back;
    assert_int_equal(zn_latent_append(&back, same), ZN_OK);
    assert_int_equal(back->frames, 12);
    assert_memory_equal(back->data + 9 * count, clip->data, 3 * count * sizeof(float));
    zn_latent_free(clip);
    zn_latent_free(back);
    zn_latent_free(frame);
    zn_latent_free(other);
}

static void clips_grow_in_few_steps(void **state)
{
    (void)state;
    enum { FRAMES = 500, MOST = 20 };
    zn_latent *clip = NULL, *frame = latent(3, 2, 4);
    const size_t count = zn_latent_count(frame);
    const int64_t before = zn_alloc_calls();
    for (int i = 0; i < FRAMES; i++) {
        frame->data[1] = (float)i;
        assert_int_equal(zn_latent_append(&clip, frame), ZN_OK);
    }
    assert_true(zn_alloc_calls() - before < MOST);
    assert_int_equal(clip->frames, FRAMES);
    for (size_t i = 0; i < FRAMES; i++)
        assert_true(clip->data[i * count + 1] == (float)i);
    zn_latent_free(clip);
    zn_latent_free(frame);
}

/* NaN and infinity are kept: what they mean is the decoder's to say. */
static void strange_numbers(void **state)
{
    (void)state;
    zn_latent *z = latent(3, 2, 4), *back;
    z->data[5] = NAN;
    z->data[6] = INFINITY;
    assert_int_equal(zn_latent_write(file[0], z), ZN_OK);
    assert_int_equal(zn_latent_read(file[0], &back), ZN_OK);
    assert_true(isnan(back->data[5]) && isinf(back->data[6]) && back->data[7] == z->data[7]);
    zn_latent_free(back);
    assert_int_equal(zn_latent_write(file[1], z), ZN_ENUMERIC);
    assert_non_null(strstr(zn_error_text(), "column 1, row 0"));
    assert_int_equal(access(file[1], F_OK), -1);
    zn_latent_free(z);
}

static void pictures(void **state)
{
    (void)state;
    zn_latent *z = latent(9, 6, 4), *back;
    facts(z, 65, 48, 8, "taef2");
    assert_int_equal(zn_latent_write(file[1], z), ZN_OK);
    assert_int_equal(zn_latent_read(file[1], &back), ZN_OK);
    same_facts(z, back);
    for (int i = 0; i < 9 * 6 * 4; i++) {
        const double v = z->data[i] / 6.0 + 0.5, clamped = v < 0 ? 0 : v > 1 ? 1 : v;
        assert_true(fabs(back->data[i] - (floor(255 * clamped + 0.5) / 255 - 0.5) * 6) < 1e-5);
    }
    zn_latent *again;
    assert_int_equal(zn_latent_write(file[1], back), ZN_OK); /* what a PNG holds it holds exactly */
    assert_int_equal(zn_latent_read(file[1], &again), ZN_OK);
    assert_memory_equal(back->data, again->data, 9 * 6 * 4 * sizeof(float));
    zn_latent_free(z);
    zn_latent_free(back);
    zn_latent_free(again);
    z = latent(2, 2, 16);
    assert_int_equal(zn_latent_write(file[1], z), ZN_EUNSUPPORTED);
    assert_non_null(strstr(zn_error_text(), "16 channels"));
    zn_latent_free(z);
}

/* RGBA pictures of other programs: alpha, gamma, profile and orientation are not acted on. */
static void foreign_pictures(void **state)
{
    (void)state;
    uint8_t rgba[3 * 2 * 8];
    for (int i = 0; i < 48; i++)
        rgba[i] = (uint8_t)(i * 5);
    png_spec spec = { .width = 3,
                      .height = 2,
                      .type = PNG_COLOR_TYPE_RGB_ALPHA,
                      .depth = 8,
                      .rows = rgba,
                      .row_bytes = 12,
                      .gamma = 1,
                      .exif = make_exif(6, 0),
                      .text = 1,
                      .interlaced = 1 };
    blob b = make_png(&spec);
    zn_latent *z;
    assert_int_equal(read_blob(&b, &z), ZN_OK);
    assert_int_equal(z->width, 3);
    assert_int_equal(z->image_width, 0);
    assert_int_equal(z->downscale, 0);
    assert_string_equal(z->model, "");
    for (int i = 0; i < 24; i++)
        assert_true(fabs(z->data[i] - (rgba[i] / 255.0 - 0.5) * 6) < 1e-6);
    zn_latent_free(z);
    blob_free(&b);
    spec.depth = 16, spec.row_bytes = 24;
    b = make_png(&spec);
    assert_int_equal(read_blob(&b, &z), ZN_OK);
    for (int i = 0; i < 24; i++)
        assert_true(fabs(z->data[i] - ((rgba[2 * i] * 256 + rgba[2 * i + 1]) / 65535.0 - 0.5) * 6) < 1e-6);
    zn_latent_free(z);
    blob_free(&b);
    spec.depth = 8, spec.type = PNG_COLOR_TYPE_RGB, spec.row_bytes = 9;
    b = make_png(&spec);
    expect(&b, ZN_EFORMAT, "an image of 3 channels");
    blob_free(&b);
    b = make_jpeg(&(jpeg_spec){ 4, 4, 3, rgba, .quality = 90 });
    expect(&b, ZN_EFORMAT, "JPEG image");
    blob_free(&b);
    blob_free(&spec.exif);
}

static void foreign_tensors(void **state)
{
    (void)state;
    static const float f32[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
    static const uint16_t bf16[6] = { 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0, 0x40c0 };
    blob b = tensors("{\"x\":{\"dtype\":\"F32\",\"shape\":[2,2,3],\"data_offsets\":[0,48]}}", f32, 48);
    zn_latent *z;
    assert_int_equal(read_blob(&b, &z), ZN_OK);
    assert_int_equal(z->width, 3);
    assert_int_equal(z->height, 2);
    assert_int_equal(z->channels, 2);
    for (int y = 0; y < 2; y++)
        for (int x = 0; x < 3; x++)
            for (int c = 0; c < 2; c++)
                assert_true(z->data[(y * 3 + x) * 2 + c] == f32[c * 6 + y * 3 + x]);
    zn_latent_free(z);
    blob_free(&b);
    /* another format's metadata means nothing here; a tensor of another rank beside it is no question */
    b = tensors("{\"__metadata__\":{\"format\":\"pt\",\"image_width\":\"huge\"},"
                "\"samples\":{\"dtype\":\"BF16\",\"shape\":[1,1,2,3],\"data_offsets\":[0,12]},"
                "\"scale\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}",
                (uint8_t[16]){ 0 }, 16);
    memcpy(b.data + b.size - 16, bf16, 12);
    assert_int_equal(read_blob(&b, &z), ZN_OK);
    for (int i = 0; i < 6; i++)
        assert_true(z->data[i] == (float)(i + 1));
    assert_int_equal(z->image_width, 0);
    zn_latent_free(z);
    blob_free(&b);
}

static void refused_latents(void **state)
{
    (void)state;
    zn_latent *z = (zn_latent *)1;
    assert_int_equal(zn_latent_new(0, 1, 1, &z), ZN_EINVALID);
    assert_null(z);
    assert_int_equal(zn_latent_new(1, 1, -1, &z), ZN_EINVALID);
    assert_int_equal(zn_latent_new(65537, 1, 1, &z), ZN_ELIMIT);
    zn_latent_free(NULL);
    z = latent(2, 2, 4);
    assert_int_equal(zn_latent_write("latent.bin", z), ZN_EUNSUPPORTED);
    assert_non_null(strstr(zn_error_text(), ".safetensors"));
    memset(z->model, 'x', sizeof z->model);
    assert_int_equal(zn_latent_write(file[0], z), ZN_EINVALID);
    facts(z, 17, 16, 8, "m");
    assert_int_equal(zn_latent_write(file[0], z), ZN_EINVALID);
    facts(z, 16, 0, 8, "m");
    assert_int_equal(zn_latent_write(file[0], z), ZN_EINVALID);
    assert_int_equal(zn_latent_read("/nonexistent/latent.png", &(zn_latent *){ NULL }), ZN_ENOTFOUND);
    zn_latent_free(z);
}

static void memory_runs_out(void **state)
{
    (void)state;
    zn_latent *z = latent(5, 4, 4), *back;
    facts(z, 40, 32, 8, "taesd");
    for (int kind = 0; kind < 2; kind++) {
        unlink(file[kind]);
        zn_status status = ZN_ENOMEM;
        for (int nth = 1; status != ZN_OK; nth++) {
            zn_alloc_fail_at(nth);
            status = zn_latent_write(file[kind], z);
            zn_alloc_fail_at(0);
            assert_true(status == ZN_OK || status == ZN_ENOMEM);
            assert_int_equal(access(file[kind], F_OK), status == ZN_OK ? 0 : -1);
        }
        status = ZN_ENOMEM;
        for (int nth = 1; status != ZN_OK; nth++) {
            zn_alloc_fail_at(nth);
            status = zn_latent_read(file[kind], &back);
            zn_alloc_fail_at(0);
            assert_true(status == ZN_OK || status == ZN_ENOMEM);
            assert_true((back != NULL) == (status == ZN_OK));
        }
        same_facts(z, back);
        zn_latent_free(back);
    }
    zn_latent_free(z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_exact),       cmocka_unit_test(clips_are_exact),
        cmocka_unit_test(strange_numbers),         cmocka_unit_test(pictures),
        cmocka_unit_test(foreign_pictures),        cmocka_unit_test(foreign_tensors),
        cmocka_unit_test(refused_latents),         cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(clips_grow_in_few_steps),
    };
    return cmocka_run_group_tests(tests, make_names, remove_files);
}
