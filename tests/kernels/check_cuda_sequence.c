/* CUDA: sequences of tokens. The scans and the causal convolution are checked by check_cuda_simd.c; here are the joins
 * of the scan's chunks, reordering, means and Fourier features. */
#include "cuda_case.h"

#include "kernels/scan.h"
#include "kernels/sequence.h"

#include <string.h>

static bool is_meant(const char *name) { return strstr(name, cuda_filter) != NULL; }

/* ---- joins ---- */

static void check_join(zn_scan_args a, int64_t marks, int64_t inner)
{
    zn_rng rng = zn_rng_new(51);
    float *ends = cuda_shared_normal(&rng, inner, 1);
    a.ends = ends;
    cuda_check("scan_join", zn_k_scan_join, a.sequences * zn_scan_blocks(&a), &a, &a.marks, NULL, marks, 1e-6);
    cuda_shared_free(ends);
}

static void check_grad_join(zn_scan_args a, int64_t inner, int64_t states)
{
    zn_rng rng = zn_rng_new(52);
    const int64_t units = a.sequences * zn_scan_blocks(&a);
    float *ends = cuda_shared_normal(&rng, inner, 1), *want = fenced_new(inner, false);
    float *dfirst = cuda_result_new(states), *want_first = fenced_new(states, false);
    float *scratch = fenced_new((int64_t)(zn_scan_scratch(&a) / sizeof(float)), true);
    memcpy(want, ends, sizeof(float) * (size_t)inner);
    a.ends = want, a.dfirst = want_first;
    zn_k_scan_grad_join(&a, (zn_range){ 0, units, scratch });
    float *got = cuda_result_new(inner);
    memcpy(got, ends, sizeof(float) * (size_t)inner);
    zn_device_send(cuda_device, got, sizeof(float) * (size_t)inner);
    a.ends = got, a.dfirst = dfirst;
    cuda_start(zn_k_scan_grad_join, units, &a);
    cuda_compare("scan_grad_join", got, want, inner, 1e-6);
    cuda_compare("scan_grad_join", dfirst, want_first, states, 1e-6);
    cuda_result_free(got);
    cuda_result_free(dfirst);
    cuda_shared_free(ends);
    fenced_free(want);
    fenced_free(want_first);
    fenced_free(scratch);
}

static void check_joins(int sequences, int length, int channels, int states, bool from_state)
{
    zn_rng rng = zn_rng_new(53);
    zn_scan_args a = { .sequences = sequences,
                       .length = length,
                       .channels = channels,
                       .states = states,
                       .apart = true,
                       .on_device = true };
    const int64_t inner = zn_scan_inner(&a, sequences, 0, 0), count = (int64_t)sequences * channels * states;
    float *decay = cuda_shared_normal(&rng, inner, 0.5f), *first = cuda_shared_normal(&rng, count, 1);
    a.decay = decay;
    a.first = from_state ? first : NULL;
    if (is_meant("scan_join"))
        check_join(a, zn_scan_marks(&a), inner);
    if (is_meant("scan_grad_join"))
        check_grad_join(a, inner, count);
    cuda_shared_free(decay);
    cuda_shared_free(first);
}

/* ---- orders ---- */

/* A table [sequences][rows][length] of indices, some of which are outside. */
static float *orders_new(int sequences, int rows, int length)
{
    float *table = cuda_shared_new((int64_t)sequences * rows * length, 0);
    for (int64_t i = 0; i < (int64_t)sequences * rows * length; i++)
        table[i] = (float)((i * 7 + i / 3) % (length + 2) - 1);
    zn_device_send(cuda_device, table, sizeof(float) * (size_t)(sequences * rows * length));
    return table;
}

static void check_gather(int sequences, int length, int channels, int count)
{
    enum { ROWS = 5 };
    zn_rng rng = zn_rng_new(54);
    const int64_t map = (int64_t)sequences * length * channels;
    float *table = orders_new(sequences, ROWS, length), *x[ZN_GATHER_SOURCES];
    zn_gather_args a = {
        .table = table, .length = length, .channels = channels, .rows = ROWS, .row = 1, .count = count, .scale = 0.7f
    };
    for (int i = 0; i < count; i++)
        a.x[i] = x[i] = cuda_shared_normal(&rng, map, 1);
    cuda_check("gather", zn_k_gather, (int64_t)sequences * length, &a, &a.y, NULL, map, 1e-6);
    for (int i = 0; i < count; i++)
        cuda_shared_free(x[i]);
    cuda_shared_free(table);
}

static void check_means(int sequences, int length, int channels)
{
    enum { ROWS = 2 };
    zn_rng rng = zn_rng_new(55);
    const int64_t map = (int64_t)sequences * length * channels, strips = (channels + ZN_MEAN_STRIP - 1) / ZN_MEAN_STRIP;
    float *table = orders_new(sequences, ROWS, length), *x = cuda_shared_normal(&rng, map, 1);
    for (int i = 0; i < length; i++)
        table[i] = sequences > 1 ? -1 : table[i]; /* a sequence without tokens */
    zn_device_send(cuda_device, table, sizeof(float) * (size_t)(sequences * ROWS * length));
    zn_mean_tokens_args a = { .x = x, .table = table, .length = length, .channels = channels, .rows = ROWS };
    if (is_meant("mean_tokens"))
        cuda_check("mean_tokens", zn_k_mean_tokens, sequences * strips, &a, &a.y, NULL, (int64_t)sequences * channels,
                   1e-6);
    if (is_meant("mean_tokens_grad"))
        cuda_check("mean_tokens_grad", zn_k_mean_tokens_grad, sequences, &a, &a.y, NULL, map, 1e-6);
    cuda_shared_free(table);
    cuda_shared_free(x);
}

/* ---- Fourier features ---- */

static void check_fourier(int tokens, int features, int sides)
{
    zn_rng rng = zn_rng_new(56);
    const int64_t count = (int64_t)tokens * 2 * features;
    float *p = cuda_shared_normal(&rng, (int64_t)tokens * sides, 3),
          *b = cuda_shared_normal(&rng, (int64_t)features * sides, 10), *y = cuda_shared_normal(&rng, count, 1),
          *dy = cuda_shared_normal(&rng, count, 1);
    zn_fourier_args a = { .p = p, .b = b, .y = y, .dy = dy, .features = features, .sides = sides };
    if (is_meant("fourier"))
        cuda_check("fourier", zn_k_fourier, tokens, &a, &a.to, NULL, count, 1e-6);
    if (is_meant("fourier_grad"))
        cuda_check("fourier_grad", zn_k_fourier_grad, tokens, &a, &a.to, NULL, (int64_t)tokens * sides, 1e-6);
    float *const all[] = { p, b, y, dy };
    for (int i = 0; i < 4; i++)
        cuda_shared_free(all[i]);
}

void cuda_check_sequences(void)
{
    check_joins(2, 150, 37, 5, true);
    check_joins(1, 65, 16, 16, false);
    for (int count = 1; count <= ZN_GATHER_SOURCES && is_meant("gather"); count += 3) {
        check_gather(2, 13, 10, count);
        check_gather(1, 30, 32, count);
    }
    check_means(2, 70, 45);
    check_means(1, 300, 8);
    check_fourier(9, 21, 2);
}
