/* Every weight-gradient kernel this CPU has against the reference one: many shapes, forbidden pages around all memory,
 * scratch full of NaN, equal bits for any split of the units and any number of threads.
 *
 *     check-conv-grad [FILTER [N]]    FILTER: a part of the names of kernels; N: every Nth shape */
#include "conv_case.h"

#include "base/cpu.h"
#include "kernels/conv_grad.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *filter = "";
static int step = 1;
static int compared;
static double worst; /* relative error over tolerance */
static zn_pool *pool;

typedef struct data {
    zn_conv_shape s;
    int64_t count; /* of dw */
    float *x, *dy, *want;
} data;

static void run(const zn_conv_grad_kernel *k, const data *d, split how, float *dw)
{
    const size_t scratch = (k->scratch_bytes(&d->s) + 63) / 64 * 64, shared = k->shared_bytes(&d->s);
    float *work = fenced_new((int64_t)(2 * scratch / sizeof(float)), true);
    float *between = fenced_new((int64_t)(shared / sizeof(float)), true);
    memset(work, 0xff, 2 * scratch);
    memset(between, 0xff, shared);
    zn_conv_grad_args a = { .s = d->s, .x = d->x, .dy = d->dy, .dw = dw, .shared = between };
    for (; a.stage < k->stages(&d->s); a.stage++) {
        const split_run r = { .body = k->run,
                              .args = &a,
                              .units = k->units(&d->s, a.stage),
                              .grain = 1,
                              .scratch = work,
                              .stride = scratch,
                              .two = pool };
        run_split(&r, how);
    }
    fenced_free(work);
    fenced_free(between);
}

static void check_kernel(const zn_conv_grad_kernel *k, const data *d)
{
    float *a = fenced_new(d->count, false), *b = fenced_new(d->count, false);
    char text[64];
    run(k, d, WHOLE, a);
    const double e = relative_error(a, d->want, d->count);
    /* the tolerance is of the mean over many weights: a handful may all happen to be small sums of large products */
    const double allowed = (double)k->tolerance * (d->count < 256 ? 4 : 1);
    snprintf(text, sizeof text, "relative error %.3g, allowed %.3g", e, allowed);
    if (!(e <= allowed))
        conv_fail(k->name, &d->s, text);
    worst = e / allowed > worst ? e / allowed : worst;
    for (split how = SINGLY_BACKWARDS; how <= TWO_THREADS; how++) {
        run(k, d, how, b);
        if (memcmp(a, b, sizeof(float) * (size_t)d->count) != 0)
            conv_fail(k->name, &d->s,
                      how == TWO_THREADS ? "two threads give other bits" : "another split gives other bits");
    }
    for (int threads = 1; threads <= 16; threads += 15) {
        data other = *d;
        other.s.threads = threads;
        run(k, &other, WHOLE, b);
        if (memcmp(a, b, sizeof(float) * (size_t)d->count) != 0)
            conv_fail(k->name, &d->s, "pieces for another number of threads give other bits");
    }
    fenced_free(a);
    fenced_free(b);
    compared++;
}

static void check_shape(zn_conv_shape s, uint32_t cpu)
{
    static uint64_t seed = 100;
    if (++seed % (uint64_t)step)
        return;
    const zn_conv_grad_kernel *const *last = zn_conv_grad_kernels;
    while (last[1])
        last++;
    data d = { .s = s, .count = (int64_t)s.kh * s.kw * s.cin * s.cout };
    const int64_t x = (int64_t)s.n * s.h * s.w * s.cin, dy = (int64_t)s.n * s.oh * s.ow * s.cout;
    zn_rng r = zn_rng_new(seed);
    d.x = fenced_new(x, false);
    d.dy = fenced_new(dy, false);
    d.want = fenced_new(d.count, false);
    fill_normal(&r, d.x, x, 1);
    fill_normal(&r, d.dy, dy, 1);
    run(*last, &d, WHOLE, d.want);
    for (const zn_conv_grad_kernel *const *k = zn_conv_grad_kernels; k < last; k++)
        if (((*k)->cpu & ~cpu) == 0 && (*k)->supports(&s) && strstr((*k)->name, filter))
            check_kernel(*k, &d);
    fenced_free(d.x);
    fenced_free(d.dy);
    fenced_free(d.want);
}

/* Trainings ask for f32: they must get the first kernel of the list that can do it, not only those that this checker
 * calls by itself. */
static void check_choice(zn_conv_shape s, uint32_t cpu)
{
    const zn_conv_grad_kernel *const *k = zn_conv_grad_kernels;
    while (((*k)->cpu & ~cpu) || !(*k)->supports(&s))
        k++;
    const zn_conv_grad_kernel *chosen = zn_conv_grad_choose(&s, ZN_PRECISION_F32, cpu);
    compared++;
    if (chosen == *k)
        return;
    printf("%s is chosen where %s is the best  FAIL\n", chosen->name, (*k)->name);
    conv_failures++;
}

int main(int argc, char **argv)
{
    static const int channels[] = { 1, 3, 4, 5, 12, 32, 64, 100 };
    static const int sizes[][2] = { { 1, 1 }, { 2, 3 }, { 6, 6 }, { 7, 13 }, { 12, 25 }, { 31, 6 }, { 20, 50 } };
    static const int kernel[] = { 3, 3, 3, 3, 1, 1, 5, 2 }, stride[] = { 1, 1, 2, 2, 1, 2, 1, 2 };
    static const int pad[] = { 0, 2, 1, 0, 0, 0, 2, 0 };
    const uint32_t cpu = zn_cpu_flags();
    filter = argc > 1 ? argv[1] : filter;
    step = argc > 2 && atoi(argv[2]) > 0 ? atoi(argv[2]) : 1;
    if (zn_pool_new(2, &pool) != ZN_OK)
        return 2;
    for (int i = 0; i < 8; i++)
        for (int o = 0; o < 8; o++) { /* every pair of channels, sizes in turn */
            const int *z = sizes[(i * 8 + o) % 7];
            check_shape(conv_shape(1 + (o & 1), z[0], z[1], channels[i], channels[o], 3, 1, 1, false), cpu);
        }
    for (int i = 0; i < 7; i++)
        for (int form = 0; form < 8; form++) {
            const int h = sizes[i][0] < kernel[form] ? kernel[form] : sizes[i][0];
            const int w = sizes[i][1] < kernel[form] ? kernel[form] : sizes[i][1];
            check_shape(conv_shape(1, h, w, channels[(i + form) % 8], channels[(i * 2 + form) % 8], kernel[form],
                                   stride[form], pad[form], false),
                        cpu);
        }
    for (int i = 0; i < 8; i++) { /* zeros only below and on the right */
        const int *z = sizes[2 + i % 5];
        const zn_conv_shape s = conv_shape(1, z[0], z[1], channels[i], channels[(2 * i + 5) % 8], 3, 2, 0, false);
        check_shape(conv_shape_beyond(s, 1), cpu);
    }
    check_shape(conv_shape(2, 40, 100, 64, 64, 3, 1, 1, false), cpu); /* several chunks of tiles */
    check_shape(conv_shape(1, 3, 300, 64, 3, 3, 2, 1, false), cpu);   /* several stretches of a row */
    check_shape(conv_shape(1, 1, 5, 8, 8, 5, 1, 4, false), cpu);      /* taps that see nothing but padding */
    check_shape(conv_shape(1, 5, 7, 130, 512, 1, 1, 0, false), cpu);  /* many weights */
    check_shape(conv_shape(2, 1, 70, 300, 224, 1, 1, 0, false), cpu);
    check_choice(conv_shape(2, 32, 32, 64, 64, 3, 1, 1, false), cpu);
    check_choice(conv_shape(2, 32, 32, 64, 64, 3, 2, 1, false), cpu);
    check_choice(conv_shape(2, 32, 32, 64, 256, 1, 1, 0, false), cpu);
    char text[96];
    zn_cpu_text(cpu, text, sizeof text);
    printf("%s: %d comparisons, %d failures; worst error %.2f of the tolerance\n", text, compared, conv_failures,
           worst);
    zn_pool_free(pool);
    return conv_failures || !compared;
}
