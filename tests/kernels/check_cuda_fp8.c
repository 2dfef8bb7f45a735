/* FP8 on a GPU against the scalar kernels: codes and scales of rows, norms that write codes, the product. */
#include "cuda_case.h"

#include "base/alloc.h"
#include "base/convert.h"
#include "kernels/fp8.h"
#include "kernels/kernels.h"
#include "kernels/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What codes stand for, as a result of the device that cuda_compare reads; cuda_result_free. */
static float *numbers_of(float *codes, float *scales, int64_t rows, int c)
{
    float *y = cuda_result_new(rows * c);
    zn_device_fetch(cuda_device, codes, (size_t)(rows * c));
    zn_device_fetch(cuda_device, scales, sizeof(float) * (size_t)rows);
    cuda_must(zn_device_wait(cuda_device));
    zn_to_f32(y, codes, ZN_F8_E4M3, (size_t)(rows * c));
    for (int64_t i = 0; i < rows * c; i++)
        y[i] *= scales[i / c];
    zn_device_send(cuda_device, y, sizeof(float) * (size_t)(rows * c));
    return y;
}

static float *room_for_codes(int64_t rows, int c) { return cuda_result_new((rows * c + 3) / 4); }

static void compare_codes(const char *name, float *codes, float *scales, const float *want, int64_t rows, int c,
                          double allowed)
{
    float *y = numbers_of(codes, scales, rows, c);
    cuda_compare(name, y, want, rows * c, allowed);
    cuda_result_free(y);
}

/* Without a gate the bits are the scalar kernel's. A row of zeros, and one of large numbers. */
static void check_quantise(int64_t rows, int c, bool gated, zn_type type)
{
    char name[64];
    zn_rng rng = zn_rng_new(51);
    snprintf(name, sizeof name, "quantise %d x %d type %d%s", (int)rows, c, (int)type, gated ? " gated" : "");
    float *x = cuda_shared_normal(&rng, rows * c, 3), *gate = cuda_shared_normal(&rng, rows * c, 2);
    for (int i = 0; i < c; i++) {
        x[i] = 0;
        x[(rows - 1) * c + i] *= 1e3f;
    }
    float *map = cuda_map_new(x, rows * c, type), *more = cuda_map_new(gate, rows * c, type);
    float *want = fenced_new(rows * c, false), *codes = room_for_codes(rows, c), *scales = cuda_result_new(rows);
    zn_quantise_args a = { .x = x, .gate = gated ? gate : NULL, .y = want, .c = c };
    zn_k_quantise(&a, (zn_range){ 0, rows, NULL });
    a.x = map, a.gate = gated ? more : NULL, a.y = codes, a.scales = scales;
    a.x_type = a.gate_type = type, a.y_type = ZN_TYPE_E4M3;
    cuda_start(zn_k_quantise, rows, &a);
    compare_codes(name, codes, scales, want, rows, c, gated ? 5e-3 : 0);
    cuda_result_free(codes);
    cuda_result_free(scales);
    fenced_free(want);
    float *const all[] = { x, gate, map, more };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
}

/* Sums are added in another order, so a few codes are the next ones. */
static void check_norm(int64_t tokens, int c, bool plus_one, zn_type type)
{
    zn_rng rng = zn_rng_new(52);
    float *x = cuda_shared_normal(&rng, tokens * c, 1), *w = cuda_shared_normal(&rng, c, 1),
          *scale = cuda_shared_normal(&rng, c, 1), *map = cuda_map_new(x, tokens * c, type);
    float *codes = room_for_codes(tokens, c), *scales = cuda_result_new(tokens), *want = fenced_new(tokens * c, false);
    uint8_t *own = zn_alloc((size_t)(tokens * c));
    float *own_scales = fenced_new(tokens, false);
    zn_gated_norm_args a = { .x = x,
                             .w = w,
                             .scale = scale,
                             .y = (float *)(void *)own,
                             .c = c,
                             .eps = 1e-5f,
                             .plus_one = plus_one,
                             .y_type = ZN_TYPE_E4M3,
                             .scales = own_scales };
    zn_k_gated_norm(&a, (zn_range){ 0, tokens, NULL });
    zn_to_f32(want, own, ZN_F8_E4M3, (size_t)(tokens * c));
    for (int64_t i = 0; i < tokens * c; i++)
        want[i] *= own_scales[i / c];
    a.x = map, a.y = codes, a.scales = scales, a.x_type = type;
    cuda_start(zn_k_gated_norm, tokens, &a);
    compare_codes("gated_norm to codes", codes, scales, want, tokens, c, 5e-3);
    cuda_result_free(codes);
    cuda_result_free(scales);
    fenced_free(want);
    fenced_free(own_scales);
    zn_free(own);
    float *const all[] = { x, w, scale, map };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
}

/* Codes of normally distributed rows on host and device, and their scales. */
static float *random_codes(zn_rng *rng, int64_t rows, int c, float **scales)
{
    float *x = fenced_new(rows * c, false), *bytes = calloc((size_t)(rows * c + 3) / 4, sizeof *bytes);
    *scales = cuda_shared_new(rows, 0);
    fill_normal(rng, x, rows * c, 1);
    const zn_quantise_args a = { .x = x, .y = bytes, .scales = *scales, .c = c, .y_type = ZN_TYPE_E4M3 };
    zn_k_quantise(&a, (zn_range){ 0, rows, NULL });
    zn_device_send(cuda_device, *scales, sizeof(float) * (size_t)rows);
    float *codes = cuda_shared_copy(bytes, (rows * c + 3) / 4);
    free(bytes);
    fenced_free(x);
    return codes;
}

static void check_product(int64_t rows, int in, int out, zn_type type)
{
    char name[64];
    zn_rng rng = zn_rng_new(53);
    snprintf(name, sizeof name, "matrix_fp8 %d rows %d->%d to type %d", (int)rows, in, out, (int)type);
    float *x_scales, *w_scales, *x = random_codes(&rng, rows, in, &x_scales),
                                *w = random_codes(&rng, out, in, &w_scales);
    float *want = fenced_new(rows * out, false), *y = cuda_result_new(rows * out);
    zn_matrix_fp8_args a = { .x = (const uint8_t *)x,
                             .w = (const uint8_t *)w,
                             .x_scales = x_scales,
                             .w_scales = w_scales,
                             .y = want,
                             .rows = rows,
                             .in = in,
                             .out = out };
    cuda_reference(zn_k_matrix_fp8, rows, &a, 0);
    float *shared = cuda_shared_new((int64_t)(zn_matrix_fp8_shared(rows, in, out) + 3) / 4, 0);
    a.y = y, a.y_type = type, a.shared = shared;
    cuda_start(zn_k_matrix_fp8, rows, &a);
    float *result = type == ZN_TYPE_F32 ? y : cuda_map_fetch(y, rows * out, type);
    /* bf16 is rounded twice where the scales come after the product; FP8 units keep 14 bits of a sum */
    cuda_compare(name, result, want, rows * out, type == ZN_TYPE_F32 ? 1e-3 : 5e-3);
    if (result != y)
        cuda_result_free(result);
    cuda_result_free(y);
    fenced_free(want);
    float *const all[] = { x, w, x_scales, w_scales, shared };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
}

void cuda_check_fp8(void)
{
    static const zn_type types[] = { ZN_TYPE_F32, ZN_TYPE_BF16, ZN_TYPE_F16 };
    if (!strstr("quantise gated_norm matrix_fp8", cuda_filter))
        return;
    for (int i = 0; i < 3; i++) {
        check_quantise(5, 3840, false, types[i]);
        check_quantise(3, 77, i % 2, types[i]);
        check_norm(5, i == 1 ? 3840 : 64, i % 2, types[i]);
        check_norm(3, 70, true, types[i]);
    }
    check_quantise(4, 10240, true, ZN_TYPE_BF16);
    check_quantise(2, 16384, true, ZN_TYPE_F32);
    check_product(5, 32, 16, ZN_TYPE_F32);
    check_product(37, 160, 96, ZN_TYPE_BF16);
    check_product(70, 64, 48, ZN_TYPE_F32);
    if (cuda_is_emulated)
        return;
    /* these are cuBLASLt's, if it is there: what is printed at the end says so */
    check_product(300, 512, 768, ZN_TYPE_BF16);
    check_product(300, 512, 768, ZN_TYPE_F32);
    check_product(160, 3840, 1024, ZN_TYPE_BF16);
    check_product(96, 10240, 512, ZN_TYPE_BF16);
}
