/* Parts of models at work. */
#include "part_run.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

zn_pool *pool_of(int threads)
{
    zn_pool *pool;
    assert_int_equal(zn_pool_new(threads, &pool), ZN_OK);
    return pool;
}

zn_model *model_of(const char *name)
{
    zn_model *m;
    assert_int_equal(zn_model_random(name, 3, &m), ZN_OK);
    return m;
}

void fill(float *x, int64_t count, uint64_t seed)
{
    zn_rng rng = zn_rng_new(seed);
    for (int64_t i = 0; i < count; i++)
        x[i] = zn_rng_uniform(&rng);
}

zn_shape shape_of(const zn_model *m, zn_part part, int width, int height)
{
    const int d = m->config.downscale;
    return part == ZN_ENCODER ? ZN_SHAPE(1, height, width, 3) : ZN_SHAPE(1, height / d, width / d, m->config.latent);
}

float *result_of(const zn_model *m, zn_part part, int width, int height, int threads, int tile, size_t memory,
                 int64_t *count)
{
    zn_pool *pool = pool_of(threads);
    const zn_runner_options o = { .pool = pool, .tile = tile, .memory = memory };
    zn_runner *r;
    if (zn_runner_new(m, part, shape_of(m, part, width, height), &o, &r) != ZN_OK)
        fail_msg("%s", zn_error_text());
    assert_true(tile <= 0 || strstr(zn_runner_plan(r), "tiles of"));
    fill(zn_runner_input(r), zn_shape_count(zn_runner_input_shape(r)), 5);
    for (int again = 0; again < 2; again++) /* a runner is for more than one picture */
        if (zn_runner_run(r) != ZN_OK)
            fail_msg("%s", zn_error_text());
    *count = zn_shape_count(zn_runner_output_shape(r));
    float *copy = zn_alloc(sizeof *copy * (size_t)*count);
    memcpy(copy, zn_runner_output(r), sizeof *copy * (size_t)*count);
    zn_runner_free(r);
    zn_pool_free(pool);
    return copy;
}
