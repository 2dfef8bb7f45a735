/* Kernels on maps of bf16 (kernels/narrow.h): the bits of the fp32 kernel on the same numbers, rounded. */
#include "base/convert.h"
#include "base/rng.h"
#include "kernels/mix.h"
#include "kernels/narrow.h"
#include "kernels/norm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 301, MOST = 1100, COUNT = PIXELS * MOST };

static float x[COUNT], other[COUNT], y[COUNT], gains[MOST], table[3 * MOST], sums[2][2 * COUNT];
static uint16_t narrow_x[COUNT], narrow_other[COUNT], narrow_y[COUNT];
static float block[16 * MOST + 8192]; /* scratch of a thread */
static int failures, compared;

static void expect(const char *what, int c, bool good)
{
    compared++;
    failures += !good;
    if (!good)
        printf("%s with %d channels: maps of bf16 give other results\n", what, c);
}

static bool rounds_to(int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (narrow_y[i] != zn_f32_to_bf16(y[i]))
            return false;
    return true;
}

static void check_elements(void)
{
    const zn_range all = { 0, 10007, NULL };
    zn_k_silu(&(zn_unary_args){ .x = x, .y = y }, all);
    zn_k_narrow_unary(
        &(zn_narrow_unary_args){ { .x = (float *)narrow_x, .y = (float *)narrow_y, .type = ZN_TYPE_BF16 }, zn_k_silu },
        all);
    expect("SiLU", 1, rounds_to(all.end));
    zn_k_add(&(zn_binary_args){ .a = x, .b = other, .y = y }, all);
    const zn_binary_args a = { .a = (float *)narrow_x, .b = (float *)narrow_other, .y = (float *)narrow_y };
    zn_k_narrow_binary(&(zn_narrow_binary_args){ a, zn_k_add }, all);
    expect("a sum", 1, rounds_to(all.end));
}

static void check_rms_norm(int c)
{
    zn_mix_args a = { .x = x, .w = gains, .y = y, .pixels = PIXELS, .c = c, .eps = 1e-6f, .most = INFINITY };
    zn_k_rms_norm(&a, (zn_range){ 0, PIXELS, NULL });
    a.x = (float *)narrow_x;
    a.y = (float *)narrow_y;
    a.x_type = a.y_type = ZN_TYPE_BF16;
    zn_k_narrow_rms_norm(&a, (zn_range){ 0, PIXELS, NULL });
    expect("an RMS norm", c, rounds_to((int64_t)PIXELS * c));
    a.x = x; /* only the result */
    a.x_type = ZN_TYPE_F32;
    memset(narrow_y, 0, sizeof narrow_y);
    zn_k_narrow_rms_norm(&a, (zn_range){ 0, PIXELS, NULL });
    expect("an RMS norm of floats", c, rounds_to((int64_t)PIXELS * c));
}

static void check_group_norm(int c)
{
    zn_norm_args a = { .x = x, .y = y, .table = table, .partial = sums[0], .n = 1, .pixels = PIXELS, .c = c };
    a.groups = 1;
    a.act = ZN_ACT_SILU;
    const int64_t blocks = zn_norm_blocks(&a);
    zn_k_norm_sums(&a, (zn_range){ 0, blocks, NULL });
    zn_k_norm_apply(&a, (zn_range){ 0, PIXELS, NULL });
    a.x = (float *)narrow_x;
    a.y = (float *)narrow_y;
    a.partial = sums[1];
    a.x_type = a.y_type = ZN_TYPE_BF16;
    zn_k_narrow_norm_sums(&a, (zn_range){ 0, blocks, block });
    zn_k_narrow_norm_apply(&a, (zn_range){ 0, PIXELS, NULL });
    expect("sums of a norm", c, memcmp(sums[0], sums[1], sizeof(float) * (size_t)(2 * blocks * c)) == 0);
    expect("a group norm", c, rounds_to((int64_t)PIXELS * c));
}

int main(void)
{
    static const int channels[] = { 2, 5, 64, 96, 512, MOST };
    zn_rng r = zn_rng_new(3);
    for (int i = 0; i < COUNT; i++) {
        narrow_x[i] = zn_f32_to_bf16(4 * zn_rng_normal(&r));
        narrow_other[i] = zn_f32_to_bf16(zn_rng_normal(&r));
        x[i] = zn_bf16_to_f32(narrow_x[i]);
        other[i] = zn_bf16_to_f32(narrow_other[i]);
    }
    for (int i = 0; i < MOST; i++)
        gains[i] = zn_rng_normal(&r);
    for (int i = 0; i < 3 * MOST; i++)
        table[i] = zn_rng_normal(&r);
    check_elements();
    for (int i = 0; i < (int)(sizeof channels / sizeof *channels); i++) {
        check_rms_norm(channels[i]);
        check_group_norm(channels[i]);
    }
    printf("%d comparisons, %d failures\n", compared, failures);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
