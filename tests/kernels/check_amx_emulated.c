/* The AMX convolutions on emulated tile registers, against the reference: packing, patches, borders, strides, phases
 * and the epilogue can be wrong on any machine. check-conv does the same on a processor that has the tiles. */
#include "conv_case.h"

#include "base/convert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

extern const zn_conv_kernel zn_conv_amx_bf16_emulated, zn_conv_ref;

static int compared;

/* All memory ends at a forbidden page and begins as NaN; units one by one from the last, or all in one call. */
static void run(const zn_conv_kernel *k, const conv_data *d, conv_options o, split how, float *y)
{
    const zn_conv_shape *s = &d->s;
    const size_t scratch = (k->scratch_bytes(s) + 63) / 64 * 64;
    float *packed = fenced_new((int64_t)(k->packed_bytes(s) / sizeof(float)), true);
    float *work = fenced_new((int64_t)(scratch / sizeof(float)), true);
    memset(packed, 0xff, k->packed_bytes(s));
    memset(work, 0xff, scratch);
    memset(y, 0xff, sizeof(float) * (size_t)d->y_count);
    k->pack(s, d->w, packed);
    const zn_conv_args a = conv_args_of(d, o, packed, y);
    run_split(&(split_run){ .body = k->run, .args = &a, .units = k->units(s), .scratch = work }, how);
    fenced_free(packed);
    fenced_free(work);
}

static void check_values(const zn_conv_kernel *k, const conv_data *d, conv_options o, float *got)
{
    run(&zn_conv_ref, d, o, WHOLE, d->want);
    run(k, d, o, SINGLY_BACKWARDS, got);
    const double error = relative_error(got, d->want, d->y_count);
    char text[64];
    snprintf(text, sizeof text, "relative error %.3g, allowed %.3g", error, (double)k->tolerance);
    if (!(error <= (double)k->tolerance))
        conv_fail(k->name, &d->s, text);
    compared++;
}

static void check_split(const zn_conv_kernel *k, const conv_data *d, conv_options o, float *got)
{
    run(k, d, o, WHOLE, d->want);
    run(k, d, o, SINGLY_BACKWARDS, got);
    if (memcmp(d->want, got, sizeof(float) * (size_t)d->y_count) != 0)
        conv_fail(k->name, &d->s, "another split gives other bits");
}

/* A value that is not finite reaches exactly the outputs it reaches in the reference; a NaN stays one (an infinity may
 * not: its products with two weights of one pixel can be inf - inf, or inf times their sum). */
static void check_not_finite(const zn_conv_kernel *k, conv_data *d, float value, float *got)
{
    const int64_t at = d->x_count / 3;
    const float kept = d->x[at];
    d->x[at] = value;
    run(&zn_conv_ref, d, (conv_options){ .bias = true }, WHOLE, d->want);
    run(k, d, (conv_options){ .bias = true }, WHOLE, got);
    for (int64_t i = 0; i < d->y_count; i++)
        if (isfinite(d->want[i]) != isfinite(got[i]) || (isnan(value) && isnan(d->want[i]) && !isnan(got[i]))) {
            conv_fail(k->name, &d->s, isnan(value) ? "a NaN was lost or spread" : "an infinity was lost or spread");
            break;
        }
    d->x[at] = kept;
}

static void round_to_bf16(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = zn_bf16_to_f32(zn_f32_to_bf16(x[i]));
}

/* A first layer multiplies sums of two numbers; a layer with a stride does so with its inputs, which weights of bf16
 * show. */
static void check_two_numbers(const zn_conv_kernel *k)
{
    enum { SHAPES = 2 };
    const zn_conv_shape shapes[SHAPES] = { conv_shape(1, 9, 33, 3, 48, 3, 1, 1, false),
                                           conv_shape(1, 9, 33, 64, 48, 3, 2, 1, false) };
    for (int i = 0; i < SHAPES; i++) {
        conv_data d = conv_data_new(shapes[i], 8);
        float *got = fenced_new(d.y_count, false);
        if (shapes[i].stride > 1)
            round_to_bf16(d.w, d.w_count);
        run(&zn_conv_ref, &d, (conv_options){ 0 }, WHOLE, d.want);
        run(k, &d, (conv_options){ 0 }, WHOLE, got);
        if (!(relative_error(got, d.want, d.y_count) < 5e-5))
            conv_fail(k->name, &shapes[i], "as inexact as with one number");
        compared++;
        fenced_free(got);
        conv_data_free(&d);
    }
}

/* The errors with weights that may change, and with those that never do. */
static void errors_of(const zn_conv_kernel *k, const conv_data *d, float *got, double error[2])
{
    zn_conv_kernel constant = *k;
    constant.pack = k->pack_constant;
    run(&zn_conv_ref, d, (conv_options){ 0 }, WHOLE, d->want);
    for (int i = 0; i < 2; i++) {
        run(i ? &constant : k, d, (conv_options){ 0 }, WHOLE, got);
        error[i] = relative_error(got, d->want, d->y_count);
    }
    compared += 2;
}

/* Weights that never change may be rounded together: that makes the error much smaller where neighbouring pixels are
 * alike, hardly larger where they have nothing in common, and leaves weights as they are that need no rounding. */
static void check_constant_weights(const zn_conv_kernel *k, bool up2)
{
    const zn_conv_shape s = conv_shape(1, 9, 33, 64, 48, 3, 1, 1, up2);
    conv_data d = conv_data_new(s, 7);
    float *got = fenced_new(d.y_count, false);
    double error[2];
    errors_of(k, &d, got, error);
    if (error[1] > 1.2 * error[0] || error[1] > (double)k->tolerance)
        conv_fail(k->name, &s, "constant weights are less exact");
    for (int64_t i = 0; i < d.x_count; i++) /* the same number in all pixels of a channel, without rounding */
        d.x[i] = (float)(1 + i % s.cin % 5);
    errors_of(k, &d, got, error);
    if (error[1] > 0.6 * error[0])
        conv_fail(k->name, &s, "constant weights are hardly more exact on an even map");
    round_to_bf16(d.w, d.w_count);
    errors_of(k, &d, got, error);
    if (!up2 && error[0] != error[1])
        conv_fail(k->name, &s, "constant weights of bf16 are not as they were");
    fenced_free(got);
    conv_data_free(&d);
}

static const int forms[][9] = { /* n, h, w, cin, cout, kernel, stride, pad, up2 */
                                { 1, 6, 35, 64, 64, 3, 1, 1, 0 }, { 2, 5, 17, 64, 64, 3, 2, 1, 0 },
                                { 1, 5, 18, 64, 64, 3, 1, 1, 1 }, { 1, 9, 70, 64, 3, 3, 1, 1, 0 },
                                { 1, 7, 13, 4, 64, 3, 1, 1, 0 },  { 1, 33, 31, 3, 64, 3, 1, 1, 0 },
                                { 1, 10, 23, 3, 20, 3, 2, 1, 0 }, { 2, 1, 1, 32, 16, 3, 1, 1, 0 },
                                { 1, 2, 3, 32, 5, 3, 1, 1, 1 },   { 1, 4, 19, 100, 33, 3, 1, 1, 0 },
                                { 1, 6, 6, 100, 12, 1, 1, 0, 0 }, { 1, 5, 40, 62, 17, 1, 1, 0, 0 },
                                { 1, 8, 21, 16, 16, 1, 2, 0, 0 }, { 1, 6, 20, 12, 7, 3, 1, 0, 0 },
                                { 1, 3, 17, 5, 40, 3, 1, 2, 0 },  { 2, 4, 9, 12, 18, 5, 1, 2, 1 },
                                { 1, 7, 8, 12, 3, 1, 1, 0, 1 },   { 1, 5, 11, 7, 9, 3, 1, 0, 1 },
                                { 1, 9, 9, 24, 8, 5, 2, 2, 0 },   { 1, 4, 5, 8, 256, 2, 2, 0, 0 },
                                { 1, 70, 130, 8, 4, 3, 1, 1, 0 }, { 1, 40, 33, 8, 4, 3, 1, 1, 1 },
                                { 1, 3, 4, 64, 4, 3, 1, 4, 0 },   { 1, 5, 70, 256, 16, 3, 1, 1, 0 }
};
enum { FORMS = sizeof forms / sizeof *forms };

int main(void)
{
    const zn_conv_kernel *k = &zn_conv_amx_bf16_emulated;
    for (int i = 0; i < FORMS; i++) {
        const int *f = forms[i];
        const zn_conv_shape s = conv_shape(f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8]);
        conv_data d = conv_data_new(s, 7000 + (uint64_t)i);
        float *got = fenced_new(d.y_count, false);
        if (!k->supports(&s))
            conv_fail(k->name, &s, "not supported");
        for (int o = 0; o < CONV_OPTIONS && k->supports(&s); o++)
            if (i % 6 == 0 || o == i % CONV_OPTIONS)
                check_values(k, &d, conv_option_list[o], got);
        if (k->supports(&s)) {
            check_split(k, &d, conv_option_list[5], got);
            check_not_finite(k, &d, NAN, got);
            check_not_finite(k, &d, INFINITY, got);
        }
        fenced_free(got);
        conv_data_free(&d);
    }
    check_two_numbers(k);
    check_constant_weights(k, false);
    check_constant_weights(k, true);
    const zn_conv_shape shuffled = {
        .n = 1, .h = 4, .w = 4, .cin = 64, .cout = 64, .kh = 1, .kw = 1, .stride = 1, .oh = 4, .ow = 4
    };
    for (int i = 0; i < 2; i++) { /* not made for it, so it must say so */
        zn_conv_shape s = shuffled;
        s.shuffle = i == 0, s.unshuffle = i == 1;
        conv_failures += k->supports(&s);
    }
    printf("%d comparisons over %d shapes, %d failures\n", compared, FORMS, conv_failures);
    return conv_failures != 0;
}
