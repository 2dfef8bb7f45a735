/* Memory budgets: kept with the bits of the whole run, or refused with the least that works. */
#include "engine_bands.h"

#include "base/alloc.h"
#include "graph/context.h"
#include "graph/packs.h"
#include "models/zenith/zenith.h"
#include "part_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20 };

static zn_shape input_of(const zn_model *m, zn_part part, int width, int height)
{
    return m->info.restores ? ZN_SHAPE(1, height, width, ZN_RESTORE_INPUTS) : shape_of(m, part, width, height);
}

/* The least budget, as the sentence that refuses one byte names it. */
static size_t least_of(const zn_model *m, zn_part part, zn_shape shape, zn_runner_options o)
{
    zn_runner *r;
    o.memory = 1;
    assert_int_equal(zn_runner_new(m, part, shape, &o, &r), ZN_ENOMEM);
    const char *least = strstr(zn_error_text(), "the least is ");
    assert_non_null(least);
    return strtoul(least + strlen("the least is "), NULL, 10) * MIB;
}

/* The last of some runs. plan: a copy of it; may be NULL. */
static float *run(const zn_model *m, zn_part part, zn_shape shape, const zn_runner_options *o, int runs, int64_t *count,
                  char plan[1024])
{
    zn_runner *r;
    if (zn_runner_new(m, part, shape, o, &r) != ZN_OK)
        fail_msg("%s: %s", m->config.name, zn_error_text());
    fill(zn_runner_input(r), zn_shape_count(zn_runner_input_shape(r)), 5);
    for (int i = 0; i < runs; i++)
        if (zn_runner_run(r) != ZN_OK)
            fail_msg("%s: %s", m->config.name, zn_error_text());
    *count = zn_shape_count(zn_runner_output_shape(r));
    float *copy = zn_alloc(sizeof *copy * (size_t)*count);
    memcpy(copy, zn_runner_output(r), sizeof *copy * (size_t)*count);
    if (plan)
        snprintf(plan, 1024, "%s", zn_runner_plan(r));
    zn_runner_free(r);
    return copy;
}

void bands_equal_the_whole(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        zn_part part;
        int width, height;
        zn_precision math;
        bool bands; /* false: norms over the whole map cut it into segments, of which few can have bands */
    } cases[] = {
        { "taesd", ZN_DECODER, 104, 328, ZN_PRECISION_F32, true },
        { "taesd", ZN_ENCODER, 72, 360, ZN_PRECISION_F32, true },
        { "taesd3", ZN_DECODER, 72, 264, ZN_PRECISION_BF16, true },
        { "taesana", ZN_ENCODER, 64, 1216, ZN_PRECISION_F32, true },
        { "taesana", ZN_DECODER, 64, 608, ZN_PRECISION_F16, true },
        { "taef2", ZN_DECODER, 136, 328, ZN_PRECISION_F32, false },
        { "zenith-r", ZN_ENCODER, 72, 1608, ZN_PRECISION_F32, true },
        { "zenith-r", ZN_DECODER, 72, 1608, ZN_PRECISION_F32, true },
        { "zenith-restore", ZN_ENCODER, 260, 804, ZN_PRECISION_F32, true },
        { "zenith-restore", ZN_ENCODER, 804, 404, ZN_PRECISION_BF16, true },
        { "zenith-restore-spectral", ZN_ENCODER, 100, 1604, ZN_PRECISION_F32, true },
    };
    zn_pool *pool = pool_of(2);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        zn_model *m = model_of(cases[k].model);
        const zn_shape shape = input_of(m, cases[k].part, cases[k].width, cases[k].height);
        zn_runner_options o = { .pool = pool, .math = cases[k].math, .tile = ZN_TILE_OFF };
        int64_t n, nb;
        float *whole = run(m, cases[k].part, shape, &o, 1, &n, NULL);
        o.tile = ZN_TILE_AUTO;
        const size_t least = least_of(m, cases[k].part, shape, o);
        for (int more = 0; more < 2; more++) { /* strips and low bands; higher ones */
            char plan[1024];
            o.memory = least + least / 6 * (size_t)more;
            float *banded = run(m, cases[k].part, shape, &o, more ? 1 : 2, &nb, plan);
            if (more == 0 && cases[k].bands && !strstr(plan, "bands of"))
                fail_msg("%s part %d: %s", cases[k].model, cases[k].part, plan);
            assert_int_equal(n, nb);
            if (memcmp(whole, banded, sizeof(float) * (size_t)n))
                fail_msg("%s part %d: other bits with %s", cases[k].model, cases[k].part, plan);
            zn_free(banded);
        }
        zn_free(whole);
        zn_model_free(m);
    }
    zn_pool_free(pool);
}

void threads_do_not_change_bands(void **state)
{
    (void)state;
    zn_model *m = model_of("taesd");
    const zn_shape shape = shape_of(m, ZN_DECODER, 64, 264);
    float *one = NULL;
    for (int threads = 1; threads <= 4; threads++) {
        zn_pool *pool = pool_of(threads);
        zn_runner_options o = { .pool = pool };
        int64_t n;
        char plan[1024];
        o.memory = least_of(m, ZN_DECODER, shape, o);
        float *many = run(m, ZN_DECODER, shape, &o, 2, &n, plan);
        assert_non_null(strstr(plan, "bands of"));
        if (threads == 1)
            one = many;
        else {
            assert_memory_equal(one, many, sizeof *one * (size_t)n);
            zn_free(many);
        }
        zn_pool_free(pool);
    }
    zn_free(one);
    zn_model_free(m);
}

/* Memory grows with the width of an image, not with its height; little is computed twice until strips are needed. */
void bands_cost_little(void **state)
{
    (void)state;
    zn_model *m = model_of("zenith-restore");
    zn_pool *pool = pool_of(1);
    zn_runner *r;
    zn_runner_options o = { .pool = pool, .streams = true };
    const size_t low = least_of(m, ZN_ENCODER, ZN_SHAPE(1, 2000, 3000, ZN_RESTORE_INPUTS), o);
    const size_t high = least_of(m, ZN_ENCODER, ZN_SHAPE(1, 8000, 3000, ZN_RESTORE_INPUTS), o);
    assert_true(high <= low + low / 20);
    assert_true(high < (size_t)100 * MIB);
    o.memory = (size_t)800 * MIB;
    assert_int_equal(zn_runner_new(m, ZN_ENCODER, ZN_SHAPE(1, 4000, 6000, ZN_RESTORE_INPUTS), &o, &r), ZN_OK);
    if (zn_runner_overhead(r) < 1 || zn_runner_overhead(r) > 1.1)
        fail_msg("%.3f times the work: %s", zn_runner_overhead(r), zn_runner_plan(r));
    zn_runner_free(r);
    zn_pool_free(pool);
    zn_model_free(m);
}

/* Layers that compute whole squares need no more rows at a time than the squares of a few of them have. */
void squares_fit_small_budgets(void **state)
{
    (void)state;
    zn_model *m = model_of("zenith-r");
    zn_pool *pool = pool_of(1);
    const zn_runner_options o = { .pool = pool, .streams = true };
    const size_t encoder = least_of(m, ZN_ENCODER, ZN_SHAPE(1, 4000, 6000, 3), o);
    const size_t decoder = least_of(m, ZN_DECODER, ZN_SHAPE(1, 500, 750, 16), o);
    if (encoder > (size_t)200 * MIB || decoder > (size_t)200 * MIB)
        fail_msg("the encoder takes %zu MiB, the decoder %zu", encoder / MIB, decoder / MIB);
    zn_pool_free(pool);
    zn_model_free(m);
}

/* Weights that a stage has packed stay for the next run, so each of several stages counts those of all. */
void packed_weights_count(void **state)
{
    (void)state;
    zn_model *m = model_of("taef2"); /* norms over the whole map: several stages */
    zn_context *context;
    assert_int_equal(zn_context_new(1, &context), ZN_OK);
    zn_packs *packs;
    assert_int_equal(zn_packs_new(zn_context_packs(context), &packs), ZN_OK);
    zn_runner_options o = { .pool = zn_context_pool(context), .streams = true };
    const zn_shape shape = ZN_SHAPE(1, 128, 128, 32);
    const size_t apart = least_of(m, ZN_DECODER, shape, o);
    o.packs = packs;
    const size_t together = least_of(m, ZN_DECODER, shape, o);
    if (together <= apart)
        fail_msg("%zu MiB with a cache, %zu without", together / MIB, apart / MIB);
    zn_packs_free(packs);
    zn_context_free(context);
    zn_model_free(m);
}

void nan_in_a_band_names_its_stage(void **state)
{
    (void)state;
    zn_model *m = model_of("taesd");
    zn_pool *pool = pool_of(1);
    zn_runner *r;
    zn_runner_options o = { .pool = pool };
    const zn_shape shape = ZN_SHAPE(1, 64, 8, 4);
    for (int i = 0; i < m->count; i++)
        if (strcmp(m->parameters[i].name, "decoder.8.conv.2.bias") == 0)
            m->parameters[i].data[3] = 3e38f; /* overflows in the next convolution */
    o.memory = least_of(m, ZN_DECODER, shape, o);
    assert_int_equal(zn_runner_new(m, ZN_DECODER, shape, &o, &r), ZN_OK);
    assert_non_null(strstr(zn_runner_plan(r), "bands of"));
    fill(zn_runner_input(r), zn_shape_count(shape), 5);
    assert_int_equal(zn_runner_run(r), ZN_ENUMERIC);
    /* The first stage that runs with the rows of a result: where bands of this machine's kernels end before it, a later
     * one than that of the overflow. */
    assert_non_null(strstr(zn_error_text(), "in the result of stage 'decoder."));
    assert_null(strstr(zn_error_text(), "stage 'decoder.7'"));
    zn_runner_free(r);
    zn_pool_free(pool);
    zn_model_free(m);
}
