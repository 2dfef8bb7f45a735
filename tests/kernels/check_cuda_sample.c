/* CUDA: values per sample (modulation, sums, broadcasts), dropout, and frames of videos. */
#include "cuda_case.h"

#include "kernels/dropout.h"
#include "kernels/frames.h"
#include "kernels/sample.h"

#include <math.h>
#include <string.h>

static const int sizes[][3] = { /* samples, pixels, channels */
                                { 1, 1, 1 },
                                { 3, 50, 7 },
                                { 2, 33, 64 },
                                { 2, 100, 100 }
};

static bool is_meant(const char *name) { return strstr(name, cuda_filter) != NULL; }

static void check_sample(const int *z)
{
    zn_rng rng = zn_rng_new(31);
    const int64_t table = (int64_t)z[0] * z[2], map = table * z[1], pixels = (int64_t)z[0] * z[1];
    float *x = cuda_shared_normal(&rng, map, 1), *other = cuda_shared_normal(&rng, map, 1);
    float *scale = cuda_shared_normal(&rng, table, 1), *shift = cuda_shared_normal(&rng, table, 1);
    zn_sample_args a = { .x = x, .scale = scale, .pixels = z[1], .c = z[2], .factor = 0.3f };
    for (int with = 0; with < 2; with++) {
        a.shift = with ? shift : NULL;
        a.other = with ? other : NULL;
        a.x = x;
        if (is_meant("modulate"))
            cuda_check("modulate", zn_k_modulate, pixels, &a, &a.y, NULL, map, 1e-6);
        if (is_meant("sample_sum"))
            cuda_check("sample_sum", zn_k_sample_sum, z[0] * zn_sample_parts(a.c), &a, &a.y, NULL, table, 1e-6);
    }
    a.x = scale;
    if (is_meant("spread"))
        cuda_check("spread", zn_k_spread, pixels, &a, &a.y, NULL, map, 0);
    float *const all[] = { x, other, scale, shift };
    for (int i = 0; i < 4; i++)
        cuda_shared_free(all[i]);
}

static void check_dropout(int64_t samples, int64_t each)
{
    zn_rng rng = zn_rng_new(32);
    float *x = cuda_shared_normal(&rng, samples * each, 1), *seeds = cuda_shared_normal(&rng, samples, 1e6f);
    for (int64_t i = 0; i < samples; i++)
        seeds[i] = floorf(fabsf(seeds[i]));
    zn_device_send(cuda_device, seeds, sizeof(float) * (size_t)samples);
    zn_dropout_args a = { .x = x, .seeds = seeds, .each = each, .place = 5, .share = 0.3f };
    cuda_check("dropout", zn_k_dropout, samples * each, &a, &a.y, NULL, samples * each, 0);
    cuda_shared_free(x);
    cuda_shared_free(seeds);
}

/* Frames of two sources: zeros, repeated ones, and more of them than one launch takes. */
static void check_frames(int64_t size, int frames)
{
    enum { FIRST = 2, COUNT = 3 };
    static int32_t from[600];
    zn_rng rng = zn_rng_new(33);
    for (int t = 0; t < frames; t++)
        from[t] = (t * 7 + 1) % (FIRST + COUNT + 2) - 1;
    float *x = cuda_shared_normal(&rng, COUNT * size, 1), *start = cuda_shared_normal(&rng, frames * size, 1);
    zn_frames_args a = {
        .x = x, .from = from, .frames = frames, .first = FIRST, .count = COUNT, .size = size, .clear = true
    };
    if (is_meant("frames"))
        cuda_check("frames", zn_k_frames, frames * zn_frame_pieces(size), &a, &a.y, start, frames * size, 0);
    a.x = start;
    if (is_meant("frames_grad"))
        cuda_check("frames_grad", zn_k_frames_grad, COUNT * zn_frame_pieces(size), &a, &a.y, NULL, COUNT * size, 1e-6);
    cuda_shared_free(x);
    cuda_shared_free(start);
}

/* Runs of frames that follow each other: zeros, frames of another source, of this one, and of a third. */
static void check_frame_runs(int64_t size)
{
    enum { FIRST = 12, COUNT = 600, FRAMES = 700 };
    static int32_t from[FRAMES];
    zn_rng rng = zn_rng_new(35);
    for (int t = 0; t < FRAMES; t++)
        from[t] = t < 20 ? -1 : t - 10;
    float *x = cuda_shared_normal(&rng, COUNT * size, 1), *start = cuda_shared_normal(&rng, FRAMES * size, 1);
    zn_frames_args a = { .x = x, .from = from, .frames = FRAMES, .first = FIRST, .count = COUNT, .size = size };
    for (int clear = 0; clear < 2 && is_meant("frames"); clear++) {
        a.clear = clear;
        cuda_check("frames in runs", zn_k_frames, FRAMES * zn_frame_pieces(size), &a, &a.y, start, FRAMES * size, 0);
    }
    cuda_shared_free(x);
    cuda_shared_free(start);
}

/* Without frames before the first, and with them. */
static void check_stack(int c, zn_type type)
{
    enum { FRAMES = 4, DEPTH = 3, PIXELS = 35, RESULTS = FRAMES * PIXELS * ZN_STACKED };
    zn_rng rng = zn_rng_new(34);
    float *x = cuda_shared_normal(&rng, FRAMES * PIXELS * c, 1);
    float *before = cuda_shared_normal(&rng, (DEPTH - 1) * PIXELS * c, 1);
    zn_stack_args a = { .x = x, .frames = FRAMES, .depth = DEPTH, .c = c, .pixels = PIXELS, .type = type };
    for (int with = 0; with < 2; with++) {
        a.before = with ? before : NULL;
        cuda_check("stack_frames", zn_k_stack_frames, FRAMES * PIXELS, &a, &a.y, NULL, RESULTS / 2, 0);
    }
    cuda_shared_free(x);
    cuda_shared_free(before);
}

void cuda_check_samples(void)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_sample(sizes[i]);
    if (is_meant("dropout")) {
        check_dropout(3, 77);
        check_dropout(2, 4000);
    }
    check_frames(20, 600);
    check_frames(ZN_FRAME_PIECE + 3, 4);
    check_frame_runs(16);
    check_frame_runs(7);
    if (is_meant("stack_frames")) {
        check_stack(3, ZN_TYPE_BF16);
        check_stack(2, ZN_TYPE_F16);
    }
}
