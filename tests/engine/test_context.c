/* What handles share by a context: packed weights are made once for all sizes, tiles, pieces and handles of a model and
 * go with the last of them, threads are those of one pool, and nothing of it changes a bit. */
#include "base/alloc.h"
#include "graph/compute.h"
#include "part_run.h"
#include "video_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <zenith/video.h>

enum { CODECS = 10 };

static zn_context *context_of(int threads)
{
    zn_context *c;
    assert_int_equal(zn_context_new(threads, &c), ZN_OK);
    return c;
}

static zn_codec *codec_of(const zn_model *m, zn_context *context, int tile)
{
    zn_codec *c;
    assert_int_equal(zn_codec_new(m, &(zn_options){ .context = context, .tile = tile }, &c), ZN_OK);
    return c;
}

static int64_t made(const zn_context *c) { return zn_pack_cache_made(zn_context_packs(c)); }

/* A round trip of a picture of this size; returns the pixels' copy. */
static zn_image *round_trip(zn_codec *c, int width, int height)
{
    zn_image *image = small_picture(width, height, 1), *back;
    zn_latent *z;
    assert_int_equal(zn_encode(c, image, &z), ZN_OK);
    assert_int_equal(zn_decode(c, z, &back), ZN_OK);
    zn_image_free(image);
    zn_latent_free(z);
    return back;
}

static void same(const zn_image *a, const zn_image *b)
{
    assert_int_equal(a->width, b->width);
    assert_memory_equal(a->pixels, b->pixels, (size_t)(3 * a->width * a->height));
}

static int threads_of_process(void)
{
    char line[128];
    int threads = 0;
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f))
        sscanf(line, "Threads: %d", &threads);
    fclose(f);
    return threads;
}

static void a_second_size_packs_nothing(void **state)
{
    (void)state;
    static const char *const names[] = { "taesd", "taef2", "zenith-r" };
    for (int i = 0; i < 3; i++) {
        zn_model *m = model_of(names[i]);
        zn_context *context = context_of(1);
        zn_codec *c = codec_of(m, context, ZN_TILE_OFF), *own = codec_of(m, NULL, ZN_TILE_OFF);
        zn_image_free(round_trip(c, 96, 64));
        const int64_t packed = made(context);
        assert_true(packed > 10);
        zn_image *shared = round_trip(c, 160, 128), *alone = round_trip(own, 160, 128);
        assert_int_equal(made(context), packed);
        same(shared, alone);
        zn_image_free(shared);
        zn_image_free(alone);
        zn_codec_free(own);
        zn_codec_free(c);
        zn_context_free(context);
        zn_model_free(m);
    }
}

static void tiles_and_segments_pack_once(void **state)
{
    (void)state;
    zn_model *m = model_of("taesd");
    zn_context *context = context_of(2);
    zn_codec *whole = codec_of(m, NULL, ZN_TILE_OFF), *tiled = codec_of(m, context, 64);
    zn_image *a = round_trip(whole, 200, 136), *b = round_trip(tiled, 200, 136);
    same(a, b);
    zn_image_free(b);
    const int64_t packed = made(context);
    assert_true(packed > 0);
    b = round_trip(tiled, 200, 136); /* stages give up their executors between runs */
    assert_int_equal(made(context), packed);
    same(a, b);
    zn_image_free(a);
    zn_image_free(b);
    zn_codec_free(whole);
    zn_codec_free(tiled);
    zn_context_free(context);
    zn_model_free(m);
}

static void ten_codecs_share_weights_and_threads(void **state)
{
    (void)state;
    zn_model *m = model_of("taesd");
    zn_context *context = context_of(3);
    const int threads = threads_of_process();
    zn_codec *c[CODECS];
    size_t bytes = 0;
    int64_t packed = 0;
    for (int i = 0; i < CODECS; i++) {
        c[i] = codec_of(m, context, ZN_TILE_OFF);
        zn_image_free(round_trip(c[i], 64, 64));
        if (i == 0) {
            bytes = zn_context_packed_bytes(context);
            packed = made(context);
        }
    }
    assert_true(bytes > 1 << 20);
    assert_int_equal(zn_context_packed_bytes(context), bytes);
    assert_int_equal(made(context), packed);
    assert_int_equal(threads_of_process(), threads);
    for (int i = 0; i < CODECS; i++) {
        assert_int_equal(zn_context_packed_bytes(context), bytes);
        zn_codec_free(c[i]);
    }
    assert_int_equal(zn_context_packed_bytes(context), 0);
    zn_context_free(context);
    zn_model_free(m);
}

static zn_status drop(void *user, const zn_image *picture) { return (void)user, (void)picture, ZN_OK; }

/* One clip of nine pictures there and back. */
static void show_clip(zn_video *v)
{
    zn_latent *clip = NULL;
    for (int i = 0; i < 9; i++) {
        zn_image *picture = small_picture(30, 15, i);
        assert_int_equal(zn_video_encode(v, picture, &clip), ZN_OK);
        zn_image_free(picture);
    }
    assert_int_equal(zn_video_encode_end(v, &clip), ZN_OK);
    assert_int_equal(zn_video_decode(v, clip, 8, drop, NULL), ZN_OK);
    zn_video_decode_end(v);
    zn_latent_free(clip);
}

static void pieces_of_a_clip_pack_once(void **state)
{
    (void)state;
    for (int i = 0; i < SMALL_VIDEOS; i++) {
        zn_model *m = small_video(i);
        zn_context *context = context_of(1);
        zn_video *v[2];
        for (int k = 0; k < 2; k++)
            assert_int_equal(zn_video_new(m, &(zn_options){ .context = context }, &v[k]), ZN_OK);
        show_clip(v[0]);
        const int64_t packed = made(context);
        assert_true(packed > 0);
        show_clip(v[0]); /* from a later piece back to a first one */
        show_clip(v[1]);
        assert_int_equal(made(context), packed);
        zn_video_free(v[0]);
        zn_video_free(v[1]);
        assert_int_equal(zn_context_packed_bytes(context), 0);
        zn_context_free(context);
        zn_model_free(m);
    }
}

/* Models that come and go take each other's addresses; precisions and models side by side are told apart. */
static void weights_are_never_mixed_up(void **state)
{
    (void)state;
    zn_context *context = context_of(1);
    for (int i = 0; i < 4; i++) {
        zn_model *m[2];
        for (int k = 0; k < 2; k++)
            assert_int_equal(zn_model_random("taesd", (uint64_t)(10 * i + k), &m[k]), ZN_OK);
        zn_codec *shared[2] = { codec_of(m[0], context, 0), codec_of(m[1], context, 0) }, *coarse;
        assert_int_equal(
            zn_codec_new(m[0], &(zn_options){ .context = context, .precision = ZN_PRECISION_BF16 }, &coarse), ZN_OK);
        zn_image_free(round_trip(coarse, 64, 48));
        for (int k = 0; k < 2; k++) {
            zn_codec *alone = codec_of(m[k], NULL, 0);
            zn_image *a = round_trip(shared[k], 64, 48), *b = round_trip(alone, 64, 48);
            same(a, b);
            zn_image_free(a);
            zn_image_free(b);
            zn_codec_free(alone);
        }
        for (int k = 0; k < 2; k++)
            zn_codec_free(shared[k]);
        zn_codec_free(coarse);
        for (int k = 0; k < 2; k++)
            zn_model_free(m[k]);
    }
    zn_context_free(context);
}

typedef struct worker {
    const zn_model *model;
    zn_context *context;
    const zn_image *want;
    int bad;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < 3; i++) {
        zn_codec *c = NULL;
        zn_latent *z = NULL;
        zn_image *image = small_picture(72, 56, 1), *back = NULL;
        w->bad |= zn_codec_new(w->model, &(zn_options){ .context = w->context }, &c) != ZN_OK ||
                  zn_encode(c, image, &z) != ZN_OK || zn_decode(c, z, &back) != ZN_OK ||
                  memcmp(back->pixels, w->want->pixels, 3 * 72 * 56);
        zn_image_free(image);
        zn_image_free(back);
        zn_latent_free(z);
        zn_codec_free(c);
    }
    return NULL;
}

static void threads_share_a_context(void **state)
{
    (void)state;
    enum { WORKERS = 4 };
    zn_model *m = model_of("taesd");
    zn_codec *alone = codec_of(m, NULL, 0);
    zn_image *want = round_trip(alone, 72, 56);
    zn_codec_free(alone);
    for (int threads = 1; threads <= 3; threads += 2) {
        zn_context *context = context_of(threads);
        pthread_t thread[WORKERS];
        worker w[WORKERS];
        for (int i = 0; i < WORKERS; i++) {
            w[i] = (worker){ .model = m, .context = context, .want = want };
            assert_int_equal(pthread_create(&thread[i], NULL, work, &w[i]), 0);
        }
        for (int i = 0; i < WORKERS; i++)
            pthread_join(thread[i], NULL);
        for (int i = 0; i < WORKERS; i++)
            assert_int_equal(w[i].bad, 0);
        assert_int_equal(zn_context_packed_bytes(context), 0);
        zn_context_free(context);
    }
    zn_image_free(want);
    zn_model_free(m);
}

static void a_context_lives_as_long_as_its_handles(void **state)
{
    (void)state;
    zn_model *m = model_of("taesd");
    zn_context *context = context_of(2);
    zn_codec *c = codec_of(m, context, 0);
    zn_context_free(context);
    zn_image_free(round_trip(c, 64, 64));
    zn_codec_free(c);
    zn_context_free(NULL);
    zn_model_free(m);
}

/* ---- options ---- */

static void refused(const zn_options *o, zn_status code, const char *words)
{
    zn_options out;
    assert_int_equal(zn_options_read(o, &out), code);
    if (!strstr(zn_error_text(), words))
        fail_msg("'%s' has no '%s'", zn_error_text(), words);
}

static void options_are_checked(void **state)
{
    (void)state;
    zn_context *context = context_of(2);
    refused(&(zn_options){ .threads = -1 }, ZN_EINVALID, "-1 threads");
    refused(&(zn_options){ .threads = 1025 }, ZN_EINVALID, "1025 threads");
    refused(&(zn_options){ .threads = 3, .context = context }, ZN_EINVALID, "3 threads in a context of 2");
    refused(&(zn_options){ .precision = (zn_precision)9 }, ZN_EINVALID, "precision 9");
    refused(&(zn_options){ .tile = -2 }, ZN_EINVALID, "tile of -2");
    refused(&(zn_options){ .tile = 1 }, ZN_EINVALID, "at least 64");
    refused(&(zn_options){ .size = 8 }, ZN_EINVALID, "options of 8 bytes");
    zn_context_free(context);
}

/* Callers of a later version have more fields; they may only leave them alone. */
static void options_may_grow(void **state)
{
    (void)state;
    struct {
        zn_options now;
        int later;
    } o = { .now = { .size = sizeof o, .threads = 2 } };
    zn_options out;
    assert_int_equal(zn_options_read(&o.now, &out), ZN_OK);
    assert_int_equal(out.size, sizeof out);
    assert_int_equal(out.threads, 2);
    o.later = 1;
    refused(&o.now, ZN_EUNSUPPORTED, "does not have");
    assert_int_equal(zn_options_read(NULL, &out), ZN_OK);
    assert_int_equal(out.threads, 0);
}

static void precisions_have_names(void **state)
{
    (void)state;
    assert_string_equal(zn_precision_name(ZN_PRECISION_F32), "f32");
    assert_string_equal(zn_precision_name(ZN_PRECISION_F16), "f16");
    assert_null(zn_precision_name(ZN_PRECISION_DEFAULT));
    assert_string_equal(zn_precision_name(ZN_PRECISION_INT8), "int8");
    assert_string_equal(zn_precision_name(ZN_PRECISION_FP8), "fp8");
    assert_null(zn_precision_name(ZN_PRECISION_FP8 + 1));
    assert_null(zn_precision_name(-1));
}

/* Fails allocation 1, 2, 3, ... until everything succeeds, beside a codec that must not notice. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    zn_model *m = model_of("taesd");
    zn_context *context = context_of(1);
    zn_status status = ZN_ENOMEM;
    for (int64_t nth = 1; status != ZN_OK; nth += 1 + nth / 16) {
        zn_codec *c = NULL;
        zn_latent *z = NULL;
        zn_image *image = small_picture(48, 32, 1);
        zn_alloc_fail_at(nth);
        status = zn_codec_new(m, &(zn_options){ .context = context }, &c);
        if (status == ZN_OK)
            status = zn_encode(c, image, &z);
        zn_alloc_fail_at(0);
        if (status != ZN_OK && status != ZN_ENOMEM)
            fail_msg("allocation %lld: %s", (long long)nth, zn_error_text());
        zn_latent_free(z);
        zn_image_free(image);
        zn_codec_free(c);
        assert_int_equal(zn_context_packed_bytes(context), 0);
    }
    zn_context_free(context);
    zn_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_size_packs_nothing),
        cmocka_unit_test(tiles_and_segments_pack_once),
        cmocka_unit_test(ten_codecs_share_weights_and_threads),
        cmocka_unit_test(pieces_of_a_clip_pack_once),
        cmocka_unit_test(weights_are_never_mixed_up),
        cmocka_unit_test(threads_share_a_context),
        cmocka_unit_test(a_context_lives_as_long_as_its_handles),
        cmocka_unit_test(options_are_checked),
        cmocka_unit_test(options_may_grow),
        cmocka_unit_test(precisions_have_names),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests_name("context", tests, NULL, NULL);
}
