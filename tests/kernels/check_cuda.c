/* Every kernel of cuda/kernels.def on the device against the scalar one: odd sizes, numbers around every result that no
 * kernel gives, addresses without a twin. On machines without a GPU, in a build with -DZENITH_CUDA=EMULATED, the same
 * kernels run on the CPU, and then fewer shapes are tried.
 *
 *     check-cuda [FILTER]     only kernels whose name holds it */
#include "conv_case.h"

#include "base/alloc.h"
#include "base/cpu.h"
#include "kernels/device.h"
#include "kernels/kernels.h"
#include "kernels/norm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The list, to see that none is left out. */
#define ZN_CUDA(name) void zn_k_##name(const void *, zn_range);
#include "kernels/cuda/kernels.def"
#undef ZN_CUDA
static struct {
    zn_body body;
    const char *name;
    int launches;
} listed[] = {
#define ZN_CUDA(name) { zn_k_##name, #name, 0 },
#include "kernels/cuda/kernels.def"
#undef ZN_CUDA
};
enum { LISTED = sizeof listed / sizeof *listed };

/* The numbers around a result. */
enum { GUARD = 64 };
static const float guard_value = -12345.678f;

static const char *filter = "";
static zn_device *device;
static bool emulated;
static int compared, failures;
static double worst[2]; /* error of convolutions in full precision, and in less */

static void fail(const char *name, const char *what)
{
    printf("FAIL %s: %s\n", name, what);
    failures++;
}

static void must(zn_status status)
{
    if (status == ZN_OK)
        return;
    printf("FAIL %s\n", zn_error_text());
    exit(1);
}

/* Memory of both sides, the device's filled with what the host's holds. */
static float *shared_new(int64_t count, float value)
{
    float *x = zn_alloc(sizeof(float) * (size_t)count);
    for (int64_t i = 0; x && i < count; i++)
        x[i] = value;
    if (!x)
        exit(2);
    must(zn_device_twin(device, x, sizeof(float) * (size_t)count));
    zn_device_send(device, x, sizeof(float) * (size_t)count);
    must(zn_device_wait(device));
    return x;
}

static void shared_free(float *x)
{
    if (x)
        zn_device_drop(device, x);
    zn_free(x);
}

static float *shared_normal(zn_rng *rng, int64_t count, float scale)
{
    float *x = shared_new(count, 0);
    fill_normal(rng, x, count, scale);
    zn_device_send(device, x, sizeof(float) * (size_t)count);
    must(zn_device_wait(device));
    return x;
}

/* A result between guards. */
static float *result_new(int64_t count) { return shared_new(count + 2 * GUARD, guard_value) + GUARD; }
static void result_free(float *y) { shared_free(y - GUARD); }

static bool result_fetch(float *y, int64_t count)
{
    zn_device_fetch(device, y - GUARD, sizeof(float) * (size_t)(count + 2 * GUARD));
    must(zn_device_wait(device));
    for (int i = 0; i < GUARD; i++)
        if (y[i - GUARD] != guard_value || y[count + i] != guard_value)
            return false;
    return true;
}

static void compare(const char *name, float *y, const float *want, int64_t count, double allowed)
{
    char text[96];
    if (!result_fetch(y, count))
        fail(name, "wrote outside its result");
    const double e = relative_error(y, want, count);
    snprintf(text, sizeof text, "relative error %.3g, allowed %.3g", e, allowed);
    if (!(e <= allowed))
        fail(name, text);
    if (strstr(name, "-cuda"))
        worst[!strstr(name, "tf32x3-")] = fmax(worst[!strstr(name, "tf32x3-")], e);
    compared++;
}

static void start(zn_body body, int64_t units, const void *args)
{
    for (int i = 0; i < LISTED; i++)
        listed[i].launches += listed[i].body == body;
    zn_device_launch(device, body, units, args);
}

/* ---- elementwise ---- */

static const struct {
    const char *name;
    zn_body body;
    float a, b;
} unaries[] = {
    { "relu", zn_k_relu, 0, 0 },       { "soft_clamp", zn_k_soft_clamp, 3, 0 },
    { "clamp", zn_k_clamp, -0.5f, 1 }, { "gelu", zn_k_gelu, 0, 0 },
    { "silu", zn_k_silu, 0, 0 },       { "positive", zn_k_positive, 0, 0 },
    { "scale", zn_k_scale, 0.37f, 0 }, { "exp", zn_k_exp, 0, 0 },
};
static const struct {
    const char *name;
    zn_body body;
} binaries[] = { { "add", zn_k_add }, { "sub", zn_k_sub }, { "multiply", zn_k_multiply } };

static const int64_t counts[] = { 1, 31, 256, 1000, 70001 };
enum { COUNTS = sizeof counts / sizeof *counts };

static void check_unary(int i, int64_t count)
{
    zn_rng rng = zn_rng_new(7);
    float *x = shared_normal(&rng, count, 2), *y = result_new(count), *want = fenced_new(count, false);
    zn_unary_args a = { .x = x, .y = want, .a = unaries[i].a, .b = unaries[i].b };
    unaries[i].body(&a, (zn_range){ 0, count, NULL });
    a.y = y;
    start(unaries[i].body, count, &a);
    compare(unaries[i].name, y, want, count, 1e-6);
    a.y = x; /* in place */
    start(unaries[i].body, count, &a);
    zn_device_fetch(device, x, sizeof(float) * (size_t)count);
    must(zn_device_wait(device));
    if (memcmp(x, y, sizeof(float) * (size_t)count) != 0)
        fail(unaries[i].name, "in place it gives other bits");
    result_free(y);
    shared_free(x);
    fenced_free(want);
}

static void check_binary(int i, int64_t count)
{
    zn_rng rng = zn_rng_new(8);
    float *p = shared_normal(&rng, count, 2), *q = shared_normal(&rng, count, 1), *y = result_new(count);
    float *want = fenced_new(count, false);
    zn_binary_args a = { .a = p, .b = q, .y = want };
    binaries[i].body(&a, (zn_range){ 0, count, NULL });
    a.y = y;
    start(binaries[i].body, count, &a);
    compare(binaries[i].name, y, want, count, 1e-6);
    result_free(y);
    shared_free(p);
    shared_free(q);
    fenced_free(want);
}

static void check_elementwise(void)
{
    for (size_t i = 0; i < sizeof unaries / sizeof *unaries; i++)
        for (int k = 0; k < COUNTS && strstr(unaries[i].name, filter); k++)
            check_unary((int)i, counts[k]);
    for (size_t i = 0; i < sizeof binaries / sizeof *binaries; i++)
        for (int k = 0; k < COUNTS && strstr(binaries[i].name, filter); k++)
            check_binary((int)i, counts[k]);
}

static void check_upsample(void)
{
    static const int shapes[][4] = { { 1, 1, 1, 1 }, { 2, 3, 5, 7 }, { 1, 16, 9, 64 } };
    for (int i = 0; i < 3 && strstr("upsample2", filter); i++) {
        const int n = shapes[i][0], h = shapes[i][1], w = shapes[i][2], c = shapes[i][3];
        const int64_t small = (int64_t)n * h * w * c;
        zn_rng rng = zn_rng_new(9);
        float *x = shared_normal(&rng, small, 1), *y = result_new(4 * small), *want = fenced_new(4 * small, false);
        zn_resample_args a = { .x = x, .y = want, .h = h, .w = w, .c = c };
        zn_k_upsample2(&a, (zn_range){ 0, (int64_t)n * 2 * h, NULL });
        a.y = y;
        start(zn_k_upsample2, (int64_t)n * 2 * h, &a);
        compare("upsample2", y, want, 4 * small, 0);
        result_free(y);
        shared_free(x);
        fenced_free(want);
    }
}

/* ---- group norm: the three kernels one after the other ---- */

static void norm_all(zn_norm_args *a, bool on_device)
{
    static const zn_body bodies[] = { zn_k_norm_sums, zn_k_norm_merge, zn_k_norm_apply };
    const int64_t units[] = { a->n * zn_norm_blocks(a), a->n * a->groups, a->n * a->pixels };
    for (int i = 0; i < 3; i++)
        if (on_device)
            start(bodies[i], units[i], a);
        else
            bodies[i](a, (zn_range){ 0, units[i], NULL });
}

static void check_norm(int64_t n, int64_t pixels, int c, int groups, zn_activation act, bool modulated)
{
    zn_rng rng = zn_rng_new(10);
    const int64_t count = n * pixels * c;
    zn_norm_args a = { .n = n, .pixels = pixels, .c = c, .groups = groups, .eps = 1e-5f, .act = act };
    float *x = shared_normal(&rng, count, 2), *gamma = shared_normal(&rng, c, 1), *beta = shared_normal(&rng, c, 1);
    float *scale = modulated ? shared_normal(&rng, n * c, 1) : NULL,
          *gain = modulated ? shared_normal(&rng, n * c, 1) : NULL;
    float *shift = modulated ? shared_normal(&rng, n * c, 1) : NULL;
    float *work = shared_new(zn_norm_scratch(&a), NAN), *y = result_new(count), *want = fenced_new(count, false);
    a.x = x, a.gamma = gamma, a.beta = beta, a.scale = scale, a.shift = shift, a.gain = gain;
    a.partial = work;
    a.table = a.partial + 2 * a.n * zn_norm_blocks(&a) * a.c;
    a.sums = a.table + 3 * a.n * a.c;
    a.y = want;
    norm_all(&a, false);
    a.y = y;
    norm_all(&a, true);
    compare("norm_sums, norm_merge, norm_apply", y, want, count, 1e-6);
    float *const all[] = { x, gamma, beta, scale, shift, gain, work };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        shared_free(all[i]);
    result_free(y);
    fenced_free(want);
}

static void check_norms(void)
{
    if (!strstr("norm_sums norm_merge norm_apply", filter))
        return;
    check_norm(1, 1, 4, 1, ZN_ACT_NONE, false);
    check_norm(2, 77, 12, 3, ZN_ACT_SILU, true);
    check_norm(1, 1000, 256, 4, ZN_ACT_RELU, false);
    check_norm(2, 130, 640, 32, ZN_ACT_NONE, true);
}

/* ---- convolutions ---- */

static const zn_conv_kernel *reference(void)
{
    const zn_conv_kernel *const *k = zn_conv_kernels;
    while (k[1])
        k++;
    return *k;
}

static float *upload(const float *from, int64_t count)
{
    float *x = shared_new(count, 0);
    memcpy(x, from, sizeof(float) * (size_t)count);
    zn_device_send(device, x, sizeof(float) * (size_t)count);
    must(zn_device_wait(device));
    return x;
}

static void run_reference(const conv_data *d, conv_options o)
{
    const zn_conv_kernel *ref = reference();
    const zn_conv_args a = conv_args_of(d, o, d->w, d->want);
    float *scratch = fenced_new((int64_t)(ref->scratch_bytes(&d->s) / sizeof(float)), true);
    ref->run(&a, (zn_range){ 0, ref->units(&d->s), scratch });
    fenced_free(scratch);
}

/* With all of x in the memory of both sides; with `alias`, y begins as the residual. */
static void check_conv(const zn_conv_kernel *k, const conv_data *d, conv_options o)
{
    char name[160], text[96];
    conv_shape_text(&d->s, text, sizeof text);
    snprintf(name, sizeof name, "%s %s", k->name, text);
    const int64_t packed_count = (int64_t)(k->packed_bytes(&d->s) / sizeof(float));
    float *packed = shared_new(packed_count, NAN), *y = result_new(d->y_count);
    float *x = upload(d->x, d->x_count), *bias = upload(d->bias, d->s.cout),
          *residual = upload(d->residual, d->y_count);
    k->pack(&d->s, d->w, packed);
    zn_device_send(device, packed, sizeof(float) * (size_t)packed_count);
    zn_conv_args a = conv_args_of(d, o, packed, y);
    if (o.alias)
        zn_device_send(device, y, sizeof(float) * (size_t)d->y_count);
    a.x = x;
    a.bias = o.bias ? bias : NULL;
    a.residual = o.alias ? y : o.residual ? residual : NULL;
    start(k->run, k->units(&d->s), &a);
    compare(name, y, d->want, d->y_count, (double)k->tolerance * (d->y_count < 256 ? 4 : 1));
    float *const all[] = { packed, x, bias, residual };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        shared_free(all[i]);
    result_free(y);
}

static int shapes(zn_conv_shape *list)
{
    int count = 0;
    list[count++] = conv_shape(1, 1, 1, 4, 4, 3, 1, 1, false);
    list[count++] = conv_shape(1, 9, 17, 3, 64, 3, 1, 1, false); /* one float at a time */
    list[count++] = conv_shape(2, 5, 19, 64, 64, 3, 1, 1, false);
    list[count++] = conv_shape(1, 10, 18, 64, 3, 3, 1, 1, false); /* few channels */
    list[count++] = conv_shape(1, 5, 9, 32, 64, 3, 1, 1, true);   /* through an up-sampling */
    list[count++] = conv_shape(1, 13, 21, 64, 64, 3, 2, 1, false);
    list[count++] = conv_shape(1, 11, 7, 13, 37, 3, 1, 1, false);
    list[count++] = conv_shape(2, 6, 6, 5, 7, 5, 1, 2, true);
    list[count++] = conv_shape(1, 7, 9, 64, 256, 1, 1, 0, false);
    list[count++] = conv_shape(1, 8, 8, 256, 64, 1, 1, 0, false);
    list[count++] = conv_shape_beyond(conv_shape(2, 7, 13, 12, 20, 3, 2, 0, false), 1);
    list[count++] = conv_shape(1, 33, 40, 8, 64, 3, 1, 1, false); /* large tiles, where the GPU is small */
    if (emulated)
        return count;
    for (int i = 0; i < 8; i++) { /* every pair of channels */
        static const int channels[] = { 3, 4, 16, 32, 64, 100, 128, 256 };
        for (int o = 0; o < 8; o++)
            list[count++] = conv_shape(1 + i % 2, 12 + 3 * i, 50 - 5 * o, channels[i], channels[o], 3,
                                       1 + (i + o) % 3 / 2, 1, (i + o) % 3 == 1);
    }
    list[count++] = conv_shape(1, 131, 250, 64, 64, 3, 1, 1, false); /* large tiles on a large GPU */
    list[count++] = conv_shape(2, 66, 75, 64, 64, 3, 1, 1, true);
    list[count++] = conv_shape(1, 257, 301, 64, 64, 3, 2, 1, false);
    list[count++] = conv_shape(1, 131, 250, 3, 64, 3, 1, 1, false);
    list[count++] = conv_shape(1, 131, 250, 64, 3, 3, 1, 1, false);
    list[count++] = conv_shape(3, 61, 127, 100, 130, 1, 1, 0, false);
    return count;
}

static void check_convs(void)
{
    static zn_conv_shape list[128];
    const int count = shapes(list);
    for (int i = 0; i < count; i++) {
        conv_data d = conv_data_new(list[i], 1000 + (uint64_t)i);
        const conv_options o = conv_option_list[i % CONV_OPTIONS];
        run_reference(&d, o);
        for (const zn_conv_kernel *const *k = zn_conv_kernels; *k; k++)
            if ((*k)->cpu == ZN_CPU_CUDA && (*k)->supports(&d.s) && strstr((*k)->name, filter))
                check_conv(*k, &d, o);
        conv_data_free(&d);
    }
}

/* ---- what must fail ---- */

static void check_failures(void)
{
    float x[4] = { 0 };
    const zn_unary_args a = { .x = x, .y = x };
    zn_device_launch(device, zn_k_relu, 4, &a);
    if (zn_device_wait(device) == ZN_OK)
        fail("relu", "took memory that has no twin");
    zn_device_launch(device, zn_k_relu_grad, 4, &a);
    if (zn_device_wait(device) == ZN_OK)
        fail("relu_grad", "is said to have a CUDA build");
    if (zn_device_wait(device) != ZN_OK)
        fail("the device", "does not forget a failure that was told");
}

int main(int argc, char **argv)
{
    filter = argc > 1 ? argv[1] : filter;
    if (zn_device_open("cuda", &device) != ZN_OK) {
        printf("%s\n", zn_error_text());
        return 77;
    }
    char text[64];
    double gflops, bandwidth;
    zn_device_describe(device, text, sizeof text, &gflops, &bandwidth);
    emulated = strstr(text, "emulated") != NULL;
    check_elementwise();
    check_upsample();
    check_norms();
    check_convs();
    check_failures();
    for (int i = 0; i < LISTED && !*filter; i++)
        if (!listed[i].launches)
            fail(listed[i].name, "has no case here");
    printf("%s (%.0f GFLOP/s, %.0f GB/s): %d comparisons, %d failures; convolutions differ by %.1e, in less precision "
           "%.1e\n",
           text, gflops, bandwidth, compared, failures, worst[0], worst[1]);
    zn_device_close(device);
    return failures || !compared;
}
