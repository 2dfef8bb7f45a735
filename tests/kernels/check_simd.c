/* Every kernel of simd.def, in every build this CPU can run, against its reference: odd sizes, guard zones and
 * forbidden pages around all memory, scratch full of NaN, equal bits for any split of the units and any number of
 * threads. The cases are in simd_cases_*.c.
 *
 *     check-simd [ISA [N]]    only the build for it ("": all), only every Nth size of each family of cases */
#include "simd_case.h"

#include "base/cpu.h"
#include "fence.h"
#include "kernels/simd.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
#define ZN_SIMD(name) #name,
#include "kernels/simd.def"
#undef ZN_SIMD
};

enum { TABLES = 8 };

static int compared, failures;
static zn_pool *pool; /* of two threads */

static void fail(const zn_simd_table *t, const simd_case *c, const char *what)
{
    printf("FAIL %s %s (%s): %s\n", names[c->kernel], t->isa, c->text, what);
    failures++;
}

/* Results of one run: one block for each output. */
typedef struct results {
    float *y[SIMD_OUTPUTS];
} results;

static void results_free(const simd_case *c, results *r)
{
    for (int i = 0; i < c->outputs; i++)
        guarded_free(r->y[i]);
}

static results run(const simd_case *c, zn_body body, split how, bool in_place)
{
    results r = { { NULL } };
    for (int i = 0; i < c->outputs; i++)
        *c->output[i].slot = r.y[i] = guarded_new(c->output[i].count);
    const int64_t floats = ((int64_t)(c->scratch / sizeof(float)) + 15) / 16 * 16;
    float *scratch = fenced_new(2 * floats + 16, true);
    for (int64_t i = 0; i < 2 * floats; i++)
        scratch[i] = NAN;
    const float *input = in_place ? *c->replaced : NULL;
    if (input) {
        memcpy(r.y[0], input, sizeof(float) * (size_t)c->output[0].count);
        *c->replaced = r.y[0];
    }
    run_split(&(split_run){ .body = body,
                            .args = c->args,
                            .units = c->units,
                            .grain = 1 + c->units / 7,
                            .scratch = scratch,
                            .stride = sizeof(float) * (size_t)floats,
                            .two = pool },
              how);
    fenced_free(scratch);
    if (input)
        *c->replaced = input;
    return r;
}

/* Largest difference over the largest value, for the whole result. Equal bits differ by 0 even if they are NaN. */
static double difference(const float *y, const float *want, int64_t count)
{
    double worst = 0, scale = 1e-30;
    if (memcmp(y, want, sizeof *y * (size_t)count) == 0)
        return 0;
    for (int64_t i = 0; i < count; i++) {
        const double d = fabs((double)y[i] - (double)want[i]);
        worst = d <= worst ? worst : d; /* NaN counts as worst */
        scale = fabs((double)want[i]) > scale ? fabs((double)want[i]) : scale;
    }
    return worst / scale;
}

static void check_in_place(const simd_case *c, const zn_simd_table *t)
{
    if (!c->replaced)
        return;
    results apart = run(c, t->entry[c->kernel].body, WHOLE, false),
            placed = run(c, t->entry[c->kernel].body, WHOLE, true);
    if (memcmp(apart.y[0], placed.y[0], sizeof(float) * (size_t)c->output[0].count) != 0)
        fail(t, c, "in place it gives other bits");
    results_free(c, &apart);
    results_free(c, &placed);
}

static void check(const simd_case *c, const zn_simd_table *t, const results *want)
{
    results whole = run(c, t->entry[c->kernel].body, WHOLE, false);
    for (int i = 0; i < c->outputs; i++) {
        const double e = difference(whole.y[i], want->y[i], c->output[i].count);
        char text[64];
        snprintf(text, sizeof text, "output %d differs by %.2e", i, e);
        if (!(e <= c->tolerance))
            fail(t, c, text);
        if (!guards_whole(whole.y[i], c->output[i].count))
            fail(t, c, "wrote outside its output");
        compared++;
    }
    for (split how = SINGLY_BACKWARDS; how <= TWO_THREADS; how++) {
        results other = run(c, t->entry[c->kernel].body, how, false);
        for (int i = 0; i < c->outputs; i++)
            if (memcmp(other.y[i], whole.y[i], sizeof(float) * (size_t)c->output[i].count) != 0)
                fail(t, c, how == TWO_THREADS ? "two threads give other bits" : "single units give other bits");
        results_free(c, &other);
    }
    results_free(c, &whole);
}

/* The number of rows decides which of these multiplies, and prompts that run together must have the bits they have
 * alone. */
static void check_same_bits(const simd_case *c, const zn_simd_table *t, uint32_t cpu)
{
    if (c->kernel != ZN_SIMD_matrix_i8 || strcmp(t->isa, "amx") != 0)
        return;
    for (int i = 1; zn_simd_tables[i] != t; i++) {
        const zn_simd_table *other = zn_simd_tables[i];
        if (strcmp(other->isa, "avx512vnni") != 0 || !zn_simd_has(other, c->kernel, c->args, cpu))
            continue;
        results a = run(c, t->entry[c->kernel].body, WHOLE, false),
                b = run(c, other->entry[c->kernel].body, WHOLE, false);
        if (memcmp(a.y[0], b.y[0], sizeof(float) * (size_t)c->output[0].count) != 0)
            fail(t, c, "it does not have the bits of avx512vnni");
        results_free(c, &a);
        results_free(c, &b);
        compared++;
    }
}

static bool is_meant(const zn_simd_table *t, const char *only, uint32_t cpu)
{
    return (t->cpu & ~cpu) == 0 && (!*only || !strcmp(t->isa, only));
}

/* A kernel that supports no case at all would never be compared. */
static void check_reached(const zn_simd_table *t, const int *supported)
{
    for (int k = 0; k < ZN_SIMD_COUNT; k++)
        if (t->entry[k].body && !supported[k]) {
            printf("FAIL %s %s: supports none of the cases\n", names[k], t->isa);
            failures++;
        }
}

/* Whether the build asked for is one that this CPU cannot run; the test is then skipped. */
static bool only_elsewhere(const char *only, uint32_t cpu)
{
    for (int t = 1; zn_simd_tables[t]; t++)
        if (!strcmp(zn_simd_tables[t]->isa, only))
            return !is_meant(zn_simd_tables[t], only, cpu);
    return false;
}

int main(int argc, char **argv)
{
    const uint32_t cpu = zn_cpu_flags();
    const char *only = argc > 1 ? argv[1] : "";
    const int every = argc > 2 && atoi(argv[2]) > 0 ? atoi(argv[2]) : 1;
    int cases[ZN_SIMD_COUNT] = { 0 };
    static int supported[TABLES][ZN_SIMD_COUNT];
    if (zn_pool_new(2, &pool) != ZN_OK)
        return 2;
    simd_case c;
    for (int i = 0; simd_case_at(i, every, &c); i++) {
        const zn_simd_table *ref = zn_simd_tables[0];
        results want = { { NULL } };
        for (int t = 1; zn_simd_tables[t]; t++) {
            const zn_simd_table *table = zn_simd_tables[t];
            if (!is_meant(table, only, cpu) || !zn_simd_has(table, c.kernel, c.args, cpu))
                continue;
            supported[t][c.kernel]++;
            if (!want.y[0]) {
                want = run(&c, ref->entry[c.kernel].body, WHOLE, false);
                check_in_place(&c, ref);
            }
            check(&c, table, &want);
            check_in_place(&c, table);
            check_same_bits(&c, table, cpu);
        }
        cases[c.kernel]++;
        if (want.y[0])
            results_free(&c, &want);
        simd_case_free();
    }
    for (int k = 0; k < ZN_SIMD_COUNT; k++)
        if (!cases[k]) {
            printf("FAIL %s has no case\n", names[k]);
            failures++;
        }
    for (int i = 1; zn_simd_tables[i] && every == 1; i++)
        if (is_meant(zn_simd_tables[i], only, cpu))
            check_reached(zn_simd_tables[i], supported[i]);
    char text[96];
    zn_cpu_text(cpu, text, sizeof text);
    printf("%s: %d comparisons, %d failures\n", text, compared, failures);
    zn_pool_free(pool);
    return only_elsewhere(only, cpu) ? 77 : failures || !compared;
}
