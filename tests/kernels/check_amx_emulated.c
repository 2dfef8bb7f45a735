/* The AMX convolutions on emulated tile registers, against the reference: packing, patches, borders, strides, phases
 * and the epilogue can be wrong on any machine. check-conv does the same on a processor that has the tiles. */
#include "conv_case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

extern const zn_conv_kernel zn_conv_amx_bf16_emulated, zn_conv_ref;

static int compared, failures;

typedef struct options {
    bool bias, residual, alias, relu;
} options;

typedef struct data {
    zn_conv_shape s;
    int64_t x_count, y_count;
    float *x, *w, *bias, *residual, *want, *got;
} data;

static void fail(const zn_conv_kernel *k, const zn_conv_shape *s, const char *what)
{
    char text[96];
    conv_shape_text(s, text, sizeof text);
    printf("FAIL %s %s: %s\n", k->name, text, what);
    failures++;
}

static data data_new(const zn_conv_shape *s, uint64_t seed)
{
    const int64_t w_count = (int64_t)s->kh * s->kw * s->cin * s->cout;
    data d = { .s = *s,
               .x_count = (int64_t)s->n * s->h * s->w * s->cin,
               .y_count = (int64_t)s->n * s->oh * s->ow * s->cout };
    zn_rng r = zn_rng_new(seed);
    d.x = fenced_new(d.x_count, false);
    d.w = fenced_new(w_count, false);
    d.bias = fenced_new(s->cout, false);
    d.residual = fenced_new(d.y_count, false);
    d.want = fenced_new(d.y_count, false);
    d.got = fenced_new(d.y_count, false);
    fill_normal(&r, d.x, d.x_count, 1);
    fill_normal(&r, d.w, w_count, 1 / sqrtf((float)(s->kh * s->kw * s->cin)));
    fill_normal(&r, d.bias, s->cout, 0.5f);
    fill_normal(&r, d.residual, d.y_count, 0.5f);
    return d;
}

static void data_free(data *d)
{
    fenced_free(d->x);
    fenced_free(d->w);
    fenced_free(d->bias);
    fenced_free(d->residual);
    fenced_free(d->want);
    fenced_free(d->got);
}

/* All memory ends at a forbidden page and begins as NaN; units one by one from the last, or all in one call. */
static void run(const zn_conv_kernel *k, const data *d, options o, bool singly, float *y)
{
    const zn_conv_shape *s = &d->s;
    const size_t scratch = (k->scratch_bytes(s) + 63) / 64 * 64;
    float *packed = fenced_new((int64_t)(k->packed_bytes(s) / sizeof(float)), true);
    float *work = fenced_new((int64_t)(scratch / sizeof(float)), true);
    memset(packed, 0xff, k->packed_bytes(s));
    memset(work, 0xff, scratch);
    memset(y, 0xff, sizeof(float) * (size_t)d->y_count);
    k->pack(s, d->w, packed);
    if (o.alias)
        memcpy(y, d->residual, sizeof(float) * (size_t)d->y_count);
    const zn_conv_args a = { .s = *s,
                             .x = d->x,
                             .packed = packed,
                             .bias = o.bias ? d->bias : NULL,
                             .residual = o.alias      ? y
                                         : o.residual ? d->residual
                                                      : NULL,
                             .y = y,
                             .relu = o.relu };
    const int64_t units = k->units(s);
    if (!singly)
        k->run(&a, (zn_range){ 0, units, work });
    for (int64_t u = units; singly && u > 0; u--)
        k->run(&a, (zn_range){ u - 1, u, work });
    fenced_free(packed);
    fenced_free(work);
}

static void check_values(const zn_conv_kernel *k, const data *d, options o)
{
    run(&zn_conv_ref, d, o, false, d->want);
    run(k, d, o, true, d->got);
    double e = 0, n = 0;
    for (int64_t i = 0; i < d->y_count; i++) {
        const double difference = (double)d->got[i] - (double)d->want[i];
        e += difference * difference;
        n += (double)d->want[i] * (double)d->want[i];
    }
    const double error = n > 0 ? sqrt(e / n) : sqrt(e);
    char text[64];
    snprintf(text, sizeof text, "relative error %.3g, allowed %.3g", error, (double)k->tolerance);
    if (!(error <= (double)k->tolerance))
        fail(k, &d->s, text);
    compared++;
}

static void check_split(const zn_conv_kernel *k, const data *d, options o)
{
    run(k, d, o, false, d->want);
    run(k, d, o, true, d->got);
    if (memcmp(d->want, d->got, sizeof(float) * (size_t)d->y_count) != 0)
        fail(k, &d->s, "another split gives other bits");
}

/* A value that is not finite reaches exactly the outputs it reaches in the reference; a NaN stays one (an infinity may
 * not: its products with two weights of one pixel can be inf - inf, or inf times their sum). */
static void check_not_finite(const zn_conv_kernel *k, data *d, float value)
{
    const int64_t at = d->x_count / 3;
    const float kept = d->x[at];
    d->x[at] = value;
    run(&zn_conv_ref, d, (options){ .bias = true }, false, d->want);
    run(k, d, (options){ .bias = true }, false, d->got);
    for (int64_t i = 0; i < d->y_count; i++)
        if (isfinite(d->want[i]) != isfinite(d->got[i]) || (isnan(value) && isnan(d->want[i]) && !isnan(d->got[i]))) {
            fail(k, &d->s, isnan(value) ? "a NaN was lost or spread" : "an infinity was lost or spread");
            break;
        }
    d->x[at] = kept;
}

static const options option_list[] = {
    { 0 },
    { .bias = true },
    { .relu = true },
    { .bias = true, .residual = true, .relu = true },
    { .bias = true, .residual = true, .alias = true },
    { .bias = true, .residual = true, .alias = true, .relu = true },
};
enum { OPTIONS = sizeof option_list / sizeof *option_list };

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
        data d = data_new(&s, 7000 + (uint64_t)i);
        if (!k->supports(&s))
            fail(k, &s, "not supported");
        for (int o = 0; o < OPTIONS && k->supports(&s); o++)
            if (i % 6 == 0 || o == i % OPTIONS)
                check_values(k, &d, option_list[o]);
        if (k->supports(&s)) {
            check_split(k, &d, option_list[5]);
            check_not_finite(k, &d, NAN);
            check_not_finite(k, &d, INFINITY);
        }
        data_free(&d);
    }
    const zn_conv_shape shuffled = {
        .n = 1, .h = 4, .w = 4, .cin = 64, .cout = 64, .kh = 1, .kw = 1, .stride = 1, .oh = 4, .ow = 4
    };
    for (int i = 0; i < 2; i++) { /* not made for it, so it must say so */
        zn_conv_shape s = shuffled;
        s.shuffle = i == 0, s.unshuffle = i == 1;
        failures += k->supports(&s);
    }
    printf("%d comparisons over %d shapes, %d failures\n", compared, FORMS, failures);
    return failures != 0;
}
