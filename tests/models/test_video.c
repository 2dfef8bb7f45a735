/* Clips through zenith/video.h: any number of pictures comes back, what does not fit is refused, and memory may fail at
 * any time. */
#include "base/alloc.h"
#include "graph/context.h"
#include "pipeline/video/clip.h"
#include "video_models.h"
#include "video_pieces.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zenith/video.h>

typedef struct album {
    zn_image *pictures[16];
    int count;
    int stop; /* refuses this one; 0: none */
} album;

static zn_status take(void *user, const zn_image *picture)
{
    album *a = user;
    zn_image *copy;
    if (a->stop && a->count + 1 == a->stop)
        return ZN_ECANCELLED;
    assert_true(a->count < 16);
    const zn_status status = zn_image_new(picture->width, picture->height, picture->bits, &copy);
    if (status != ZN_OK)
        return status;
    memcpy(copy->pixels, picture->pixels, (size_t)(3 * picture->width * picture->height * picture->bits / 8));
    a->pictures[a->count++] = copy;
    return ZN_OK;
}

static void album_free(album *a)
{
    for (int i = 0; i < a->count; i++)
        zn_image_free(a->pictures[i]);
    *a = (album){ 0 };
}

static void same_albums(const album *a, const album *b)
{
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++)
        assert_memory_equal(a->pictures[i]->pixels, b->pictures[i]->pixels, 3 * 30 * 15);
}

/* So many pictures of 30x15, no multiples of anything. each: every latent frame is taken away and decoded at once. */
static zn_status round_trip(zn_video *v, int pictures, bool each, zn_latent **clip, album *a)
{
    zn_status status = ZN_OK;
    for (int i = 0; i <= pictures && status == ZN_OK; i++) {
        zn_image *im = small_picture(30, 15, i);
        zn_latent *part = NULL, **to = each ? &part : clip;
        status = i < pictures ? zn_video_encode(v, im, to) : zn_video_encode_end(v, to);
        zn_image_free(im);
        if (status == ZN_OK && part)
            status = zn_video_decode(v, part, 8, take, a);
        if (status == ZN_OK && part)
            status = zn_latent_append(clip, part);
        zn_latent_free(part);
    }
    if (status == ZN_OK && !each)
        status = zn_video_decode(v, *clip, 8, take, a);
    zn_video_decode_end(v);
    return status;
}

static zn_video *video_of(const zn_model *m, int threads)
{
    zn_video *v;
    assert_int_equal(zn_video_new(m, &(zn_options){ .threads = threads }, &v), ZN_OK);
    return v;
}

static void any_number_of_pictures_comes_back(void **state)
{
    (void)state;
    for (int i = 0; i < SMALL_VIDEOS; i++) {
        zn_model *m = small_video(i);
        zn_video *v = video_of(m, 2), *other = video_of(m, 1);
        for (int pictures = 1; pictures <= 9; pictures += i < 2 ? 1 : 4) {
            zn_latent *clip[2] = { NULL, NULL };
            album a = { .count = 0 }, b = { .count = 0 };
            assert_int_equal(round_trip(v, pictures, false, &clip[0], &a), ZN_OK);
            assert_int_equal(clip[0]->frames, 1 + (pictures + 2) / 4);
            assert_int_equal(clip[0]->image_frames, pictures);
            assert_int_equal(clip[0]->image_width, 30);
            assert_int_equal(a.count, pictures);
            assert_int_equal(a.pictures[0]->height, 15);
            assert_int_equal(round_trip(other, pictures, true, &clip[1], &b), ZN_OK);
            assert_int_equal(clip[1]->frames, clip[0]->frames);
            assert_memory_equal(clip[0]->data, clip[1]->data,
                                sizeof(float) * (size_t)(clip[0]->frames * clip[0]->width * clip[0]->height) *
                                    (size_t)clip[0]->channels);
            same_albums(&a, &b);
            album_free(&a);
            album_free(&b);
            zn_latent_free(clip[0]);
            zn_latent_free(clip[1]);
        }
        zn_video_free(v);
        zn_video_free(other);
        zn_model_free(m);
    }
}

/* One picture is what a codec makes of it. */
static void a_picture_is_a_clip(void **state)
{
    (void)state;
    for (int i = 0; i < SMALL_VIDEOS; i++) {
        zn_model *m = small_video(i);
        zn_video *v = video_of(m, 1);
        zn_codec *c;
        zn_latent *clip = NULL, *z;
        zn_image *im = small_picture(30, 15, 0), *back;
        album a = { .count = 0 };
        assert_int_equal(zn_codec_new(m, &(zn_options){ .threads = 1 }, &c), ZN_OK);
        assert_int_equal(zn_encode(c, im, &z), ZN_OK);
        assert_int_equal(zn_decode(c, z, &back), ZN_OK);
        assert_int_equal(round_trip(v, 1, false, &clip, &a), ZN_OK);
        assert_string_equal(clip->model, z->model);
        assert_non_null(strstr(zn_video_plan(v, ZN_ENCODER), "encoder: clip of"));
        assert_non_null(strstr(zn_video_plan(v, ZN_DECODER), "MiB kept between pieces"));
        assert_memory_equal(z->data, clip->data, sizeof(float) * (size_t)(z->width * z->height * z->channels));
        assert_memory_equal(back->pixels, a.pictures[0]->pixels, 3 * 30 * 15);
        album_free(&a);
        zn_image_free(im);
        zn_image_free(back);
        zn_latent_free(z);
        zn_latent_free(clip);
        zn_codec_free(c);
        zn_video_free(v);
        zn_model_free(m);
    }
}

/* The programs of the first piece and of the later ones alternate; the weights of both stay packed with the handle. */
static void later_clips_pack_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * SMALL_VIDEOS; i++) {
        zn_model *m = small_video(i % SMALL_VIDEOS);
        zn_options own = { .size = sizeof own, .precision = i < SMALL_VIDEOS ? ZN_PRECISION_F32 : ZN_PRECISION_BF16 };
        zn_video *v;
        int64_t made[2];
        assert_int_equal(zn_context_new(1, &own.context), ZN_OK);
        assert_int_equal(zn_video_new(m, &own, &v), ZN_OK);
        for (int k = 0; k < 2; k++) {
            zn_latent *clip = NULL;
            album a = { .count = 0 };
            assert_int_equal(round_trip(v, 9, false, &clip, &a), ZN_OK);
            made[k] = zn_pack_cache_made(zn_context_packs(own.context));
            album_free(&a);
            zn_latent_free(clip);
        }
        assert_true(made[0] > 0);
        assert_int_equal(made[1], made[0]);
        zn_video_free(v);
        zn_context_free(own.context);
        zn_model_free(m);
    }
}

/* On any CPU. */
static void bf16_retains_16_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        zn_model *m = small_wan(0);
        const zn_options own = { .size = sizeof own, .precision = i ? ZN_PRECISION_BF16 : ZN_PRECISION_F32 };
        zn_video *v;
        zn_latent *clip = NULL;
        album a = { .count = 0 };
        assert_int_equal(zn_video_new(m, &own, &v), ZN_OK);
        assert_false(zn_video_retains_16(v));
        assert_int_equal(round_trip(v, 5, false, &clip, &a), ZN_OK);
        assert_int_equal(zn_video_retains_16(v), i);
        album_free(&a);
        zn_latent_free(clip);
        zn_video_free(v);
        zn_model_free(m);
    }
}

/* ---- what is refused ---- */

static void expect(zn_status status, zn_status wanted, const char *words)
{
    if (status != wanted || !strstr(zn_error_text(), words))
        fail_msg("status %d, not %d: %s", status, wanted, zn_error_text());
}

static void misfits_are_refused(void **state)
{
    (void)state;
    zn_model *m = small_wan(0);
    zn_video *v = video_of(m, 1);
    zn_latent *clip = NULL, *odd;
    zn_image *im = small_picture(30, 15, 0), *large = small_picture(48, 48, 0);
    album a = { .stop = 2 };
    assert_int_equal(zn_video_encode(v, im, &clip), ZN_OK);
    expect(zn_video_encode(v, large, &clip), ZN_ESHAPE, "is 48x48, and those before it are 30x15");
    assert_int_equal(zn_video_encode(v, large, &clip), ZN_ESHAPE); /* a new clip, whose frame does not fit the latent */
    assert_int_equal(zn_video_encode(v, im, &clip), ZN_OK);
    assert_int_equal(zn_video_encode(v, im, &clip), ZN_OK);
    assert_int_equal(zn_video_encode_end(v, &clip), ZN_OK);
    assert_int_equal(clip->frames, 3);
    expect(zn_video_decode(v, clip, 12, take, &a), ZN_EINVALID, "12 bits");
    assert_int_equal(zn_video_decode(v, clip, 8, take, &a), ZN_ECANCELLED);
    assert_int_equal(a.count, 1);
    a.stop = 0;
    assert_int_equal(zn_latent_new(9, 9, 3, &odd), ZN_OK);
    assert_int_equal(zn_video_decode(v, clip, 16, take, &a), ZN_OK);
    expect(zn_video_decode(v, odd, 8, take, &a), ZN_ESHAPE, "9x9 do not belong to a clip of 4x2");
    odd->image_width = odd->image_height = 73;
    expect(zn_video_decode(v, odd, 8, take, &a), ZN_EFORMAT, "73x73");
    odd->channels = 2;
    expect(zn_video_decode(v, odd, 8, take, &a), ZN_ESHAPE, "2 channels");
    zn_codec *c;
    zn_image *back;
    assert_int_equal(zn_codec_new(m, NULL, &c), ZN_OK);
    expect(zn_decode(c, clip, &back), ZN_ESHAPE, "clip of 3 frames");
    zn_codec_free(c);
    album_free(&a);
    zn_latent_free(clip);
    zn_latent_free(odd);
    zn_image_free(im);
    zn_image_free(large);
    zn_video_free(v);
    zn_model_free(m);
}

static void too_little_memory_is_said(void **state)
{
    (void)state;
    zn_model *m = small_taehv(1);
    zn_video *v;
    zn_latent *clip = NULL;
    zn_image *im = small_picture(64, 64, 0);
    assert_int_equal(zn_video_new(m, &(zn_options){ .memory = 1 << 16 }, &v), ZN_OK);
    expect(zn_video_encode(v, im, &clip), ZN_ELIMIT, "64x64");
    assert_null(clip);
    zn_video_free(v);
    const char *least = strstr(zn_error_text(), "the least is ");
    assert_non_null(least);
    const size_t enough = strtoul(least + strlen("the least is "), NULL, 10);
    assert_in_range(enough, 15, 40); /* the program is not free, and not as dear as a large clip */
    assert_int_equal(zn_video_new(m, &(zn_options){ .memory = enough << 20 }, &v), ZN_OK);
    assert_int_equal(zn_video_encode(v, im, &clip), ZN_OK);
    assert_non_null(strstr(zn_video_plan(v, ZN_ENCODER), "MiB in all"));
    zn_latent_free(clip);
    zn_video_free(v);
    zn_image_free(im);
    zn_model_free(m);
}

/* From video to video: the encoder does not take what the decoder needs, and a budget that is too small is refused
 * before the first piece. */
static void both_parts_share_a_budget(void **state)
{
    (void)state;
    zn_model *m = wider_wan(0, 32);
    zn_image *im = small_picture(256, 256, 0);
    zn_video *v;
    size_t enough = 0;
    for (int i = 0; i < 2; i++) {
        zn_latent *clip = NULL;
        album a = { .count = 0 };
        assert_int_equal(zn_video_new(m, &(zn_options){ .memory = i ? enough << 20 : 1 << 16 }, &v), ZN_OK);
        zn_video_use_both(v);
        if (i) {
            assert_int_equal(zn_video_encode(v, im, &clip), ZN_OK);
            assert_int_equal(zn_video_decode(v, clip, 8, take, &a), ZN_OK);
        } else {
            expect(zn_video_encode(v, im, &clip), ZN_ELIMIT, "the least is ");
            const char *least = strstr(zn_error_text(), "the least is ");
            enough = strtoul(least + strlen("the least is "), NULL, 10);
        }
        zn_latent_free(clip);
        album_free(&a);
        zn_video_free(v);
    }
    zn_image_free(im);
    zn_model_free(m);
}

/* An image autoencoder too, whose parts are planned one after the other. What the caller holds counts. */
static void both_parts_of_images_share_a_budget(void **state)
{
    (void)state;
    zn_model *m;
    zn_image *im = small_picture(256, 256, 0);
    size_t enough[2] = { 0 };
    assert_int_equal(zn_model_random("zenith-r", 1, &m), ZN_OK);
    for (int i = 0; i < 4; i++) {
        zn_latent *clip = NULL;
        album a = { .count = 0 };
        zn_video *v;
        const int held = i / 2, run = i % 2;
        const zn_options options = { .threads = 2, .memory = run ? enough[held] << 20 : 1 << 16 };
        assert_int_equal(zn_video_new(m, &options, &v), ZN_OK);
        zn_video_use_both(v);
        if (held)
            zn_video_hold(v, 100 << 20);
        for (int k = 0; k < 2 && run; k++) {
            assert_int_equal(zn_video_encode(v, im, &clip), ZN_OK);
            assert_int_equal(zn_video_decode(v, clip, 8, take, &a), ZN_OK);
            zn_latent_free(clip);
            clip = NULL;
            album_free(&a);
        }
        if (!run) {
            expect(zn_video_encode(v, im, &clip), ZN_ENOMEM, "the least is ");
            enough[held] = strtoul(strstr(zn_error_text(), "the least is ") + strlen("the least is "), NULL, 10);
        }
        zn_video_free(v);
    }
    assert_in_range(enough[1] - enough[0], 101, 130);
    zn_image_free(im);
    zn_model_free(m);
}

/* Blended tiles keep all images in memory, which count. */
static void blended_images_count(void **state)
{
    (void)state;
    zn_model *m = small_taehv(1);
    zn_image *im = small_picture(256, 256, 0);
    const zn_options options = { .size = sizeof options, .memory = 38 << 20, .tile = 128, .blend = 1 };
    zn_video *v;
    zn_latent *clip = NULL, *long_clip;
    album a = { .count = 0 };
    zn_status status = ZN_OK;
    int i = 0;
    assert_int_equal(zn_video_new(m, &options, &v), ZN_OK);
    for (; i < 64 && status == ZN_OK; i++)
        status = zn_video_encode(v, im, &clip);
    expect(status, ZN_ELIMIT, "memory budget of 38 MiB");
    assert_in_range(i, 8, 40); /* an image takes 0.75 MiB */
    assert_null(clip);
    for (i = 0; i < 4; i++)
        assert_int_equal(zn_video_encode(v, im, &clip), ZN_OK);
    assert_int_equal(zn_video_encode_end(v, &clip), ZN_OK);
    assert_int_equal(zn_latent_new(32, 32, 5, &long_clip), ZN_OK);
    for (i = 0; i < 5; i++) {
        const zn_status appended = zn_latent_append(&long_clip, long_clip);
        assert_int_equal(appended, ZN_OK);
    }
    expect(zn_video_decode(v, long_clip, 8, take, &a), ZN_ELIMIT, "the least is ");
    assert_int_equal(a.count, 0);
    zn_latent_free(clip);
    zn_latent_free(long_clip);
    zn_video_free(v);
    zn_image_free(im);
    zn_model_free(m);
}

/* ---- image autoencoders ---- */

static void images_are_coded_one_by_one(void **state)
{
    (void)state;
    zn_model *m;
    assert_int_equal(zn_model_random("taesd", 1, &m), ZN_OK);
    zn_video *v = video_of(m, 2);
    zn_codec *c;
    zn_latent *clip = NULL, *z;
    zn_image *back, *large = small_picture(48, 48, 0);
    album a = { .count = 0 };
    assert_int_equal(zn_codec_new(m, &(zn_options){ .threads = 1 }, &c), ZN_OK);
    assert_int_equal(round_trip(v, 3, true, &clip, &a), ZN_OK);
    zn_latent_free(clip);
    clip = NULL;
    album_free(&a);
    assert_int_equal(round_trip(v, 3, false, &clip, &a), ZN_OK);
    assert_int_equal(clip->frames, 3);
    assert_int_equal(clip->image_frames, 3);
    assert_int_equal(a.count, 3);
    assert_non_null(strstr(zn_video_plan(v, ZN_ENCODER), "MiB"));
    for (int i = 0; i < 3; i++) {
        zn_image *im = small_picture(30, 15, i);
        assert_int_equal(zn_encode(c, im, &z), ZN_OK);
        const size_t count = (size_t)(z->width * z->height * z->channels);
        assert_memory_equal(z->data, clip->data + (size_t)i * count, sizeof(float) * count);
        assert_int_equal(zn_decode(c, z, &back), ZN_OK);
        assert_memory_equal(back->pixels, a.pictures[i]->pixels, 3 * 30 * 15);
        zn_image_free(im);
        zn_image_free(back);
        zn_latent_free(z);
    }
    expect(zn_video_encode(v, large, &clip), ZN_ESHAPE, "do not belong to a clip");
    a.stop = 5; /* of the second image */
    assert_int_equal(zn_video_decode(v, clip, 8, take, &a), ZN_ECANCELLED);
    assert_int_equal(a.count, 4);
    clip->image_frames = 9;
    expect(zn_video_decode(v, clip, 8, take, &a), ZN_ESHAPE, "3 frames for 9 images");
    album_free(&a);
    zn_image_free(large);
    zn_latent_free(clip);
    zn_codec_free(c);
    zn_video_free(v);
    zn_model_free(m);
}

static void other_models_are_refused(void **state)
{
    (void)state;
    zn_model *m;
    zn_video *v;
    assert_int_equal(zn_model_random("zenith-restore", 0, &m), ZN_OK);
    expect(zn_video_new(m, NULL, &v), ZN_EUNSUPPORTED, "is not an autoencoder");
    assert_null(v);
    zn_model_free(m);
    assert_int_equal(zn_model_random("taesd", 0, &m), ZN_OK);
    const zn_options blended = { .size = sizeof blended, .tile = 128, .blend = 1 };
    expect(zn_video_new(m, &blended, &v), ZN_EUNSUPPORTED, "is for single images");
    assert_null(v);
    zn_model_free(m);
}

/* ---- failing memory ---- */

static zn_status everything(const zn_model *m)
{
    zn_video *v;
    zn_latent *clip = NULL;
    zn_image *im = NULL;
    album a = { .count = 0 };
    zn_status status = zn_video_new(m, &(zn_options){ .threads = 1 }, &v);
    if (status == ZN_OK)
        status = zn_image_new(20, 10, 8, &im);
    for (int i = 0; i < 3 && status == ZN_OK; i++)
        status = zn_video_encode(v, im, &clip);
    if (status == ZN_OK)
        status = zn_video_encode_end(v, &clip);
    if (status == ZN_OK)
        status = zn_video_decode(v, clip, 8, take, &a);
    album_free(&a);
    zn_image_free(im);
    zn_latent_free(clip);
    zn_video_free(v);
    return status;
}

static void fp8_needs_a_gpu(void **state)
{
    (void)state;
    zn_model *m = small_video(0);
    const zn_options options = { .precision = ZN_PRECISION_FP8 };
    zn_video *v;
    zn_codec *c;
    expect(zn_video_new(m, &options, &v), ZN_EUNSUPPORTED, "Hopper");
    assert_null(v);
    expect(zn_codec_new(m, &options, &c), ZN_EUNSUPPORTED, "use bf16");
    assert_null(c);
    zn_model_free(m);
}

/* A decoder that would multiply nothing in FP8 says so: a CPU has no kernel for it, as a GPU has none for TAEHV. */
static void fp8_without_layers_is_refused(void **state)
{
    (void)state;
    zn_model *m = small_video(0);
    const zn_clip_options options = { .math = ZN_PRECISION_BF16, .fp8 = true };
    zn_clip *c;
    float *input;
    int frames;
    assert_int_equal(zn_clip_new(m, ZN_DECODER, ZN_SHAPE(1, 4, 6, zn_model_info_of(m)->latent_channels), &options, &c),
                     ZN_OK);
    expect(zn_clip_begin(c, &input, &frames), ZN_EUNSUPPORTED, "has no layer that computes in fp8");
    zn_clip_free(c);
    zn_model_free(m);
}

static void failing_memory_is_an_error(void **state)
{
    (void)state;
    zn_model *models[2] = { small_wan(0) };
    assert_int_equal(zn_model_random("taesd", 0, &models[1]), ZN_OK);
    for (int i = 0; i < 2; i++) {
        const int64_t before = zn_alloc_calls();
        assert_int_equal(everything(models[i]), ZN_OK);
        const int64_t calls = zn_alloc_calls() - before;
        for (int64_t nth = 1; nth <= calls; nth++) {
            zn_alloc_fail_at(nth);
            const zn_status status = everything(models[i]);
            zn_alloc_fail_at(0);
            assert_true(status == ZN_OK || status == ZN_ENOMEM); /* without fusing the result is the same */
        }
        zn_model_free(models[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_have_the_bits_of_the_whole),
        cmocka_unit_test(stages_have_the_bits_of_the_whole),
        cmocka_unit_test(bf16_is_near_f32),
        cmocka_unit_test(bf16_retains_16_bits),
        cmocka_unit_test(large_frames_take_what_layers_retain),
        cmocka_unit_test(bf16_halves_what_layers_retain),
        cmocka_unit_test(bf16_takes_less_than_f32),
        cmocka_unit_test(bf16_is_all_that_layers_retain),
        cmocka_unit_test(lean_weights_leave_large_maps_in_bf16),
        cmocka_unit_test(any_number_of_pictures_comes_back),
        cmocka_unit_test(a_picture_is_a_clip),
        cmocka_unit_test(pictures_may_come_together),
        cmocka_unit_test(later_clips_pack_nothing),
        cmocka_unit_test(misfits_are_refused),
        cmocka_unit_test(too_little_memory_is_said),
        cmocka_unit_test(both_parts_share_a_budget),
        cmocka_unit_test(both_parts_of_images_share_a_budget),
        cmocka_unit_test(blended_images_count),
        cmocka_unit_test(images_are_coded_one_by_one),
        cmocka_unit_test(other_models_are_refused),
        cmocka_unit_test(fp8_needs_a_gpu),
        cmocka_unit_test(fp8_without_layers_is_refused),
        cmocka_unit_test(failing_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
