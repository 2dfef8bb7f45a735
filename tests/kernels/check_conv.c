/* Every convolution kernel this CPU has against the reference one: many shapes, guard zones and forbidden pages around
 * all memory, scratch full of NaN, equal bits for any split of the units and any number of threads.
 *
 *     check-conv                     all shapes
 *     check-conv FILTER [N]          only kernels whose name holds it, only every Nth shape
 *     check-conv --bench [filter [threads]]    times; the filter is a part of a kernel's name, or "network" */
#include "conv_case.h"

#include "base/convert.h"
#include "base/cpu.h"
#include "kernels/coded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *filter = "";
static int compared;
static zn_pool *pool; /* of two threads */

/* Packed weights of the one data in use, by kernel: under an emulator packing is most of the work. */
static struct {
    const zn_conv_kernel *kernel;
    float *packed;
} packs[32];
static int pack_count;

static const float *packed_of(const zn_conv_kernel *k, const conv_data *d)
{
    for (int i = 0; i < pack_count; i++)
        if (packs[i].kernel == k)
            return packs[i].packed;
    float *packed = fenced_new((int64_t)(k->packed_bytes(&d->s) / sizeof(float)), true);
    k->pack(&d->s, d->w, packed);
    packs[pack_count].kernel = k;
    packs[pack_count++].packed = packed;
    return packed;
}

static void forget_packed(void)
{
    while (pack_count > 0)
        fenced_free(packs[--pack_count].packed);
}

/* Runs kernel k into y (with `alias`, y begins as the residual). */
static void run(const zn_conv_kernel *k, const conv_data *d, conv_options o, split how, float *y)
{
    const zn_conv_shape *s = &d->s;
    const size_t scratch = (k->scratch_bytes(s) + 63) / 64 * 64;
    float *work = fenced_new((int64_t)(2 * scratch / sizeof(float)), true);
    memset(work, 0xff, 2 * scratch);
    const zn_conv_args a = conv_args_of(d, o, packed_of(k, d), y);
    const split_run r = {
        .body = k->run, .args = &a, .units = k->units(s), .grain = 1, .scratch = work, .stride = scratch, .two = pool
    };
    run_split(&r, how);
    fenced_free(work);
}

static double worst[2]; /* relative error over tolerance, relative error */

static void check_against_ref(const zn_conv_kernel *k, const conv_data *d, conv_options o)
{
    float *y = guarded_new(d->y_count);
    run(k, d, o, WHOLE, y);
    const double e = relative_error(y, d->want, d->y_count);
    /* the tolerance is of the mean over many outputs: a handful may all happen to be small sums of large products */
    const double allowed = (double)k->tolerance * (d->y_count < 256 ? 4 : 1);
    char text[64];
    snprintf(text, sizeof text, "relative error %.3g, allowed %.3g", e, allowed);
    if (!(e <= allowed))
        conv_fail(k->name, &d->s, text);
    if (!guards_whole(y, d->y_count))
        conv_fail(k->name, &d->s, "wrote outside y");
    worst[0] = allowed > 0 && e / allowed > worst[0] ? e / allowed : worst[0];
    worst[1] = e > worst[1] ? e : worst[1];
    guarded_free(y);
    compared++;
}

static void check_splits(const zn_conv_kernel *k, const conv_data *d, conv_options o)
{
    float *a = guarded_new(d->y_count), *b = guarded_new(d->y_count);
    run(k, d, o, WHOLE, a);
    for (split how = SINGLY_BACKWARDS; how <= TWO_THREADS; how++) {
        run(k, d, o, how, b);
        if (memcmp(a, b, sizeof(float) * (size_t)d->y_count) != 0)
            conv_fail(k->name, &d->s,
                      how == TWO_THREADS ? "two threads give other bits" : "another split gives other bits");
    }
    conv_data many = *d;
    many.s.threads = 16;
    run(k, &many, o, WHOLE, b);
    if (memcmp(a, b, sizeof(float) * (size_t)d->y_count) != 0)
        conv_fail(k->name, &d->s, "pieces for sixteen threads give other bits");
    guarded_free(a);
    guarded_free(b);
}

static uint16_t *rounded(float *x, int64_t count)
{
    uint16_t *half = (uint16_t *)fenced_new((count + 1) / 2, true);
    for (int64_t i = 0; i < count; i++) {
        half[i] = zn_f32_to_bf16(x[i]);
        x[i] = zn_bf16_to_f32(half[i]);
    }
    return half;
}

/* Maps of bf16 give the bits of fp32 maps with the same numbers, rounded. */
static void check_narrow(const zn_conv_kernel *k, conv_data *d)
{
    const unsigned maps = k->narrow ? k->narrow(&d->s) : 0;
    if (!maps)
        return;
    uint16_t *x = rounded(d->x, d->x_count), *residual = rounded(d->residual, d->y_count);
    const bool writes = maps & ZN_CONV_NARROW_Y;
    const int64_t room = writes ? (d->y_count + 1) / 2 : d->y_count;
    float *wide = guarded_new(d->y_count), *y = guarded_new(room);
    run(k, d, (conv_options){ .bias = true, .residual = true, .relu = true }, WHOLE, wide);
    const size_t scratch = (k->scratch_bytes(&d->s) + 63) / 64 * 64;
    float *work = fenced_new((int64_t)(scratch / sizeof(float)), true);
    zn_conv_args a =
        conv_args_of(d, (conv_options){ .bias = true, .residual = true, .relu = true }, packed_of(k, d), y);
    if (maps & ZN_CONV_NARROW_X) {
        a.x = (const float *)x;
        a.x_type = ZN_TYPE_BF16;
    }
    if (writes) {
        a.residual = (const float *)residual;
        a.residual_type = a.y_type = ZN_TYPE_BF16;
    }
    run_split(&(split_run){ .body = k->run, .args = &a, .units = k->units(&d->s), .scratch = work }, WHOLE);
    int64_t wrong = 0;
    for (int64_t i = 0; i < d->y_count; i++)
        wrong += writes ? ((uint16_t *)y)[i] != zn_f32_to_bf16(wide[i]) : memcmp(&y[i], &wide[i], sizeof *y) != 0;
    if (wrong || !guards_whole(y, room))
        conv_fail(k->name, &d->s, wrong ? "maps of bf16 give other results" : "wrote outside a map of bf16");
    fenced_free(work);
    fenced_free((float *)x);
    fenced_free((float *)residual);
    guarded_free(wide);
    guarded_free(y);
    compared++;
}

/* Packed weights are those of the layer, whatever the size of its maps: executors of all sizes share them. */
static void check_packing(const zn_conv_kernel *k, const conv_data *d)
{
    zn_conv_shape t = d->s;
    const int side = t.up2 ? 2 : 1;
    t.n += 2;
    t.h += 24;
    t.w += 56;
    t.oh += 24 * side / t.stride;
    t.ow += 56 * side / t.stride;
    t.threads = 7;
    if (!k->supports(&t))
        return;
    const size_t bytes = k->packed_bytes(&d->s);
    if (bytes != k->packed_bytes(&t)) {
        conv_fail(k->name, &d->s, "packed weights of another size for larger maps");
        return;
    }
    const int64_t floats = (int64_t)((bytes + 3) / sizeof(float));
    float *a = fenced_new(floats, true), *b = fenced_new(floats, true);
    memset(a, 0x5a, bytes);
    memset(b, 0x5a, bytes);
    k->pack(&d->s, d->w, a);
    k->pack(&t, d->w, b);
    if (memcmp(a, b, bytes))
        conv_fail(k->name, &d->s, "other packed weights for larger maps");
    if (k->pack_some) {
        const zn_conv_pack_args some = { .s = d->s, .w = d->w, .packed = b };
        memset(b, 0x5a, bytes);
        for (int64_t i = k->pack_units(&d->s); i-- > 0;)
            k->pack_some(&some, (zn_range){ i, i + 1, NULL });
        if (memcmp(a, b, bytes))
            conv_fail(k->name, &d->s, "other packed weights in units");
    }
    fenced_free(a);
    fenced_free(b);
}

/* Weights of 8 bits, packed as codes and expanded, are the bytes that the kernel packs of the weights. */
static void check_codes(const zn_conv_kernel *k, const conv_data *d)
{
    if (!k->rearranges || !k->rearranges(&d->s))
        return;
    const zn_type type = k->math == ZN_PRECISION_F32 ? ZN_TYPE_F32 : ZN_TYPE_BF16;
    const int64_t count = (int64_t)d->s.kh * d->s.kw * d->s.cin * d->s.cout;
    const size_t bytes = k->packed_bytes(&d->s), coded = zn_coded_bytes(bytes, type);
    const int64_t floats = (int64_t)(bytes / sizeof(float));
    float *codes = fenced_new(count, true), *values = fenced_new(count, true), *packed = fenced_new(floats, true);
    float *numbers = fenced_new(floats, true), *kept = fenced_new((int64_t)((coded + 3) / sizeof(float)), true);
    float meanings[ZN_CODES];
    for (int c = 0; c < ZN_CODES; c++)
        meanings[c] = (float)(c * c) * (c % 2 ? -0.013f : 0.37f);
    for (int64_t i = 0; i < count; i++) {
        codes[i] = (float)(i * 2654435761u % ZN_CODES);
        values[i] = meanings[(int)codes[i]];
    }
    k->pack(&d->s, values, packed);
    k->pack(&d->s, codes, numbers);
    zn_coded_pack(numbers, bytes, type, meanings, kept);
    memset(numbers, 0x5a, bytes);
    zn_k_expand(&(zn_expand_args){ .coded = kept, .type = type, .y = numbers },
                (zn_range){ 0, (int64_t)(bytes / zn_type_size(type)), NULL });
    if (memcmp(packed, numbers, bytes))
        conv_fail(k->name, &d->s, "codes stand for other weights");
    fenced_free(codes);
    fenced_free(values);
    fenced_free(packed);
    fenced_free(numbers);
    fenced_free(kept);
}

static const zn_conv_kernel *reference(void)
{
    const zn_conv_kernel *last = NULL;
    for (const zn_conv_kernel *const *k = zn_conv_kernels; *k; k++)
        last = *k;
    return last;
}

static bool applies(const zn_conv_kernel *k, const zn_conv_shape *s, uint32_t cpu)
{
    return k != reference() && (k->cpu & ~cpu) == 0 && k->supports(s) && strstr(k->name, filter);
}

/* Every output that a NaN reaches must be NaN, also behind the activation. */
static void check_nan(const conv_data *d, const char *where, uint32_t cpu)
{
    const conv_options o = { .relu = true };
    run(reference(), d, o, WHOLE, d->want);
    for (const zn_conv_kernel *const *k = zn_conv_kernels; *k; k++) {
        if (!applies(*k, &d->s, cpu))
            continue;
        float *y = guarded_new(d->y_count);
        int64_t lost = 0;
        run(*k, d, o, WHOLE, y);
        for (int64_t i = 0; i < d->y_count; i++)
            lost += isnan(d->want[i]) && !isnan(y[i]);
        if (lost)
            conv_fail((*k)->name, &d->s, where);
        guarded_free(y);
    }
}

static void check_shape(const zn_conv_shape *s, uint32_t cpu, int index)
{
    conv_data d = conv_data_new(*s, 1000 + (uint64_t)index);
    for (int i = 0; i < CONV_OPTIONS; i++) {
        if (index % 7 && i != index % CONV_OPTIONS) /* all options for every seventh shape, one for the others */
            continue;
        run(reference(), &d, conv_option_list[i], WHOLE, d.want);
        for (const zn_conv_kernel *const *k = zn_conv_kernels; *k; k++)
            if (applies(*k, s, cpu))
                check_against_ref(*k, &d, conv_option_list[i]);
    }
    for (const zn_conv_kernel *const *k = zn_conv_kernels; *k; k++)
        if (applies(*k, s, cpu)) {
            check_splits(*k, &d, conv_option_list[5]);
            check_packing(*k, &d);
            check_codes(*k, &d);
        }
    for (const zn_conv_kernel *const *k = zn_conv_kernels; *k; k++)
        if (applies(*k, s, cpu))
            check_narrow(*k, &d);
    float *const spoilt = index % 2 ? &d.x[d.x_count / 2] : &d.w[d.w_count / 2];
    *spoilt = NAN;
    forget_packed();
    check_nan(&d, index % 2 ? "a NaN in the input was lost" : "a NaN in the weights was lost", cpu);
    forget_packed();
    conv_data_free(&d);
}

/* 1x1, plain and between shuffles. */
static int pointwise_shapes(zn_conv_shape *list)
{
    static const int channels[][2] = { { 64, 64 },  { 70, 72 }, { 256, 96 }, { 32, 160 }, { 512, 64 },
                                       { 65, 200 }, { 16, 32 }, { 8, 16 },   { 36, 48 } };
    static const int sizes[][2] = { { 1, 1 }, { 5, 7 }, { 3, 12 }, { 9, 31 } };
    int count = 0;
    for (int i = 0; i < 36; i++) {
        const int *c = channels[i % 9], *z = sizes[i % 4];
        const zn_conv_shape s = conv_shape(1 + i % 2, z[0], z[1], c[0], c[1], 1, 1, 0, false);
        for (int form = 0; form < 4; form++) {
            list[count] = s;
            list[count].unshuffle = form & 1;
            list[count].shuffle = form >> 1;
            count += (!(form & 1) || zn_conv_can_shuffle(s.cin)) && (!(form >> 1) || zn_conv_can_shuffle(s.cout));
        }
    }
    return count;
}

static int shapes(zn_conv_shape *list)
{
    static const int channels[] = { 1, 3, 4, 5, 12, 32, 64, 100, 256 };
    static const int sizes[][2] = { { 1, 1 }, { 2, 3 }, { 6, 6 }, { 7, 13 }, { 12, 25 }, { 31, 6 }, { 20, 50 } };
    int count = 0;
    for (int i = 0; i < 9; i++)
        for (int o = 0; o < 9; o++) { /* every pair of channels, sizes and forms in turn */
            const int *z = sizes[(i * 9 + o) % 7];
            list[count++] = conv_shape(1 + (o & 1), z[0], z[1], channels[i], channels[o], 3, 1, 1, false);
        }
    for (int i = 0; i < 7; i++)
        for (int form = 0; form < 9; form++) {
            static const int kernel[] = { 3, 3, 3, 3, 3, 1, 1, 5, 2 }, stride[] = { 1, 1, 2, 2, 1, 1, 2, 1, 2 };
            static const int pad[] = { 0, 2, 1, 0, 1, 0, 0, 2, 0 };
            const int cin = channels[(i + form) % 9], cout = channels[(i * 2 + form) % 9];
            const int h = sizes[i][0] < kernel[form] ? kernel[form] : sizes[i][0];
            const int w = sizes[i][1] < kernel[form] ? kernel[form] : sizes[i][1];
            list[count++] = conv_shape(1, h, w, cin, cout, kernel[form], stride[form], pad[form], form == 4);
        }
    for (int i = 0; i < 9; i++) { /* zeros only below and on the right, and what the gradient of that needs */
        const int *z = sizes[2 + i % 5], cin = channels[i], cout = channels[(2 * i + 5) % 9];
        list[count++] = conv_shape_beyond(conv_shape(1 + i % 2, z[0], z[1], cin, cout, 3, 2, 0, false), 1);
        list[count++] = conv_shape_beyond(conv_shape(1 + i % 2, z[0], z[1], cin, cout, 3, 1, 2, false), -2);
    }
    for (int i = 0; i < 8; i++) { /* results of another size than the input: gradients of strides on odd maps */
        static const int odd[][4] = { { 7, 9, 2, 512 },   { 7, 9, 512, 3 },  { 7, 9, 64, 64 }, { 9, 7, 24, 48 },
                                      { 66, 131, 32, 3 }, { 19, 8, 512, 3 }, { 7, 13, 64, 2 }, { 13, 20, 16, 64 } };
        const int *z = odd[i];
        list[count++] = conv_shape_beyond(conv_shape(2, z[0], z[1], z[2], z[3], 1, 1, 0, false), -1);
        list[count++] = conv_shape_beyond(conv_shape(2, z[0], z[1], z[2], z[3], 3, 1, 1, i & 1), -1);
    }
    list[count++] = conv_shape(1, 37, 41, 13, 37, 3, 1, 1, false); /* Winograd with tails both ways */
    list[count++] = conv_shape(1, 37, 41, 30, 33, 3, 2, 1, false);
    list[count++] = conv_shape(1, 19, 21, 35, 18, 3, 1, 1, true);
    list[count++] = conv_shape(1, 64, 64, 64, 3, 3, 1, 1, false);
    list[count++] = conv_shape(2, 70, 131, 32, 3, 3, 1, 1, false); /* several units each way */
    list[count++] = conv_shape(1, 66, 65, 16, 2, 3, 1, 1, false);
    list[count++] = conv_shape(2, 70, 131, 32, 3, 3, 1, 1, true);
    list[count++] = conv_shape(1, 66, 65, 16, 2, 3, 1, 1, true);
    list[count++] = conv_shape(1, 1, 5, 16, 1, 3, 1, 1, true);
    list[count++] = conv_shape(1, 9, 131, 64, 4, 3, 2, 1, false);    /* both edges of a stretch */
    list[count++] = conv_shape(1, 31, 61, 256, 64, 3, 1, 1, false);  /* Winograd, several chunks, groups and units */
    list[count++] = conv_shape(1, 20, 37, 520, 530, 3, 1, 1, false); /* heavy weights likewise, */
    list[count++] = conv_shape(2, 4, 4, 320, 300, 3, 1, 1, false);   /* few pixels, many weights */
    list[count++] = conv_shape(1, 9, 7, 320, 200, 3, 2, 1, false);
    list[count++] = conv_shape(1, 5, 6, 300, 130, 3, 1, 1, true);
    list[count++] = conv_shape(1, 3, 5, 1024, 520, 1, 1, 0, false);
    list[count++] = conv_shape(3, 3, 4, 132, 260, 3, 1, 1, true);    /* a unit with rows of several images */
    list[count++] = conv_shape(1, 45, 44, 256, 128, 3, 1, 1, false); /* in one chunk */
    list[count++] = conv_shape(1, 13, 12, 130, 128, 3, 1, 1, true);
    list[count++] = conv_shape(1, 33, 29, 64, 272, 3, 2, 1, false);
    list[count++] = conv_shape(1, 15, 29, 272, 32, 3, 1, 1, true);
    list[count++] = conv_shape(1, 15, 17, 32, 272, 3, 1, 1, true);
    list[count++] = conv_shape(2, 5, 271, 3, 48, 3, 1, 1, false);
    list[count++] = conv_shape(2, 15, 29, 64, 64, 3, 1, 1, true);
    list[count++] = conv_shape(2, 30, 57, 64, 64, 3, 2, 1, false);
    list[count++] = conv_shape(1, 9, 9, 5, 3, 5, 1, 2, true);
    list[count++] = conv_shape(1, 9, 9, 5, 7, 3, 1, 0, true);
    list[count++] = conv_shape(1, 40, 200, 64, 64, 3, 1, 1, false);
    list[count++] = conv_shape(1, 3, 400, 3, 32, 3, 2, 1, false);
    list[count++] = conv_shape(2, 7, 5, 1040, 40, 3, 1, 1, false); /* direct in bf16: several parts of a tap, */
    list[count++] = conv_shape(2, 6, 11, 384, 64, 3, 1, 1, true);  /* one, */
    list[count++] = conv_shape(1, 9, 8, 96, 48, 3, 1, 1, false);   /* several taps */
    for (int few = 1; few <= 4; few++) { /* 1x1 from and to few, several units and what is left of a group */
        list[count++] = conv_shape(1, 23, 29, few, 48, 1, 1, 0, false);
        list[count++] = conv_shape(1, 31, 37, 32, few, 1, 1, 0, false);
        list[count] = conv_shape(2, 5, 9, few, 128, 1, 1, 0, false);
        list[count++].shuffle = true;
        list[count] = conv_shape(2, 5, 19, 128, few, 1, 1, 0, false);
        list[count++].unshuffle = true;
    }
    return count + pointwise_shapes(list + count);
}

static void check_networks(uint32_t cpu)
{
    conv_layer layers[16];
    for (int encoder = 0; encoder < 2; encoder++) {
        const int count = encoder ? taesd_encoder(6, layers) : taesd_decoder(6, layers);
        const double e = conv_chain_error(layers, count, reference(), cpu);
        printf("TAESD %s: relative error %.2e\n", encoder ? "encoder" : "decoder", e);
        if (!(e <= 1e-5))
            conv_fail(reference()->name, &layers[count - 1].s, "the error of a whole network is above 1e-5");
    }
}

/* In bf16 the heavy layers of video autoencoders, which matrix instructions for bf16 multiply, keep weights of 16 bits,
 * as 8-bit codes where a file has such; after upsampling four kernels of 2x2. */
static void check_heavy_weights(uint32_t cpu)
{
    if (!(cpu & (ZN_CPU_BF16 | ZN_CPU_AMX_BF16)))
        return;
    const zn_conv_wish wish = { .math = ZN_PRECISION_BF16, .cpu = cpu, .largest = 1 << 16 };
    for (int form = 0; form < 3; form++) {
        const zn_conv_shape s = conv_shape(4, 32, 32, 384, 384, 3, form == 1 ? 2 : 1, 1, form == 2);
        const zn_conv_kernel *k = zn_conv_choose(&s, wish);
        const size_t weights = sizeof(uint16_t) * 9 * (size_t)s.cin * (size_t)s.cout;
        if (k->math != ZN_PRECISION_BF16 || k->packed_bytes(&s) > (s.up2 ? 2 : 1) * weights + 4096)
            conv_fail(k->name, &s, "heavy weights take more memory than in bf16");
        if (!(k->rearranges && k->rearranges(&s)) && (cpu & ZN_CPU_BF16 ? !k->pack_some : !s.up2))
            conv_fail(k->name, &s, "heavy weights of 8 bits do not stay codes");
    }
    const zn_conv_shape large = conv_shape(4, 128, 128, 192, 192, 3, 1, 1, false);
    const zn_conv_kernel *k = zn_conv_choose(&large, wish);
    if (!k->pack_some && !(k->rearranges && k->rearranges(&large)))
        conv_fail(k->name, &large, "weights of 8 bits do not stay codes");
}

/* Through an up-sampling to a small map, heavy weights are summed for four kernels of 2x2, not transformed to 28 times
 * as many; a large map is worth the transforms, unless their weights take too much memory. Not where rows are cut or
 * weights must be leanest. */
static void check_heavy_up(uint32_t cpu)
{
    const zn_conv_wish wish = { .math = ZN_PRECISION_F32, .cpu = cpu, .whole = true };
    zn_conv_wish lean = wish, cut = wish;
    lean.lean = 2;
    cut.whole = false;
    const zn_conv_shape small = conv_shape(1, 8, 8, 512, 512, 3, 1, 1, true);
    const zn_conv_shape large = conv_shape(1, 64, 64, 512, 512, 3, 1, 1, true);
    const size_t weights = sizeof(float) * 9 * 512 * 512;
    const zn_conv_kernel *k = zn_conv_choose(&small, wish), *same = zn_conv_choose(&large, wish);
    if (k->packed_bytes(&small) > 2 * weights)
        conv_fail(k->name, &small, "heavy weights are transformed for few pixels");
    if (k == same || zn_conv_choose(&small, cut) == k || zn_conv_choose(&small, lean) == k)
        conv_fail(k->name, &large, "chosen for a large map, for bands of rows or for little memory");
    lean.lean = 1;
    if (zn_conv_choose(&large, lean) != k)
        conv_fail(k->name, &large, "not chosen where twice the weights have room");
}

/* The less memory packed weights may take, the fewer they are, and the more is multiplied. */
static void check_lean(uint32_t cpu)
{
    const zn_conv_shape s = conv_shape(1, 60, 104, 512, 512, 3, 1, 1, false);
    const size_t weights = sizeof(float) * 9 * 512 * 512;
    const zn_conv_kernel *k[3];
    for (int level = 0; level < 3; level++) {
        k[level] = zn_conv_choose(&s, (zn_conv_wish){ .math = ZN_PRECISION_F32, .cpu = cpu, .lean = level });
        if (level && (k[level]->packed_bytes(&s) > k[level - 1]->packed_bytes(&s) ||
                      k[level]->flops(&s) < k[level - 1]->flops(&s)))
            conv_fail(k[level]->name, &s, "takes more memory or less time than with more memory");
    }
    if (k[1]->packed_bytes(&s) > 2 * weights || k[2]->packed_bytes(&s) > weights)
        conv_fail(k[1]->name, &s, "takes more than its memory");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--bench") == 0)
        return bench_conv(argc > 2 ? argv[2] : "", argc > 3 ? atoi(argv[3]) : 0);
    filter = argc > 1 ? argv[1] : filter;
    const int step = argc > 2 && atoi(argv[2]) > 0 ? atoi(argv[2]) : 1;
    const uint32_t cpu = zn_cpu_flags();
    if (zn_pool_new(2, &pool) != ZN_OK)
        return 2;
    static zn_conv_shape list[384];
    const int count = shapes(list);
    for (int i = 0; i < count; i += step)
        check_shape(&list[i], cpu, i);
    if (!*filter) {
        check_networks(cpu);
        check_heavy_up(cpu);
        check_lean(cpu);
        check_heavy_weights(cpu);
    }
    char text[96];
    zn_cpu_text(cpu, text, sizeof text);
    printf("%s: %d comparisons over %d shapes, %d failures; worst error %.2e, %.2f of the tolerance\n", text, compared,
           (count + step - 1) / step, conv_failures, worst[1], worst[0]);
    zn_pool_free(pool);
    return conv_failures || !compared;
}
