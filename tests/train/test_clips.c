/* Learning from clips: crops of them, several in one graph, Gaussian latents and their gradients; and the factor of the
 * loss in f16. */
#include "base/alloc.h"
#include "train/data/pictures.h"
#include "train/run/trainer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 16, FRAMES = 5 };

static zn_pool *pool;

static zn_recipe recipe_of(const char *text)
{
    zn_recipe r;
    assert_int_equal(zn_recipe_parse(text, strlen(text), "test", &r), ZN_OK);
    return r;
}

static zn_model *small_model(const char *name, int latent)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find(name, &known);
    zn_config config = *known;
    zn_model *m;
    assert_int_equal(zn_arch_resize(arch, &config, &(zn_wishes){ .width = 4, .latent = latent, .size = SIDE }), ZN_OK);
    assert_int_equal(zn_model_new(arch, &config, &m), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_ENCODER, 1), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_DECODER, 1), ZN_OK);
    return m;
}

static float number(int64_t i) { return (float)(i * 7919 % 1201) / 1201.0f; }

static void fill(zn_node *x)
{
    for (int64_t i = 0; i < zn_shape_count(x->shape); i++)
        x->data[i] = number(i);
}

/* ---- crops ---- */

/* A sample says where it was: 10 times its column, 10 times its row, 50 times its frame. */
static zn_image *three_frames(int width, int height)
{
    zn_image *strip;
    assert_int_equal(zn_image_new(width, 3 * height, 8, &strip), ZN_OK);
    uint8_t *p = strip->pixels;
    for (int y = 0; y < 3 * height; y++)
        for (int x = 0; x < width; x++, p += 3) {
            p[0] = (uint8_t)(10 * x);
            p[1] = (uint8_t)(10 * (y % height));
            p[2] = (uint8_t)(50 * (y / height));
        }
    return strip;
}

static void frames_of_a_clip_are_cropped_alike(void **state)
{
    (void)state;
    enum { SIZE = 8, FLOATS = SIZE * SIZE * 3 };
    zn_image *strip = three_frames(20, 16);
    float out[2 * FLOATS];
    bool begins[3] = { false };
    for (uint64_t seed = 0; seed < 40; seed++) {
        assert_int_equal(zn_picture_crop(strip, 3, &(zn_crop){ .size = SIZE, .frames = 2 }, seed, out), ZN_OK);
        const int first = (int)lrintf(out[2] * 255 / 50);
        begins[first] = true;
        for (int i = 0; i < FLOATS; i += 3) {
            assert_true(out[i] == out[FLOATS + i] && out[i + 1] == out[FLOATS + i + 1]);
            assert_int_equal(lrintf(out[FLOATS + i + 2] * 255), 50 * (first + 1));
        }
    }
    assert_true(begins[0] && begins[1] && !begins[2]);
    assert_int_equal(zn_picture_crop(strip, 3, &(zn_crop){ .size = SIZE, .frames = 4 }, 1, out), ZN_EINVALID);
    zn_image_free(strip);
}

/* ---- networks ---- */

/* A part of the model for `clips` videos, frames [first, first + count) of a long row; the result is the caller's. */
static float *run_part(const zn_model *m, zn_part part, int first, int count, int clips, int64_t *floats)
{
    const int side = part == ZN_ENCODER ? SIDE : SIDE / m->config.downscale;
    zn_graph *g = zn_graph_new();
    zn_exec *e;
    zn_node *x = zn_graph_input(g, "x", ZN_SHAPE(count, side, side, zn_model_inputs(m, part)));
    zn_node *y = zn_part_of(m, part, "", x, clips);
    assert_int_equal(zn_graph_status(g), ZN_OK);
    zn_model_bind(m, g, "");
    assert_int_equal(zn_exec_new(g, &y, 1, &(zn_exec_options){ .pool = pool, .training = true }, &e), ZN_OK);
    const int64_t each = zn_shape_count(x->shape) / count;
    for (int64_t i = 0; i < each * count; i++)
        x->data[i] = number(first * each + i);
    assert_int_equal(zn_exec_run(e), ZN_OK);
    *floats = zn_shape_count(y->shape);
    float *out = zn_alloc(sizeof *out * (size_t)*floats);
    memcpy(out, y->data, sizeof *out * (size_t)*floats);
    zn_exec_free(e);
    zn_graph_free(g);
    return out;
}

/* Nothing of a clip reaches the next one in the batch. */
static void clips_of_a_batch_do_not_meet(void **state)
{
    (void)state;
    static const char *const names[] = { "wan21-vae", "taew2_1" };
    for (int k = 0; k < 4; k++) {
        zn_model *m = small_model(names[k / 2], 3);
        const zn_part part = k % 2 ? ZN_DECODER : ZN_ENCODER;
        const int frames = part == ZN_ENCODER ? FRAMES : 2;
        int64_t all, own;
        float *both = run_part(m, part, 0, 2 * frames, 2, &all);
        for (int i = 0; i < 2; i++) {
            float *alone = run_part(m, part, i * frames, frames, 1, &own);
            assert_int_equal(2 * own, all);
            assert_memory_equal(alone, both + i * own, sizeof *alone * (size_t)own);
            zn_free(alone);
        }
        zn_free(both);
        zn_model_free(m);
    }
}

/* The means are the latents in use. */
static void moments_begin_with_the_latents(void **state)
{
    (void)state;
    static const char *const names[] = { "wan21-vae", "wan2d" };
    for (int k = 0; k < 2; k++) {
        zn_model *m = small_model(names[k], k ? 4 : 16); /* with the statistics of the published latents */
        const zn_arch *arch = m->arch;
        zn_graph *g = zn_graph_new();
        zn_exec *e;
        zn_node *x = zn_graph_input(g, "x", ZN_SHAPE(k ? 1 : FRAMES, SIDE, SIDE, 3));
        const zn_scope s = { g, "encoder" };
        zn_node *out[] = { arch->moments(s, x, &m->config, NULL),
                           k ? arch->encode(s, x, &m->config) : arch->clip(s, ZN_ENCODER, x, &m->config, NULL) };
        assert_int_equal(zn_graph_status(g), ZN_OK);
        zn_model_bind(m, g, "");
        assert_int_equal(zn_exec_new(g, out, 2, &(zn_exec_options){ .pool = pool, .training = true }, &e), ZN_OK);
        fill(x);
        assert_int_equal(zn_exec_run(e), ZN_OK);
        const int c = zn_channels(out[1]);
        assert_int_equal(zn_channels(out[0]), 2 * c);
        for (int64_t i = 0; i < zn_shape_count(out[1]->shape); i++)
            assert_true(fabsf(out[0]->data[i / c * 2 * c + i % c] - out[1]->data[i]) < 1e-5f);
        zn_exec_free(e);
        zn_graph_free(g);
        zn_model_free(m);
    }
}

/* ---- gradients ---- */

static double loss_at(zn_exec *e, const zn_objective *o)
{
    assert_int_equal(zn_exec_run(e), ZN_OK);
    return (double)o->loss->data[0];
}

/* Along a random direction the loss changes as the gradients say, and each kind of weight takes part. */
static void gradients_of_clips_are_right(void **state)
{
    (void)state;
    enum { MOST = 256 };
    const zn_recipe r = recipe_of("model: wan21-vae\nframes: 5\nsize: 16\nloss: {mse: 1, l1: 0, bands: 0, kl: 0.1}\n");
    zn_model *m = small_model("wan21-vae", 3);
    zn_objective o;
    zn_node *wrt[MOST], *out[MOST + 1];
    zn_exec *e;
    assert_int_equal(zn_objective_build(&o, &(zn_objective_options){ .model = m, .recipe = &r, .batch = 2 }), ZN_OK);
    assert_int_equal(zn_objective_close(&o), ZN_OK);
    assert_true(m->count <= MOST);
    for (int i = 0; i < m->count; i++)
        wrt[i] = zn_graph_parameter(o.graph, m->parameters[i].name, m->parameters[i].shape, m->parameters[i].layout);
    out[0] = o.loss;
    assert_int_equal(zn_graph_differentiate(o.graph, o.loss, NULL, wrt, m->count, out + 1), ZN_OK);
    assert_int_equal(zn_exec_new(o.graph, out, m->count + 1, &(zn_exec_options){ .pool = pool, .training = true }, &e),
                     ZN_OK);
    fill(o.input);
    fill(o.target);
    zn_rng rng = zn_rng_new(3);
    for (int64_t i = 0; i < zn_shape_count(o.noise->shape); i++)
        o.noise->data[i] = zn_rng_normal(&rng);
    for (int i = 0; i < o.count; i++)
        o.terms[i].weight->data[0] = (float)o.terms[i].ramp.to;
    const float step = 1e-5f; /* norms of few channels bend the loss */
    double slope = 0, ends[2];
    loss_at(e, &o);
    for (int sign = 0; sign < 2; sign++) { /* to one end, then twice as far back */
        rng = zn_rng_new(4);
        for (int i = 0; i < m->count; i++)
            for (int64_t k = 0; k < zn_shape_count(m->parameters[i].shape); k++) {
                const float d = zn_rng_normal(&rng);
                slope += sign ? 0 : (double)(d * out[i + 1]->data[k]);
                m->parameters[i].data[k] += sign ? -2 * step * d : step * d;
            }
        ends[sign] = loss_at(e, &o);
    }
    const double found = (ends[0] - ends[1]) / (2 * (double)step);
    if (!(fabs(found - slope) < 0.05 * fabs(slope)))
        fail_msg("the gradients say %g, the loss %g", slope, found);
    zn_exec_free(e);
    zn_objective_free(&o);
    zn_model_free(m);
}

/* ---- f16 ---- */

static zn_trainer *new_trainer(zn_model *m, const zn_recipe *r)
{
    zn_trainer *t;
    assert_int_equal(zn_trainer_new(&(zn_trainer_options){ .model = m, .recipe = r, .pool = pool, .batch = 1 }, &t),
                     ZN_OK);
    return t;
}

/* A factor under which gradients overflow costs the step and half of itself; then learning goes on as without one. */
static void gradients_beyond_f16_cost_a_step(void **state)
{
    (void)state;
    static float picture[SIDE * SIDE * 3];
    const char text[] =
        "model: wan2d\nsize: 16\nwarmup: 0\nschedule: constant\nema: 0\noptimizer: sgd\nlr: 0.1\nclip: 0\n"
        "loss: {mse: 1, l1: 0, bands: 0}\n";
    const zn_recipe plain = recipe_of(text);
    zn_recipe half = plain;
    half.precision = ZN_PRECISION_F16;
    zn_model *m[3] = { small_model("wan2d", 4), small_model("wan2d", 4), small_model("wan2d", 4) };
    double loss[2];
    for (int i = 0; i < SIDE * SIDE * 3; i++)
        picture[i] = number(i);
    zn_trainer *a = new_trainer(m[0], &plain), *b = new_trainer(m[1], &half);
    /* as a product beyond f16 leaves it */
    zn_node *own = b->learner.gradients[0], beyond = *own;
    beyond.data = zn_alloc(sizeof(float) * (size_t)zn_shape_count(own->shape));
    for (int64_t i = 0; i < zn_shape_count(own->shape); i++)
        beyond.data[i] = INFINITY;
    b->learner.gradients[0] = &beyond;
    assert_int_equal(zn_trainer_step(b, picture, picture, &loss[1]), ZN_OK);
    b->learner.gradients[0] = own;
    zn_free(beyond.data);
    assert_true(b->left_out == 1 && b->step == 1 && b->learner.optim.step == 0);
    assert_true(b->scaler.scale == 32768);
    for (int i = 0; i < m[0]->count; i++)
        assert_memory_equal(m[0]->parameters[i].data, m[1]->parameters[i].data,
                            sizeof(float) * (size_t)zn_shape_count(m[0]->parameters[i].shape));
    assert_int_equal(zn_trainer_step(b, picture, picture, &loss[1]), ZN_OK);
    assert_int_equal(zn_trainer_step(a, picture, picture, &loss[0]), ZN_OK);
    assert_true(b->left_out == 1 && b->learner.optim.step == 1);
    assert_true(fabs(loss[0] - loss[1]) < 1e-2 * loss[0]);
    double apart = 0, moved = 0;
    for (int i = 0; i < m[0]->count; i++)
        for (int64_t k = 0; k < zn_shape_count(m[0]->parameters[i].shape); k++) {
            apart += fabs((double)(m[0]->parameters[i].data[k] - m[1]->parameters[i].data[k]));
            moved += fabs((double)(m[0]->parameters[i].data[k] - m[2]->parameters[i].data[k]));
        }
    assert_true(apart < 0.02 * moved);
    /* a loss that is not finite is a mistake */
    picture[5] = NAN;
    assert_int_equal(zn_trainer_step(b, picture, picture, &loss[1]), ZN_ENUMERIC);
    zn_trainer_free(a);
    zn_trainer_free(b);
    for (int i = 0; i < 3; i++)
        zn_model_free(m[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_of_a_clip_are_cropped_alike), cmocka_unit_test(clips_of_a_batch_do_not_meet),
        cmocka_unit_test(moments_begin_with_the_latents),     cmocka_unit_test(gradients_of_clips_are_right),
        cmocka_unit_test(gradients_beyond_f16_cost_a_step),
    };
    if (zn_pool_new(2, &pool) != ZN_OK)
        return 1;
    const int failed = cmocka_run_group_tests_name("clips", tests, NULL, NULL);
    zn_pool_free(pool);
    return failed;
}
