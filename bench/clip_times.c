/* Time and memory of a video autoencoder: a clip of random pixels, or of random latents, through one part of a model.
 * Prints a JSON object: wall and CPU seconds of each run, frames, peak memory in MiB, and the plan. The first run, of
 * at most five frames, is not timed: it packs weights.
 *
 *     clip-times MODEL encode|decode WxH FRAMES [PRECISION [THREADS [RUNS [MIB [DEVICE]]]]]
 *
 * MODEL: a name, or random:ARCHITECTURE. MIB: budget of memory; 0: none. RUNS 0: nothing is timed, so that only the
 * first run takes memory. On a device the times include the copies of images and latents. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <zenith/zenith.h>

enum { WARM = 5 };

typedef struct job {
    zn_video *video;
    zn_image *image;   /* to encode */
    zn_latent *latent; /* to decode, one frame at a time */
    int decode, each;  /* each: images of a latent frame */
    int made;
} job;

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int fail(const char *what)
{
    fprintf(stderr, "clip-times: %s: %s\n", what, zn_error_text());
    return 1;
}

static zn_status count(void *user, const zn_image *picture)
{
    (void)picture;
    ++*(int *)user;
    return ZN_OK;
}

static zn_status encode(job *j, int frames)
{
    zn_latent *clip = NULL;
    zn_status status = ZN_OK;
    for (int i = 0; i < frames && status == ZN_OK; i++)
        status = zn_video_encode(j->video, j->image, &clip);
    if (status == ZN_OK)
        status = zn_video_encode_end(j->video, &clip);
    zn_latent_free(clip);
    j->made = frames;
    return status;
}

static zn_status decode(job *j, int frames)
{
    zn_status status = ZN_OK;
    j->made = 0;
    for (int i = 0; i < frames && status == ZN_OK; i += i ? j->each : 1)
        status = zn_video_decode(j->video, j->latent, 8, count, &j->made);
    zn_video_decode_end(j->video);
    return status;
}

static uint32_t next(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

static zn_status make_input(job *j, const zn_model_info *info, int width, int height)
{
    uint32_t state = 1;
    if (!j->decode) {
        const zn_status status = zn_image_new(width, height, 8, &j->image);
        for (int64_t i = 0; status == ZN_OK && i < (int64_t)3 * width * height; i++)
            ((uint8_t *)j->image->pixels)[i] = (uint8_t)(next(&state) >> 24);
        return status;
    }
    zn_latent z = { .width = width / info->downscale,
                    .height = height / info->downscale,
                    .channels = info->latent_channels,
                    .downscale = info->downscale };
    const size_t values = (size_t)z.width * (size_t)z.height * (size_t)z.channels;
    z.data = malloc(sizeof *z.data * values);
    if (!z.data)
        return ZN_ENOMEM;
    for (size_t i = 0; i < values; i++)
        z.data[i] = (float)((int32_t)next(&state) * 0x1p-31);
    const zn_status status = zn_latent_append(&j->latent, &z);
    free(z.data);
    return status;
}

static zn_status open_model(const char *name, const char *device, zn_model **out)
{
    if (!strncmp(name, "random:", 7))
        return zn_model_random(name + 7, 1, out);
    return !device || !strcmp(device, "cpu") ? zn_model_find_released(name, out) : zn_model_find(name, out);
}

static zn_status run_all(job *j, int frames, int runs)
{
    zn_status status = (j->decode ? decode : encode)(j, frames < WARM ? frames : WARM);
    printf("{\"runs\": [");
    for (int i = 0; i < runs && status == ZN_OK; i++) {
        const double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        status = (j->decode ? decode : encode)(j, frames);
        printf("%s{\"wall\": %.4f, \"cpu\": %.4f}", i ? ", " : "", seconds(CLOCK_MONOTONIC) - wall,
               seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
        fflush(stdout); /* what was measured counts even if the rest takes too long */
    }
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    printf("], \"frames\": %d, \"peak_mib\": %ld, \"plan\": \"%s\"}\n", j->made, use.ru_maxrss / 1024,
           zn_video_plan(j->video, j->decode ? ZN_DECODER : ZN_ENCODER));
    return status;
}

int main(int count_of, char **arguments)
{
    int width = 0, height = 0;
    if (count_of < 5 || sscanf(arguments[3], "%dx%d", &width, &height) != 2 || width < 16 || height < 16 ||
        atoi(arguments[4]) < 1) {
        fprintf(stderr, "usage: clip-times MODEL encode|decode WxH FRAMES [f32|bf16|f16 [THREADS [RUNS [MIB "
                        "[DEVICE]]]]]\n");
        return 2;
    }
    const char *precision = count_of > 5 ? arguments[5] : "f32";
    const zn_options options = { .size = sizeof options,
                                 .precision = !strcmp(precision, "bf16")  ? ZN_PRECISION_BF16
                                              : !strcmp(precision, "fp8") ? ZN_PRECISION_FP8
                                              : !strcmp(precision, "f16") ? ZN_PRECISION_F16
                                                                          : ZN_PRECISION_F32,
                                 .threads = count_of > 6 ? atoi(arguments[6]) : 0,
                                 .memory = count_of > 8 ? (size_t)atoll(arguments[8]) << 20 : 0,
                                 .device = count_of > 9 ? arguments[9] : NULL };
    zn_model *model = NULL;
    job j = { .decode = !strcmp(arguments[2], "decode") };
    if (open_model(arguments[1], options.device, &model) != ZN_OK)
        return fail(arguments[1]);
    const zn_model_info *info = zn_model_info_of(model);
    j.each = info->clip_frames;
    if (zn_video_new(model, &options, &j.video) != ZN_OK || make_input(&j, info, width, height) != ZN_OK)
        return fail(arguments[1]);
    const int status =
        run_all(&j, atoi(arguments[4]), count_of > 7 ? atoi(arguments[7]) : 1) == ZN_OK ? 0 : fail(arguments[2]);
    zn_video_free(j.video);
    zn_image_free(j.image);
    zn_latent_free(j.latent);
    zn_model_free(model);
    return status;
}
