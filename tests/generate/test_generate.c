/* From prompt to image with a tiny model: results do not depend on threads, what is asked is done, and what cannot be
 * is refused with a sentence. */
#include "tiny.h"

#include "base/alloc.h"
#include "base/file.h"
#include "model_file.h"
#include "pipeline/generate/cache.h"
#include "pipeline/generate/preview.h"
#include "pipeline/generate/tiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zenith/generate.h>

enum { WIDTH = 48, HEIGHT = 32, BYTES = WIDTH * HEIGHT * 3 };

static char cache[4096];

static int make_model(void **state)
{
    const int status = tiny_setup(state);
    snprintf(cache, sizeof cache, "%s/cache", tiny_root);
    return status;
}

static zn_generator *open_for(const zn_options *options, const char *cache_folder)
{
    zn_generator *g;
    const zn_generator_files files = { .size = sizeof files, .model = tiny_folder, .cache = cache_folder };
    if (zn_generator_open(&files, options, &g) != ZN_OK)
        fail_msg("%s", zn_error_text());
    return g;
}

static zn_generator *open_with(int threads, const char *cache_folder)
{
    return open_for(&(zn_options){ .size = sizeof(zn_options), .threads = threads }, cache_folder);
}

static zn_image *make(zn_generator *g, const zn_generation *request)
{
    zn_image *image;
    if (zn_generate(g, request, &image) != ZN_OK)
        fail_msg("%s", zn_error_text());
    assert_int_equal(image->width, WIDTH);
    assert_int_equal(image->height, HEIGHT);
    return image;
}

static zn_generation fox(void)
{
    return (zn_generation){
        .size = sizeof(zn_generation), .prompt = "a red fox", .width = WIDTH, .height = HEIGHT, .steps = 3, .seed = 7
    };
}

static void threads_change_no_bit(void **state)
{
    (void)state;
    zn_image *first = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        zn_generator *g = open_with(threads, "");
        const zn_generation r = fox();
        zn_image *image = make(g, &r);
        if (first)
            assert_memory_equal(first->pixels, image->pixels, BYTES);
        else
            first = image;
        if (image != first)
            zn_image_free(image);
        zn_generator_free(g);
    }
    zn_image_free(first);
}

/* A GPU in full precision gives the same image but for rounding, also from the second step on, which it may have
 * recorded; in 16 bits nearly the same. */
static void devices_agree(void **state)
{
    (void)state;
    static const struct {
        zn_precision precision;
        double allowed;
    } cases[] = { { ZN_PRECISION_F32, 0.1 }, { ZN_PRECISION_DEFAULT, 6 } };
    zn_context *context;
    zn_device *device = NULL;
    assert_int_equal(zn_context_new(1, &context), ZN_OK);
    const bool is_there = zn_context_device(context, "cuda", &device) == ZN_OK;
    for (size_t i = 0; is_there && i < sizeof cases / sizeof *cases; i++) {
        const zn_options cpu = { .size = sizeof cpu, .context = context, .precision = ZN_PRECISION_F32 };
        const zn_options cuda = {
            .size = sizeof cuda, .context = context, .precision = cases[i].precision, .device = "cuda"
        };
        zn_generator *const g[] = { open_for(&cpu, ""), open_for(&cuda, "") };
        const zn_generation r = fox();
        zn_image *const image[] = { make(g[0], &r), make(g[1], &r) };
        double apart = 0;
        for (int k = 0; k < BYTES; k++)
            apart += abs(((uint8_t *)image[0]->pixels)[k] - ((uint8_t *)image[1]->pixels)[k]);
        if (apart / BYTES > cases[i].allowed)
            fail_msg("case %zu: the images are %.2f apart", i, apart / BYTES);
        for (int k = 0; k < 2; k++) {
            zn_image_free(image[k]);
            zn_generator_free(g[k]);
        }
    }
    zn_context_free(context);
    if (!is_there) {
        print_message("skipped: there is no CUDA device\n");
        skip();
    }
}

/* ---- prompts ---- */

static zn_generation_report report_of(const zn_generator *g)
{
    zn_generation_report r = { .size = sizeof r };
    zn_generator_report(g, &r);
    return r;
}

/* Moves the weights of the text encoder away, or back. */
static void hide_text_encoder(bool hide)
{
    char here[4096], away[4096];
    snprintf(here, sizeof here, "%s/text_encoder/model.safetensors", tiny_folder);
    snprintf(away, sizeof away, "%s/text_encoder/hidden", tiny_folder);
    assert_int_equal(hide ? rename(here, away) : rename(away, here), 0);
}

/* Overwrites the last bytes of every entry. */
static void damage_cache(void)
{
    char command[8300];
    snprintf(command, sizeof command,
             "for f in '%s'/*.safetensors; do printf damaged | dd of=\"$f\" bs=1 conv=notrunc status=none "
             "seek=$(($(stat -c %%s \"$f\") - 7)); done",
             cache);
    assert_int_equal(system(command), 0);
}

static void known_prompts_need_no_text_encoder(void **state)
{
    (void)state;
    const zn_generation r = fox();
    zn_generator *g = open_with(2, cache);
    zn_image *first = make(g, &r);
    assert_int_equal(report_of(g).text_cached, 0);
    assert_int_equal(report_of(g).tokens, 3 + 5 + 9 + 1 + 10); /* marks of turns, and bytes of the rest */
    hide_text_encoder(true);
    zn_image *again = make(g, &r);
    assert_int_equal(report_of(g).text_cached, 1);
    assert_memory_equal(first->pixels, again->pixels, BYTES);
    hide_text_encoder(false);
    zn_image_free(again);
    damage_cache();
    again = make(g, &r);
    assert_int_equal(report_of(g).text_cached, 0);
    assert_memory_equal(first->pixels, again->pixels, BYTES);
    zn_image_free(again);
    zn_image_free(first);
    zn_generator_free(g);
}

static void entries_used_long_ago_go_first(void **state)
{
    (void)state;
    char keys[3][65], room[4200];
    float data[64] = { 0 };
    zn_features f = { .data = data, .tokens = 8, .width = 8 }, got = { 0 };
    snprintf(room, sizeof room, "%s-small", cache);
    for (int i = 0; i < 3; i++) {
        snprintf(keys[i], sizeof keys[i], "%064d", i);
        data[0] = (float)i;
        zn_cache_put(room, keys[i], &f, 1 << 20);
        nanosleep(&(struct timespec){ .tv_nsec = 30000000 }, NULL); /* the clock of files is coarse */
        if (i == 1) {                                               /* makes 0 the one that was used last */
            assert_true(zn_cache_get(room, keys[0], &got));
            zn_free(got.data);
            nanosleep(&(struct timespec){ .tv_nsec = 30000000 }, NULL);
        }
    }
    zn_cache_put(room, keys[2], &f, 1100); /* room for two */
    assert_false(zn_cache_get(room, keys[1], &got));
    assert_true(zn_cache_get(room, keys[0], &got));
    zn_free(got.data);
    assert_true(zn_cache_get(room, keys[2], &got));
    assert_float_equal(got.data[0], 2, 0);
    zn_free(got.data);
}

static void long_prompts_are_cut(void **state)
{
    (void)state;
    char words[700];
    memset(words, 'x', sizeof words - 1);
    words[sizeof words - 1] = 0;
    zn_generation r = fox();
    r.prompt = words;
    r.steps = 1;
    zn_generator *g = open_with(2, "");
    zn_image_free(make(g, &r));
    assert_int_equal(report_of(g).tokens, 512);
    assert_int_equal(report_of(g).tokens_cut, 699 + 19 - 512);
    r.prompt = NULL;
    zn_image_free(make(g, &r));
    assert_int_equal(report_of(g).tokens, 19);
    zn_generator_free(g);
}

/* ---- what is asked is done ---- */

static zn_image *plain_image(void)
{
    zn_image *image;
    assert_int_equal(zn_image_new(WIDTH, HEIGHT, 8, &image), ZN_OK);
    for (int i = 0; i < BYTES; i++)
        ((uint8_t *)image->pixels)[i] = (uint8_t)(i * 7 % 251);
    return image;
}

/* 1 if the two differ. */
static int differ(const zn_image *a, const zn_image *b) { return memcmp(a->pixels, b->pixels, BYTES) != 0; }

/* Counts runs of a network by their progress, which rises from near 0 in each. */
typedef struct runs {
    int count;
    double last;
} runs;
static int count_run(void *user, double fraction)
{
    runs *r = user;
    r->count += r->count == 0 || fraction < r->last;
    r->last = fraction;
    return 0;
}

static void prompts_together_have_the_bits_of_each_alone(void **state)
{
    (void)state;
    char words[400] = "";
    for (int i = 0; i < 90; i++)
        strcat(words, "fox ");
    const char *const prompts[] = { "a red fox", words, "", "a blue fox in the deep snow", words + 4 };
    enum { COUNT = sizeof prompts / sizeof *prompts };
    zn_features together[COUNT];
    runs all = { 0 };
    zn_generator *g = open_with(2, "");
    assert_int_equal(zn_generator_features(g, prompts, COUNT, (zn_stage_progress){ count_run, &all }, together), ZN_OK);
    assert_int_equal(all.count, 2); /* the short ones, and the long ones */
    for (int i = 0; i < COUNT; i++) {
        zn_features alone;
        runs one = { 0 };
        assert_int_equal(zn_generator_features(g, prompts + i, 1, (zn_stage_progress){ count_run, &one }, &alone),
                         ZN_OK);
        assert_int_equal(one.count, 1);
        assert_int_equal(alone.tokens, together[i].tokens);
        assert_int_equal(alone.width, together[i].width);
        assert_memory_equal(alone.data, together[i].data, sizeof(float) * (size_t)(alone.tokens * alone.width));
        zn_free(alone.data);
        zn_free(together[i].data);
    }
    zn_generator_free(g);
}

static void every_setting_counts(void **state)
{
    (void)state;
    zn_generator *g = open_with(2, cache);
    const zn_generation r = fox();
    zn_image *first = make(g, &r);
    for (int i = 0; i < 5; i++) {
        zn_generation other = r;
        other.seed += i == 0;
        other.prompt = i == 1 ? "a blue fox" : r.prompt;
        other.steps += i == 2;
        other.shift = i == 3 ? 1.5 : 0;
        other.guidance = i == 4 ? 2 : 0;
        zn_image *image = make(g, &other);
        assert_true(differ(first, image));
        zn_image_free(image);
    }
    zn_generation same = r; /* what is wanted and what is not pull equally */
    same.guidance = 3;
    same.negative = r.prompt;
    zn_image *image = make(g, &same);
    assert_false(differ(first, image));
    zn_image_free(image);
    zn_image_free(first);
    zn_generator_free(g);
}

static void write_index(const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/model_index.json", tiny_folder);
    assert_int_equal(zn_file_write(path, text, strlen(text)), ZN_OK);
}

/* A model describes itself; what is not text, or does not fit, is left out. */
static void models_describe_themselves(void **state)
{
    (void)state;
    const zn_generator_files files = { .size = sizeof files, .model = tiny_folder, .cache = "" };
    zn_generator_about a = { .size = sizeof a };
    assert_int_equal(zn_generator_describe(&files, &a), ZN_OK);
    assert_true(!a.width && !a.height && !*a.description && !*a.examples && !*a.subjects);
    write_index("{\"_generate\": {\"width\": 48, \"height\": 32, \"description\": \"draws foxes\", "
                "\"examples\": [\"a red fox\", 3, \"two\\nlines\", \"a blue fox\"], \"subjects\": [\"fox\"]}}");
    assert_int_equal(zn_generator_describe(&files, &a), ZN_OK);
    assert_true(a.width == 48 && a.height == 32);
    assert_string_equal(a.description, "draws foxes");
    assert_string_equal(a.examples, "a red fox\na blue fox");
    assert_string_equal(a.subjects, "fox");
    struct {
        size_t size;
        int width, height, after;
    } older = { offsetof(zn_generator_about, description), 0, 0, 7 };
    assert_int_equal(zn_generator_describe(&files, (zn_generator_about *)(void *)&older), ZN_OK);
    assert_true(older.width == 48 && older.height == 32 && older.after == 7);
    write_index("{\"_generate\": {\"width\": 48, \"description\": [], \"examples\": \"fox\"}}");
    assert_int_equal(zn_generator_describe(&files, &a), ZN_OK);
    assert_true(!a.width && !a.height && !*a.description && !*a.examples);
    char text[4096] = "{\"_generate\": {\"examples\": [";
    for (int i = 0; i < 30; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\"%s %02d\"", i ? "," : "",
                 "a fox that needs as many words as this one to be described", i);
    snprintf(text + strlen(text), sizeof text - strlen(text), "]}}");
    write_index(text);
    assert_int_equal(zn_generator_describe(&files, &a), ZN_OK);
    assert_true(strlen(a.examples) < sizeof a.examples && strstr(a.examples, "described 15"));
    assert_true(a.examples[strlen(a.examples) - 3] == ' ');
    write_index("{");
    assert_int_equal(zn_generator_describe(&files, &a), ZN_EFORMAT);
    write_index("{\"_class_name\":\"ZImagePipeline\"}");
}

/* What model_index.json says counts where the request says nothing; no guidance can be asked for. */
static void models_have_defaults(void **state)
{
    (void)state;
    static const char plain[] = "{\"_class_name\":\"ZImagePipeline\"}";
    zn_generation_defaults d = { .size = sizeof d };
    zn_generator *g = open_with(2, cache);
    zn_generator_defaults(g, &d);
    assert_true(d.width == 1024 && d.height == 1024 && d.steps == 8 && !d.own_size);
    assert_true(d.guidance == 0 && d.shift == 3);
    zn_generation r = fox();
    r.guidance = 2;
    r.shift = 1.5;
    zn_image *named = make(g, &r);
    r.guidance = 0;
    zn_image *unguided = make(g, &r);
    zn_generator_free(g);

    char text[256];
    snprintf(text, sizeof text,
             "{\"_generate\": {\"width\": %d, \"height\": %d, \"steps\": %d, \"guidance\": 2, \"shift\": 1.5}}", WIDTH,
             HEIGHT, r.steps);
    write_index(text);
    g = open_with(2, cache);
    zn_generator_defaults(g, &d);
    assert_true(d.width == WIDTH && d.height == HEIGHT && d.steps == r.steps && d.own_size);
    r.width = r.height = r.steps = 0;
    r.shift = 0;
    zn_image *own = make(g, &r);
    assert_false(differ(named, own));
    r.guidance = ZN_GUIDANCE_NONE;
    zn_image *none = make(g, &r);
    assert_false(differ(unguided, none));
    zn_generator_free(g);

    write_index("{\"_generate\": {\"width\": 50, \"height\": 48}}");
    const zn_generator_files files = { .size = sizeof files, .model = tiny_folder, .cache = "" };
    assert_int_equal(zn_generator_open(&files, NULL, &g), ZN_EFORMAT);
    assert_non_null(strstr(zn_error_text(), "model_index.json"));
    assert_non_null(strstr(zn_error_text(), "multiple of 16"));
    write_index(plain);
    zn_image *all[] = { named, unguided, own, none };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        zn_image_free(all[i]);
}

static void images_change_by_their_strength(void **state)
{
    (void)state;
    zn_generator *g = open_with(2, cache);
    zn_generation r = fox();
    zn_image *from_noise = make(g, &r), *start = plain_image();
    r.image = start;
    r.strength = 1;
    zn_image *all = make(g, &r);
    assert_false(differ(from_noise, all)); /* nothing is left of the image */
    r.strength = 0.4;
    zn_image *some = make(g, &r);
    assert_true(differ(some, all));
    assert_true(report_of(g).encode_s > 0);
    zn_image_free(from_noise);
    zn_image_free(start);
    zn_image_free(all);
    zn_image_free(some);
    zn_generator_free(g);
}

/* What images at once and each of them alone must agree on; together: how many take their steps with each. */
static void expect_each_alone(zn_generator *g, const zn_generation *requests, int count, const int *together)
{
    enum { MOST = 4 };
    const zn_generation *list[MOST];
    zn_image *images[MOST];
    zn_generation_report report[MOST];
    for (int i = 0; i < count; i++)
        list[i] = &requests[i];
    if (zn_generate_batch(g, list, count, images) != ZN_OK)
        fail_msg("%s", zn_error_text());
    for (int i = 0; i < count; i++) {
        report[i].size = sizeof report[i];
        zn_generator_report_of(g, i, &report[i]);
    }
    zn_generation_report none = { .size = sizeof none, .tokens = 1 };
    zn_generator_report_of(g, count, &none);
    assert_int_equal(none.tokens, 0);
    for (int i = 0; i < count; i++) {
        zn_image *alone = make(g, &requests[i]);
        assert_false(differ(alone, images[i]));
        assert_int_equal(report[i].together, together[i]);
        assert_int_equal(report[i].tokens, report_of(g).tokens);
        assert_int_equal(report[i].decoder_tiles, 1);
        zn_image_free(alone);
        zn_image_free(images[i]);
    }
}

/* Prompts of other lengths take their steps apart, and so do images for which memory is short. */
static void images_at_once_have_the_bits_of_each_alone(void **state)
{
    (void)state;
    char words[400] = "";
    for (int i = 0; i < 60; i++)
        strcat(words, "fox ");
    zn_image *start = plain_image(), *mask = plain_image();
    memset(mask->pixels, 0, BYTES / 2);
    zn_generator *g = open_with(2, cache);
    zn_generation r[4] = { fox(), fox(), fox(), fox() };
    r[1].prompt = words;
    r[2].prompt = "a blue fox";
    r[2].seed = 8;
    r[3].seed = 9;
    expect_each_alone(g, r, 4, (const int[]){ 3, 1, 3, 3 });
    for (int i = 0; i < 4; i++) {
        r[i].guidance = 2;
        r[i].negative = i == 3 ? words : "a dog";
    }
    expect_each_alone(g, r, 4, (const int[]){ 2, 1, 2, 1 });
    for (int i = 0; i < 4; i++)
        r[i].image = start;
    r[2].mask = mask;
    expect_each_alone(g, r, 4, (const int[]){ 2, 1, 2, 1 });
    zn_generator_free(g);
    zn_image_free(start);
    zn_image_free(mask);
}

static void batches_that_cannot_be_are_refused(void **state)
{
    (void)state;
    zn_generator *g = open_with(1, cache);
    const zn_generation r = fox();
    zn_image *images[2], *start = plain_image();
    for (int i = 0; i < 6; i++) {
        zn_generation other = r;
        other.width += i == 0 ? 16 : 0;
        other.steps += i == 1;
        other.guidance = i == 2 ? 2 : 0;
        other.shift = i == 3 ? 1 : 0;
        other.image = i == 4 ? start : NULL;
        other.decoder_tile = i == 5 ? ZN_TILE_OFF : 0;
        const zn_generation *const list[] = { &r, &other };
        assert_int_equal(zn_generate_batch(g, list, 2, images), ZN_EINVALID);
        assert_non_null(strstr(zn_error_text(), "image 2 of a batch"));
        assert_null(images[0]);
    }
    assert_int_equal(zn_generate_batch(g, (const zn_generation *const[]){ &r }, 0, images), ZN_EINVALID);
    zn_image_free(start);
    zn_generator_free(g);
}

static void masks_keep_what_is_black(void **state)
{
    (void)state;
    zn_generator *g = open_with(2, cache);
    zn_image *start = plain_image(), *mask = plain_image();
    zn_generation r = fox();
    r.image = start;
    zn_image *unmasked = make(g, &r);
    r.mask = mask;
    memset(mask->pixels, 255, BYTES);
    zn_image *white = make(g, &r);
    assert_false(differ(unmasked, white));
    for (int y = 0; y < HEIGHT; y++)
        memset((uint8_t *)mask->pixels + y * WIDTH * 3, 0, WIDTH * 3 / 2);
    zn_image *half = make(g, &r);
    int changed = 0;
    for (int i = 0; i < BYTES; i++) {
        const bool left = i / 3 % WIDTH < WIDTH / 2;
        const uint8_t was = ((uint8_t *)start->pixels)[i], is = ((uint8_t *)half->pixels)[i];
        if (left)
            assert_int_equal(was, is);
        changed += !left && was != is;
    }
    assert_true(changed > BYTES / 4);
    memset(mask->pixels, 0, BYTES);
    zn_image *black = make(g, &r);
    assert_false(differ(start, black));
    zn_image *all[] = { start, mask, unmasked, white, half, black };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        zn_image_free(all[i]);
    zn_generator_free(g);
}

/* ---- memory ---- */

static zn_generator *open_within(size_t memory)
{
    zn_generator *g;
    const zn_generator_files files = { .size = sizeof files, .model = tiny_folder, .cache = "" };
    const zn_options options = { .size = sizeof options, .threads = 2, .memory = memory };
    if (zn_generator_open(&files, &options, &g) != ZN_OK)
        fail_msg("%s", zn_error_text());
    return g;
}

/* A budget that is just enough for one image at a time: the same images as with more. */
static void short_memory_makes_batches_smaller(void)
{
    char words[1600] = "";
    for (int i = 0; i < 390; i++)
        strcat(words, "fox ");
    zn_generation r = fox();
    r.prompt = words;
    size_t least = 1 << 16;
    zn_image *image = NULL;
    for (; !image; least += least / 8) {
        zn_generator *g = open_within(least);
        if (zn_generate(g, &r, &image) != ZN_OK)
            image = NULL;
        zn_generator_free(g);
    }
    zn_image_free(image);
    const zn_generation all[] = { r, r, r, r };
    zn_generator *g = open_within(least), *ample = open_within((size_t)1 << 30);
    expect_each_alone(ample, all, 4, (const int[]){ 4, 4, 4, 4 });
    const zn_generation *const list[] = { &r, &r, &r, &r };
    zn_image *images[4];
    if (zn_generate_batch(g, list, 4, images) != ZN_OK)
        fail_msg("%s", zn_error_text());
    zn_image *alone = make(ample, &r);
    zn_generation_report report = { .size = sizeof report };
    zn_generator_report_of(g, 0, &report);
    assert_in_range(report.together, 1, 3);
    assert_true(report.peak_bytes <= (double)least);
    for (int i = 0; i < 4; i++) {
        assert_false(differ(images[i], alone));
        zn_image_free(images[i]);
    }
    zn_image_free(alone);
    const zn_generation *many[ZN_BATCH_MOST];
    zn_image *none[ZN_BATCH_MOST];
    for (int i = 0; i < ZN_BATCH_MOST; i++)
        many[i] = &r;
    assert_int_equal(zn_generate_batch(g, many, ZN_BATCH_MOST, none), ZN_ENOMEM);
    if (!strstr(zn_error_text(), "make fewer at once"))
        fail_msg("%s", zn_error_text());
    zn_generator_free(g);
    zn_generator_free(ample);
}

static void budgets_are_kept(void **state)
{
    (void)state;
    const zn_generation r = fox();
    short_memory_makes_batches_smaller();
    const char *plan;
    zn_image *image;
    zn_generator *large = open_within((size_t)1 << 30);
    zn_image_free(make(large, &r));
    assert_true(report_of(large).peak_bytes > 1 << 18);
    assert_int_equal(zn_generator_plan(large, &(zn_generation){ .width = WIDTH, .height = HEIGHT }, &plan), ZN_OK);
    assert_non_null(strstr(plan, "6 image tokens"));
    assert_null(strstr(plan, "exceed the budget"));
    assert_int_equal(zn_generator_plan(large, &(zn_generation){ .width = 47, .height = HEIGHT }, &plan), ZN_EINVALID);
    zn_generator *none = open_within(1 << 18);
    assert_int_equal(zn_generate(none, &r, &image), ZN_ENOMEM);
    assert_non_null(strstr(zn_error_text(), "budget"));
    zn_generator_free(large);
    zn_generator_free(none);
}

/* The transformer's answer to step `last` of 40, when it is asked from step `first` on. */
static void ask(bool release, int first, int last, float *out)
{
    enum { STEPS = 40, H = 4, W = 6, TOKENS = 3 };
    zn_generator *g = open_with(2, "");
    zn_part_files files;
    zn_zimage_form form;
    zn_zimage_naming naming;
    zn_denoiser *d;
    float sigma[STEPS + 1], x[H * W * 16], features[TOKENS * 24];
    for (int i = 0; i <= STEPS; i++)
        sigma[i] = 1 - (float)i / STEPS;
    for (int i = 0; i < H * W * 16; i++)
        x[i] = (float)(i % 13) / 6 - 1;
    for (int i = 0; i < TOKENS * 24; i++)
        features[i] = (float)(i % 11) / 5 - 1;
    assert_int_equal(zn_part_open(g->paths.part[ZN_GENERATOR_TRANSFORMER], ZN_GENERATOR_TRANSFORMER, &files), ZN_OK);
    assert_int_equal(zn_zimage_recognise(files.files, files.count, files.config.root, &form, &naming), ZN_OK);
    const zn_stored weights = { files.files, files.count, zn_zimage_place, &naming };
    const zn_denoiser_setup setup = {
        .weights = &weights, .form = &form, .exec = { .pool = g->compute.pool, .whole = true }, .release = release
    };
    const zn_caption caption = { features, TOKENS };
    const zn_denoiser_image image = {
        .height = H, .width = W, .wanted = &caption, .sigma = sigma, .steps = STEPS, .first = first
    };
    assert_int_equal(zn_denoiser_new(&setup, &d), ZN_OK);
    assert_int_equal(zn_denoiser_begin(d, &image), ZN_OK);
    for (int i = first; i <= last; i++)
        assert_int_equal(zn_denoiser_predict(d, x, i, false, out), ZN_OK);
    zn_denoiser_free(d);
    zn_part_close(&files);
    zn_generator_free(g);
}

/* Modulations are computed for 32 steps at a time, and weights may be released after use: neither changes a bit. */
static void batches_and_releasing_change_no_bit(void **state)
{
    (void)state;
    float all[4 * 6 * 16], other[4 * 6 * 16];
    ask(false, 0, 33, all);
    ask(false, 33, 33, other);
    assert_memory_equal(all, other, sizeof all);
    ask(true, 20, 33, other);
    assert_memory_equal(all, other, sizeof all);
}

/* A decoder that knows only its own pixel: tiles and whole must agree. */
static zn_status paint(void *self, const zn_latent *tile, int number, zn_image **out)
{
    int *calls = self;
    assert_int_equal(number, (*calls)++);
    assert_int_equal(zn_image_new(tile->width * 8, tile->height * 8, 16, out), ZN_OK);
    uint16_t *to = (*out)->pixels;
    for (int y = 0; y < (*out)->height; y++)
        for (int x = 0; x < (*out)->width; x++)
            for (int c = 0; c < 3; c++)
                *to++ = (uint16_t)(257 * tile->data[(y / 8 * tile->width + x / 8) * tile->channels + c]);
    return ZN_OK;
}

static void tiles_cover_the_image(void **state)
{
    (void)state;
    static const int sizes[][3] = { { 64, 64, 64 }, { 65, 30, 64 }, { 128, 128, 64 }, { 100, 34, 16 }, { 17, 90, 16 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int w = sizes[i][0], h = sizes[i][1];
        const zn_tiling t = zn_tiling_of(w, h, sizes[i][2]);
        zn_latent *z;
        zn_image *image;
        int calls = 0;
        assert_int_equal(zn_latent_new(w, h, 3, &z), ZN_OK);
        for (int k = 0; k < w * h * 3; k++)
            z->data[k] = (float)(k * 7 % 256);
        assert_int_equal(zn_tiling_decode(&t, z, paint, &calls, &image), ZN_OK);
        assert_int_equal(calls, t.columns * t.rows);
        assert_int_equal(image->width, 8 * w);
        for (int y = 0; y < 8 * h; y++)
            for (int x = 0; x < 8 * w; x++)
                assert_int_equal(((uint8_t *)image->pixels)[(y * 8 * w + x) * 3],
                                 (int)z->data[(y / 8 * w + x / 8) * 3]);
        zn_latent_free(z);
        zn_image_free(image);
    }
}

/* An encoder that knows only the corner of its 8x8 pixels. */
static zn_status sample_corners(void *self, const zn_image *tile, int number, zn_latent **out)
{
    int *calls = self;
    assert_int_equal(number, (*calls)++);
    assert_int_equal(zn_latent_new(tile->width / 8, tile->height / 8, 3, out), ZN_OK);
    for (int y = 0; y < tile->height / 8; y++)
        for (int x = 0; x < tile->width / 8; x++)
            for (int c = 0; c < 3; c++)
                (*out)->data[(y * (*out)->width + x) * 3 + c] =
                    ((const uint8_t *)tile->pixels)[(8 * y * tile->width + 8 * x) * 3 + c];
    return ZN_OK;
}

static void tiles_cover_the_latent(void **state)
{
    (void)state;
    static const int sizes[][3] = { { 64, 64, 64 }, { 65, 30, 64 }, { 100, 34, 16 }, { 17, 90, 16 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const int w = sizes[i][0], h = sizes[i][1];
        const zn_tiling t = zn_tiling_of(w, h, sizes[i][2]);
        zn_latent *z;
        zn_image *image;
        int calls = 0;
        assert_int_equal(zn_image_new(8 * w, 8 * h, 8, &image), ZN_OK);
        for (int k = 0; k < 64 * w * h * 3; k++)
            ((uint8_t *)image->pixels)[k] = (uint8_t)(k * 7 % 251);
        assert_int_equal(zn_tiling_encode(&t, image, sample_corners, &calls, &z), ZN_OK);
        assert_int_equal(calls, t.columns * t.rows);
        assert_int_equal(z->width, w);
        assert_int_equal(z->height, h);
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++)
                for (int c = 0; c < 3; c++)
                    assert_float_equal(z->data[(y * w + x) * 3 + c],
                                       ((uint8_t *)image->pixels)[(64 * y * w + 8 * x) * 3 + c], 1e-3);
        zn_latent_free(z);
        zn_image_free(image);
    }
}

/* ---- progress ---- */

typedef struct watcher {
    double last;
    int calls, previews, preview_width, cancel_at;
    zn_generation_stage stage;
    bool backwards;
} watcher;

static int watch(void *self, const zn_generation_progress *p)
{
    watcher *w = self;
    w->backwards |= p->fraction < w->last - 1e-9 || p->stage < w->stage;
    w->last = p->fraction;
    w->stage = p->stage;
    w->previews += p->preview != NULL;
    w->preview_width = p->preview ? p->preview->width : w->preview_width;
    return ++w->calls == w->cancel_at;
}

static void progress_rises_and_cancels(void **state)
{
    (void)state;
    zn_generator *g = open_with(2, "");
    zn_image *start = plain_image(), *image;
    watcher w = { 0 };
    zn_generation r = fox();
    r.image = start;
    r.progress = watch;
    r.user = &w;
    image = make(g, &r);
    assert_false(w.backwards);
    assert_float_equal(w.last, 1, 1e-9);
    const int calls = w.calls;
    zn_image_free(image);
    for (int at = 1; at < calls; at += calls / 9) {
        w = (watcher){ .cancel_at = at };
        assert_int_equal(zn_generate(g, &r, &image), ZN_ECANCELLED);
        assert_null(image);
        assert_int_equal(w.calls, at); /* nothing was computed after it */
    }
    for (int at = 0; at < calls; at += calls / 5) { /* and of several images: 0 cancels none */
        zn_generation other = r;
        other.prompt =
            "a fox that has more tokens than fit into the first block of thirty-two, so it comes later, alone";
        const zn_generation *const list[] = { &r, &other, &r };
        zn_image *images[3];
        w = (watcher){ .cancel_at = at };
        assert_int_equal(zn_generate_batch(g, list, 3, images), at ? ZN_ECANCELLED : ZN_OK);
        assert_false(w.backwards);
        assert_true(at ? w.calls == at : w.last > 1 - 1e-9);
        for (int i = 0; i < 3; i++)
            zn_image_free(images[i]);
    }
    zn_image_free(start);
    zn_generator_free(g);
}

/* Ends the work when the last of COUNT images is decoded. */
enum { COUNT = 3 };
typedef struct last_decode {
    double begin; /* of the stage; 0: not yet */
} last_decode;

static int end_late(void *self, const zn_generation_progress *p)
{
    last_decode *d = self;
    if (p->stage == ZN_STAGE_DECODE && !d->begin)
        d->begin = p->fraction;
    return d->begin > 0 && p->fraction > d->begin + (1 - d->begin) * (COUNT - 1) / COUNT + 1e-9;
}

static void finished_images_outlive_a_batch_that_is_cancelled(void **state)
{
    (void)state;
    zn_generator *g = open_with(2, cache);
    last_decode d = { 0 };
    zn_generation r[COUNT];
    const zn_generation *list[COUNT];
    zn_image *images[COUNT];
    for (int i = 0; i < COUNT; i++) {
        r[i] = fox();
        r[i].seed += (uint64_t)i;
        list[i] = &r[i];
    }
    r[0].progress = end_late;
    r[0].user = &d;
    assert_int_equal(zn_generate_batch(g, list, COUNT, images), ZN_ECANCELLED);
    r[0].progress = NULL;
    for (int i = 0; i < COUNT - 1; i++) {
        zn_image *alone = make(g, &r[i]);
        assert_non_null(images[i]);
        assert_false(differ(images[i], alone));
        zn_image_free(images[i]);
        zn_image_free(alone);
    }
    assert_null(images[COUNT - 1]);
    zn_generator_free(g);
}

static void previews_come_after_each_step(void **state)
{
    (void)state;
    zn_generator *g = open_with(2, cache);
    watcher w = { 0 };
    zn_generation r = fox();
    zn_image *plain = make(g, &r);
    r.progress = watch;
    r.user = &w;
    zn_image_free(make(g, &r));
    assert_int_equal(w.previews, 0); /* not asked for */
    r.preview = 1;
    zn_image *image = make(g, &r);
    assert_int_equal(w.previews, r.steps);
    assert_int_equal(w.preview_width, WIDTH);
    assert_false(differ(plain, image));
    zn_image_free(plain);
    zn_image_free(image);
    zn_generator_free(g);
}

/* With TAEF1 (here with random weights) previews have the image's own size. */
static void preview_networks_are_used(void **state)
{
    (void)state;
    char path[4200];
    size_t size;
    zn_model *m;
    zn_generator *g;
    zn_image *image;
    watcher w = { 0 };
    zn_generation r = fox();
    snprintf(path, sizeof path, "%s-taef1.safetensors", cache);
    assert_int_equal(zn_model_random("taesd3", 1, &m), ZN_OK);
    uint8_t *bytes = model_bytes(m, &size);
    assert_int_equal(zn_file_write(path, bytes, size), ZN_OK);
    zn_free(bytes);
    zn_model_free(m);
    const zn_generator_files files = { .size = sizeof files, .model = tiny_folder, .cache = cache, .preview = path };
    assert_int_equal(zn_generator_open(&files, NULL, &g), ZN_OK);
    r.preview = 1;
    r.progress = watch;
    r.user = &w;
    zn_image_free(make(g, &r));
    assert_int_equal(w.previews, r.steps);
    assert_int_equal(w.preview_width, WIDTH);
    assert_int_equal(zn_file_write(path, "no network", 10), ZN_OK);
    assert_int_not_equal(zn_generate(g, &r, &image), ZN_OK);
    assert_non_null(strstr(zn_error_text(), "taef1"));
    zn_generator_free(g);
}

/* Colours that are linear in the latent are found again. */
static void linear_colours_are_fitted(void **state)
{
    (void)state;
    enum { SIDE = 8, CHANNELS = 3, SCALE = 2 };
    zn_latent *z;
    zn_image *image;
    float map[CHANNELS + 1][3];
    assert_int_equal(zn_latent_new(SIDE, SIDE, CHANNELS, &z), ZN_OK);
    assert_int_equal(zn_image_new(SIDE * SCALE, SIDE * SCALE, 16, &image), ZN_OK);
    uint16_t *to = image->pixels;
    for (int i = 0; i < SIDE * SIDE * CHANNELS; i++)
        z->data[i] = (float)(i * 37 % 101) / 101;
    for (int y = 0; y < SIDE * SCALE; y++)
        for (int x = 0; x < SIDE * SCALE; x++) {
            const float *v = z->data + (y / SCALE * SIDE + x / SCALE) * CHANNELS;
            const float red = 0.5f * v[0] + 0.25f * v[1] + 0.1f, blue = 0.9f - 0.6f * v[2];
            to[(y * SIDE * SCALE + x) * 3] = (uint16_t)(red * 65535);
            to[(y * SIDE * SCALE + x) * 3 + 2] = (uint16_t)(blue * 65535);
        }
    assert_int_equal(zn_preview_fit(z, image, map), ZN_OK);
    const float want[CHANNELS + 1][3] = { { 0.5f, 0, 0 }, { 0.25f, 0, 0 }, { 0, 0, -0.6f }, { 0.1f, 0, 0.9f } };
    for (int i = 0; i <= CHANNELS; i++)
        for (int c = 0; c < 3; c++)
            assert_float_equal(map[i][c], want[i][c], 1e-3f);
    zn_latent_free(z);
    zn_image_free(image);
}

/* ---- what cannot be ---- */

static void failing_memory_is_an_error(void **state)
{
    (void)state;
    zn_image *image, *start = plain_image();
    zn_generation r = fox();
    zn_generator *g = open_with(1, "");
    r.image = start;
    r.steps = 1;
    const int64_t before = zn_alloc_calls();
    zn_image_free(make(g, &r));
    const int64_t calls = zn_alloc_calls() - before;
    for (int64_t nth = 1; nth <= calls; nth += 1 + calls / 150) {
        zn_alloc_fail_at(nth);
        const zn_status status = zn_generate(g, &r, &image);
        zn_alloc_fail_at(0);
        assert_true(status == ZN_OK || status == ZN_ENOMEM);
        if (status == ZN_OK)
            zn_image_free(image);
    }
    zn_image_free(start);
    zn_generator_free(g);
}

static void wrong_requests_are_refused(void **state)
{
    (void)state;
    zn_image *small;
    assert_int_equal(zn_image_new(32, 32, 8, &small), ZN_OK);
    const struct {
        zn_generation r;
        const char *says;
    } cases[] = {
        { { .width = 1000 }, "a width of 1000 pixels is not a multiple of 16: use 992 or 1008" },
        { { .height = 7 }, "use 16" },
        { { .width = -16 }, "multiple of 16 from 16" },
        { { .width = 1 << 20 }, "to 16384" },
        { { .steps = -1 }, "1 to 1000" },
        { { .steps = 1001 }, "1 to 1000" },
        { { .strength = 1.5 }, "at most 1" },
        { { .guidance = -2 }, "from 0" },
        { { .shift = -3 }, "above 0" },
        { { .mask = small }, "needs an image" },
        { { .image = small, .width = 64 }, "the image is 32x32, but 64x32 is asked for" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_not_equal(zn_generation_check(&cases[i].r), ZN_OK);
        assert_non_null(strstr(zn_error_text(), cases[i].says));
    }
    zn_image *other = plain_image();
    assert_int_equal(zn_generation_check(&(zn_generation){ .image = other, .mask = small }), ZN_ESHAPE);
    assert_non_null(strstr(zn_error_text(), "the mask is 32x32, but the image is 48x32"));
    zn_image_free(other);
    zn_image_free(small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_no_bit),
        cmocka_unit_test(devices_agree),
        cmocka_unit_test(known_prompts_need_no_text_encoder),
        cmocka_unit_test(entries_used_long_ago_go_first),
        cmocka_unit_test(long_prompts_are_cut),
        cmocka_unit_test(prompts_together_have_the_bits_of_each_alone),
        cmocka_unit_test(every_setting_counts),
        cmocka_unit_test(models_have_defaults),
        cmocka_unit_test(models_describe_themselves),
        cmocka_unit_test(images_change_by_their_strength),
        cmocka_unit_test(images_at_once_have_the_bits_of_each_alone),
        cmocka_unit_test(batches_that_cannot_be_are_refused),
        cmocka_unit_test(masks_keep_what_is_black),
        cmocka_unit_test(budgets_are_kept),
        cmocka_unit_test(batches_and_releasing_change_no_bit),
        cmocka_unit_test(progress_rises_and_cancels),
        cmocka_unit_test(finished_images_outlive_a_batch_that_is_cancelled),
        cmocka_unit_test(previews_come_after_each_step),
        cmocka_unit_test(linear_colours_are_fitted),
        cmocka_unit_test(tiles_cover_the_image),
        cmocka_unit_test(tiles_cover_the_latent),
        cmocka_unit_test(preview_networks_are_used),
        cmocka_unit_test(failing_memory_is_an_error),
        cmocka_unit_test(wrong_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, make_model, tiny_teardown);
}
