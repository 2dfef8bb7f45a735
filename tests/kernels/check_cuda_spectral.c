/* CUDA: the parts of Lite-R blocks whose maps are of 16 bits; check_cuda_simd.c has those of fp32. */
#include "cuda_case.h"

#include "kernels/gates.h"
#include "kernels/lite_head.h"

#include <stdio.h>
#include <string.h>

typedef struct maps {
    float *x, *narrow; /* the same numbers in fp32 and in 16 bits */
    float *y, *want;
    int64_t count; /* results */
    zn_type type;
} maps;

static maps maps_new(zn_rng *rng, int64_t inputs, int64_t results, zn_type type)
{
    maps m = { .x = cuda_shared_normal(rng, inputs, 1), .count = results, .type = type };
    m.narrow = cuda_map_new(m.x, inputs, type);
    m.y = cuda_result_new((results + 1) / 2);
    m.want = fenced_new(results, false);
    return m;
}

/* Frees the maps. */
static void compare(const char *name, maps *m)
{
    float *got = cuda_map_fetch(m->y, m->count, m->type);
    cuda_compare(name, got, m->want, m->count, m->type == ZN_TYPE_BF16 ? 6e-3 : 8e-4);
    cuda_result_free(got);
    cuda_shared_free(m->x);
    cuda_shared_free(m->narrow);
    cuda_result_free(m->y);
    fenced_free(m->want);
}

static void check_head(int n, int h, int wide, int c, zn_type type)
{
    zn_rng rng = zn_rng_new(61);
    char name[96];
    const int64_t pixels = (int64_t)n * h * wide;
    maps m = maps_new(&rng, pixels * c, pixels * c / 2, type);
    float *gain = cuda_shared_normal(&rng, c, 1), *taps = cuda_shared_normal(&rng, 9 * c, 1);
    float *w = cuda_shared_normal(&rng, (int64_t)c * c / 8, 1), *b = cuda_shared_normal(&rng, c / 2, 1);
    zn_lite_head_args a = { .x = m.x,
                            .gain = gain,
                            .taps = taps,
                            .w = w,
                            .b = b,
                            .y = m.want,
                            .eps = 1e-6f,
                            .n = n,
                            .h = h,
                            .wide = wide,
                            .c = c,
                            .co = c / 2,
                            .groups = 4 };
    cuda_reference(zn_k_lite_head, (int64_t)n * h, &a, zn_lite_head_scratch(&a));
    a.x = m.narrow;
    a.y = m.y;
    a.type = type;
    cuda_start(zn_k_lite_head, (int64_t)n * h, &a);
    snprintf(name, sizeof name, "lite_head of %dx%dx%dx%d in 16 bits", n, h, wide, c);
    compare(name, &m);
    float *const all[] = { gain, taps, w, b };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
}

static void check_square(int n, int h, int wide, int c, int offset, zn_type type)
{
    zn_rng rng = zn_rng_new(62);
    char name[96];
    const int64_t count = (int64_t)n * h * wide * c;
    maps m = maps_new(&rng, count, count, type);
    float *all[4];
    for (int i = 0; i < 4; i++)
        all[i] = cuda_shared_normal(&rng, (int64_t)32 * c, i < 2 ? 1 : 0.2f);
    zn_tile_square_args a = { .x = m.x,
                              .gate = { all[0], all[1] },
                              .th = { all[2], all[3] },
                              .y = m.want,
                              .n = n,
                              .h = h,
                              .wide = wide,
                              .channels = c,
                              .p = 32,
                              .offset = offset };
    const int64_t units = zn_tile_square_units(&a);
    cuda_reference(zn_k_tile_square, units, &a, zn_tile_square_scratch(&a));
    a.x = m.narrow;
    a.y = m.y;
    a.type = type;
    cuda_start(zn_k_tile_square, units, &a);
    snprintf(name, sizeof name, "tile_square of %dx%dx%dx%d from %d in 16 bits", n, h, wide, c, offset);
    compare(name, &m);
    for (int i = 0; i < 4; i++)
        cuda_shared_free(all[i]);
}

void cuda_check_spectral(void)
{
    if (strstr("lite_head", cuda_filter)) {
        check_head(1, 17, 35, 32, ZN_TYPE_BF16);
        check_head(2, 9, 16, 64, ZN_TYPE_F16);
        check_head(1, 8, 17, 64, ZN_TYPE_BF16);
        check_head(1, 11, 7, 128, ZN_TYPE_BF16);
        check_head(2, 5, 9, 256, ZN_TYPE_BF16);
        check_head(1, 1, 1, 256, ZN_TYPE_F16);
    }
    if (strstr("tile_square", cuda_filter)) {
        check_square(1, 32, 32, 8, 0, ZN_TYPE_BF16);
        check_square(2, 40, 37, 16, 16, ZN_TYPE_BF16);
        check_square(1, 5, 70, 24, 16, ZN_TYPE_F16);
    }
    if (cuda_is_emulated)
        return;
    if (strstr("lite_head", cuda_filter)) {
        check_head(1, 131, 250, 32, ZN_TYPE_F16);
        check_head(2, 128, 77, 128, ZN_TYPE_BF16);
        check_head(1, 64, 64, 256, ZN_TYPE_BF16);
    }
    if (strstr("tile_square", cuda_filter)) { /* thread blocks of 8 channels, then of 16 */
        check_square(1, 64, 64, 128, 16, ZN_TYPE_BF16);
        check_square(1, 250, 261, 64, 16, ZN_TYPE_BF16);
        check_square(2, 512, 256, 16, 0, ZN_TYPE_F16);
    }
}
