/* What the checks of CUDA kernels share. */
#include "cuda_case.h"

#include "base/convert.h"

#include "base/alloc.h"
#include "base/cpu.h"

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

const char *cuda_filter = "";
zn_device *cuda_device;
bool cuda_is_emulated;
int cuda_failures;
static int compared;
static double worst[2]; /* error of convolutions in full precision, and in less */

void cuda_fail(const char *name, const char *what)
{
    printf("FAIL %s: %s\n", name, what);
    cuda_failures++;
}

void cuda_must(zn_status status)
{
    if (status == ZN_OK)
        return;
    printf("FAIL %s\n", zn_error_text());
    exit(1);
}

float *cuda_shared_new(int64_t count, float value)
{
    float *x = zn_alloc(sizeof(float) * (size_t)count);
    for (int64_t i = 0; x && i < count; i++)
        x[i] = value;
    if (!x)
        exit(2);
    cuda_must(zn_device_twin(cuda_device, x, sizeof(float) * (size_t)count));
    zn_device_send(cuda_device, x, sizeof(float) * (size_t)count);
    cuda_must(zn_device_wait(cuda_device));
    return x;
}

void cuda_shared_free(float *x)
{
    if (x)
        zn_device_drop(cuda_device, x);
    zn_free(x);
}

float *cuda_shared_normal(zn_rng *rng, int64_t count, float scale)
{
    float *x = cuda_shared_new(count, 0);
    fill_normal(rng, x, count, scale);
    zn_device_send(cuda_device, x, sizeof(float) * (size_t)count);
    cuda_must(zn_device_wait(cuda_device));
    return x;
}

float *cuda_result_new(int64_t count) { return cuda_shared_new(count + 2 * GUARD, guard_value) + GUARD; }
void cuda_result_free(float *y) { cuda_shared_free(y - GUARD); }

static bool result_fetch(float *y, int64_t count)
{
    zn_device_fetch(cuda_device, y - GUARD, sizeof(float) * (size_t)(count + 2 * GUARD));
    cuda_must(zn_device_wait(cuda_device));
    for (int i = 0; i < GUARD; i++)
        if (y[i - GUARD] != guard_value || y[count + i] != guard_value)
            return false;
    return true;
}

void cuda_compare(const char *name, float *y, const float *want, int64_t count, double allowed)
{
    char text[96];
    if (!result_fetch(y, count))
        cuda_fail(name, "wrote outside its result");
    const double e = relative_error(y, want, count);
    snprintf(text, sizeof text, "relative error %.3g, allowed %.3g", e, allowed);
    if (!(e <= allowed))
        cuda_fail(name, text);
    if (strstr(name, "-cuda"))
        worst[!strstr(name, "x3-")] = fmax(worst[!strstr(name, "x3-")], e);
    compared++;
}

void cuda_start(zn_body body, int64_t units, const void *args)
{
    for (int i = 0; i < LISTED; i++)
        listed[i].launches += listed[i].body == body;
    zn_device_launch(cuda_device, body, units, args);
}

bool cuda_has(zn_body body)
{
    for (int i = 0; i < LISTED; i++)
        if (listed[i].body == body)
            return true;
    return false;
}

bool cuda_runs(uint32_t needs) { return needs & ZN_CPU_CUDA && !(needs & ~zn_device_flags(cuda_device)); }

float *cuda_shared_copy(const float *from, int64_t count)
{
    float *x = cuda_shared_new(count, 0);
    memcpy(x, from, sizeof(float) * (size_t)count);
    zn_device_send(cuda_device, x, sizeof(float) * (size_t)count);
    cuda_must(zn_device_wait(cuda_device));
    return x;
}

void cuda_check(const char *name, zn_body body, int64_t units, const void *args, float **result, const float *start,
                int64_t count, double allowed)
{
    float *y = cuda_result_new(count), *want = fenced_new(count, false);
    const size_t bytes = sizeof(float) * (size_t)count;
    if (start) {
        memcpy(want, start, bytes);
        memcpy(y, start, bytes);
        zn_device_send(cuda_device, y, bytes);
    }
    *result = want;
    body(args, (zn_range){ 0, units, NULL });
    *result = y;
    cuda_start(body, units, args);
    cuda_compare(name, y, want, count, allowed);
    cuda_result_free(y);
    fenced_free(want);
}

void cuda_reference(zn_body body, int64_t units, const void *args, size_t scratch)
{
    static zn_pool *pool;
    if (!pool)
        cuda_must(zn_pool_new(0, &pool));
    const int threads = zn_pool_threads(pool);
    const size_t stride = (scratch + 63) / 64 * 64;
    float *room = fenced_new((int64_t)(stride / sizeof(float)) * threads, true);
    zn_pool_run(pool, units, units / (8 * threads) + 1, body, args, room, stride);
    fenced_free(room);
}

int cuda_compared(void) { return compared; }

int cuda_summary(bool whole)
{
    for (int i = 0; i < LISTED && whole; i++)
        if (!listed[i].launches)
            cuda_fail(listed[i].name, "has no case here");
    printf("%d comparisons, %d failures; convolutions differ by %.1e, in less precision %.1e\n", compared,
           cuda_failures, worst[0], worst[1]);
    return cuda_failures || (!compared && *cuda_filter);
}

/* ---- maps of 16-bit numbers ---- */

float *cuda_map_new(float *x, int64_t count, zn_type type)
{
    const zn_dtype dtype = type == ZN_TYPE_BF16 ? ZN_BF16 : ZN_F16;
    if (type == ZN_TYPE_F32)
        return cuda_shared_copy(x, count);
    float *numbers = calloc((size_t)(count + 1), sizeof(uint16_t));
    zn_from_f32(numbers, dtype, x, (size_t)count);
    zn_to_f32(x, numbers, dtype, (size_t)count);
    float *map = cuda_shared_copy(numbers, (count + 1) / 2);
    free(numbers);
    return map;
}

float *cuda_map_fetch(float *y, int64_t count, zn_type type)
{
    float *numbers = cuda_result_new(count);
    zn_device_fetch(cuda_device, y, zn_type_size(type) * (size_t)count);
    cuda_must(zn_device_wait(cuda_device));
    zn_to_f32(numbers, y, type == ZN_TYPE_BF16 ? ZN_BF16 : ZN_F16, (size_t)count);
    zn_device_send(cuda_device, numbers, sizeof(float) * (size_t)count);
    return numbers;
}
