/* Times convolutions, their input gradients and their weight gradients on a GPU, as the engine chooses them: a line per
 * shape and precision, with maps of 16 bits where the kernel knows them. "of peak": multiplications actually made,
 * against what the matrix unit of a Hopper GPU has for their type; GB/s: x, y and weights once each.
 *
 *     bench-cuda-conv [FILTER]     only lines that contain it, for example "bf16", "frames" or "16x256x256" */
#include "conv_case.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "kernels/conv_grad.h"
#include "kernels/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *filter = "";
static zn_device *device;
static double tf32_peak; /* TFLOP/s; bf16 has twice as much */

static void must(zn_status status)
{
    if (status == ZN_OK)
        return;
    fprintf(stderr, "%s\n", zn_error_text());
    exit(1);
}

/* The type of a map that a kernel can read or write in 16 bits. */
static zn_type type_of(zn_precision math, bool narrow)
{
    return !narrow || math == ZN_PRECISION_F32 ? ZN_TYPE_F32 : math == ZN_PRECISION_BF16 ? ZN_TYPE_BF16 : ZN_TYPE_F16;
}

/* Numbers between -0.5 and 0.5 on the device. */
static float *memory(int64_t count)
{
    const size_t bytes = sizeof(float) * (size_t)(count > 0 ? count : 1);
    float *x = zn_alloc(bytes);
    if (!x)
        exit(2);
    uint32_t state = 1;
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / (1 << 24) - 0.5f;
        uint32_t bits; /* the same number twice, as bf16: the memory is also a map of 16 bits */
        memcpy(&bits, &x[i], sizeof bits);
        bits = (bits & 0xffff0000u) | bits >> 16;
        memcpy(&x[i], &bits, sizeof bits);
    }
    must(zn_device_twin(device, x, bytes));
    zn_device_send(device, x, bytes);
    return x;
}

/* Codes of FP8 below 1, for scales too. */
static float *code_memory(size_t bytes)
{
    float *x = memory((int64_t)((bytes + 3) / 4));
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)x)[i] &= 0xb7;
    zn_device_send(device, x, bytes);
    return x;
}

static void release(float *x)
{
    zn_device_drop(device, x);
    zn_free(x);
}

/* Milliseconds of a call, when many are queued. */
static double time_of(void (*call)(const void *), const void *what)
{
    double best = 1e30;
    call(what);
    must(zn_device_wait(device));
    for (int round = 0; round < 5; round++) {
        enum { CALLS = 20 };
        const double start = zn_clock_ms();
        for (int i = 0; i < CALLS; i++)
            call(what);
        must(zn_device_wait(device));
        const double ms = (zn_clock_ms() - start) / CALLS;
        best = ms < best ? ms : best;
    }
    return best;
}

typedef struct forward {
    const zn_conv_kernel *k;
    zn_conv_args a;
    zn_conv_pack_args pack;
    bool packs; /* before every call, as in training */
} forward;

static void run_forward(const void *what)
{
    const forward *f = what;
    if (f->packs)
        zn_device_launch(device, f->k->pack_on_device, 1, &f->pack);
    zn_device_launch(device, f->k->run, f->k->units(&f->a.s), &f->a);
}

typedef struct backward {
    const zn_conv_grad_kernel *k;
    zn_conv_grad_args a;
} backward;

static void run_backward(const void *what)
{
    const backward *b = what;
    zn_conv_grad_args a = b->a;
    for (a.stage = 0; a.stage < b->k->stages(&a.s); a.stage++)
        zn_device_launch(device, b->k->run, b->k->units(&a.s, a.stage), &a);
}

static void report(const char *what, const char *kernel, const zn_conv_shape *s, size_t bytes, double ms, double done)
{
    char text[96];
    conv_shape_text(s, text, sizeof text);
    const double x = (double)s->n * s->h * s->w * s->cin, y = (double)s->n * s->oh * s->ow * s->cout;
    const double peak = strstr(kernel, "tf32") ? tf32_peak : 2 * tf32_peak;
    printf("%-9s %-22s %-34s %8.4f ms %7.1f TFLOP/s %5.1f %% of peak %6.0f GB/s\n", what, kernel, text, ms,
           zn_conv_direct_flops(s) / ms * 1e-9, 100 * done / ms * 1e-9 / peak,
           (double)bytes * (x + y + (double)s->kh * s->kw * s->cin * s->cout) / ms * 1e-6);
    fflush(stdout);
}

static bool is_wanted(const char *what, const char *kernel, const zn_conv_shape *s)
{
    char text[96], line[256];
    conv_shape_text(s, text, sizeof text);
    snprintf(line, sizeof line, "%s %s %s", what, kernel, text);
    return strstr(line, filter) != NULL;
}

static void time_conv(const char *what, zn_conv_shape s, zn_precision math, bool changing)
{
    const zn_conv_kernel *k =
        zn_conv_choose(&s, (zn_conv_wish){ .math = math, .cpu = zn_device_flags(device), .changing = changing });
    if (!k->pack_on_device || !is_wanted(what, k->name, &s))
        return;
    float *x = memory((int64_t)s.n * s.h * s.w * s.cin), *y = memory((int64_t)s.n * s.oh * s.ow * s.cout);
    float *w = memory((int64_t)s.kh * s.kw * s.cin * s.cout), *bias = memory(s.cout);
    float *packed = memory((int64_t)(k->packed_bytes(&s) / sizeof(float)) + 1);
    const unsigned narrow = k->narrow ? k->narrow(&s) : 0;
    const zn_type x_type = type_of(k->math, narrow & ZN_CONV_NARROW_X);
    float *workspace = memory((int64_t)((k->workspace_bytes ? k->workspace_bytes(&s, x_type) : 0) / sizeof(float)) + 1);
    forward f = { .k = k,
                  .a = { .s = s,
                         .x = x,
                         .packed = packed,
                         .bias = changing ? NULL : bias,
                         .y = y,
                         .relu = !changing,
                         .x_type = x_type,
                         .y_type = type_of(k->math, narrow & ZN_CONV_NARROW_Y),
                         .workspace = workspace },
                  .pack = { .s = s, .w = w, .packed = packed, .flipped = changing },
                  .packs = true };
    run_forward(&f);
    f.packs = changing;
    report(what, k->name, &s, zn_type_size(f.a.y_type), time_of(run_forward, &f), k->flops(&s));
    float *const all[] = { x, y, w, bias, packed, workspace };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        release(all[i]);
}

static void time_weight_grad(zn_conv_shape s, zn_precision math)
{
    const zn_conv_grad_kernel *k = zn_conv_grad_choose(&s, math, zn_device_flags(device));
    if (!(k->cpu & ZN_CPU_CUDA) || !is_wanted("weights", k->name, &s))
        return;
    float *x = memory((int64_t)s.n * s.h * s.w * s.cin), *dy = memory((int64_t)s.n * s.oh * s.ow * s.cout);
    float *dw = memory((int64_t)s.kh * s.kw * s.cin * s.cout);
    float *shared = memory((int64_t)(k->shared_bytes(&s) / sizeof(float)));
    const zn_type type = type_of(k->math, k->narrow);
    float *workspace =
        memory((int64_t)((k->workspace_bytes ? k->workspace_bytes(&s, type, type) : 0) / sizeof(float)) + 1);
    const backward b = { k,
                         { .s = s,
                           .x = x,
                           .dy = dy,
                           .dw = dw,
                           .shared = shared,
                           .x_type = type,
                           .dy_type = type,
                           .workspace = workspace } };
    report("weights", k->name, &s, zn_type_size(type), time_of(run_backward, &b), k->flops(&s));
    float *const all[] = { x, dy, dw, shared, workspace };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        release(all[i]);
}

/* A causal convolution over three frames of kernel, of a piece of a clip with the frames before it. */
enum { DEPTH = 3 };
typedef struct over_frames {
    const zn_conv_kernel *k;
    zn_conv_frames_args f;
} over_frames;

static void run_over_frames(const void *what)
{
    const over_frames *o = what;
    zn_device_launch(device, o->k->run_frames, o->k->units(&o->f.a.s), &o->f);
}

/* As ops/conv/conv_frames.c does it without run_frames; frames before x are read as if they were in it. */
static void run_each_frame(const void *what)
{
    const over_frames *o = what;
    zn_conv_args a = o->f.a;
    for (int age = 0; age < DEPTH; age++) {
        zn_device_launch(device, o->k->run, o->k->units(&a.s), &a);
        a.packed = (const char *)a.packed + o->k->packed_bytes(&a.s);
        a.residual = a.y;
        a.residual_type = a.y_type;
    }
}

static void time_frames(zn_conv_shape s)
{
    const zn_conv_kernel *k =
        zn_conv_choose(&s, (zn_conv_wish){ .math = ZN_PRECISION_BF16, .cpu = zn_device_flags(device) });
    if (!is_wanted("frames", k->name, &s) || !k->run_frames)
        return;
    zn_conv_shape all = s;
    all.n *= DEPTH;
    float *x = memory((int64_t)s.n * s.h * s.w * s.cin / 2), *y = memory((int64_t)s.n * s.oh * s.ow * s.cout / 2);
    float *before = memory((int64_t)(DEPTH - 1) * s.h * s.w * s.cin / 2), *bias = memory(s.cout);
    float *packed = memory((int64_t)(DEPTH * k->packed_bytes(&s) / sizeof(float)));
    const over_frames o = { k,
                            { .a = { .s = s,
                                     .x = x,
                                     .packed = packed,
                                     .bias = bias,
                                     .y = y,
                                     .x_type = ZN_TYPE_BF16,
                                     .y_type = ZN_TYPE_BF16 },
                              .before = before,
                              .depth = DEPTH } };
    report("by frame", k->name, &all, sizeof(uint16_t), time_of(run_each_frame, &o), DEPTH * k->flops(&s));
    report("frames", k->name, &all, sizeof(uint16_t), time_of(run_over_frames, &o), DEPTH * k->flops(&s));
    const zn_conv_kernel *codes = zn_conv_of_codes(&s, zn_device_flags(device));
    if (codes) {
        over_frames of = o;
        const size_t frame = (size_t)s.h * (size_t)s.w * (size_t)s.cin;
        float *code_x = code_memory(frame * (size_t)s.n), *code_before = code_memory(frame * (DEPTH - 1)),
              *code_weights = code_memory(DEPTH * codes->packed_bytes(&s));
        of.k = codes;
        of.f.a.x = code_x;
        of.f.a.packed = code_weights;
        of.f.before = code_before;
        of.f.a.x_type = ZN_TYPE_E4M3;
        of.f.scale = 1;
        report("frames", codes->name, &all, sizeof(uint8_t), time_of(run_over_frames, &of),
               DEPTH * codes->flops(&s) / 2);
        release(code_x);
        release(code_before);
        release(code_weights);
    }
    float *const memories[] = { x, y, before, bias, packed };
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++)
        release(memories[i]);
}

/* The convolution that computes the gradient of the input, as ops/conv/conv_grad.c builds it. */
static zn_conv_shape input_grad(const zn_conv_shape *s)
{
    zn_conv_shape g =
        conv_shape(s->n, s->oh * s->stride, s->ow * s->stride, s->cout, s->cin, s->kh, 1, s->kh - 1 - s->pad, false);
    g.oh = s->h;
    g.ow = s->w;
    return g;
}

static void time_shape(zn_conv_shape s)
{
    static const zn_precision maths[] = { ZN_PRECISION_F32, ZN_PRECISION_BF16, ZN_PRECISION_F16 };
    for (int i = 0; i < 3; i++) {
        time_conv("forward", s, maths[i], false);
        if (s.up2 || s.n == 1) /* gradients read the upsampled map; inference has none */
            continue;
        time_conv("input", input_grad(&s), maths[i], true);
        time_weight_grad(s, maths[i]);
    }
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
    tf32_peak = gflops * 8 * 1e-3;
    printf("%s: peak %.0f TFLOP/s TF32, %.0f 16 bits, %.0f GB/s\n", text, tf32_peak, 2 * tf32_peak, bandwidth);
    for (int batch = 1; batch <= 16; batch += 15) { /* TAESD */
        const int side = batch == 1 ? 512 : 256;
        time_shape(conv_shape(batch, side, side, 3, 64, 3, 1, 1, false));
        for (int down = 1; down <= 8; down *= 2)
            time_shape(conv_shape(batch, side / down, side / down, 64, 64, 3, 1, 1, false));
        time_shape(conv_shape(batch, side, side, 64, 64, 3, 2, 1, false));
        time_shape(conv_shape(batch, side / 2, side / 2, 64, 64, 3, 1, 1, true));
        time_shape(conv_shape(batch, side, side, 64, 3, 3, 1, 1, false));
        time_shape(conv_shape(batch, side / 8, side / 8, 4, 64, 3, 1, 1, false));
    }
    for (int channels = 128; channels <= 512; channels *= 2) {
        time_shape(conv_shape(16, 64, 64, channels, channels, 3, 1, 1, false));
        time_shape(conv_shape(16, 64, 64, channels, channels, 1, 1, 0, false));
    }
    /* pieces of a clip of 832x480 in Wan 2.1 */
    time_frames(conv_shape(1, 60, 104, 384, 384, 3, 1, 1, false));
    time_frames(conv_shape(2, 120, 208, 192, 384, 3, 1, 1, false));
    time_frames(conv_shape(2, 120, 208, 384, 384, 3, 1, 1, false));
    time_frames(conv_shape(4, 240, 416, 192, 192, 3, 1, 1, false));
    time_frames(conv_shape(4, 480, 832, 96, 96, 3, 1, 1, false));
    zn_device_close(device);
    return 0;
}
