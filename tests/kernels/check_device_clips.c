/* Clips on the device against the same clips on the CPU: small networks of Wan's and TAEHV's kinds, encoded and decoded
 * piece by piece, twice, since the second clip takes up what the first has left there. No step may run on the CPU. Exit
 * status 77 where there is no device. */
#include "../models/video_models.h"
#include "../must.h"

#include "base/alloc.h"

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
        zn_image *picture = small_picture(WIDTH, HEIGHT, i);
        must(zn_video_encode(v, picture, &clip));
        zn_image_free(picture);
    }
    must(zn_video_encode_end(v, &clip));
    append(out, clip->data, (size_t)clip->width * (size_t)clip->height * (size_t)clip->channels * (size_t)clip->frames);
    return clip;
}

static zn_status take(void *user, const zn_image *picture)
{
    for (int i = 0; i < 3 * picture->width * picture->height; i++)
        append(user, &(float){ ((const uint16_t *)picture->pixels)[i] }, 1);
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

static void check(int which, zn_precision precision, double allowed)
{
    zn_model *m = small_video(which);
    zn_video *video[2];
    values latents[3] = { 0 }, pictures[3] = { 0 };
    zn_latent *first = NULL;
    char what[96];
    must(zn_video_new(m, &(zn_options){ .threads = 1 }, &video[0]));
    must(zn_video_new(m, &(zn_options){ .threads = 1, .device = "cuda", .precision = precision }, &video[1]));
    for (int i = 0; i < 3; i++) {
        zn_latent *clip = encode(video[i > 0], &latents[i]);
        decode(video[i > 0], first ? first : clip, &pictures[i]);
        if (first)
            zn_latent_free(clip);
        else
            first = clip;
    }
    snprintf(what, sizeof what, "%s %d, latents in %s", zn_model_info_of(m)->name, which, zn_precision_name(precision));
    expect(what, difference(&latents[1], &latents[0]), allowed);
    expect("  the same clip again", difference(&latents[2], &latents[1]), 0);
    expect("  pictures", difference(&pictures[1], &pictures[0]), allowed);
    expect("  the same pictures again", difference(&pictures[2], &pictures[1]), 0);
    check_places(video[1], ZN_ENCODER);
    check_places(video[1], ZN_DECODER);
    for (int i = 0; i < 3; i++) {
        zn_free(latents[i].data);
        zn_free(pictures[i].data);
    }
    zn_latent_free(first);
    zn_video_free(video[0]);
    zn_video_free(video[1]);
    zn_model_free(m);
}

int main(void)
{
    zn_device *device;
    if (zn_device_open("cuda", &device) != ZN_OK) {
        printf("%s\n", zn_error_text());
        return 77;
    }
    zn_device_close(device);
    for (int which = 0; which < SMALL_VIDEOS; which++) {
        check(which, ZN_PRECISION_F32, 2e-4);
        check(which, ZN_PRECISION_BF16, 5e-2);
    }
    printf("%d comparisons, %d failures\n", compared, failures);
    return failures || !compared;
}
