/* The convolutions of a GPU against the scalar one. */
#include "conv_case.h"
#include "cuda_case.h"

#include "base/cpu.h"

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
    cuda_start(k->run, k->units(&d->s), &a);
    cuda_compare(name, y, d->want, d->y_count, (double)k->tolerance * (d->y_count < 256 ? 4 : 1));
    float *const all[] = { packed, x, bias, residual };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    cuda_result_free(y);
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
    if (cuda_is_emulated)
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

void cuda_check_convs(void)
{
    static zn_conv_shape list[128];
    const int count = shapes(list);
    for (int i = 0; i < count; i++) {
        conv_data d = conv_data_new(list[i], 1000 + (uint64_t)i);
        const conv_options o = conv_option_list[i % CONV_OPTIONS];
        run_reference(&d, o);
        for (const zn_conv_kernel *const *k = zn_conv_kernels; *k; k++)
            if ((*k)->cpu == ZN_CPU_CUDA && (*k)->supports(&d.s) && strstr((*k)->name, cuda_filter))
                check_conv(*k, &d, o);
        conv_data_free(&d);
    }
}
