/* Clips on the device against the same clips on the CPU: small networks of Wan's and TAEHV's kinds, encoded and decoded
 * piece by piece, twice, since the second clip takes up what the first has left there: it sends its frames to the
 * device and nothing else, neither weights nor what layers keep. No step may run on the CPU. Exit status 77 where there
 * is no device. check-device-clips [NAME]: only one of them; "large": only the large pictures, "budget": only budgets.
 */
#include "../must.h"
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/rng.h"
#include "graph/context.h"
#include "models/model.h"
#include "models/taehv/taehv.h"
#include "models/wan/wan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zenith/video.h>

enum { PICTURES = 9, WIDTH = 32, HEIGHT = 16 };

static int compared, failures;

static void expect(const char *what, double error, double allowed)
{
    const bool good = error <= allowed;
    printf("%-48s differs by %.2e of %.0e%s\n", what, error, allowed, good ? "" : "  FAIL");
    failures += !good;
    compared++;
}

static zn_model *with_random_weights(const zn_arch *arch, const zn_config *k)
{
    zn_model *m;
    must(zn_model_new(arch, k, &m));
    must(zn_model_random_part(m, ZN_ENCODER, 1));
    must(zn_model_random_part(m, ZN_DECODER, 2));
    return m;
}

/* Like Wan 2.1, or in stages like Wan 2.2, with few channels. Kernels of a device read 16 bits from 16 channels on. */
static zn_model *small_wan(const char *name, int width)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find(name, &known);
    zn_config k = *known;
    zn_wan_form *form = zn_form_own(&k, sizeof *form);
    form->width = form->back_width = width;
    form->blocks = 1;
    form->latent = k.latent = 4; /* so that some maps have less than 64 bytes */
    for (int i = 0; i < 4; i++)
        form->mult[i] = i ? 2 : 1;
    for (int i = 0; i < form->latent; i++)
        form->deviation[i] = 1;
    return with_random_weights(arch, &k);
}

static zn_model *small_taehv(void)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find("taew2_1", &known);
    zn_config k = *known;
    *(zn_taehv_form *)zn_form_own(&k, sizeof(zn_taehv_form)) =
        (zn_taehv_form){ .patch = 1, .latent = 5, .width = 8, .back_width = { 12, 8, 6, 4 } };
    k.latent = 5;
    return with_random_weights(arch, &k);
}

static zn_image *picture(int number)
{
    zn_image *image;
    zn_rng rng = zn_rng_new((uint64_t)number);
    must(zn_image_new(WIDTH, HEIGHT, 8, &image));
    for (int i = 0; i < 3 * WIDTH * HEIGHT; i++)
        ((uint8_t *)image->pixels)[i] = (uint8_t)(zn_rng_next(&rng) >> 56);
    return image;
}

/* Values of a clip one after the other. */
typedef struct values {
    float *data;
    size_t count, capacity;
} values;

static void append(values *v, const float *from, size_t count)
{
    if (!ZN_GROW(v->data, v->capacity, v->count + count))
        must(ZN_ENOMEM);
    memcpy(v->data + v->count, from, sizeof *from * count);
    v->count += count;
}

static double difference(const values *a, const values *b)
{
    double off = 0, all = 0;
    for (size_t i = 0; i < a->count; i++) {
        off += (double)(a->data[i] - b->data[i]) * (double)(a->data[i] - b->data[i]);
        all += (double)b->data[i] * (double)b->data[i];
    }
    return a->count == b->count && all > 0 ? sqrt(off / all) : INFINITY;
}

static zn_latent *encode(zn_video *v, values *out)
{
    zn_latent *clip = NULL;
    for (int i = 0; i < PICTURES; i++) {
        zn_image *image = picture(i);
        must(zn_video_encode(v, image, &clip));
        zn_image_free(image);
    }
    must(zn_video_encode_end(v, &clip));
    append(out, clip->data, (size_t)clip->width * (size_t)clip->height * (size_t)clip->channels * (size_t)clip->frames);
    return clip;
}

static zn_status take(void *user, const zn_image *image)
{
    for (int i = 0; i < 3 * image->width * image->height; i++)
        append(user, &(float){ ((const uint16_t *)image->pixels)[i] }, 1);
    return ZN_OK;
}

static void decode(zn_video *v, const zn_latent *clip, values *out)
{
    must(zn_video_decode(v, clip, 16, take, out));
    zn_video_decode_end(v);
}

static void check_places(zn_video *v, zn_part part)
{
    const char *plan = zn_video_plan(v, part);
    compared++;
    if (!*plan || strstr(plan, "on the CPU")) {
        printf("%s  FAIL\n", plan);
        failures++;
    }
}

/* What layers keep between pieces, in MiB, as plans tell it. */
static double kept(zn_video *v, zn_part part)
{
    const char *plan = strstr(zn_video_plan(v, part), "of weights, ");
    double mib = 0;
    if (!plan || sscanf(plan, "of weights, %lf MiB kept", &mib) != 1)
        must(ZN_EFORMAT);
    return mib;
}

/* Later pieces keep 16 bits as the first one does, but for maps of few channels. Plans tell tenths of a MiB, which is
 * too coarse for the small maps of Wan 2.2. */
static void check_kept(zn_video *narrow, zn_video *wide)
{
    for (zn_part part = ZN_ENCODER; part <= ZN_DECODER; part++)
        expect("  kept in bf16, of the bytes in f32", kept(narrow, part) / kept(wide, part), 0.7);
}

/* What a clip has to send: whole pieces. */
static size_t frame_bytes(const zn_config *k, const zn_latent *clip)
{
    const size_t pictures = (size_t)(k->first_frames + (clip->frames - 1) * k->frames);
    const size_t count = (size_t)clip->width * (size_t)clip->height * (size_t)clip->channels * (size_t)clip->frames;
    return sizeof(float) * (3 * pictures * WIDTH * HEIGHT + count);
}

static void check(const char *name, int width, zn_precision precision, double allowed)
{
    zn_model *m = strstr(name, "tae") ? small_taehv() : small_wan(name, width);
    zn_context *context;
    zn_device *device;
    zn_video *video[2];
    values latents[3] = { 0 }, pictures[3] = { 0 };
    zn_latent *first = NULL;
    size_t sent = 0;
    char what[96];
    must(zn_context_new(1, &context));
    must(zn_context_device(context, "cuda", &device));
    must(zn_video_new(m, &(zn_options){ .context = context, .size = sizeof(zn_options) }, &video[0]));
    must(zn_video_new(
        m, &(zn_options){ .context = context, .device = "cuda", .precision = precision, .size = sizeof(zn_options) },
        &video[1]));
    for (int i = 0; i < 3; i++) {
        sent = zn_device_sent(device);
        zn_latent *clip = encode(video[i > 0], &latents[i]);
        decode(video[i > 0], first ? first : clip, &pictures[i]);
        if (first)
            zn_latent_free(clip);
        else
            first = clip;
    }
    sent = zn_device_sent(device) - sent;
    snprintf(what, sizeof what, "%s, latents in %s, width %d", name, zn_precision_name(precision), width);
    expect(what, difference(&latents[1], &latents[0]), allowed);
    expect("  the same clip again", difference(&latents[2], &latents[1]), 0);
    expect("  pictures", difference(&pictures[1], &pictures[0]), allowed);
    expect("  the same pictures again", difference(&pictures[2], &pictures[1]), 0);
    expect("  bytes sent beside the frames", fabs((double)sent - (double)frame_bytes(&m->config, first)), 0);
    check_places(video[1], ZN_ENCODER);
    check_places(video[1], ZN_DECODER);
    if (precision == ZN_PRECISION_BF16 && width >= 16 && strcmp(name, "wan21-vae") == 0)
        check_kept(video[1], video[0]);
    for (int i = 0; i < 3; i++) {
        zn_free(latents[i].data);
        zn_free(pictures[i].data);
    }
    zn_latent_free(first);
    zn_video_free(video[0]);
    zn_video_free(video[1]);
    zn_context_free(context);
    zn_model_free(m);
}

/* Both parts within one budget, from too little to enough: what is on the device keeps to it, with the same bits. */
static void check_budget(void)
{
    enum { BUDGETS = 6, LEAST = 1 << 20 };
    zn_model *m = small_wan("wan21-vae", 8);
    values latents[2] = { 0 }, pictures[2] = { 0 };
    int refused = 0, works = 0;
    for (int i = BUDGETS; i >= 0; i--) { /* the first one is without a budget */
        zn_context *context;
        zn_device *device;
        zn_video *v;
        zn_latent *clip = NULL;
        must(zn_context_new(1, &context));
        must(zn_context_device(context, "cuda", &device));
        const size_t memory = i < BUDGETS ? zn_device_overhead(device) + ((size_t)LEAST << i) : 0;
        must(zn_video_new(
            m, &(zn_options){ .context = context, .device = "cuda", .memory = memory, .size = sizeof(zn_options) },
            &v));
        zn_video_use_both(v);
        zn_image *image = picture(0);
        const bool good = zn_video_encode(v, image, &clip) == ZN_OK;
        zn_image_free(image);
        zn_latent_free(clip);
        zn_video_free(v);
        refused += !good;
        if (good) {
            must(zn_video_new(
                m, &(zn_options){ .context = context, .device = "cuda", .memory = memory, .size = sizeof(zn_options) },
                &v));
            zn_video_use_both(v);
            const int which = i < BUDGETS;
            latents[1].count = pictures[1].count = 0;
            clip = encode(v, &latents[which]);
            decode(v, clip, &pictures[which]);
            zn_latent_free(clip);
            zn_video_free(v);
            works += which;
        }
        if (good && i < BUDGETS) {
            printf("budget of %zu bytes: %zu\n", (size_t)LEAST << i, zn_device_most(device));
            expect("  the same within a budget", difference(&pictures[1], &pictures[0]), 0);
            expect("  which is kept", zn_device_most(device) > (size_t)LEAST << i, 0);
        }
        zn_context_free(context);
    }
    expect("small budgets are refused, others work", !refused || !works, 0);
    for (int i = 0; i < 2; i++) {
        zn_free(latents[i].data);
        zn_free(pictures[i].data);
    }
    zn_model_free(m);
}

/* Maps that are large enough for convolutions over frames in one launch, which only Hopper GPUs have: on the device,
 * against f32 there. Also prints how far FP8 is from bf16. */
static void check_large(void)
{
    enum { WIDE = 64, HIGH = 40, FRAMES = 3, LATENT = 4 };
    static const zn_precision precisions[] = { ZN_PRECISION_F32, ZN_PRECISION_BF16, ZN_PRECISION_FP8 };
    static float data[WIDE * HIGH * FRAMES * LATENT];
    zn_rng rng = zn_rng_new(5);
    zn_model *m = small_wan("wan21-vae", 48);
    zn_latent z = { .width = WIDE, .height = HIGH, .channels = LATENT, .frames = FRAMES, .downscale = 8, .data = data };
    values pictures[3] = { 0 };
    for (int i = 0; i < WIDE * HIGH * FRAMES * LATENT; i++)
        data[i] = zn_rng_normal(&rng);
    for (int i = 0; i < 3; i++) {
        zn_video *video;
        values again = { 0 };
        must(zn_video_new(m, &(zn_options){ .device = "cuda", .precision = precisions[i], .size = sizeof(zn_options) },
                          &video));
        decode(video, &z, &pictures[i]);
        decode(video, &z, &again);
        expect("large pictures, twice", difference(&again, &pictures[i]), 0);
        check_places(video, ZN_DECODER);
        zn_free(again.data);
        zn_video_free(video);
    }
    expect("large pictures in bf16", difference(&pictures[1], &pictures[0]), 5e-2);
    expect("  in fp8", difference(&pictures[2], &pictures[0]), 0.2);
    printf("fp8 against bf16: %.1f dB\n", -20 * log10(difference(&pictures[2], &pictures[1])));
    for (int i = 0; i < 3; i++)
        zn_free(pictures[i].data);
    zn_model_free(m);
}

int main(int argc, char **argv)
{
    zn_device *device;
    if (zn_device_open("cuda", &device) != ZN_OK) {
        printf("%s\n", zn_error_text());
        return 77;
    }
    const bool hopper = zn_device_flags(device) & ZN_CPU_HOPPER;
    zn_device_close(device);
    if (hopper && (argc < 2 || strcmp(argv[1], "large") == 0))
        check_large();
    static const char *const names[] = { "wan21-vae", "wan22-vae", "taew2_1" };
    for (int i = 0; i < 3; i++) {
        if (argc > 1 && strcmp(argv[1], names[i]))
            continue;
        check(names[i], 8, ZN_PRECISION_F32, 2e-4);
        check(names[i], 8, ZN_PRECISION_BF16, 5e-2);
        if (!strstr(names[i], "tae"))
            check(names[i], 16, ZN_PRECISION_BF16, 5e-2);
    }
    if (argc < 2 || strcmp(argv[1], "budget") == 0)
        check_budget();
    printf("%d comparisons, %d failures\n", compared, failures);
    return failures || !compared;
}
