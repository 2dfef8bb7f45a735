/* Generation on a device: an image has the same bits whether its networks were there already or not, and whether their
 * weights stay there or take turns. Exit status 77 where there is no device. */
#include "../must.h"
#include "tiny.h"

#include "base/alloc.h"
#include "base/file.h"
#include "model_file.h"
#include "pipeline/generate/transformer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 48,
    HEIGHT = 32,
    BYTES = WIDTH * HEIGHT * 3,
    STEPS = 3,
    LATENT = WIDTH / 8 * HEIGHT / 8 * 16,
    TOKENS = 5
};

static int compared, failures;

static void expect(const char *what, bool good)
{
    printf("%-70s%s\n", what, good ? "" : "  FAIL");
    failures += !good;
    compared++;
}

static zn_generator *open_on_device(size_t memory)
{
    const zn_generator_files files = { .size = sizeof files, .model = tiny_folder, .cache = "" };
    const zn_options options = { .size = sizeof options, .threads = 1, .device = "cuda", .memory = memory };
    zn_generator *g;
    must(zn_generator_open(&files, &options, &g));
    return g;
}

/* The image of a prompt, and the bytes that were copied to the device for it. */
static zn_image *make(zn_generator *g, const char *prompt, double *sent)
{
    const zn_generation r = {
        .size = sizeof r, .prompt = prompt, .width = WIDTH, .height = HEIGHT, .steps = STEPS, .seed = 7
    };
    zn_generation_report report = { .size = sizeof report };
    zn_image *image;
    must(zn_generate(g, &r, &image));
    zn_generator_report(g, &report);
    *sent = report.sent_bytes;
    return image;
}

static bool same(const zn_image *a, const zn_image *b) { return memcmp(a->pixels, b->pixels, BYTES) == 0; }

/* ---- networks that stay ---- */

/* A second generator has none of the first one's memory. */
static void check_warm(void)
{
    double cold, other, warm, alone;
    zn_generator *g = open_on_device(0), *fresh = open_on_device(0);
    zn_image *first = make(g, "a red fox", &cold), *longer = make(g, "a red fox in the snow, at night", &other);
    zn_image *again = make(g, "a red fox", &warm), *single = make(fresh, "a red fox in the snow, at night", &alone);
    printf("bytes sent: %.0f, other prompt %.0f, the first again %.0f\n", cold, other, warm);
    expect("the same image from networks that stayed", same(first, again));
    expect("another prompt in networks that stayed", same(longer, single));
    expect("weights that stayed are not sent again", warm < cold / 2 && other < alone / 2);
    zn_image_free(first);
    zn_image_free(longer);
    zn_image_free(again);
    zn_image_free(single);
    zn_generator_free(g);
    zn_generator_free(fresh);
}

/* ---- several at once ---- */

static double apart(const zn_image *a, const zn_image *b)
{
    double sum = 0;
    for (int i = 0; i < BYTES; i++)
        sum += abs(((const uint8_t *)a->pixels)[i] - ((const uint8_t *)b->pixels)[i]);
    return sum / BYTES;
}

/* Like each alone but for rounding, in 16 bits; the same bits again, also after an image alone. */
static void check_batch(void)
{
    enum { COUNT = 3 };
    static const char *const prompts[COUNT] = { "a red fox", "a blue fox", "a red fox in the snow, at night" };
    zn_generator *g = open_on_device(0);
    zn_generation requests[COUNT];
    const zn_generation *list[COUNT];
    zn_image *once[COUNT], *again[COUNT];
    bool alike = true, repeats = true;
    for (int i = 0; i < COUNT; i++) {
        requests[i] = (zn_generation){ .size = sizeof requests[i],
                                       .prompt = prompts[i],
                                       .width = WIDTH,
                                       .height = HEIGHT,
                                       .steps = STEPS,
                                       .seed = 7 };
        list[i] = &requests[i];
    }
    must(zn_generate_batch(g, list, COUNT, once));
    zn_generation_report report = { .size = sizeof report };
    zn_generator_report_of(g, 1, &report);
    expect("images whose prompts are alike take their steps together", report.together >= 2);
    for (int i = 0; i < COUNT; i++) {
        double sent;
        zn_image *alone = make(g, prompts[i], &sent);
        alike &= apart(alone, once[i]) < 2;
        zn_image_free(alone);
    }
    expect("and unlike each other", apart(once[0], once[1]) > 2 && apart(once[0], once[2]) > 2);
    must(zn_generate_batch(g, list, COUNT, again));
    for (int i = 0; i < COUNT; i++) {
        repeats &= same(once[i], again[i]);
        zn_image_free(once[i]);
        zn_image_free(again[i]);
    }
    expect("several at once are like each alone", alike);
    expect("and the same again", repeats);
    zn_generator_free(g);
}

/* ---- previews ---- */

typedef struct seen {
    int count, width;
    uint8_t last[BYTES];
} seen;

static int watch(void *self, const zn_generation_progress *p)
{
    seen *s = self;
    if (!p->preview)
        return 0;
    s->count++;
    s->width = p->preview->width;
    if (s->width == WIDTH && p->preview->height == HEIGHT)
        memcpy(s->last, p->preview->pixels, BYTES);
    return 0;
}

/* A thread decodes them during the next step, so there is none of the last one; also for the second image, with the
 * same bits. */
static void check_previews(void)
{
    zn_model *m;
    char path[4200];
    size_t size;
    must(zn_model_random("taesd3", 1, &m));
    snprintf(path, sizeof path, "%s/taef1.safetensors", tiny_root);
    uint8_t *bytes = model_bytes(m, &size);
    must(zn_file_write(path, bytes, size));
    zn_free(bytes);
    for (int with_network = 0; with_network < 2; with_network++) {
        const zn_generator_files files = {
            .size = sizeof files, .model = tiny_folder, .cache = "", .preview = with_network ? path : NULL
        };
        const zn_options options = { .size = sizeof options, .threads = 1, .device = "cuda" };
        seen s[2] = { { 0 }, { 0 } };
        zn_generator *g;
        must(zn_generator_open(&files, &options, &g));
        for (int i = 0; i < 2; i++) {
            const zn_generation r = { .size = sizeof r,
                                      .prompt = "a red fox",
                                      .width = WIDTH,
                                      .height = HEIGHT,
                                      .steps = STEPS,
                                      .seed = 7,
                                      .preview = 1,
                                      .progress = watch,
                                      .user = &s[i] };
            zn_image *image;
            must(zn_generate(g, &r, &image));
            zn_image_free(image);
        }
        expect(with_network ? "a preview by a network after each step but the last"
                            : "a preview by a map after each step but the last",
               s[0].count == STEPS - 1 && s[1].count == STEPS - 1);
        expect("of the size of the image", s[0].width == WIDTH);
        expect("the same from a network that stayed", memcmp(s[0].last, s[1].last, BYTES) == 0);
        zn_generator_free(g);
    }
    remove(path);
    zn_model_free(m);
}

/* ---- weights that take turns ---- */

typedef struct network {
    zn_generator *generator;
    zn_transformer *transformer;
    zn_compute *compute;
    float features[TOKENS * 4096];
    float sigma[STEPS + 1];
} network;

/* Steps of the tiny transformer with so much memory for weights; NULL if the device refuses it. */
static float *steps(const network *n, size_t weights, zn_exec_weights *count)
{
    const zn_denoiser_setup setup = { .weights = &n->transformer->weights,
                                      .form = &n->transformer->form,
                                      .release = weights > 0,
                                      .once_weights = weights,
                                      .exec = { .pool = n->compute->pool,
                                                .device = n->compute->device,
                                                .math = n->compute->math,
                                                .whole = true,
                                                .weights = weights,
                                                .pins = true } };
    const zn_caption caption = { n->features, TOKENS };
    const zn_denoiser_image image = {
        .height = HEIGHT / 8, .width = WIDTH / 8, .wanted = &caption, .sigma = n->sigma, .steps = STEPS
    };
    float *out = zn_calloc(STEPS * LATENT, sizeof *out), x[LATENT];
    zn_denoiser *d;
    for (int i = 0; i < LATENT; i++)
        x[i] = (float)(i % 17 - 8) / 8;
    must(zn_denoiser_new(&setup, &d));
    const zn_status begun = zn_denoiser_begin(d, &image);
    for (int i = 0; i < STEPS && begun == ZN_OK; i++)
        must(zn_denoiser_predict(d, x, i, false, out + i * LATENT));
    if (begun == ZN_OK)
        *count = zn_denoiser_weights(d);
    zn_denoiser_free(d);
    if (begun == ZN_OK)
        return out;
    zn_free(out);
    expect("too little memory is refused with a sentence", begun == ZN_ENOMEM && strstr(zn_error_text(), "at least"));
    return NULL;
}

static void check_streaming(void)
{
    network *n = zn_calloc(1, sizeof *n);
    zn_exec_weights all, part = { 0 };
    n->generator = open_on_device(0);
    n->compute = &n->generator->compute;
    must(zn_generator_transformer(n->generator, &n->transformer));
    for (int i = 0; i < TOKENS * n->transformer->form.caption; i++)
        n->features[i] = (float)(i % 13 - 6) / 6;
    for (int i = 0; i <= STEPS; i++)
        n->sigma[i] = 1 - (float)i / STEPS;
    float *whole = steps(n, 0, &all), *streamed;
    expect("without a limit all weights stay", all.streamed == 0 && all.resident > 0);
    int limits = 0;
    for (size_t limit = all.resident * 9 / 10; (streamed = steps(n, limit, &part)) != NULL; limit = limit * 7 / 10) {
        char what[128];
        snprintf(what, sizeof what, "%zu of %zu bytes stay, a window of %zu: the same bits", part.resident,
                 part.resident + part.streamed, part.window);
        expect(what, memcmp(streamed, whole, sizeof *whole * STEPS * LATENT) == 0 && part.streamed > 0 &&
                         part.resident + part.window <= limit && part.resident + part.streamed == all.resident);
        zn_free(streamed);
        limits++;
    }
    expect("several limits work", limits > 2);
    zn_free(whole);
    zn_generator_free(n->generator);
    zn_free(n);
}

/* ---- a budget ---- */

/* Three images with so much memory: the first prompt, another, the first again. False if it is refused. */
static bool make_within(size_t memory, zn_image *const wanted[2], double *sent)
{
    static const char *const prompts[] = { "a red fox", "a red fox in the snow, at night", "a red fox" };
    zn_generator *g = open_on_device(memory);
    bool alike = true;
    zn_status status = ZN_OK;
    for (int i = 0; i < 3 && status == ZN_OK; i++) {
        zn_generation r = {
            .size = sizeof r, .prompt = prompts[i], .width = WIDTH, .height = HEIGHT, .steps = STEPS, .seed = 7
        };
        zn_generation_report report = { .size = sizeof report };
        zn_image *image;
        status = zn_generate(g, &r, &image);
        if (status != ZN_OK)
            break;
        zn_generator_report(g, &report);
        sent[i] = report.sent_bytes;
        alike = alike && same(image, wanted[i % 2]);
        zn_image_free(image);
    }
    if (status == ZN_OK)
        expect("the same images within a budget", alike);
    else
        expect("a budget that is too small is refused with the least",
               status == ZN_ENOMEM && strstr(zn_error_text(), "least"));
    if (status == ZN_OK)
        expect("which is kept", zn_device_most(g->compute.device) + zn_device_overhead(g->compute.device) <= memory);
    zn_generator_free(g);
    return status == ZN_OK;
}

/* What the driver takes is part of it. Where not all networks fit, they take turns or are copied again. */
static void check_budget(void)
{
    enum { BUDGETS = 12 };
    double sent[3], third[BUDGETS] = { 0 };
    zn_generator *g = open_on_device(0);
    const size_t overhead = zn_device_overhead(g->compute.device);
    zn_image *wanted[2] = { make(g, "a red fox", &sent[0]), make(g, "a red fox in the snow, at night", &sent[1]) };
    const double all = sent[0];
    double held = 0;
    for (int part = 0; part < ZN_GENERATOR_PARTS; part++)
        held += (double)g->held[part];
    const double low = 0.95 * (double)g->needs[ZN_GENERATOR_VAE], step = pow(1.05 * held / low, 1.0 / (BUDGETS - 1));
    int refused = 0, tight = 0;
    zn_generator_free(g);
    expect("a budget below the driver's share is refused", !make_within(overhead / 2, wanted, sent));
    for (int i = 0; i < BUDGETS; i++) {
        const size_t bytes = (size_t)(low * pow(step, i));
        const bool works = make_within(overhead + bytes, wanted, sent);
        third[i] = works ? sent[2] : 0;
        refused += !works;
        if (works)
            printf("%zu bytes beside the driver's: %.0f, %.0f and %.0f sent\n", bytes, sent[0], sent[1], sent[2]);
    }
    for (int i = 0; i < BUDGETS; i++)
        tight += third[i] > third[BUDGETS - 1];
    expect("small budgets are refused, others copy weights again", refused && tight);
    expect("and one for all networks does not", third[BUDGETS - 1] > 0 && third[BUDGETS - 1] < all / 2);
    zn_image_free(wanted[0]);
    zn_image_free(wanted[1]);
}

int main(void)
{
    zn_device *d;
    if (zn_device_open("cuda", &d) != ZN_OK) {
        printf("%s\n", zn_error_text());
        return 77;
    }
    zn_device_close(d);
    void *state = NULL;
    if (tiny_setup(&state))
        return 1;
    check_warm();
    check_batch();
    check_previews();
    check_streaming();
    check_budget();
    tiny_teardown(&state);
    printf("%d comparisons, %d failed\n", compared, failures);
    return failures > 0;
}
