/* Test data for convolutions. */
#define _GNU_SOURCE
#include "conv_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

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

/* The page before the block's first one holds the size of the whole mapping. */

static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

float *fenced_new(int64_t count, bool aligned)
{
    const size_t page = page_bytes();
    size_t bytes = sizeof(float) * (size_t)(count > 0 ? count : 1);
    if (aligned)
        bytes = (bytes + 63) / 64 * 64;
    const size_t body = (bytes + page - 1) / page * page, all = page + body + page;
    char *base = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base + page + body, page, PROT_NONE) != 0) {
        fprintf(stderr, "no memory for %zu bytes of test data\n", bytes);
        exit(2);
    }
    *(size_t *)base = all;
    return (float *)(base + page + body - bytes);
}

void fenced_free(float *block)
{
    if (!block)
        return;
    /* the block begins in the page that follows the header */
    char *base = (char *)((uintptr_t)block / page_bytes() * page_bytes() - page_bytes());
    munmap(base, *(size_t *)base);
}

void fill_normal(zn_rng *r, float *x, int64_t count, float scale)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = scale * zn_rng_normal(r);
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
