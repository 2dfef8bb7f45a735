/* Models on the device against the same models on the CPU: latents and pictures of the TAESD family, in full precision
 * and in less, and tiles that have the bits of the whole. Exit status 77 where there is no device. */
#include "../must.h"
#include "../stir.h"
#include "base/cpu.h"
#include "base/rng.h"
#include "graph/context.h"
#include "graph/exec.h"
#include "kernels/device_group.h"
#include "models/model.h"
#include "ops/passes/pairs.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/zenith.h>

/* Of the picture; smaller where the device is emulated, which takes a second for 100 pixels. */
static int width = 520, height = 300, tile = 128, rounds = 3;
static int compared, failures;

static void expect(const char *what, double error, double allowed)
{
    const bool good = error <= allowed;
    printf("%-40s differs by %.2e of %.0e%s\n", what, error, allowed, good ? "" : "  FAIL");
    failures += !good;
    compared++;
}

static double difference(const float *a, const float *b, int64_t count)
{
    double off = 0, all = 0;
    for (int64_t i = 0; i < count; i++) {
        off += (double)(a[i] - b[i]) * (double)(a[i] - b[i]);
        all += (double)b[i] * (double)b[i];
    }
    return sqrt(off / all);
}

static zn_image *picture(void)
{
    zn_image *image;
    zn_rng rng = zn_rng_new(3);
    must(zn_image_new(width, height, 8, &image));
    for (int i = 0; i < 3 * width * height; i++)
        ((uint8_t *)image->pixels)[i] = (uint8_t)(zn_rng_next(&rng) >> 56);
    return image;
}

typedef struct pair {
    zn_latent *latent;
    zn_image *image;
} pair;

static void pair_free(pair *p)
{
    zn_latent_free(p->latent);
    zn_image_free(p->image);
}

/* The picture's latent, and the picture of `of` (NULL: of that latent). */
static pair run(const zn_model *m, const zn_image *image, const zn_latent *of, zn_options o)
{
    zn_codec *codec;
    pair p;
    must(zn_codec_new(m, &o, &codec));
    must(zn_encode(codec, image, &p.latent));
    must(zn_decode_bits(codec, of ? of : p.latent, 16, &p.image));
    zn_codec_free(codec);
    return p;
}

static double image_difference(const zn_image *a, const zn_image *b)
{
    const uint16_t *x = a->pixels, *y = b->pixels;
    int worst = 0;
    for (int i = 0; i < 3 * a->width * a->height; i++)
        worst = abs(x[i] - y[i]) > worst ? abs(x[i] - y[i]) : worst;
    return worst / 65535.0;
}

/* Tiles have the bits of the whole, except where the kernel of a transform depends on the number of its blocks. */
static void check(const char *name, const zn_image *image)
{
    const double tiles = strcmp(name, "zenith-r") ? 0 : 1e-6;
    char what[96];
    zn_model *m;
    must(zn_model_random(name, 5, &m));
    pair cpu = run(m, image, NULL, (zn_options){ .tile = ZN_TILE_OFF });
    pair gpu = run(m, image, cpu.latent, (zn_options){ .device = "cuda", .tile = ZN_TILE_OFF });
    const int64_t count = (int64_t)cpu.latent->width * cpu.latent->height * cpu.latent->channels;
    snprintf(what, sizeof what, "%s, encoded", name);
    expect(what, difference(gpu.latent->data, cpu.latent->data, count), 2e-5);
    snprintf(what, sizeof what, "%s, decoded", name);
    expect(what, image_difference(gpu.image, cpu.image), 1e-4);
    pair coarse = run(m, image, cpu.latent, (zn_options){ .device = "cuda", .precision = ZN_PRECISION_F16 });
    snprintf(what, sizeof what, "%s, encoded in f16", name);
    expect(what, difference(coarse.latent->data, cpu.latent->data, count), 2e-2);
    pair tiled = run(m, image, cpu.latent, (zn_options){ .device = "cuda", .tile = tile });
    snprintf(what, sizeof what, "%s, encoded in tiles", name);
    expect(what, difference(tiled.latent->data, gpu.latent->data, count), tiles);
    snprintf(what, sizeof what, "%s, decoded in tiles", name);
    expect(what, image_difference(tiled.image, gpu.image), tiles);
    pair_free(&cpu);
    pair_free(&gpu);
    pair_free(&coarse);
    pair_free(&tiled);
    zn_model_free(m);
}

/* Weights that make numbers too large in the middle of the network: the layer is named, as it is on the CPU. */
static void check_overflow(const zn_image *image)
{
    zn_model *m;
    char text[2][256];
    must(zn_model_random("taesd", 5, &m));
    for (int i = 0; i < m->count; i++)
        if (strstr(m->parameters[i].name, "encoder.4.conv.2.weight"))
            for (int64_t k = 0; k < zn_shape_count(m->parameters[i].shape); k++)
                m->parameters[i].data[k] = 3e38f;
    for (int i = 0; i < 2; i++) {
        zn_codec *codec;
        zn_latent *latent = NULL;
        must(zn_codec_new(m, &(zn_options){ .device = i ? "cuda" : "cpu" }, &codec));
        const zn_status status = zn_encode(codec, image, &latent);
        failures += status != ZN_ENUMERIC;
        snprintf(text[i], sizeof text[i], "%s", status == ZN_OK ? "none  FAIL" : zn_error_text());
        zn_latent_free(latent);
        zn_codec_free(codec);
    }
    printf("overflow: %s\n", text[1]);
    failures += strcmp(text[0], text[1]) != 0;
    zn_model_free(m);
}

typedef struct sharer {
    const zn_model *model;
    const zn_image *image;
    zn_context *context;
    const pair *want;
    pthread_t thread;
    int bad;
} sharer;

static void *share(void *arg)
{
    sharer *s = arg;
    for (int i = 0; i < rounds; i++) {
        pair p = run(s->model, s->image, NULL, (zn_options){ .context = s->context, .device = "cuda" });
        s->bad += image_difference(p.image, s->want->image) != 0;
        pair_free(&p);
    }
    return NULL;
}

/* Codecs on several threads with one device between them. */
static void check_shared(const zn_image *image)
{
    enum { SHARERS = 3 };
    zn_model *m;
    zn_context *context;
    sharer s[SHARERS];
    must(zn_model_random("taesd", 5, &m));
    must(zn_context_new(2, &context));
    pair alone = run(m, image, NULL, (zn_options){ .device = "cuda" });
    for (int i = 0; i < SHARERS; i++) {
        s[i] = (sharer){ .model = m, .image = image, .context = context, .want = &alone };
        must(pthread_create(&s[i].thread, NULL, share, &s[i]) ? ZN_ENOMEM : ZN_OK);
    }
    int bad = 0;
    for (int i = 0; i < SHARERS; i++) {
        pthread_join(s[i].thread, NULL);
        bad += s[i].bad;
    }
    printf("shared by %d threads: %d results differ\n", SHARERS, bad);
    failures += bad || zn_context_packed_bytes(context);
    pair_free(&alone);
    zn_context_free(context);
    zn_model_free(m);
}

/* Encoder and decoder within one budget, from too little to enough for both: what is on the GPU keeps to it, and tiles
 * have the bits of the whole. */
static void check_budget(const zn_image *image)
{
    enum { BUDGETS = 6, MIB = 1 << 20 };
    zn_model *m;
    zn_context *context;
    zn_device *d;
    int refused = 0, kept = 0;
    must(zn_model_random("taesd", 5, &m));
    pair whole = run(m, image, NULL, (zn_options){ .device = "cuda", .tile = ZN_TILE_OFF });
    for (int i = 0; i < BUDGETS; i++) {
        must(zn_context_new(2, &context));
        must(zn_context_device(context, "cuda", &d));
        const size_t memory = zn_context_overhead(context, "cuda") + (size_t)(4 * MIB) * (size_t)(1 << i) / 2;
        zn_codec *codec;
        pair p = { 0 };
        must(zn_codec_new(m, &(zn_options){ .context = context, .device = "cuda", .memory = memory }, &codec));
        zn_status status = zn_encode(codec, image, &p.latent);
        if (status == ZN_OK)
            status = zn_decode_bits(codec, p.latent, 16, &p.image);
        refused += status == ZN_ENOMEM;
        if (status == ZN_OK) {
            kept++;
            failures +=
                zn_device_most(d) + zn_device_overhead(d) > memory || image_difference(p.image, whole.image) != 0;
        }
        pair_free(&p);
        zn_codec_free(codec);
        zn_context_free(context);
    }
    printf("budgets: %d refused, %d kept\n", refused, kept);
    failures += !refused || !kept || refused + kept != BUDGETS;
    pair_free(&whole);
    zn_model_free(m);
}

/* A group of one: the sums are what they were. */
static void check_group(zn_device *d)
{
    enum { COUNT = 1000 };
    static float x[COUNT];
    zn_device_group_id id;
    zn_device_group *g;
    if (!zn_device_group_make(&id)) {
        printf("sums over devices: this build or this machine has no NCCL\n");
        return;
    }
    must(zn_device_group_join(d, &id, 0, 1, &g));
    zn_device_lock(d);
    must(zn_device_twin(d, x, sizeof x));
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i;
    zn_device_send(d, x, sizeof x);
    zn_device_group_sum(g, x, COUNT);
    must(zn_device_wait(d));
    memset(x, 0, sizeof x);
    zn_device_fetch(d, x, sizeof x);
    must(zn_device_wait(d));
    zn_device_drop(d, x);
    zn_device_unlock(d);
    zn_device_group_leave(g);
    double off = 0;
    for (int i = 0; i < COUNT; i++)
        off += fabs((double)x[i] - i);
    expect("sums over a group of one device", off, 0);
}

/* A U-Net with all that fusion does for devices; the device NULL: the CPU. The result is the caller's. */
static float *run_unet(const zn_model *m, zn_pool *pool, zn_device *d, zn_precision math, int batch, int side,
                       int64_t *count)
{
    zn_network net = { 0 };
    zn_exec *e;
    zn_rng rng = zn_rng_new(4);
    must(zn_model_network(m, ZN_DECODER, batch, side, side, &net));
    zn_graph_fuse(net.graph, &net.output, 1);
    zn_graph_fuse_pairs(net.graph, &net.output, 1, math, zn_device_flags(d));
    must(zn_exec_new(net.graph, &net.output, 1,
                     &(zn_exec_options){ .pool = pool, .device = d, .math = math, .whole = true }, &e));
    for (int i = 0; i < 3; i++)
        for (int64_t k = 0; k < zn_shape_count(net.input[i]->shape); k++)
            net.input[i]->data[k] = zn_rng_normal(&rng);
    must(zn_exec_run(e));
    *count = zn_shape_count(net.output->shape);
    float *y = malloc(sizeof(float) * (size_t)*count);
    must(y ? ZN_OK : ZN_ENOMEM);
    memcpy(y, net.output->data, sizeof(float) * (size_t)*count);
    zn_exec_free(e);
    zn_graph_free(net.graph);
    return y;
}

/* Convolutions that normalise what they read, which only Hopper GPUs have: in bf16 beside full precision on the same
 * device, at sizes whose maps are shared by blocks and at sizes whose maps are not, and the same bits twice. */
static void check_large_unets(zn_device *d)
{
    static const struct {
        const char *model;
        int batch, side;
    } cases[] = { { "diffae-celeba64", 1, 64 }, { "diffae-celeba64", 16, 64 } };
    zn_pool *pool;
    must(zn_pool_new(4, &pool));
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases) && zn_device_flags(d) & ZN_CPU_HOPPER; i++) {
        zn_model *m;
        int64_t count;
        char name[96];
        must(zn_model_random(cases[i].model, 1, &m));
        stir(m, 0.002f);
        float *want = run_unet(m, pool, d, ZN_PRECISION_F32, cases[i].batch, cases[i].side, &count);
        float *got = run_unet(m, pool, d, ZN_PRECISION_BF16, cases[i].batch, cases[i].side, &count);
        float *again = run_unet(m, pool, d, ZN_PRECISION_BF16, cases[i].batch, cases[i].side, &count);
        snprintf(name, sizeof name, "%s, U-Net in bf16, batch %d", cases[i].model, cases[i].batch);
        expect(name, difference(got, want, count), 5e-2);
        snprintf(name, sizeof name, "%s, again", cases[i].model);
        expect(name, difference(again, got, count), 0);
        free(want);
        free(got);
        free(again);
        zn_model_free(m);
    }
    zn_pool_free(pool);
}

static void check_unet(zn_device *d)
{
    enum { BATCH = 2, SIDE = 16 };
    static const zn_precision math[] = { ZN_PRECISION_F32, ZN_PRECISION_BF16 };
    zn_model *m;
    zn_pool *pool;
    int64_t count;
    must(zn_pool_new(2, &pool));
    must(zn_model_random("diffae-compact", 1, &m));
    stir(m, 0.002f);
    float *want = run_unet(m, pool, NULL, ZN_PRECISION_F32, BATCH, SIDE, &count);
    for (int i = 0; i < 2; i++) {
        float *got = run_unet(m, pool, d, math[i], BATCH, SIDE, &count);
        expect(i ? "diffae-compact, U-Net in bf16" : "diffae-compact, U-Net", difference(got, want, count),
               i ? 3e-2 : 2e-5);
        free(got);
    }
    free(want);
    zn_model_free(m);
    zn_pool_free(pool);
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "taesd", "taef2", "taesana", "zenith-r" };
    zn_device *device;
    if (zn_device_open("cuda", &device) != ZN_OK) {
        printf("%s\n", zn_error_text());
        return 77;
    }
    char text[64];
    double gflops, bandwidth;
    zn_device_describe(device, text, sizeof text, &gflops, &bandwidth);
    check_group(device);
    if (argc < 2 || !strcmp(argv[1], "diffae-compact")) {
        check_unet(device);
        check_large_unets(device);
    }
    zn_device_close(device);
    const bool emulated = strstr(text, "emulated");
    if (emulated)
        width = 72, height = 16, tile = 64, rounds = 2;
    zn_image *image = picture();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (argc < 2 || !strcmp(argv[1], names[i]))
            check(names[i], image);
    check_overflow(image);
    if (emulated)
        width = 16;
    zn_image *shared = picture();
    check_shared(shared);
    check_budget(shared);
    zn_image_free(shared);
    zn_image_free(image);
    printf("%d comparisons, %d failures\n", compared, failures);
    return failures || !compared;
}
