/* Flow matching with a network that knows the answer, PyTorch's noise across calls, and rotary positions. */
#include "base/alloc.h"
#include "base/fail.h"
#include "diffusion/flow.h"
#include "diffusion/flow_sampler.h"
#include "diffusion/noise.h"
#include "kernels/rope.h"
#include "nn/rope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

enum { COUNT = 33 };

static void right_answers_lead_to_the_image(void **state)
{
    (void)state;
    float image[COUNT], noise[COUNT], out[COUNT], x[COUNT], seen[COUNT], sigma[9];
    zn_torch_noise n;
    zn_torch_noise_seed(&n, 1);
    zn_torch_noise_fill(&n, image, COUNT, NULL);
    zn_torch_noise_fill(&n, noise, COUNT, NULL);
    for (int i = 0; i < COUNT; i++)
        out[i] = image[i] - noise[i];
    zn_flow_sigmas(8, 3, sigma);
    assert_true(sigma[0] == 1 && sigma[8] == 0);
    zn_flow_mix(image, noise, sigma[0], x, COUNT);
    assert_memory_equal(x, noise, sizeof x);
    for (int k = 0; k < 8; k++) {
        assert_true(sigma[k + 1] < sigma[k]);
        assert_true(fabsf(zn_flow_time(sigma[k]) - (1 - sigma[k])) < 1e-6f);
        zn_flow_estimate(x, out, sigma[k], seen, COUNT);
        for (int i = 0; i < COUNT; i++)
            assert_true(fabsf(seen[i] - image[i]) < 1e-5f);
        zn_flow_step(x, out, sigma[k], sigma[k + 1], COUNT);
        zn_flow_mix(image, noise, sigma[k + 1], seen, COUNT);
        for (int i = 0; i < COUNT; i++)
            assert_true(fabsf(seen[i] - x[i]) < 1e-5f);
    }
}

/* A shift of e^mu is what the dynamic schedule means. */
static void dynamic_is_a_shift(void **state)
{
    (void)state;
    float a[21], b[21];
    assert_true(fabs(zn_flow_mu(256) - 0.5) < 1e-12 && fabs(zn_flow_mu(4096) - 1.15) < 1e-12);
    zn_flow_sigmas_dynamic(20, zn_flow_mu(1024), a);
    zn_flow_sigmas(20, (float)exp(zn_flow_mu(1024)), b);
    for (int i = 0; i <= 20; i++)
        assert_true(fabsf(a[i] - b[i]) < 1e-6f);
}

/* A network that always answers with one number, another for what is not wanted. */
typedef struct teller {
    int asked, asked_unwanted, steps;
    int latest; /* step of a question about the unwanted */
    int fails_at;
} teller;

static zn_status tell(void *self, const float *x, int step, bool unwanted, float *out)
{
    (void)x;
    teller *t = self;
    unwanted ? t->asked_unwanted++ : t->asked++;
    if (unwanted)
        t->latest = step;
    for (int i = 0; i < COUNT; i++)
        out[i] = unwanted ? 1 : 3;
    return t->fails_at == t->asked ? ZN_FAIL(ZN_ECANCELLED, "enough") : ZN_OK;
}

static zn_status count_step(void *self, int step, float *x, const float *out)
{
    (void)x;
    (void)out;
    teller *t = self;
    assert_int_equal(step, t->steps);
    t->steps++;
    return ZN_OK;
}

static void guidance_goes_on_from_the_unwanted(void **state)
{
    (void)state;
    float sigma[9], x[COUNT] = { 0 };
    teller t = { .steps = 2 };
    zn_flow_sigmas(8, 1, sigma);
    zn_flow_sampling s = { sigma, 8, 2, COUNT, 0.5f, 0, 0.5f, tell, count_step, &t };
    assert_int_equal(zn_flow_sample(&s, x), ZN_OK);
    assert_int_equal(t.asked, 6);
    assert_int_equal(t.asked_unwanted, 3); /* at 1/4, 3/8, 1/2 */
    assert_int_equal(t.latest, 4);
    assert_int_equal(t.steps, 8);
    assert_float_equal(x[5], 3 * 0.75f + 0.5f * (3 - 1) * 0.375f, 1e-5f);
    t = (teller){ .steps = 2, .fails_at = 3 };
    assert_int_equal(zn_flow_sample(&s, x), ZN_ECANCELLED);
    assert_int_equal(t.steps, 4);
    zn_alloc_fail_at(1);
    assert_int_equal(zn_flow_sample(&s, x), ZN_ENOMEM);
    zn_alloc_fail_at(0);
}

static void guided_answers_may_be_shortened(void **state)
{
    (void)state;
    const float wanted[2] = { 3, 4 }, unwanted[2] = { 0, 0 };
    float out[2];
    zn_flow_guide(wanted, unwanted, 1, 0, out, 2);
    assert_float_equal(out[0], 6, 1e-6f);
    zn_flow_guide(wanted, unwanted, 1, 1.5f, out, 2);
    assert_float_equal(out[1], 6, 1e-6f);
    zn_flow_guide(wanted, unwanted, 1, 3, out, 2);
    assert_float_equal(out[1], 8, 1e-6f);
    assert_int_equal(zn_flow_first(5, 0.6), 2);
    assert_int_equal(zn_flow_first(8, 1), 0);
    assert_int_equal(zn_flow_first(8, 2), 0);
    assert_int_equal(zn_flow_first(8, 0), 8);
    assert_int_equal(zn_flow_first(8, 1e-17), 7);
}

static void noise_has_a_state(void **state)
{
    (void)state;
    float a[4], b[4], many[20000];
    zn_torch_noise n;
    zn_torch_noise_seed(&n, 7);
    zn_torch_noise_fill(&n, a, 4, NULL);
    zn_torch_noise_seed(&n, 7);
    zn_torch_noise_fill(&n, b, 1, NULL); /* the second number of the pair waits for the next call */
    zn_torch_noise_fill(&n, b + 1, 3, NULL);
    assert_memory_equal(a, b, sizeof a);
    zn_torch_noise_seed(&n, 7 + (1ull << 32)); /* high bits do not count here */
    zn_torch_noise_fill(&n, b, 4, NULL);
    assert_memory_equal(a, b, sizeof a);
    zn_torch_cuda_noise(7, 0, a, 4);
    zn_torch_cuda_noise(7, 1, b, 4);
    assert_memory_not_equal(a, b, sizeof a);
    zn_torch_cuda_noise(7 + (1ull << 32), 0, b, 4); /* and there they do */
    assert_memory_not_equal(a, b, sizeof a);
    double sum = 0, squares = 0;
    zn_torch_cuda_noise(3, 0, many, 20000);
    for (int i = 0; i < 20000; i++) {
        sum += (double)many[i];
        squares += (double)many[i] * (double)many[i];
    }
    assert_true(fabs(sum / 20000) < 0.03 && fabs(squares / 20000 - 1) < 0.03);
}

/* Both pairings are the same turn of other channels; in place; positions back and forth cancel. */
static void rotary_positions(void **state)
{
    (void)state;
    enum { TOKENS = 3, HEADS = 2, PAIRS = 8, WIDTH = 2 * PAIRS };
    const zn_rope_axes axes = { .count = 2, .width = { 6, 10 }, .theta = 256 };
    const int32_t there[TOKENS * 2] = { 0, 0, 3, 1, 100, 7 };
    int32_t back[TOKENS * 2];
    float cosines[TOKENS * PAIRS], sines[TOKENS * PAIRS], x[TOKENS * HEADS * WIDTH], y[TOKENS * HEADS * WIDTH],
        turned[TOKENS * HEADS * WIDTH];
    zn_torch_noise n;
    zn_torch_noise_seed(&n, 2);
    zn_torch_noise_fill(&n, x, TOKENS * HEADS * WIDTH, NULL);
    for (int i = 0; i < TOKENS * 2; i++)
        back[i] = -there[i];
    zn_rope_table(&axes, there, TOKENS, cosines, sines);
    assert_true(cosines[PAIRS] == cosf(3) && sines[PAIRS + 3] == sinf(1)); /* the first pair of each axis */
    zn_rope_args a = { .x = x, .cos = cosines, .sin = sines, .y = y, .period = TOKENS, .heads = HEADS, .pairs = PAIRS };
    zn_k_rope(&a, (zn_range){ .begin = 0, .end = TOKENS });
    assert_memory_equal(y, x, sizeof(float) * HEADS * WIDTH); /* position zero */
    for (int r = 0; r < TOKENS * HEADS; r++)
        for (int i = 0; i < WIDTH; i++)
            turned[r * WIDTH + i % 2 * PAIRS + i / 2] = x[r * WIDTH + i];
    a = (zn_rope_args){ turned, cosines, sines, turned, TOKENS, HEADS, PAIRS, true, ZN_TYPE_F32, false };
    zn_k_rope(&a, (zn_range){ .begin = 0, .end = 1 });
    zn_k_rope(&a, (zn_range){ .begin = 1, .end = TOKENS });
    for (int r = 0; r < TOKENS * HEADS; r++)
        for (int i = 0; i < WIDTH; i++)
            assert_true(turned[r * WIDTH + i % 2 * PAIRS + i / 2] == y[r * WIDTH + i]);
    a.back = true;
    zn_k_rope(&a, (zn_range){ .begin = 0, .end = TOKENS });
    for (int r = 0; r < TOKENS * HEADS; r++)
        for (int i = 0; i < WIDTH; i++)
            assert_true(fabsf(turned[r * WIDTH + i % 2 * PAIRS + i / 2] - x[r * WIDTH + i]) < 1e-5f);
    zn_rope_table(&axes, back, TOKENS, cosines, sines);
    a = (zn_rope_args){
        .x = y, .cos = cosines, .sin = sines, .y = y, .period = TOKENS, .heads = HEADS, .pairs = PAIRS
    };
    zn_k_rope(&a, (zn_range){ .begin = 0, .end = TOKENS });
    for (int i = 0; i < TOKENS * HEADS * WIDTH; i++)
        assert_true(fabsf(y[i] - x[i]) < 1e-5f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_answers_lead_to_the_image),
        cmocka_unit_test(dynamic_is_a_shift),
        cmocka_unit_test(guidance_goes_on_from_the_unwanted),
        cmocka_unit_test(guided_answers_may_be_shortened),
        cmocka_unit_test(noise_has_a_state),
        cmocka_unit_test(rotary_positions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
