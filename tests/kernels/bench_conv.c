/* Times of the convolution kernels, one and two threads: a line per kernel and shape, then the sum over the layers of
 * the TAESD decoder and encoder at 512x512 with the kernels zn_conv_choose picks. "peak" is what plain FMA instructions
 * reached just before, for the machines whose speed changes under load. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "conv_case.h"
#include "kernels/peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct setup {
    zn_conv_args a;
    const zn_conv_kernel *kernel;
    float *x, *y, *bias, *packed, *scratch;
    size_t stride;
} setup;

/* GFLOP/s of plain multiply-adds in registers, all threads, now. */
static double peak(zn_precision math, uint32_t cpu, zn_pool *pool)
{
    const zn_peak p = zn_peak_choose(math, cpu);
    const int64_t units = zn_pool_threads(pool);
    const double start = zn_clock_ms();
    zn_pool_run(pool, units, 1, p.body, NULL, NULL, 0);
    return (double)units * p.flops_per_unit / (zn_clock_ms() - start) * 1e-6;
}

static float *block_of(size_t bytes)
{
    float *p = zn_alloc(bytes);
    if (!p) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(2);
    }
    return p;
}

static setup setup_new(const zn_conv_kernel *k, const zn_conv_shape *s, bool residual, int threads)
{
    const int64_t nx = (int64_t)s->n * s->h * s->w * s->cin, ny = (int64_t)s->n * s->oh * s->ow * s->cout;
    const int64_t nw = (int64_t)s->kh * s->kw * s->cin * s->cout;
    zn_rng r = zn_rng_new(1);
    setup u = { .kernel = k, .stride = (k->scratch_bytes(s) + 4095) / 4096 * 4096 };
    u.x = block_of(sizeof(float) * (size_t)nx);
    u.y = block_of(sizeof(float) * (size_t)ny);
    u.bias = block_of(sizeof(float) * (size_t)s->cout);
    u.packed = block_of(k->packed_bytes(s));
    u.scratch = block_of(u.stride * (size_t)threads);
    float *w = block_of(sizeof(float) * (size_t)nw);
    fill_normal(&r, w, nw, 0.05f);
    for (int64_t i = 0; i < nx; i++)
        u.x[i] = zn_rng_uniform(&r) - 0.5f;
    for (int64_t i = 0; i < ny; i++)
        u.y[i] = 0.25f;
    k->pack(s, w, u.packed);
    for (int i = 0; i < s->cout; i++)
        u.bias[i] = 0.1f;
    /* as in the networks, the residual is what y held */
    u.a = (zn_conv_args){
        .s = *s, .x = u.x, .packed = u.packed, .bias = u.bias, .residual = residual ? u.y : NULL, .y = u.y, .relu = true
    };
    zn_free(w);
    return u;
}

static void setup_free(setup *u)
{
    zn_free(u->x);
    zn_free(u->y);
    zn_free(u->bias);
    zn_free(u->packed);
    zn_free(u->scratch);
}

/* The shortest of several runs. */
static double time_of(const setup *u, zn_pool *pool)
{
    double best = 1e30, spent = 0;
    for (int i = 0; i < 3 || (spent < 150 && i < 30); i++) {
        const double start = zn_clock_ms();
        zn_pool_run(pool, u->kernel->units(&u->a.s), 1, u->kernel->run, &u->a, u->scratch, u->stride);
        const double t = zn_clock_ms() - start;
        spent += t;
        best = t < best ? t : best;
    }
    return best;
}

static double line(const zn_conv_kernel *k, const zn_conv_shape *s, bool residual, int times, zn_pool *pool)
{
    const int threads = zn_pool_threads(pool);
    setup u = setup_new(k, s, residual, threads);
    const double top = peak(k->math, zn_cpu_flags(), pool), ms = time_of(&u, pool);
    char text[96];
    conv_shape_text(s, text, sizeof text);
    printf("%-24s %-34s %d thr %8.3f ms %7.1f direct %6.1f executed GFLOP/s, peak %5.1f", k->name, text, threads, ms,
           zn_conv_direct_flops(s) / ms * 1e-6, k->flops(s) / ms * 1e-6, top);
    if (times)
        printf("  x %d", times);
    printf("\n");
    fflush(stdout);
    setup_free(&u);
    return ms;
}

static void network(const char *name, const conv_layer *layers, int count, uint32_t cpu, zn_pool *pool)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        const zn_conv_kernel *k = zn_conv_choose(&layers[i].s, (zn_conv_wish){ .cpu = cpu });
        sum += layers[i].times * line(k, &layers[i].s, layers[i].residual, layers[i].times, pool);
    }
    printf("%s 512x512, %d threads: %.1f ms\n\n", name, zn_pool_threads(pool), sum);
}

static void every_kernel(const char *filter, uint32_t cpu, zn_pool *pool)
{
    static const int form[][6] = {
        /* cin, cout, kernel, stride, pad, up2 */
        { 64, 64, 3, 1, 1, 0 },  { 64, 64, 3, 2, 1, 0 },  { 64, 64, 3, 1, 1, 1 },   { 64, 256, 1, 1, 0, 0 },
        { 256, 64, 1, 1, 0, 0 }, { 3, 64, 3, 1, 1, 0 },   { 3, 32, 3, 2, 1, 0 },    { 32, 64, 3, 2, 1, 0 },
        { 64, 3, 3, 1, 1, 0 },   { 64, 4, 3, 1, 1, 0 },   { 4, 64, 3, 1, 1, 0 },    { 16, 64, 3, 1, 1, 0 },
        { 32, 64, 3, 1, 1, 0 },  { 32, 256, 3, 1, 1, 0 }, { 256, 128, 3, 1, 1, 0 }, { 256, 128, 1, 1, 0, 0 }
    };
    for (unsigned f = 0; f < sizeof form / sizeof *form; f++)
        for (int side = 512; side >= 64; side /= 2)
            for (const zn_conv_kernel *const *k = zn_conv_kernels; *k && k[1]; k++) {
                const zn_conv_shape s =
                    conv_shape(1, side, side, form[f][0], form[f][1], form[f][2], form[f][3], form[f][4], form[f][5]);
                if (((*k)->cpu & ~cpu) == 0 && (*k)->supports(&s) && strstr((*k)->name, filter) && s.oh <= 512)
                    line(*k, &s, false, 0, pool);
            }
}

int bench_conv(const char *filter, int only)
{
    const uint32_t cpu = zn_cpu_flags();
    for (int threads = only ? only : 1; threads <= (only ? only : 2); threads++) {
        zn_pool *pool;
        if (zn_pool_new(threads, &pool) != ZN_OK)
            return 2;
        conv_layer layers[16];
        if (strcmp(filter, "network") != 0)
            every_kernel(filter, cpu, pool);
        if (!*filter || strcmp(filter, "network") == 0) {
            network("decode", layers, taesd_decoder(64, layers), cpu, pool);
            network("encode", layers, taesd_encoder(64, layers), cpu, pool);
        }
        zn_pool_free(pool);
    }
    return 0;
}
