/* Walsh-Hadamard transforms of every length beside what memory allows: along rows, columns and channels of a map of 64
 * MB, each read once and written once.
 *
 *     fwht [threads]        a Markdown table */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/threads.h"
#include "kernels/spectral.h"

#include <stdio.h>
#include <stdlib.h>
#include <zenith/codec.h>

enum { FLOATS = 1 << 24, CHANNELS = 16, TRIES = 5 };

static double best_ms(zn_pool *pool, zn_wht_args a, void *scratch)
{
    double best = 1e30;
    for (int i = 0; i < TRIES; i++) {
        const double start = zn_clock_ms();
        zn_pool_run(pool, zn_wht_units(&a), zn_wht_grain(&a), zn_k_wht, &a, scratch, zn_wht_scratch(&a));
        const double ms = zn_clock_ms() - start;
        best = ms < best ? ms : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : zn_cpu_count();
    zn_pool *pool;
    zn_machine machine;
    float *x = zn_calloc(FLOATS, sizeof *x), *y = zn_calloc(FLOATS, sizeof *y);
    if (!x || !y || zn_pool_new(threads, &pool) != ZN_OK ||
        zn_machine_measure(threads, ZN_PRECISION_F32, &machine) != ZN_OK) {
        fprintf(stderr, "fwht: %s\n", zn_error_text());
        return 1;
    }
    for (int64_t i = 0; i < FLOATS; i++) /* pages that were never written would all be one */
        x[i] = (float)(i % 17) - 8;
    printf("%d threads, %s, copy %.1f GB/s\n\n", zn_pool_threads(pool), machine.isa, machine.bandwidth_gbs);
    printf("| length | rows, GB/s | of copy | columns, GB/s | of copy | channels, GB/s | of copy |\n"
           "|---:|---:|---:|---:|---:|---:|---:|\n");
    for (int64_t n = 2; n <= 4096; n *= 2) {
        const int64_t rest = FLOATS / n;
        const zn_wht_args forms[] = { { .outer = rest / CHANNELS, .n = n, .inner = CHANNELS },
                                      { .outer = rest / CHANNELS / 256, .n = n, .inner = 256 * CHANNELS },
                                      { .outer = rest, .n = n, .inner = 1 } };
        printf("| %lld |", (long long)n);
        for (int i = 0; i < 3; i++) {
            zn_wht_args a = forms[i];
            a.x = x;
            a.y = y;
            a.scale = 1;
            void *scratch = zn_alloc(zn_wht_scratch(&a) * (size_t)threads);
            const double gbs = 2.0 * sizeof(float) * FLOATS / best_ms(pool, a, scratch) * 1e-6;
            printf(" %.1f | %.0f %% |", gbs, 100 * gbs / machine.bandwidth_gbs);
            zn_free(scratch);
        }
        printf("\n");
    }
    zn_pool_free(pool);
    zn_free(x);
    zn_free(y);
    return 0;
}
