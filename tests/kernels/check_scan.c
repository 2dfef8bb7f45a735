/* check-scan: the selective scan with chunks apart against the same with chunks together, forwards and backwards, to
 * 1e-5 of the largest value. No test library, so that it also runs under an emulator of another CPU. */
#include "base/alloc.h"
#include "base/rng.h"
#include "kernels/scan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LIMIT = 64 };

static float *blocks[LIMIT];
static int block_count;

static float *floats(int64_t count)
{
    float *x = blocks[block_count++] = zn_calloc((size_t)count + 1, sizeof(float));
    return x;
}

static const float *normal(zn_rng *rng, int64_t count, float mean, float deviation)
{
    float *x = floats(count);
    for (int64_t i = 0; x && i < count; i++)
        x[i] = mean + deviation * zn_rng_normal(rng);
    return x;
}

static void launch(zn_pool *pool, zn_body body, int64_t units, const zn_scan_args *a, size_t scratch)
{
    const size_t stride = (scratch + 63) / 64 * 64;
    zn_pool_run(pool, units, 1, body, a, floats((int64_t)(2 * stride / sizeof(float))), stride);
}

/* All results of one form, one behind the other: y, du, ddt, dfirst, parameters, b and c. */
typedef struct results {
    float *y, *du, *ddt, *dfirst, *parameters, *bc, *last;
} results;

static void sum(const float *partial, int64_t parts, int64_t count, float *to)
{
    for (int64_t i = 0; i < parts * count; i++)
        to[i % count] += partial[i];
}

static results run(zn_scan_args a, bool apart, zn_pool *pool)
{
    a.apart = apart;
    const int64_t map = a.sequences * a.length * a.channels, few = a.sequences * a.length * a.states;
    const int64_t inner = zn_scan_inner(&a, a.sequences, 0, 0), states = a.sequences * a.channels * a.states;
    const int64_t units = zn_scan_runs(&a) * zn_scan_blocks(&a), sequences = a.sequences * zn_scan_blocks(&a);
    const size_t scratch = zn_scan_scratch(&a);
    const results r = { .y = floats(map),
                        .du = floats(map),
                        .ddt = floats(map),
                        .dfirst = floats(states),
                        .parameters = floats(zn_scan_parameters(&a)),
                        .bc = floats(2 * few),
                        .last = floats(sequences * zn_scan_cell(&a)) };
    a.y = r.y;
    a.du = r.du;
    a.ddt = r.ddt;
    a.dfirst = r.dfirst;
    a.marks = floats(zn_scan_marks(&a));
    a.decay = floats(inner);
    a.ends = floats(inner);
    a.partial = floats(zn_scan_runs(&a) * zn_scan_parameters(&a));
    a.partial_bc = floats(2 * few * zn_scan_groups(&a));
    if (apart) {
        launch(pool, zn_k_scan_ends, units, &a, scratch);
        launch(pool, zn_k_scan_join, sequences, &a, scratch);
    }
    launch(pool, zn_k_scan, units, &a, scratch);
    for (int64_t s = 0; s < a.sequences; s++)
        memcpy(r.last + s * zn_scan_blocks(&a) * zn_scan_cell(&a), a.marks + zn_scan_mark(&a, s, zn_scan_chunks(&a), 0),
               sizeof(float) * (size_t)(zn_scan_blocks(&a) * zn_scan_cell(&a)));
    if (apart) {
        launch(pool, zn_k_scan_grad_ends, units, &a, scratch);
        launch(pool, zn_k_scan_grad_join, sequences, &a, scratch);
    }
    launch(pool, zn_k_scan_grad, zn_scan_runs(&a) * zn_scan_groups(&a), &a, zn_scan_grad_scratch(&a));
    sum(a.partial, zn_scan_runs(&a), zn_scan_parameters(&a), r.parameters);
    sum(a.partial_bc, zn_scan_groups(&a), 2 * few, r.bc);
    return r;
}

static int compare(const char *what, const float *a, const float *b, int64_t count)
{
    double worst = 0, scale = 1e-30;
    for (int64_t i = 0; i < count; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        worst = d <= worst ? worst : d; /* NaN counts as worst */
        scale = fabs((double)b[i]) > scale ? fabs((double)b[i]) : scale;
    }
    const bool pass = worst <= 1e-5 * scale;
    printf("  %-12s differs by %.1e  %s\n", what, worst / scale, pass ? "PASS" : "FAIL");
    return !pass;
}

static int check(const int size[4], zn_pool *pool)
{
    zn_rng rng = zn_rng_new(3);
    const int64_t tokens = (int64_t)size[0] * size[1], map = tokens * size[2], few = tokens * size[3];
    const int64_t states = (int64_t)size[0] * size[2] * size[3];
    const zn_scan_args a = { .u = normal(&rng, map, 0, 1),
                             .dt = normal(&rng, map, -3, 2), /* long memories and short ones */
                             .b = normal(&rng, few, 0, 1),
                             .c = normal(&rng, few, 0, 1),
                             .a_log = normal(&rng, (int64_t)size[2] * size[3], 0, 1),
                             .d = normal(&rng, size[2], 0, 1),
                             .bias = normal(&rng, size[2], 0, 1),
                             .first = normal(&rng, states, 0, 1),
                             .dy = normal(&rng, map, 0, 1),
                             .sequences = size[0],
                             .length = size[1],
                             .channels = size[2],
                             .states = size[3] };
    printf("%d of %d, %d channels, %d states\n", size[0], size[1], size[2], size[3]);
    const results together = run(a, false, pool), apart = run(a, true, pool);
    int failures = compare("y", apart.y, together.y, map);
    failures += compare("last state", apart.last, together.last, size[0] * zn_scan_blocks(&a) * zn_scan_cell(&a));
    failures += compare("du", apart.du, together.du, map);
    failures += compare("ddt", apart.ddt, together.ddt, map);
    failures += compare("dfirst", apart.dfirst, together.dfirst, states);
    failures += compare("parameters", apart.parameters, together.parameters, zn_scan_parameters(&a));
    failures += compare("b and c", apart.bc, together.bc, 2 * few);
    while (block_count)
        zn_free(blocks[--block_count]);
    return failures;
}

int main(void)
{
    static const int sizes[][4] = { { 1, 1000, 20, 16 }, { 2, 65, 5, 3 }, { 1, 300, 70, 4 }, { 3, 64, 16, 8 } };
    zn_pool *pool;
    int failures = 0;
    if (zn_pool_new(2, &pool) != ZN_OK)
        return 2;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        failures += check(sizes[i], pool);
    zn_pool_free(pool);
    printf("%d failures\n", failures);
    return failures != 0;
}
