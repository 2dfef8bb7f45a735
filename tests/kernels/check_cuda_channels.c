/* CUDA: sums and products with one value per channel, copies and selections of channels, rearrangements of pixels,
 * medians, pooling, convolutions of single channels. Channel counts that are multiples of four use wide loads, the
 * others do not. */
#include "cuda_case.h"

#include "kernels/channel_conv.h"
#include "kernels/kernels.h"
#include "kernels/max_pool.h"
#include "kernels/mix.h"

#include <string.h>

static bool wanted(const char *name) { return strstr(name, cuda_filter) != NULL; }

static void check_by_channel(int64_t pixels, int c)
{
    zn_rng rng = zn_rng_new(21);
    float *x = cuda_shared_normal(&rng, pixels * c, 1), *dy = cuda_shared_normal(&rng, pixels * c, 1);
    float *own = cuda_shared_normal(&rng, c, 1);
    zn_mix_args a = { .x = x, .dy = dy, .w = own, .b = own, .pixels = pixels, .c = c };
    if (wanted("add_channels"))
        cuda_check("add_channels", zn_k_add_channels, pixels, &a, &a.y, NULL, pixels * c, 0);
    if (wanted("scale_channels"))
        cuda_check("scale_channels", zn_k_scale_channels, pixels, &a, &a.y, NULL, pixels * c, 0);
    const int64_t blocks = zn_sum_blocks(pixels);
    if (wanted("scale_channels_grad"))
        cuda_check("scale_channels_grad", zn_k_scale_channels_grad, blocks, &a, &a.partial, NULL, blocks * c, 1e-6);
    cuda_shared_free(x);
    cuda_shared_free(dy);
    cuda_shared_free(own);
}

static void check_copy(int64_t pixels, zn_channel_copy_args a)
{
    zn_rng rng = zn_rng_new(22);
    float *x = cuda_shared_normal(&rng, pixels * a.from, 1), *before = cuda_shared_normal(&rng, pixels * a.to, 1);
    a.x = x;
    if (wanted("copy_channels"))
        cuda_check("copy_channels", zn_k_copy_channels, pixels, &a, &a.y, before, pixels * a.to, 0);
    cuda_shared_free(x);
    cuda_shared_free(before);
}

static void check_shuffles(int n, int h, int w, int c, int r)
{
    static const struct {
        const char *name;
        zn_body body;
    } all[] = { { "shuffle", zn_k_shuffle },
                { "unshuffle", zn_k_unshuffle },
                { "space_to_depth", zn_k_space_to_depth },
                { "depth_to_space", zn_k_depth_to_space } };
    zn_rng rng = zn_rng_new(23);
    const int64_t count = (int64_t)n * h * w * c * r * r;
    float *x = cuda_shared_normal(&rng, count, 1);
    zn_shuffle_args a = { .x = x, .h = h, .w = w, .c = c, .r = r };
    for (int i = 0; i < 4; i++)
        if (wanted(all[i].name))
            cuda_check(all[i].name, all[i].body, (int64_t)n * h, &a, &a.y, NULL, count, 0);
    cuda_shared_free(x);
}

/* Some channels are selected several times, some never, and some results are zero. */
static void check_select(int64_t pixels, int cin, int cout)
{
    zn_rng rng = zn_rng_new(24);
    const int most = cin > cout ? cin : cout;
    float *x = cuda_shared_normal(&rng, pixels * most, 1), *table = cuda_shared_normal(&rng, cout, (float)cin);
    float *memory = cuda_shared_new(cout, 0);
    int32_t *from = (int32_t *)memory;
    const zn_indices_args indices = { .table = table, .indices = from, .limit = cin };
    cuda_start(zn_k_indices, cout, &indices);
    int32_t want[64];
    zn_k_indices(&(zn_indices_args){ .table = table, .indices = want, .limit = cin }, (zn_range){ 0, cout, NULL });
    zn_device_fetch(cuda_device, from, sizeof(int32_t) * (size_t)cout);
    cuda_must(zn_device_wait(cuda_device));
    if (memcmp(from, want, sizeof(int32_t) * (size_t)cout) != 0)
        cuda_fail("indices", "differ from the scalar ones");
    zn_select_args a = { .x = x, .from = from, .cin = cin, .cout = cout };
    if (wanted("select"))
        cuda_check("select", zn_k_select, pixels, &a, &a.y, NULL, pixels * cout, 0);
    if (wanted("select_grad"))
        cuda_check("select_grad", zn_k_select_grad, pixels, &a, &a.y, NULL, pixels * cin, 0);
    cuda_shared_free(x);
    cuda_shared_free(table);
    cuda_shared_free(memory);
}

/* Values that repeat, so that several neighbours equal the median. */
static void check_median(int n, int h, int w, int c)
{
    zn_rng rng = zn_rng_new(25);
    const int64_t count = (int64_t)n * h * w * c;
    float *x = cuda_shared_normal(&rng, count, 2), *dy = cuda_shared_normal(&rng, count, 1);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(int)x[i];
    zn_device_send(cuda_device, x, sizeof(float) * (size_t)count);
    zn_median_args a = { .x = x, .dy = dy, .h = h, .w = w, .c = c };
    if (wanted("median3"))
        cuda_check("median3", zn_k_median3, (int64_t)n * h, &a, &a.y, NULL, count, 0);
    if (wanted("median3_grad"))
        cuda_check("median3_grad", zn_k_median3_grad, n, &a, &a.y, NULL, count, 0);
    cuda_shared_free(x);
    cuda_shared_free(dy);
}

static void check_max_pool(int n, int h, int w, int c)
{
    zn_max_pool_args a = { .h = h, .w = w, .oh = (h - 2) / 2 + 1, .ow = (w - 2) / 2 + 1, .c = c };
    const int64_t count = (int64_t)n * h * w * c, less = (int64_t)n * a.oh * a.ow * c;
    zn_rng rng = zn_rng_new(4);
    float *x = cuda_shared_normal(&rng, count, 1), *dy = cuda_shared_normal(&rng, less, 1);
    float *y = cuda_shared_new(less, 0);
    a.x = x;
    if (wanted("max_pool"))
        cuda_check("max_pool", zn_k_max_pool, (int64_t)n * a.oh, &a, &a.y, NULL, less, 0);
    a.y = y;
    zn_k_max_pool(&a, (zn_range){ 0, (int64_t)n * a.oh, NULL });
    zn_device_send(cuda_device, y, sizeof(float) * (size_t)less);
    a.dy = dy;
    if (wanted("max_pool_grad"))
        cuda_check("max_pool_grad", zn_k_max_pool_grad, (int64_t)n * h, &a, &a.dx, NULL, count, 1e-7);
    cuda_shared_free(x);
    cuda_shared_free(dy);
    cuda_shared_free(y);
}

static void check_channel_conv(int n, zn_channel_conv_args a)
{
    zn_rng rng = zn_rng_new(42);
    a.oh = (a.h + a.stride - 1) / a.stride;
    a.ow = (a.wide + a.stride - 1) / a.stride;
    const int64_t in = (int64_t)n * a.h * a.wide * a.c, out = (int64_t)n * a.oh * a.ow * a.c;
    float *x = cuda_shared_normal(&rng, in, 1), *dy = cuda_shared_normal(&rng, out, 1);
    float *w = cuda_shared_normal(&rng, (int64_t)a.side * a.side * a.c, 1);
    a.w = w;
    a.x = x;
    if (wanted("channel_conv"))
        cuda_check("channel_conv", zn_k_channel_conv, (int64_t)n * a.oh, &a, &a.y, NULL, out, 1e-6);
    a.x = dy;
    if (wanted("channel_conv_grad"))
        cuda_check("channel_conv_grad", zn_k_channel_conv_grad, (int64_t)n * a.h, &a, &a.y, NULL, in, 1e-6);
    cuda_shared_free(x);
    cuda_shared_free(dy);
    cuda_shared_free(w);
}

void cuda_check_channels(void)
{
    check_max_pool(2, 5, 8, 3);
    check_max_pool(1, 10, 7, 33);
    check_by_channel(1, 1);
    check_by_channel(77, 3);
    check_by_channel(1000, 20);
    check_by_channel(130, 65);
    check_by_channel(200, 40);
    check_copy(35, (zn_channel_copy_args){ .from = 3, .to = 7, .count = 3, .skip = 2 });
    check_copy(35, (zn_channel_copy_args){ .from = 3, .to = 7, .count = 3, .skip = 2, .clear = true });
    check_copy(99, (zn_channel_copy_args){ .from = 16, .to = 8, .count = 8 });
    check_copy(99, (zn_channel_copy_args){ .from = 8, .to = 24, .count = 8, .skip = 12, .clear = true });
    check_shuffles(2, 3, 5, 3, 2);
    check_shuffles(1, 2, 7, 8, 2);
    check_shuffles(2, 2, 3, 4, 3);
    check_select(50, 5, 9);
    check_select(50, 64, 32);
    check_median(2, 5, 7, 3);
    check_median(1, 1, 1, 2);
    check_median(1, 9, 2, 4);
    check_channel_conv(2, (zn_channel_conv_args){ .h = 7, .wide = 9, .c = 3, .side = 3, .stride = 1, .pad = 1 });
    check_channel_conv(1, (zn_channel_conv_args){ .h = 9, .wide = 6, .c = 8, .side = 5, .stride = 2, .pad = 1 });
}
