/* The gradients of convolution weights, and sums, on a GPU against the scalar ones. */
#include "conv_case.h"
#include "cuda_case.h"

#include "base/convert.h"
#include "base/cpu.h"
#include "kernels/conv_grad.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void run_reference(const zn_conv_grad_args *given)
{
    const zn_conv_grad_kernel *const *ref = zn_conv_grad_kernels;
    while (ref[1])
        ref++;
    zn_conv_grad_args a = *given;
    a.shared = fenced_new((int64_t)((*ref)->shared_bytes(&a.s) / sizeof(float)), true);
    for (; a.stage < (*ref)->stages(&a.s); a.stage++)
        cuda_reference((*ref)->run, (*ref)->units(&a.s, a.stage), &a, (*ref)->scratch_bytes(&a.s));
    fenced_free(a.shared);
}

static int64_t weights_of(const zn_conv_shape *s) { return (int64_t)s->kh * s->kw * s->cin * s->cout; }

/* The gradient of the weights, and the sums of dy after it. */
static float *reference_new(zn_conv_grad_args a)
{
    float *want = fenced_new(weights_of(&a.s) + a.s.cout, false);
    a.dw = want;
    run_reference(&a);
    for (int o = 0; o < a.s.cout; o++) {
        double sum = 0;
        for (int64_t i = 0; i < (int64_t)a.s.n * a.s.oh * a.s.ow; i++)
            sum += (double)a.dy[i * a.s.cout + o];
        want[weights_of(&a.s) + o] = (float)sum;
    }
    return want;
}

static void check_kernel(const zn_conv_grad_kernel *k, const zn_conv_grad_args *given, const float *want)
{
    char name[160], text[96];
    const int64_t count = weights_of(&given->s) + (k->sums ? given->s.cout : 0);
    conv_shape_text(&given->s, text, sizeof text);
    snprintf(name, sizeof name, "%s %s", k->name, text);
    zn_conv_grad_args a = *given;
    a.sums = k->sums;
    a.dw = cuda_result_new(count);
    a.shared = cuda_shared_new((int64_t)(k->shared_bytes(&a.s) / sizeof(float)), NAN);
    a.workspace = cuda_shared_new(
        (int64_t)((k->workspace_bytes ? k->workspace_bytes(&a.s, a.x_type, a.dy_type) : 0) / sizeof(float)) + 1, NAN);
    for (; a.stage < k->stages(&a.s); a.stage++)
        cuda_start(k->run, k->units(&a.s, a.stage), &a);
    cuda_shared_free(a.workspace);
    cuda_compare(name, a.dw, want, count, (double)k->tolerance * (count < 256 ? 4 : 1));
    cuda_result_free(a.dw);
    cuda_shared_free(a.shared);
}

/* A copy on the device as bf16; x is rounded in place. */
static float *shared_bf16(float *x, int64_t count)
{
    float *narrow = cuda_shared_new((count + 1) / 2, 0);
    for (int64_t i = 0; i < count; i++) {
        const uint16_t bits = zn_f32_to_bf16(x[i]);
        memcpy((char *)narrow + 2 * i, &bits, sizeof bits);
        x[i] = zn_bf16_to_f32(bits);
    }
    zn_device_send(cuda_device, narrow, sizeof(uint16_t) * (size_t)count);
    cuda_must(zn_device_wait(cuda_device));
    return narrow;
}

/* Maps of 16 bits. */
static void check_narrow(zn_conv_shape s, uint64_t seed)
{
    const zn_conv_grad_kernel *k = zn_conv_grad_choose(&s, ZN_PRECISION_BF16, zn_device_flags(cuda_device));
    const int64_t x_count = (int64_t)s.n * s.h * s.w * s.cin, dy_count = (int64_t)s.n * s.oh * s.ow * s.cout;
    zn_rng rng = zn_rng_new(seed);
    float *x = cuda_shared_normal(&rng, x_count, 1), *dy = cuda_shared_normal(&rng, dy_count, 1);
    float *x_narrow = shared_bf16(x, x_count), *dy_narrow = shared_bf16(dy, dy_count);
    zn_conv_grad_args a = { .s = s, .x = x, .dy = dy };
    float *want = reference_new(a);
    a.x = x_narrow, a.x_type = ZN_TYPE_BF16;
    a.dy = dy_narrow, a.dy_type = ZN_TYPE_BF16;
    if (k->narrow && strstr(k->name, cuda_filter))
        check_kernel(k, &a, want);
    float *const all[] = { x, dy, x_narrow, dy_narrow };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    fenced_free(want);
}

static void check_shape(zn_conv_shape s, uint64_t seed)
{
    zn_rng rng = zn_rng_new(seed);
    float *x = cuda_shared_normal(&rng, (int64_t)s.n * s.h * s.w * s.cin, 1);
    float *dy = cuda_shared_normal(&rng, (int64_t)s.n * s.oh * s.ow * s.cout, 1);
    const zn_conv_grad_args a = { .s = s, .x = x, .dy = dy };
    float *want = reference_new(a);
    for (const zn_conv_grad_kernel *const *k = zn_conv_grad_kernels; *k; k++)
        if (cuda_runs((*k)->cpu) && (*k)->supports(&s) && strstr((*k)->name, cuda_filter) &&
            (*k)->run != k[1]->run) /* once if it serves two types */
            check_kernel(*k, &a, want);
    cuda_shared_free(x);
    cuda_shared_free(dy);
    fenced_free(want);
}

static void check_sums(int64_t rows, int c)
{
    const int64_t blocks = (rows + ZN_SUM_ROWS - 1) / ZN_SUM_ROWS;
    zn_rng rng = zn_rng_new(30);
    float *x = cuda_shared_normal(&rng, rows * c, 1), *partial = cuda_result_new(blocks * c), *y = cuda_result_new(c);
    float *want = fenced_new(blocks * c, false), *sum = fenced_new(c, false);
    zn_reduce_args a = { .x = x, .y = want, .rows = rows, .c = c };
    zn_k_channel_sum(&a, (zn_range){ 0, blocks, NULL });
    a.y = partial;
    cuda_start(zn_k_channel_sum, blocks, &a);
    cuda_compare("channel_sum", partial, want, blocks * c, 1e-6);
    a = (zn_reduce_args){ .x = partial, .y = sum, .rows = c, .c = (int)blocks };
    zn_k_sum_partials(&a, (zn_range){ 0, c, NULL });
    a.y = y;
    cuda_start(zn_k_sum_partials, c, &a);
    cuda_compare("sum_partials", y, sum, c, 1e-6);
    cuda_shared_free(x);
    cuda_result_free(partial);
    cuda_result_free(y);
    fenced_free(want);
    fenced_free(sum);
}

void cuda_check_conv_grads(void)
{
    static const struct {
        int n, h, w, cin, cout, kernel, stride, pad;
    } few[] = {
        { 1, 1, 1, 4, 4, 3, 1, 1 },     { 1, 9, 17, 3, 64, 3, 1, 1 },
        { 2, 5, 19, 64, 64, 3, 1, 1 },  { 1, 6, 18, 64, 3, 3, 1, 1 },
        { 1, 13, 21, 64, 72, 3, 2, 1 }, { 1, 7, 9, 70, 13, 3, 2, 0 },
        { 1, 5, 7, 13, 37, 3, 1, 2 },   { 1, 30, 40, 5, 7, 5, 1, 2 } /* four tiles per block */,
        { 1, 7, 9, 64, 132, 1, 1, 0 },  { 1, 8, 8, 20, 12, 2, 2, 0 },
        { 1, 1, 33, 3, 5, 4, 4, 3 },    { 3, 1, 48, 64, 72, 1, 1, 0 } /* rows of tokens, folded */,
        { 2, 19, 35, 4, 72, 3, 1, 2 },  { 1, 10, 34, 24, 4, 3, 1, 0 } /* few channels on one side */,
    };
    static const int channels[] = { 3, 4, 16, 32, 64, 100, 128, 256 };
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        check_shape(conv_shape(few[i].n, few[i].h, few[i].w, few[i].cin, few[i].cout, few[i].kernel, few[i].stride,
                               few[i].pad, false),
                    2000 + i);
    check_shape(conv_shape_beyond(conv_shape(2, 7, 13, 12, 20, 3, 2, 0, false), 1), 2100);
    for (int i = 0; i < 8 && !cuda_is_emulated; i++) /* every pair of channels */
        for (int o = 0; o < 8; o++)
            check_shape(conv_shape(1 + i % 2, 12 + 3 * i, 50 - 5 * o, channels[i], channels[o], 3 - 2 * (o % 4 / 3),
                                   1 + (i + o) % 3 / 2, 1, false),
                        2200 + (uint64_t)(8 * i + o));
    if (!cuda_is_emulated) {
        check_shape(conv_shape(4, 131, 250, 64, 64, 3, 1, 1, false), 2300);
        check_shape(conv_shape(2, 257, 301, 64, 64, 3, 2, 1, false), 2301);
        check_shape(conv_shape(4, 64, 250, 64, 192, 1, 1, 0, false), 2302);
        check_shape(conv_shape(4, 131, 250, 3, 64, 3, 1, 1, false), 2303);
        check_shape(conv_shape(4, 131, 250, 64, 3, 3, 1, 1, false), 2304);
    }
    check_narrow(conv_shape(2, 5, 19, 64, 72, 3, 1, 1, false), 2400);
    check_narrow(conv_shape(2, 5, 19, 64, 72, 1, 1, 0, false), 2404);
    check_narrow(conv_shape(1, 30, 40, 8, 16, 5, 1, 2, false), 2401); /* four tiles per block */
    check_narrow(conv_shape(1, 7, 9, 72, 8, 3, 1, 0, false), 2402);
    check_narrow(conv_shape(1, 7, 9, 20, 12, 3, 2, 1, false), 2403); /* converted */
    check_narrow(conv_shape(1, 13, 37, 64, 72, 3, 2, 1, false), 2405);
    check_narrow(conv_shape(1, 9, 33, 3, 64, 3, 1, 1, false), 2406);
    check_narrow(conv_shape(1, 17, 7, 64, 3, 3, 1, 1, false), 2407);
    if (!cuda_is_emulated) {
        check_narrow(conv_shape(4, 131, 250, 64, 64, 3, 1, 1, false), 2408);
        check_narrow(conv_shape(1, 9, 250, 128, 192, 3, 1, 1, false), 2409); /* several tiles of weights */
    }
    if (strstr("channel_sum sum_partials", cuda_filter)) {
        check_sums(1, 1);
        check_sums(300, 3);
        check_sums(1000, 64);
        check_sums(517, 300);
        check_sums(600, 5000);
    }
}
