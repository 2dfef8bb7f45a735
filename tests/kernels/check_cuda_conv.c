/* The convolutions of a GPU, and what belongs to them, against the scalar ones. */
#include "conv_case.h"
#include "cuda_case.h"

#include "base/convert.h"
#include "base/cpu.h"
#include "kernels/cuda/conv/conv.h"
#include "kernels/fp8.h"
#include "kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const zn_conv_kernel *reference(void)
{
    const zn_conv_kernel *const *k = zn_conv_kernels;
    while (k[1])
        k++;
    return *k;
}

static void run_reference(const conv_data *d, conv_options o)
{
    const zn_conv_kernel *ref = reference();
    const zn_conv_args a = conv_args_of(d, o, d->w, d->want);
    cuda_reference(ref->run, ref->units(&d->s), &a, ref->scratch_bytes(&d->s));
}

/* A mask of results, or NULL, and a copy of d->want to which it is applied. */
typedef struct masking {
    float *mask, *want;
} masking;

static masking masking_new(const conv_data *d, zn_type type, bool masked)
{
    masking m = { NULL, fenced_new(d->y_count, false) };
    memcpy(m.want, d->want, sizeof(float) * (size_t)d->y_count);
    if (!masked)
        return m;
    zn_rng rng = zn_rng_new(77);
    float *values = fenced_new(d->y_count, false);
    for (int64_t i = 0; i < d->y_count; i++) {
        values[i] = i % 3 ? zn_rng_normal(&rng) : 0;
        m.want[i] = values[i] > 0 ? m.want[i] : 0;
    }
    m.mask = cuda_map_new(values, d->y_count, type);
    fenced_free(values);
    return m;
}

static void masking_free(masking *m)
{
    if (m->mask)
        cuda_shared_free(m->mask);
    fenced_free(m->want);
}

static float *room_for(const zn_conv_kernel *k, const zn_conv_shape *s, zn_type x)
{
    return cuda_shared_new((int64_t)((k->workspace_bytes ? k->workspace_bytes(s, x) : 0) / sizeof(float)) + 1, NAN);
}

/* With all of x in the memory of both sides; with `alias`, y begins as the residual. */
static void check_conv(const zn_conv_kernel *k, const conv_data *d, conv_options o, bool masked)
{
    char name[160], text[96];
    masking m = masking_new(d, ZN_TYPE_F32, masked);
    conv_shape_text(&d->s, text, sizeof text);
    snprintf(name, sizeof name, "%s %s", k->name, text);
    const int64_t packed_count = (int64_t)(k->packed_bytes(&d->s) / sizeof(float));
    float *packed = cuda_shared_new(packed_count, NAN), *y = cuda_result_new(d->y_count);
    float *x = cuda_shared_copy(d->x, d->x_count), *bias = cuda_shared_copy(d->bias, d->s.cout),
          *residual = cuda_shared_copy(d->residual, d->y_count);
    k->pack(&d->s, d->w, packed);
    zn_device_send(cuda_device, packed, sizeof(float) * (size_t)packed_count);
    zn_conv_args a = conv_args_of(d, o, packed, y);
    if (o.alias)
        zn_device_send(cuda_device, y, sizeof(float) * (size_t)d->y_count);
    a.x = x;
    a.bias = o.bias ? bias : NULL;
    a.residual = o.alias ? y : o.residual ? residual : NULL;
    a.mask = m.mask;
    a.workspace = room_for(k, &d->s, a.x_type);
    cuda_start(k->run, k->units(&d->s), &a);
    cuda_shared_free(a.workspace);
    cuda_compare(name, y, m.want, d->y_count, (double)k->tolerance * (d->y_count < 256 ? 4 : 1));
    masking_free(&m);
    float *const all[] = { packed, x, bias, residual };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    cuda_result_free(y);
}

/* A copy on the device in 16 bits; x is rounded in place. */
static float *shared_narrow(float *x, int64_t count, zn_precision math)
{
    float *narrow = cuda_shared_new((count + 1) / 2, 0);
    for (int64_t i = 0; i < count; i++) {
        const uint16_t bits = math == ZN_PRECISION_BF16 ? zn_f32_to_bf16(x[i]) : zn_f32_to_f16(x[i]);
        memcpy((char *)narrow + 2 * i, &bits, sizeof bits);
        x[i] = math == ZN_PRECISION_BF16 ? zn_bf16_to_f32(bits) : zn_f16_to_f32(bits);
    }
    zn_device_send(cuda_device, narrow, sizeof(uint16_t) * (size_t)count);
    cuda_must(zn_device_wait(cuda_device));
    return narrow;
}

/* Results of 16 bits as floats between guards; that they are rounded counts too. */
static void compare_narrow(const char *name, const zn_conv_kernel *k, float *from, const float *want, int64_t count,
                           zn_type type)
{
    float *got = cuda_result_new(count);
    zn_device_fetch(cuda_device, from, sizeof(uint16_t) * (size_t)count);
    cuda_must(zn_device_wait(cuda_device));
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, (const char *)from + 2 * i, sizeof bits);
        got[i] = type == ZN_TYPE_BF16 ? zn_bf16_to_f32(bits) : zn_f16_to_f32(bits);
    }
    zn_device_send(cuda_device, got, sizeof(float) * (size_t)count);
    const double allowed = type == ZN_TYPE_BF16 && k->tolerance < 5e-3f ? 5e-3 : (double)k->tolerance;
    cuda_compare(name, got, want, count, allowed * (count < 256 ? 4 : 1));
    cuda_result_free(got);
}

/* Maps of 16 bits; x only if the kernel reads them. */
static void check_narrow(const zn_conv_kernel *k, conv_data *d, conv_options o, bool masked)
{
    const bool reads = k->narrow(&d->s) & ZN_CONV_NARROW_X;
    char name[160], text[96];
    conv_shape_text(&d->s, text, sizeof text);
    snprintf(name, sizeof name, "%s %s, maps of 16 bits", k->name, text);
    const zn_type type = k->math == ZN_PRECISION_BF16 ? ZN_TYPE_BF16 : ZN_TYPE_F16;
    float *packed = cuda_shared_new((int64_t)(k->packed_bytes(&d->s) / sizeof(float)), NAN);
    float *x = reads ? shared_narrow(d->x, d->x_count, k->math) : cuda_shared_copy(d->x, d->x_count);
    float *residual = shared_narrow(d->residual, d->y_count, k->math);
    float *y = cuda_result_new(d->y_count), *bias = cuda_shared_copy(d->bias, d->s.cout);
    run_reference(d, o);
    masking m = masking_new(d, type, masked);
    k->pack(&d->s, d->w, packed);
    zn_device_send(cuda_device, packed, k->packed_bytes(&d->s));
    zn_conv_args a = conv_args_of(d, o, packed, y);
    a.x = x;
    a.bias = o.bias ? bias : NULL;
    a.residual = o.residual || o.alias ? residual : NULL;
    a.y = o.alias ? residual : y;
    a.residual_type = a.y_type = type;
    a.x_type = reads ? type : ZN_TYPE_F32;
    a.mask = m.mask;
    a.workspace = room_for(k, &d->s, a.x_type);
    cuda_start(k->run, k->units(&d->s), &a);
    cuda_shared_free(a.workspace);
    compare_narrow(name, k, o.alias ? residual : y, m.want, d->y_count, type);
    masking_free(&m);
    float *const all[] = { packed, x, residual, bias };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    cuda_result_free(y);
}

/* Weights packed by the device must have the bytes of those packed by the host. */
static void check_pack(const zn_conv_kernel *k, const conv_data *d, bool flipped)
{
    char name[160], text[96];
    conv_shape_text(&d->s, text, sizeof text);
    snprintf(name, sizeof name, "packing of %s %s%s", k->name, text, flipped ? " flipped" : "");
    const size_t bytes = k->packed_bytes(&d->s);
    float *device_packed = cuda_shared_new((int64_t)(bytes / sizeof(float)), NAN),
          *w = cuda_shared_copy(d->w, d->w_count);
    float *host_packed = fenced_new((int64_t)(bytes / sizeof(float)), true), *turned = fenced_new(d->w_count, true);
    const zn_flip_args flip = { .w = d->w, .y = turned, .taps = d->s.kh * d->s.kw, .cin = d->s.cout, .cout = d->s.cin };
    zn_k_flip_weights(&flip, (zn_range){ 0, flip.taps, NULL });
    k->pack(&d->s, flipped ? turned : d->w, host_packed);
    cuda_start(k->pack_on_device, 1,
               &(zn_conv_pack_args){ .s = d->s, .w = w, .packed = device_packed, .flipped = flipped });
    zn_device_fetch(cuda_device, device_packed, bytes);
    cuda_must(zn_device_wait(cuda_device));
    if (memcmp(host_packed, device_packed, bytes) != 0)
        cuda_fail(name, "gives other bytes than on the host");
    cuda_shared_free(device_packed);
    cuda_shared_free(w);
    fenced_free(host_packed);
    fenced_free(turned);
}

/* A convolution through an up-sampling as four of 2x2: pixels of the result by the packed weights, before rounding. */
static void check_phases(const conv_data *d)
{
    const zn_conv_shape *s = &d->s;
    const zn_cuda_weights p = zn_cuda_up_weights(s);
    double off = 0, all = 1e-30;
    for (int64_t i = 0; i < d->y_count; i++) {
        const int o = (int)(i % s->cout), ox = (int)(i / s->cout % s->ow), oy = (int)(i / s->cout / s->ow % s->oh);
        const int64_t image = i / s->cout / s->ow / s->oh;
        const int phase = oy % 2 * 2 + ox % 2, column = phase * (p.columns / 4) + o;
        double sum = 0;
        for (int row = 0; row < p.rows; row++) {
            const int tap = row % (4 * p.chunk) / p.chunk, c = row / (4 * p.chunk) * p.chunk + row % p.chunk;
            const int y = oy / 2 + oy % 2 - 1 + tap / 2, x = ox / 2 + ox % 2 - 1 + tap % 2;
            if (c < s->cin && y >= 0 && x >= 0 && y < s->h && x < s->w)
                sum += (double)d->x[((image * s->h + y) * s->w + x) * s->cin + c] *
                       (double)zn_cuda_up_weight(s, &p, d->w, false, row, column);
        }
        off += (sum - (double)d->want[i]) * (sum - (double)d->want[i]);
        all += (double)d->want[i] * (double)d->want[i];
    }
    if (!(sqrt(off / all) < 1e-5))
        cuda_fail("wgmma-up", "the four phases are not the convolution");
}

static void check_flip(void)
{
    enum { TAPS = 6, IN = 5, OUT = 37, COUNT = TAPS * IN * OUT };
    zn_rng rng = zn_rng_new(20);
    float *w = cuda_shared_normal(&rng, COUNT, 1), *y = cuda_result_new(COUNT), *want = fenced_new(COUNT, false);
    zn_flip_args a = { .w = w, .y = want, .taps = TAPS, .cin = IN, .cout = OUT };
    zn_k_flip_weights(&a, (zn_range){ 0, a.taps, NULL });
    a.y = y;
    cuda_start(zn_k_flip_weights, a.taps, &a);
    cuda_compare("flip_weights", y, want, COUNT, 0);
    cuda_shared_free(w);
    cuda_result_free(y);
    fenced_free(want);
}

/* ---- over frames ---- */

enum { DEPTH = 3 };

/* parts: the weights of each frame of the kernel, the newest first, and in the first one all else. before: NULL, or
 * what has the frames before x. */
static void run_reference_frames(const conv_data *parts, const conv_data *before, conv_options o)
{
    const conv_data *d = parts;
    const zn_conv_kernel *ref = reference();
    const int64_t from = d->x_count / d->s.n, to = d->y_count / d->s.n;
    zn_conv_shape one = d->s;
    one.n = 1;
    for (int t = 0; t < d->s.n; t++)
        for (int age = 0; age < DEPTH; age++) {
            const float *x = t >= age ? d->x + (t - age) * from
                             : before ? before->x + (t - age + DEPTH - 1) * from
                                      : NULL;
            float *y = d->want + t * to;
            const zn_conv_args a = { .s = one,
                                     .x = x,
                                     .packed = parts[age].w,
                                     .bias = o.bias && !age ? d->bias : NULL,
                                     .residual = age          ? y
                                                 : o.residual ? d->residual + t * to
                                                              : NULL,
                                     .y = y };
            if (x)
                cuda_reference(ref->run, ref->units(&one), &a, ref->scratch_bytes(&one));
        }
}

static void check_frames(const zn_conv_kernel *k, zn_conv_shape s, bool kept, conv_options o)
{
    char name[160], text[96];
    conv_shape_text(&s, text, sizeof text);
    snprintf(name, sizeof name, "%s %s, over frames%s", k->name, text, kept ? " with those before" : "");
    zn_conv_shape old = s;
    old.n = DEPTH - 1;
    conv_data parts[DEPTH], earlier = conv_data_new(old, 2000);
    for (int i = 0; i < DEPTH; i++)
        parts[i] = conv_data_new(s, 2001 + (uint64_t)i);
    conv_data *d = parts;
    const size_t each = k->packed_bytes(&s);
    char *packed = (char *)cuda_shared_new((int64_t)(DEPTH * each / sizeof(float)), NAN);
    for (int i = 0; i < DEPTH; i++)
        k->pack(&s, parts[i].w, packed + (size_t)i * each);
    zn_device_send(cuda_device, packed, DEPTH * each);
    float *x = shared_narrow(d->x, d->x_count, k->math), *residual = shared_narrow(d->residual, d->y_count, k->math);
    float *before = shared_narrow(earlier.x, earlier.x_count, k->math), *bias = cuda_shared_copy(d->bias, s.cout);
    float *y = cuda_result_new(d->y_count);
    run_reference_frames(parts, kept ? &earlier : NULL, o);
    const zn_type type = k->math == ZN_PRECISION_BF16 ? ZN_TYPE_BF16 : ZN_TYPE_F16;
    const zn_conv_frames_args a = { .a = { .s = s,
                                           .x = x,
                                           .packed = packed,
                                           .bias = o.bias ? bias : NULL,
                                           .residual = o.residual ? residual : NULL,
                                           .y = o.alias ? residual : y,
                                           .x_type = type,
                                           .residual_type = type,
                                           .y_type = type },
                                    .before = kept ? before : NULL,
                                    .depth = DEPTH };
    cuda_start(k->run_frames, k->units(&s), &a);
    compare_narrow(name, k, o.alias ? residual : y, d->want, d->y_count, type);
    float *const all[] = { (float *)packed, x, residual, before, bias };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    cuda_result_free(y);
    conv_data_free(&earlier);
    for (int i = 0; i < DEPTH; i++)
        conv_data_free(&parts[i]);
}

/* Numbers become what their FP8 codes stand for, `apart` numbers between neighbours; returns the scale. */
static float round_to_codes(float *x, int64_t count, int64_t apart, uint8_t *codes)
{
    float most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(x[i * apart]));
    const float scale = most / ZN_E4M3_MOST;
    for (int64_t i = 0; i < count; i++) {
        float number = x[i * apart] / scale;
        zn_to_e4m3(&codes[i], &number, 1, 1);
        zn_to_f32(&number, &codes[i], ZN_F8_E4M3, 1);
        x[i * apart] = number * scale;
    }
    return scale;
}

/* Of maps of one scale. */
static float *shared_codes(float *x, int64_t count, float *scale)
{
    float *codes = cuda_shared_new((count + 3) / 4, 0);
    *scale = round_to_codes(x, count, 1, (uint8_t *)codes);
    zn_device_send(cuda_device, codes, (size_t)count);
    cuda_must(zn_device_wait(cuda_device));
    return codes;
}

static void round_weights(conv_data *d)
{
    uint8_t *codes = (uint8_t *)fenced_new(d->w_count / 4 + 1, false);
    for (int o = 0; o < d->s.cout; o++)
        round_to_codes(d->w + o, d->w_count / d->s.cout, d->s.cout, codes);
    fenced_free((float *)codes);
}

/* Products of codes are exact, so the reference multiplies what they stand for; y has the type that is given. */
static void check_codes(const zn_conv_kernel *k, zn_conv_shape s, bool kept, zn_type y_type, conv_options o)
{
    char name[160], text[96];
    conv_shape_text(&s, text, sizeof text);
    snprintf(name, sizeof name, "%s %s, over frames%s", k->name, text, kept ? " with those before" : "");
    conv_data parts[DEPTH], *d = parts;
    for (int i = 0; i < DEPTH; i++)
        parts[i] = conv_data_new(s, 3001 + (uint64_t)i);
    /* x with the frames before it, so that both have one scale */
    zn_conv_shape longer = s;
    longer.n += DEPTH - 1;
    conv_data all = conv_data_new(longer, 3000);
    const int64_t frame = d->x_count / s.n;
    const size_t each = k->packed_bytes(&s);
    char *packed = (char *)cuda_shared_new((int64_t)(DEPTH * each / sizeof(float)), NAN);
    for (int i = 0; i < DEPTH; i++) {
        k->pack(&s, parts[i].w, packed + (size_t)i * each);
        round_weights(&parts[i]);
    }
    zn_device_send(cuda_device, packed, DEPTH * each);
    float scale, *codes = shared_codes(all.x, all.x_count, &scale);
    memcpy(d->x, all.x + (DEPTH - 1) * frame, sizeof(float) * (size_t)d->x_count);
    float *residual = y_type == ZN_TYPE_F32 ? cuda_shared_copy(d->residual, d->y_count)
                                            : shared_narrow(d->residual, d->y_count, ZN_PRECISION_BF16);
    float *bias = cuda_shared_copy(d->bias, s.cout), *y = cuda_result_new(d->y_count);
    run_reference_frames(parts, kept ? &all : NULL, o);
    const zn_conv_frames_args a = { .a = { .s = s,
                                           .x = (const float *)((const uint8_t *)codes + (DEPTH - 1) * frame),
                                           .packed = packed,
                                           .bias = o.bias ? bias : NULL,
                                           .residual = o.residual ? residual : NULL,
                                           .y = y,
                                           .x_type = ZN_TYPE_E4M3,
                                           .residual_type = y_type,
                                           .y_type = y_type },
                                    .before = kept ? codes : NULL,
                                    .depth = DEPTH,
                                    .scale = scale };
    cuda_start(k->run_frames, k->units(&s), &a);
    if (y_type == ZN_TYPE_F32)
        cuda_compare(name, y, d->want, d->y_count, 1e-3);
    else
        compare_narrow(name, k, y, d->want, d->y_count, ZN_TYPE_BF16);
    float *const shared[] = { (float *)packed, codes, residual, bias };
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
        cuda_shared_free(shared[i]);
    cuda_result_free(y);
    conv_data_free(&all);
    for (int i = 0; i < DEPTH; i++)
        conv_data_free(&parts[i]);
}

/* Chunks of 96 and 128 channels, the last one not full; one and several blocks of results. */
static void check_all_codes(void)
{
    const conv_options plain = { 0 }, biased = { .bias = true }, added = { .bias = true, .residual = true };
    const zn_conv_shape large = conv_shape(1, 256, 256, 96, 96, 3, 1, 1, false);
    const zn_conv_kernel *k = zn_conv_of_codes(&large, zn_device_flags(cuda_device));
    if (!k || !(strstr(k->name, cuda_filter) || strstr("frames", cuda_filter)))
        return;
    check_codes(k, conv_shape(1, 18, 21, 96, 96, 3, 1, 1, false), true, ZN_TYPE_BF16, biased);
    check_codes(k, conv_shape(4, 20, 37, 96, 96, 3, 1, 1, false), true, ZN_TYPE_BF16, added);
    check_codes(k, conv_shape(2, 19, 33, 192, 192, 3, 1, 1, false), true, ZN_TYPE_BF16, added);
    check_codes(k, conv_shape(2, 17, 23, 384, 384, 3, 1, 1, false), true, ZN_TYPE_BF16, biased);
    check_codes(k, conv_shape(3, 33, 16, 80, 72, 3, 1, 1, false), false, ZN_TYPE_BF16, plain);
    check_codes(k, conv_shape(4, 96, 70, 32, 136, 3, 1, 1, false), true, ZN_TYPE_F32, added);
}

/* Channels in chunks of 32 and 64, one and several blocks of results; more tiles than there are multiprocessors. */
static void check_all_frames(const zn_conv_kernel *k)
{
    const conv_options plain = { 0 }, biased = { .bias = true }, added = { .bias = true, .residual = true },
                       in_place = { .bias = true, .residual = true, .alias = true };
    check_frames(k, conv_shape(1, 18, 21, 96, 96, 3, 1, 1, false), true, biased);
    check_frames(k, conv_shape(4, 20, 37, 96, 96, 3, 1, 1, false), true, in_place);
    check_frames(k, conv_shape(2, 33, 16, 192, 64, 3, 1, 1, false), true, added);
    check_frames(k, conv_shape(4, 17, 50, 64, 128, 3, 1, 1, false), false, plain);
    check_frames(k, conv_shape(3, 16, 15, 40, 24, 3, 1, 1, false), false, added);
    check_frames(k, conv_shape(4, 96, 70, 32, 136, 3, 1, 1, false), true, biased);
    check_frames(k, conv_shape(2, 19, 33, 192, 192, 3, 1, 1, false), true, in_place);
    check_frames(k, conv_shape(2, 17, 23, 384, 384, 3, 1, 1, false), true, biased);
}

static int shapes(zn_conv_shape *list)
{
    int count = 0;
    list[count++] = conv_shape(1, 1, 1, 4, 4, 3, 1, 1, false);
    list[count++] = conv_shape(1, 9, 17, 3, 64, 3, 1, 1, false); /* one float at a time */
    list[count++] = conv_shape(2, 17, 37, 4, 128, 3, 1, 2, false);
    list[count++] = conv_shape(2, 5, 19, 64, 64, 3, 1, 1, false);
    list[count++] = conv_shape(1, 10, 18, 64, 3, 3, 1, 1, false); /* few channels */
    list[count++] = conv_shape(2, 19, 37, 32, 8, 3, 1, 1, false);
    list[count++] = conv_shape(1, 5, 9, 32, 64, 3, 1, 1, true); /* through an up-sampling */
    list[count++] = conv_shape(1, 13, 21, 64, 64, 3, 2, 1, false);
    list[count++] = conv_shape(1, 11, 7, 13, 37, 3, 1, 1, false);
    list[count++] = conv_shape(2, 6, 6, 5, 7, 5, 1, 2, true);
    list[count++] = conv_shape(1, 9, 17, 64, 256, 1, 1, 0, false);
    list[count++] = conv_shape(1, 8, 8, 256, 64, 1, 1, 0, false);
    list[count++] = conv_shape_beyond(conv_shape(2, 7, 13, 12, 20, 3, 2, 0, false), 1);
    list[count++] = conv_shape(1, 33, 40, 20, 64, 3, 1, 1, false); /* large tiles, where the GPU is small */
    list[count++] = conv_shape(3, 1, 48, 64, 72, 1, 1, 0, false);  /* rows of tokens, folded */
    list[count] = conv_shape(1, 5, 7, 128, 32, 1, 1, 0, false);
    list[count++].unshuffle = true;
    list[count] = conv_shape(2, 3, 5, 32, 256, 1, 1, 0, false);
    list[count++].shuffle = true;
    list[count] = conv_shape(1, 9, 11, 128, 128, 1, 1, 0, false);
    list[count].unshuffle = list[count].shuffle = true;
    count++;
    list[count++] = conv_shape(1, 9, 11, 16, 32, 1, 1, 0, false); /* few channels, of which 16 are read at once */
    list[count] = conv_shape(1, 7, 5, 96, 384, 1, 1, 0, false);
    list[count++].shuffle = true;
    if (cuda_is_emulated)
        return count;
    list[count++] = conv_shape(1, 251, 250, 16, 32, 1, 1, 0, false);
    list[count++] = conv_shape(2, 131, 250, 32, 64, 1, 1, 0, false);
    list[count++] = conv_shape(1, 131, 127, 128, 256, 1, 1, 0, false);
    list[count] = conv_shape(1, 66, 75, 256, 512, 1, 1, 0, false);
    list[count++].shuffle = true;
    list[count] = conv_shape(1, 131, 250, 64, 128, 1, 1, 0, false);
    list[count++].shuffle = true;
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
    list[count++] = conv_shape(2, 131, 250, 32, 3, 3, 1, 1, false);
    list[count++] = conv_shape(3, 61, 127, 100, 130, 1, 1, 0, false);
    for (int i = 0; i < CONV_OPTIONS; i++)
        list[count++] = conv_shape(2, 61, 127, 96, 192, 1, 1, 0, false);
    list[count++] = conv_shape(1, 16, 24, 1024, 128, 3, 1, 1, false);
    for (int i = 0; i < 2; i++) { /* channels that several blocks share */
        list[count++] = conv_shape(1, 8, 8, 512, 512, 3, 1, 1, false);
        list[count++] = conv_shape(1, 16, 16, 384, 128, 3, 1, 1, false);
    }
    return count;
}

/* Weights in two parts: together they are the weights. Runs where the kernel does not. */
static void check_parts(const conv_data *d, const zn_conv_kernel *k)
{
    const zn_conv_shape *s = &d->s;
    const zn_cuda_weights p = zn_cuda_split_weights(s);
    uint16_t *packed = (uint16_t *)fenced_new((int64_t)(k->packed_bytes(s) / sizeof(float)), true);
    bool good = true;
    k->pack(s, d->w, packed);
    const float *scales = (const float *)((const char *)packed + zn_cuda_split_bytes(&p));
    for (int row = 0; row < p.rows / ZN_CUDA_SPLIT_PARTS; row++)
        for (int column = 0; column < p.columns; column++) {
            const int64_t from = zn_cuda_weight_at(s, &p, false, row, column);
            const uint16_t *high = packed + zn_cuda_split_row(row) * p.columns + column,
                           *low = high + (int64_t)ZN_CUDA_SPLIT_CHUNK * p.columns;
            const float got = (zn_f16_to_f32(*high) + zn_f16_to_f32(*low) / ZN_CUDA_SPLIT_LOW) * scales[column];
            const float want = from < 0 ? 0 : d->w[from];
            good = good && fabsf(got - want) <= 0x1p-22f * fabsf(want) + 0x1p-35f * scales[column];
        }
    if (!good)
        cuda_fail(k->name, "has other weights in its parts");
    fenced_free((float *)packed);
}

/* Full precision must not depend on how large numbers are: x and w times a factor; and a pixel of the first row of x
 * times another, which must not disturb the rows that do not read it. */
static void check_range(const zn_conv_kernel *k, zn_conv_shape s, float x_factor, float w_factor, float pixel_factor)
{
    char name[160];
    conv_data d = conv_data_new(s, 950);
    for (int64_t i = 0; i < d.x_count; i++)
        d.x[i] *= i / s.cin == 2 ? x_factor * pixel_factor : x_factor;
    for (int64_t i = 0; i < d.w_count; i++)
        d.w[i] *= w_factor;
    const conv_options plain = { 0 };
    run_reference(&d, plain);
    check_conv(k, &d, plain, false);
    float *packed = cuda_shared_new((int64_t)(k->packed_bytes(&s) / sizeof(float)), NAN);
    float *x = cuda_shared_copy(d.x, d.x_count), *y = cuda_shared_new(d.y_count, NAN);
    k->pack(&s, d.w, packed);
    zn_device_send(cuda_device, packed, k->packed_bytes(&s));
    zn_conv_args a = conv_args_of(&d, plain, packed, y);
    a.x = x;
    cuda_start(k->run, k->units(&s), &a);
    zn_device_fetch(cuda_device, y, sizeof(float) * (size_t)d.y_count);
    cuda_must(zn_device_wait(cuda_device));
    const int64_t near = (int64_t)(s.up2 ? 4 : 2) * s.ow * s.cout;
    const double e = relative_error(y + near, d.want + near, d.y_count - near);
    snprintf(name, sizeof name, "%s with x times %g, w times %g, a pixel times %g", k->name, (double)x_factor,
             (double)w_factor, (double)pixel_factor);
    if (!(e <= (double)k->tolerance))
        cuda_fail(name, "differs where that pixel is not read");
    float *const all[] = { packed, x, y };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    conv_data_free(&d);
}

static void check_all_ranges(const zn_conv_kernel *k)
{
    static const float factors[][3] = { { 1e30f, 1e-20f, 1 }, { 1e-30f, 1e20f, 1 },   { 1e-4f, 1e-20f, 1 },
                                        { 1e5f, 1e4f, 1 },    { 1, 1, 1e6f },         { 1e-5f, 1, 1e6f },
                                        { 1e-33f, 1e30f, 1 }, { 1e25f, 1e-30f, 1e6f } };
    zn_conv_shape s = conv_shape(1, 9, 11, 48, 72, 3, 1, 1, strstr(k->name, "-up-"));
    if (!k->supports(&s))
        s = conv_shape(1, 9, 11, 48, 3, 3, 1, 1, false);
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        check_range(k, s, factors[i][0], factors[i][1], factors[i][2]);
}

/* Where the kernel itself does not run, its weights are packed. */
static void check_packs(const zn_conv_kernel *k, const conv_data *d)
{
    if (!k->pack_on_device || !k->supports(&d->s) || !strstr(k->name, cuda_filter))
        return;
    check_pack(k, d, false);
    check_pack(k, d, true);
}

/* Whether a kernel of that name is checked: the scalar one takes most of the time. */
static bool is_wanted(const zn_conv_shape *s)
{
    bool wanted = false;
    for (const zn_conv_kernel *const *k = zn_conv_kernels; *k; k++)
        wanted |= strstr((*k)->name, cuda_filter) && (*k)->supports(s);
    return wanted;
}

void cuda_check_convs(void)
{
    if (strstr("flip_weights", cuda_filter))
        check_flip();
    for (const zn_conv_kernel *const *k = zn_conv_kernels; *k; k++)
        if (!strcmp((*k)->name, "wgmma-f16x3-cuda") && strstr((*k)->name, cuda_filter)) {
            conv_data d = conv_data_new(conv_shape(1, 2, 2, 40, 20, 3, 1, 1, false), 901);
            check_parts(&d, *k);
            conv_data_free(&d);
        }
    if (strstr("wgmma-up", cuda_filter)) {
        conv_data d = conv_data_new(conv_shape(2, 3, 4, 24, 20, 3, 1, 1, true), 900);
        run_reference(&d, conv_option_list[0]);
        check_phases(&d);
        conv_data_free(&d);
    }
    for (const zn_conv_kernel *const *k = zn_conv_kernels; *k; k++)
        if ((*k)->run_frames && cuda_runs((*k)->cpu) &&
            (strstr((*k)->name, cuda_filter) || strstr("frames", cuda_filter)))
            check_all_frames(*k);
    check_all_codes();
    for (const zn_conv_kernel *const *k = zn_conv_kernels; *k; k++)
        if ((*k)->math == ZN_PRECISION_F32 && cuda_runs((*k)->cpu) && strstr((*k)->name, cuda_filter))
            check_all_ranges(*k);
    bool any = false;
    for (const zn_conv_kernel *const *k = zn_conv_kernels; *k; k++)
        any |= strstr((*k)->name, cuda_filter) != NULL;
    if (!any)
        return;
    static zn_conv_shape list[128];
    const int count = shapes(list);
    for (int i = 0; i < count; i++) {
        if (!is_wanted(&list[i]))
            continue;
        conv_data d = conv_data_new(list[i], 1000 + (uint64_t)i);
        const conv_options o = conv_option_list[i % CONV_OPTIONS];
        run_reference(&d, o);
        for (const zn_conv_kernel *const *k = zn_conv_kernels; *k; k++) {
            check_packs(*k, &d);
            if (cuda_runs((*k)->cpu) && (*k)->supports(&d.s) && strstr((*k)->name, cuda_filter) &&
                (*k)->run != k[1]->run) {      /* once if it serves two types */
                const bool masked = i % 4 < 2; /* here or below */
                check_conv(*k, &d, o, (*k)->masks && masked);
                const unsigned narrow = (*k)->narrow ? (*k)->narrow(&d.s) : 0;
                if (narrow)
                    check_narrow(*k, &d, o, (*k)->masks && !masked);
            }
        }
        conv_data_free(&d);
    }
}
