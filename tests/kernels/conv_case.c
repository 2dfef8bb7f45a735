/* Test data for convolutions. */
#include "conv_case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

zn_conv_shape conv_shape(int n, int h, int w, int cin, int cout, int kernel, int stride, int pad, bool up2)
{
    const int up = up2 ? 2 : 1;
    return (zn_conv_shape){ .n = n,
                            .h = h,
                            .w = w,
                            .cin = cin,
                            .cout = cout,
                            .kh = kernel,
                            .kw = kernel,
                            .stride = stride,
                            .pad = pad,
                            .up2 = up2,
                            .oh = (h * up + 2 * pad - kernel) / stride + 1,
                            .ow = (w * up + 2 * pad - kernel) / stride + 1 };
}

zn_conv_shape conv_shape_beyond(zn_conv_shape s, int beyond)
{
    const int up = s.up2 ? 2 : 1;
    s.oh = (s.h * up + 2 * s.pad + beyond - s.kh) / s.stride + 1;
    s.ow = (s.w * up + 2 * s.pad + beyond - s.kw) / s.stride + 1;
    return s;
}

void conv_shape_text(const zn_conv_shape *s, char *text, int size)
{
    snprintf(text, (size_t)size, "%dx%dx%d %d->%d %dx%d s%d p%d%s%s%s", s->n, s->h, s->w, s->cin, s->cout, s->kh, s->kw,
             s->stride, s->pad, s->up2 ? " up2" : "", s->unshuffle ? " unshuffle" : "", s->shuffle ? " shuffle" : "");
}

int conv_failures;

void conv_fail(const char *kernel, const zn_conv_shape *s, const char *what)
{
    char text[96];
    conv_shape_text(s, text, sizeof text);
    printf("FAIL %s %s: %s\n", kernel, text, what);
    conv_failures++;
}

conv_data conv_data_new(zn_conv_shape s, uint64_t seed)
{
    conv_data d = { .s = s,
                    .x_count = (int64_t)s.n * s.h * s.w * s.cin,
                    .y_count = (int64_t)s.n * s.oh * s.ow * s.cout,
                    .w_count = (int64_t)s.kh * s.kw * s.cin * s.cout };
    zn_rng r = zn_rng_new(seed);
    d.x = fenced_new(d.x_count, false);
    d.w = fenced_new(d.w_count, false);
    d.bias = fenced_new(s.cout, false);
    d.residual = fenced_new(d.y_count, false);
    d.want = fenced_new(d.y_count, false);
    fill_normal(&r, d.x, d.x_count, 1);
    fill_normal(&r, d.w, d.w_count, 1 / sqrtf((float)(s.kh * s.kw * s.cin)));
    fill_normal(&r, d.bias, s.cout, 0.5f);
    fill_normal(&r, d.residual, d.y_count, 0.5f);
    return d;
}

void conv_data_free(conv_data *d)
{
    fenced_free(d->x);
    fenced_free(d->w);
    fenced_free(d->bias);
    fenced_free(d->residual);
    fenced_free(d->want);
}

const conv_options conv_option_list[CONV_OPTIONS] = {
    { 0 },
    { .bias = true },
    { .relu = true },
    { .bias = true, .residual = true, .relu = true },
    { .bias = true, .residual = true, .alias = true },
    { .bias = true, .residual = true, .alias = true, .relu = true },
};

zn_conv_args conv_args_of(const conv_data *d, conv_options o, const void *packed, float *y)
{
    if (o.alias)
        memcpy(y, d->residual, sizeof(float) * (size_t)d->y_count);
    return (zn_conv_args){ .s = d->s,
                           .x = d->x,
                           .packed = packed,
                           .bias = o.bias ? d->bias : NULL,
                           .residual = o.alias      ? y
                                       : o.residual ? d->residual
                                                    : NULL,
                           .y = y,
                           .relu = o.relu };
}

static void add(conv_layer *l, int *count, int times, bool residual, bool relu, zn_conv_shape s)
{
    l[(*count)++] = (conv_layer){ .s = s, .times = times, .residual = residual, .relu = relu };
}

/* Blocks of three convolutions, the last of each with the residual. */
static void add_blocks(conv_layer *l, int *count, int blocks, int side)
{
    const zn_conv_shape s = conv_shape(1, side, side, 64, 64, 3, 1, 1, false);
    add(l, count, 2 * blocks, false, true, s);
    add(l, count, blocks, true, true, s);
}

int taesd_decoder(int latent, conv_layer *l)
{
    int count = 0;
    add(l, &count, 1, false, true, conv_shape(1, latent, latent, 4, 64, 3, 1, 1, false));
    for (int level = 0; level < 3; level++) {
        add_blocks(l, &count, 3, latent << level);
        add(l, &count, 1, false, false, conv_shape(1, latent << level, latent << level, 64, 64, 3, 1, 1, true));
    }
    add_blocks(l, &count, 1, latent << 3);
    add(l, &count, 1, false, false, conv_shape(1, latent << 3, latent << 3, 64, 3, 3, 1, 1, false));
    return count;
}

int taesd_encoder(int latent, conv_layer *l)
{
    int count = 0;
    add(l, &count, 1, false, false, conv_shape(1, latent << 3, latent << 3, 3, 64, 3, 1, 1, false));
    add_blocks(l, &count, 1, latent << 3);
    for (int level = 2; level >= 0; level--) {
        const int side = latent << (level + 1);
        add(l, &count, 1, false, false, conv_shape(1, side, side, 64, 64, 3, 2, 1, false));
        add_blocks(l, &count, 3, latent << level);
    }
    add(l, &count, 1, false, false, conv_shape(1, latent, latent, 64, 4, 3, 1, 1, false));
    return count;
}
