/* Optimisers against values of PyTorch 2 in double, clipping, learning rates of single tensors; the wavelet generator's
 * statistics; similarity where the answer is known. */
#include "../similarity.h"
#include "base/alloc.h"
#include "train/data/wavelet.h"
#include "train/optimiser/optim.h"
#include "train/optimiser/scaler.h"
#include "train/score/metrics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

enum { N = 4, STEPS = 3 };
static const float start[N] = { 0.5f, -1.25f, 2.0f, 0.0f };
static const float gradients[STEPS][N] = { { 0.1f, -0.4f, 3.0f, 0.02f },
                                           { 0.5f, 0.4f, -0.2f, -0.01f },
                                           { -0.3f, 0.05f, 0.1f, 0.03f } };

/* Three steps from `start`, in two tensors of two. */
static void take_steps(const zn_optim_options *options, const zn_optim_tensor *second, float w[N])
{
    zn_pool *pool;
    zn_optim o;
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    assert_int_equal(zn_optim_new(&o, N, options), ZN_OK);
    memcpy(w, start, sizeof start);
    for (int k = 0; k < STEPS; k++) {
        zn_optim_begin(&o, -1);
        zn_optim_update(&o, pool, w, gradients[k], 2, NULL);
        zn_optim_update(&o, pool, w + 2, gradients[k] + 2, 2, second);
    }
    zn_optim_free(&o);
    zn_pool_free(pool);
}

static void optimisers_are_those_of_pytorch(void **state)
{
    (void)state;
    static const struct {
        zn_optim_options options;
        double want[N];
    } cases[] = {
        { { .kind = ZN_ADAM, .lr = 0.01f, .weight_decay = 0.1f },
          { 0.477321503, -1.234852964, 1.977552802, -0.018385396 } },
        { { .kind = ZN_ADAMW, .lr = 0.01f, .beta1 = 0.9f, .beta2 = 0.5f, .weight_decay = 0.01f, .amsgrad = true },
          { 0.480088385, -1.241010225, 1.980207099, -0.018180142 } },
        { { .kind = ZN_SGD, .lr = 0.01f }, { 0.497, -1.2505, 1.971, -0.0004 } },
        { { .kind = ZN_SGD, .lr = 0.01f, .momentum = 0.9f, .weight_decay = 0.1f },
          { 0.487996199, -1.240264695, 1.910401568, -0.00065134 } },
        { { .kind = ZN_SGD, .lr = 0.01f, .momentum = 0.9f, .nesterov = true },
          { 0.488711, -1.248034, 1.90035, -0.0009868 } },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        float w[N];
        take_steps(&cases[k].options, NULL, w);
        for (int i = 0; i < N; i++)
            if (fabs((double)w[i] - cases[k].want[i]) > 1e-6)
                fail_msg("case %zu, value %d: %.9f instead of %.9f", k, i, (double)w[i], cases[k].want[i]);
    }
}

static void a_tensor_may_have_its_own_rate(void **state)
{
    (void)state;
    const zn_optim_options options = { .kind = ZN_SGD, .lr = 0.01f, .weight_decay = 0.5f };
    float w[N];
    take_steps(&options, &(zn_optim_tensor){ .lr_factor = 2, .no_decay = true }, w);
    assert_true(fabs((double)w[2] - (2.0 - 2 * 0.029)) < 1e-6); /* twice the steps, no decay */
    assert_true((double)w[0] < 0.497 - 0.005);                  /* decayed */
    take_steps(&options, &(zn_optim_tensor){ .frozen = true }, w);
    assert_true(w[2] == start[2] && w[3] == start[3] && w[0] != start[0]);
}

static void a_rate_of_zero_changes_nothing(void **state)
{
    (void)state;
    static const zn_optim_kind kinds[] = { ZN_ADAM, ZN_ADAMW, ZN_ADAM_SEED, ZN_SGD };
    zn_pool *pool;
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const zn_optim_options options = { .kind = kinds[k], .lr = 0.01f, .weight_decay = 0.5f };
        float w[N];
        zn_optim o;
        memcpy(w, start, sizeof start);
        assert_int_equal(zn_optim_new(&o, N, &options), ZN_OK);
        zn_optim_begin(&o, 0);
        zn_optim_update(&o, pool, w, gradients[0], N, NULL);
        assert_memory_equal(w, start, sizeof start);
        zn_optim_free(&o);
    }
    zn_pool_free(pool);
}

static void gradients_are_clipped_together(void **state)
{
    (void)state;
    float a[] = { 3, 0 }, b[] = { 0, 4, 0 };
    float *const both[] = { a, b };
    const int64_t counts[] = { 2, 3 };
    assert_true(fabs(zn_clip_norm(both, counts, 2, 10) - 5) < 1e-9);
    assert_true(a[0] == 3 && b[1] == 4);
    zn_clip_norm(both, counts, 2, 1);
    assert_true(fabs((double)a[0] - 0.6) < 1e-6 && fabs((double)b[1] - 0.8) < 1e-6);
}

/* Means over many pictures, against those of the specification and the reference (B6). */
static void wavelets_have_the_known_statistics(void **state)
{
    (void)state;
    static const struct {
        int side;
        double mean, mean_square, variance;
    } cases[] = { { 64, 1.12, 1.77, 0.245 }, { 128, 0.475, 0.545, 0.217 } };
    enum { PICTURES = 400 };
    for (int k = 0; k < 2; k++) {
        const int side = cases[k].side, count = side * side;
        zn_rng rng = zn_rng_new(3);
        double mean = 0, square = 0, variance = 0;
        float *image = zn_alloc(sizeof *image * (size_t)count);
        for (int p = 0; p < PICTURES; p++) {
            zn_wavelet w[ZN_WAVELET_MAX];
            const int n = zn_wavelet_draw(&rng, side, side, w);
            assert_in_range(n, 3, 8);
            zn_wavelet_image(w, n, side, side, 1, image);
            double sum = 0, squares = 0;
            for (int i = 0; i < count; i++) {
                sum += (double)image[i];
                squares += (double)image[i] * (double)image[i];
            }
            mean += sum / count / PICTURES;
            square += squares / count / PICTURES;
            variance += (squares / count - sum / count * (sum / count)) / PICTURES;
        }
        zn_free(image);
        if (fabs(mean / cases[k].mean - 1) > 0.1 || fabs(square / cases[k].mean_square - 1) > 0.15 ||
            fabs(variance / cases[k].variance - 1) > 0.12)
            fail_msg("side %d: mean %.3f, mean square %.3f, variance %.3f", side, mean, square, variance);
    }
}

/* Good steps double it up to its limit, where its own overflow would be taken for that of a network. */
static void the_factor_of_the_loss_has_a_limit(void **state)
{
    (void)state;
    zn_scaler s = ZN_SCALER_START;
    s.interval = 2;
    for (int i = 0; i < 400; i++)
        assert_true(zn_scaler_step(&s, true));
    assert_true(s.scale == ZN_SCALER_MOST);
    assert_false(zn_scaler_step(&s, false));
    assert_true(s.scale == ZN_SCALER_MOST / 2);
}

static void similarity_of_equals_is_one(void **state)
{
    (void)state;
    enum { SIDE = 176 };
    const zn_shape shape = ZN_SHAPE(1, SIDE, SIDE, 1);
    float *a = zn_alloc(sizeof *a * SIDE * SIDE);
    zn_rng rng = zn_rng_new(1);
    for (int i = 0; i < SIDE * SIDE; i++)
        a[i] = zn_rng_uniform(&rng);
    double v;
    assert_int_equal(similarity(a, a, shape, 0, 1, &v), ZN_OK);
    assert_true(fabs(v - 1) < 1e-12);
    assert_int_equal(zn_ms_ssim(a, a, shape, 1, &v), ZN_OK);
    assert_true(fabs(v - 1) < 1e-12);
    assert_true(isinf(zn_psnr(zn_mean_square(a, a, SIDE * SIDE), 1)));
    assert_int_equal(zn_ms_ssim(a, a, ZN_SHAPE(1, 175, 176, 1), 1, &v), ZN_ESHAPE);
    zn_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimisers_are_those_of_pytorch),    cmocka_unit_test(a_tensor_may_have_its_own_rate),
        cmocka_unit_test(a_rate_of_zero_changes_nothing),     cmocka_unit_test(gradients_are_clipped_together),
        cmocka_unit_test(wavelets_have_the_known_statistics), cmocka_unit_test(similarity_of_equals_is_one),
        cmocka_unit_test(the_factor_of_the_loss_has_a_limit),
    };
    return cmocka_run_group_tests_name("train", tests, NULL, NULL);
}
