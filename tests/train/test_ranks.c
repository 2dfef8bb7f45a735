/* Ranks, run by mpi.sh as `mpirun -np N test-ranks`: sums have the promised order, failures reach everyone, and the
 * gradients of a step over ranks are those of one process with the whole batch. Run alone, the same holds for one. */
#include "base/alloc.h"
#include "base/rng.h"
#include "on_ranks.h"
#include "train/ranks/ranks.h"
#include "train/run/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zenith/image.h>

enum { BATCH = 12, SIDE = 32 };

/* ---- messages ---- */

static float value_of(int of, int64_t i)
{
    zn_rng rng = zn_rng_new((uint64_t)(of * 1000003 + i));
    return zn_rng_normal(&rng);
}

/* The sum as ranks.h words it, by another way than the library's: recursively, the left side a power of two. */
static float tree_sum(int first, int n, int64_t i)
{
    int left = 1;
    if (n == 1)
        return value_of(first, i);
    while (left * 2 < n)
        left *= 2;
    return tree_sum(first, left, i) + tree_sum(first + left, n - left, i);
}

static void sums_have_a_fixed_order(void **state)
{
    (void)state;
    static const int64_t counts[] = { 1, 2, 7, 300000 };
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        float *values = zn_alloc(sizeof(float) * (size_t)counts[k]);
        for (int64_t i = 0; i < counts[k]; i++)
            values[i] = value_of(rank, i);
        assert_int_equal(zn_ranks_sum(ranks, values, counts[k]), ZN_OK);
        for (int64_t i = 0; i<counts[k]; i += counts[k]> 100 ? 997 : 1)
            assert_true(values[i] == tree_sum(0, count, i));
        zn_free(values);
    }
}

static zn_status trouble(void)
{
    char text[64];
    snprintf(text, sizeof text, "trouble on rank %d", rank);
    zn_image *none;
    return zn_image_read(text, NULL, &none); /* there is no such file, and the sentence says so */
}

static void one_failure_is_everyones(void **state)
{
    (void)state;
    char want[64];
    snprintf(want, sizeof want, "trouble on rank %d", count - 1);
    assert_int_not_equal(zn_ranks_agree(ranks, rank == count - 1 ? trouble() : ZN_OK), ZN_OK);
    assert_non_null(strstr(zn_error_text(), want));
    assert_int_not_equal(zn_ranks_agree(ranks, trouble()), ZN_OK);
    assert_non_null(strstr(zn_error_text(), "trouble on rank 0"));
    together();
    bool any = rank == count - 1;
    assert_int_equal(zn_ranks_any(ranks, &any), ZN_OK);
    assert_true(any);
    any = false;
    assert_int_equal(zn_ranks_any(ranks, &any), ZN_OK);
    assert_false(any);
}

/* ---- one step ---- */

/* The second with a penalty on the means of gates, and noise in them. */
static const char *const kinds[] = { "model: zenith-hier-r\n",
                                     "model: zenith-hier\ngates: {form: soft, penalty: 1}\n" };
enum { KINDS = sizeof kinds / sizeof *kinds };

static zn_recipe recipe_of(int kind, int accumulate)
{
    zn_recipe r;
    char text[200];
    snprintf(text, sizeof text, "%sbatch: %d\naccumulate: %d\nsize: %d\noptimizer: sgd\nclip: 0\n", kinds[kind], BATCH,
             accumulate, SIDE);
    assert_int_equal(zn_recipe_parse(text, strlen(text), "test", &r), ZN_OK);
    return r;
}

/* Gradients of one step over `among`. */
static float *gradients_of(const zn_recipe *r, zn_ranks *among, int64_t *floats, double *loss)
{
    const size_t pixels = (size_t)SIDE * SIDE * 3;
    const int share = BATCH / zn_ranks_count(among), first = share * zn_ranks_rank(among);
    zn_pool *pool;
    zn_model *model;
    zn_trainer *t;
    float *batch = zn_alloc(sizeof(float) * pixels * (size_t)share);
    for (size_t i = 0; i < pixels * (size_t)share; i++)
        batch[i] = 0.5f + 0.2f * value_of(99, (int64_t)(i + pixels * (size_t)first));
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    assert_int_equal(zn_model_random(r->model, 5, &model), ZN_OK);
    zn_trainer_options o = { .model = model, .recipe = r, .pool = pool, .ranks = among };
    assert_int_equal(zn_trainer_divide(r, among, &o.parts, &o.batch), ZN_OK);
    assert_int_equal(zn_trainer_new(&o, &t), ZN_OK);
    assert_int_equal(zn_trainer_step(t, batch, batch, loss), ZN_OK);
    *floats = t->learner.total;
    float *g = zn_alloc(sizeof(float) * (size_t)*floats);
    memcpy(g, t->learner.tree, sizeof(float) * (size_t)*floats);
    zn_trainer_free(t);
    zn_model_free(model);
    zn_pool_free(pool);
    zn_free(batch);
    return g;
}

static void gradients_are_those_of_the_whole_batch(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        int64_t floats;
        double alone_loss, loss;
        const zn_recipe whole = recipe_of(kind, 1);
        float *alone = gradients_of(&whole, NULL, &floats, &alone_loss),
              *ours = gradients_of(&whole, ranks, &floats, &loss);
        double error = 0, power = 0;
        for (int64_t i = 0; i < floats; i++) {
            error += pow((double)ours[i] - (double)alone[i], 2);
            power += pow((double)alone[i], 2);
        }
        assert_true(power > 0);
        if (!(sqrt(error / power) <= 1e-6 && fabs(loss / alone_loss - 1) <= 1e-6))
            fail_msg("gradients differ by %g, loss %.9g by %g", sqrt(error / power), loss, loss / alone_loss - 1);
        zn_free(alone);
        zn_free(ours);
    }
}

static void gradients_of_equal_parts_have_the_same_bits(void **state)
{
    (void)state;
    static const int per_rank[] = { 1, 2, 4 };
    for (int k = 0; k < 3 * KINDS; k++) {
        const int parts = per_rank[k / KINDS] * count;
        if (BATCH % parts)
            continue;
        int64_t floats;
        double alone_loss, loss;
        const zn_recipe r = recipe_of(k % KINDS, parts);
        float *alone = gradients_of(&r, NULL, &floats, &alone_loss), *ours = gradients_of(&r, ranks, &floats, &loss);
        assert_memory_equal(alone, ours, sizeof(float) * (size_t)floats);
        assert_true(loss == alone_loss);
        zn_free(alone);
        zn_free(ours);
    }
}

static void batches_that_cannot_be_shared_are_refused(void **state)
{
    (void)state;
    int parts, batch;
    zn_recipe r = recipe_of(0, 1);
    r.batch = 7 * count + 1;
    assert_int_equal(zn_trainer_divide(&r, ranks, &parts, &batch), count > 1 ? ZN_EINVALID : ZN_OK);
    r.accumulate = 3;
    r.batch = 6 * count;
    assert_int_equal(zn_trainer_divide(&r, ranks, &parts, &batch), ZN_OK);
    assert_true(parts % 3 == 0 && parts % count == 0 && parts * batch == r.batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_have_a_fixed_order),
        cmocka_unit_test(one_failure_is_everyones),
        cmocka_unit_test(gradients_are_those_of_the_whole_batch),
        cmocka_unit_test(gradients_of_equal_parts_have_the_same_bits),
        cmocka_unit_test(batches_that_cannot_be_shared_are_refused),
    };
    return run_on_ranks("ranks", tests, sizeof tests / sizeof *tests, NULL, NULL);
}
