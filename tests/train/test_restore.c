/* The restoring network: its size, its gradients, exact tiles, and that a short training restores what it has never
 * seen. */
#include "base/alloc.h"
#include "base/rng.h"
#include "graph/exec.h"
#include "io/image/pixels/impulses.h"
#include "models/model.h"
#include "models/zenith/zenith.h"
#include "ops/ops.h"
#include "scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zenith/train.h>

/* A narrow network with spectral blocks too. */
static zn_model *narrow(uint64_t seed)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find("zenith-restore", &known);
    zn_config k = *known;
    zn_model *m;
    k.width = 8;
    *(zn_restore_form *)zn_form_own(&k, sizeof(zn_restore_form)) = (zn_restore_form){ 1, 1, 1, 2 };
    assert_int_equal(zn_model_new(arch, &k, &m), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_ENCODER, seed), ZN_OK);
    return m;
}

/* Of a network of `b` channels, with two blocks down and two up. */
static int64_t parameters_of(int64_t b, int64_t blocks)
{
    const int64_t half = 2 * (9 * b * b + b), quarter = 2 * (36 * b * b + 2 * b);
    return 9 * 33 * b + b + 4 * half + 8 * b * b + 2 * b + blocks * quarter + 8 * b * b + 4 * b + 9 * b * 12 + 12;
}

static void counts_are_those_of_the_text(void **state)
{
    (void)state;
    zn_model *m;
    assert_int_equal(zn_model_random("zenith-restore", 1, &m), ZN_OK);
    const zn_model_info *info = zn_model_info_of(m);
    assert_int_equal(info->parameters, parameters_of(32, 4));
    assert_true(info->restores && !info->has_encoder && !info->has_decoder);
    zn_cost cost;
    assert_int_equal(zn_model_cost(m, ZN_DECODER, 256, 256, &cost), ZN_OK);
    assert_true(cost.gflop > 1 && cost.gflop < 6);
    zn_model_free(m);
}

typedef struct bench {
    zn_graph *graph;
    zn_node *loss, *gradients[256];
    zn_exec *exec;
    zn_pool *pool;
} bench;

static bench bench_of(const zn_model *m)
{
    bench b = { .graph = zn_graph_new() };
    zn_node *x = zn_graph_input(b.graph, "x", ZN_SHAPE(1, 16, 16, 6)),
            *target = zn_graph_input(b.graph, "t", ZN_SHAPE(1, 16, 16, 3));
    zn_node *y = m->arch->encode((zn_scope){ b.graph, m->arch->scope[0] }, x, &m->config);
    b.loss = zn_mean_square_error(y, target);
    zn_model_bind(m, b.graph, "");
    zn_node *wrt[256], *outputs[257];
    for (int i = 0; i < m->count; i++)
        wrt[i] = zn_graph_parameter(b.graph, m->parameters[i].name, m->parameters[i].shape, m->parameters[i].layout);
    assert_int_equal(zn_graph_differentiate(b.graph, b.loss, NULL, wrt, m->count, b.gradients), ZN_OK);
    outputs[0] = b.loss;
    for (int i = 0; i < m->count; i++) {
        assert_non_null(b.gradients[i]);
        outputs[1 + i] = b.gradients[i];
    }
    assert_int_equal(zn_pool_new(1, &b.pool), ZN_OK);
    const zn_exec_options o = { .pool = b.pool, .training = true };
    assert_int_equal(zn_exec_new(b.graph, outputs, m->count + 1, &o, &b.exec), ZN_OK);
    zn_rng rng = zn_rng_new(8);
    for (int i = 0; i < 16 * 16 * 6; i++)
        x->data[i] = zn_rng_uniform(&rng);
    for (int i = 0; i < 16 * 16 * 3; i++)
        target->data[i] = 3 * zn_rng_uniform(&rng) - 1;
    return b;
}

static void move(zn_model_parameter *p, const float *direction, float by)
{
    for (int64_t i = 0; i < zn_shape_count(p->shape); i++)
        p->data[i] += by * direction[i];
}

/* Every parameter tensor along its own gradient: the slope must be the gradient's length. */
static void gradients_are_those_of_finite_differences(void **state)
{
    (void)state;
    zn_model *m = narrow(4);
    assert_in_range(m->count, 20, 255);
    bench b = bench_of(m);
    for (int i = 0; i < m->count; i++) {
        zn_model_parameter *p = &m->parameters[i];
        const int64_t count = zn_shape_count(p->shape);
        assert_int_equal(zn_exec_run(b.exec), ZN_OK);
        float *direction = zn_alloc(sizeof *direction * (size_t)count);
        double squares = 0;
        for (int64_t k = 0; k < count; k++)
            squares += (double)b.gradients[i]->data[k] * (double)b.gradients[i]->data[k];
        const double length = sqrt(squares);
        for (int64_t k = 0; k < count; k++)
            direction[k] = (float)((double)b.gradients[i]->data[k] / (length + 1e-30));
        const float step = 1e-3f;
        move(p, direction, step);
        assert_int_equal(zn_exec_run(b.exec), ZN_OK);
        const double above = (double)b.loss->data[0];
        move(p, direction, -2 * step);
        assert_int_equal(zn_exec_run(b.exec), ZN_OK);
        const double slope = (above - (double)b.loss->data[0]) / (2 * (double)step);
        move(p, direction, step);
        if (fabs(slope - length) > 0.03 * length + 3e-4)
            fail_msg("%s: slope %g, gradient %g", p->name, slope, length);
        zn_free(direction);
    }
    zn_exec_free(b.exec);
    zn_pool_free(b.pool);
    zn_graph_free(b.graph);
    zn_model_free(m);
}

static zn_image *restored(const zn_model *m, const zn_image *image, zn_task task, int threads, int tile)
{
    zn_codec *c;
    zn_image *out;
    assert_int_equal(zn_codec_new(m, &(zn_options){ .threads = threads, .tile = tile }, &c), ZN_OK);
    if (zn_restore(c, image, task, &out) != ZN_OK)
        fail_msg("%s", zn_error_text());
    zn_codec_free(c);
    return out;
}

/* Odd sizes, 16 bits, spectral blocks: neither tiles nor threads change a bit. */
static void tiles_and_threads_change_nothing(void **state)
{
    (void)state;
    zn_model *m = narrow(2);
    zn_image *in = scene(301, 143, 16, 1), *whole = restored(m, in, ZN_TASK_AUTO, 1, ZN_TILE_OFF);
    assert_true(whole->width == 301 && whole->height == 143 && whole->bits == 16);
    zn_image *tiled = restored(m, in, ZN_TASK_AUTO, 2, 128), *told = restored(m, in, ZN_TASK_DEBLUR, 1, ZN_TILE_OFF);
    assert_memory_equal(whole->pixels, tiled->pixels, bytes_of(whole));
    assert_true(memcmp(whole->pixels, told->pixels, bytes_of(whole)) != 0);
    zn_image_free(in);
    zn_image_free(whole);
    zn_image_free(tiled);
    zn_image_free(told);
    zn_model_free(m);
}

/* The network gets the image without impulses, unless the task says that it has other damage. */
static void impulses_are_filled_first(void **state)
{
    (void)state;
    zn_model *m = narrow(2);
    zn_image *clean = scene(90, 70, 8, 1), *bad = damaged(clean, "salt:5", 1), *filled;
    assert_int_equal(zn_impulses_fill(bad, &filled), ZN_OK);
    assert_non_null(filled);
    assert_true(psnr(clean, filled) > psnr(clean, bad) + 10);
    for (zn_task task = ZN_TASK_AUTO; task <= ZN_TASK_JPEG; task++) {
        zn_image *a = restored(m, bad, task, 2, 0), *b = restored(m, filled, task, 1, ZN_TILE_OFF);
        const bool fills = task != ZN_TASK_DENOISE && task != ZN_TASK_DEBLUR;
        assert_int_equal(memcmp(a->pixels, b->pixels, bytes_of(a)) == 0, fills);
        zn_image_free(a);
        zn_image_free(b);
    }
    zn_image_free(clean);
    zn_image_free(bad);
    zn_image_free(filled);
    zn_model_free(m);
}

/* Fails allocation 1, 2, 3, ... until everything succeeds. */
static void every_allocation_may_fail(void **state)
{
    (void)state;
    zn_image *clean = scene(40, 24, 8, 1), *salted = damaged(clean, "salt:5", 1);
    zn_model *m = narrow(2);
    zn_status status = ZN_ENOMEM;
    int tried = 0;
    for (int64_t nth = 1; status != ZN_OK; nth++, tried++) {
        zn_codec *c = NULL;
        zn_image *bad = NULL, *smooth = NULL, *out = NULL, *filled = NULL;
        zn_alloc_fail_at(nth);
        status = zn_corrupt(clean, (zn_corruption){ .damage = ZN_DAMAGE_BLUR, .amount = 1.5 }, 1, &bad);
        if (status == ZN_OK)
            status = zn_filter(bad, ZN_FILTER_NLM, 3, 1, &smooth);
        if (status == ZN_OK)
            status = zn_codec_new(m, &(zn_options){ .threads = 1 }, &c);
        if (status == ZN_OK)
            status = zn_restore(c, bad, ZN_TASK_DEBLUR, &out);
        if (status == ZN_OK)
            status = zn_impulses_fill(salted, &filled);
        zn_alloc_fail_at(0);
        if (status != ZN_OK && status != ZN_ENOMEM)
            fail_msg("allocation %lld: %s", (long long)nth, zn_error_text());
        assert_true((status == ZN_OK) == (filled != NULL));
        zn_codec_free(c);
        zn_image_free(bad);
        zn_image_free(smooth);
        zn_image_free(out);
        zn_image_free(filled);
        nth += nth / 8; /* all of the first, then sparser */
    }
    assert_true(tried > 15);
    zn_model_free(m);
    zn_image_free(clean);
    zn_image_free(salted);
}

/* ---- training ---- */

/* One step of a recipe, with lines added to it, on pictures of a folder; the run is in a subfolder. */
static zn_status train_one_step(const char *folder, const char *lines)
{
    char path[128], run[96];
    snprintf(run, sizeof run, "%s/run", folder);
    snprintf(path, sizeof path, "%s/one.yaml", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "model: zenith-restore\ntask: restore\nwidth: 8\nbatch: 1\nsize: 16\nsteps: 1\nwarmup: 1\n%s", lines);
    fclose(f);
    const zn_train_options o = { .recipe = path,
                                 .run = { .data = folder, .folder = run, .compute = &(zn_options){ .threads = 1 } } };
    zn_train_result r;
    return zn_train(&o, &r);
}

static void layers_are_the_blocks_at_a_quarter(void **state)
{
    (void)state;
    char folder[64] = "/tmp/zenith-layers-XXXXXX", path[128], command[128];
    assert_non_null(mkdtemp(folder));
    for (int n = 0; n < 2; n++) {
        zn_image *image = scene(32, 32, 8, n);
        snprintf(path, sizeof path, "%s/%d.png", folder, n);
        assert_int_equal(zn_image_write(path, image, NULL), ZN_OK);
        zn_image_free(image);
    }
    assert_int_equal(train_one_step(folder, "layers: 40\n"), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "at most 32 blocks at a quarter of the resolution, not 40"));
    if (train_one_step(folder, "layers: 6\n") != ZN_OK)
        fail_msg("%s", zn_error_text());
    zn_model *m;
    snprintf(path, sizeof path, "%s/run/model.safetensors", folder);
    assert_int_equal(zn_model_open(path, &m), ZN_OK);
    assert_string_equal(zn_model_info_of(m)->architecture, "zenith-restore");
    assert_int_equal(zn_model_info_of(m)->parameters, parameters_of(8, 6));
    const zn_restore_form *form = zn_form_of(&m->config);
    assert_true(form->down == 2 && form->quarter == 6 && form->up == 2 && form->spectral == 0);
    zn_model_free(m);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static void a_short_training_restores(void **state)
{
    (void)state;
    char folder[64] = "/tmp/zenith-restore-XXXXXX", path[128], pictures[96], run[96], command[256];
    assert_non_null(mkdtemp(folder));
    snprintf(pictures, sizeof pictures, "%s/pictures", folder);
    snprintf(run, sizeof run, "%s/run", folder);
    assert_int_equal(mkdir(pictures, 0777), 0);
    for (int n = 0; n < 24; n++) {
        zn_image *image = scene(64, 48, 8, n);
        snprintf(path, sizeof path, "%s/%02d.png", pictures, n);
        assert_int_equal(zn_image_write(path, image, NULL), ZN_OK);
        zn_image_free(image);
    }
    snprintf(path, sizeof path, "%s/small.yaml", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("model: zenith-restore\ntask: restore\nwidth: 8\nbatch: 4\nsize: 32\nsteps: 500\nwarmup: 20\nlr: 6e-3\nema: "
          "0.9\n"
          "held_out: 20\neval_every: 250\nloss: {l1: 1, bands: 0}\n",
          f);
    fclose(f);
    zn_train_result r;
    const zn_train_options o = { .recipe = path,
                                 .run = { .data = pictures, .folder = run, .compute = &(zn_options){ .threads = 1 } } };
    if (zn_train(&o, &r) != ZN_OK)
        fail_msg("%s", zn_error_text());
    snprintf(path, sizeof path, "%s/model.safetensors", run);
    zn_model *m;
    assert_int_equal(zn_model_open(path, &m), ZN_OK);
    assert_string_equal(zn_model_info_of(m)->architecture, "zenith-restore");
    zn_image *clean = scene(70, 50, 8, 31), *noisy = damaged(clean, "gaussian:40", 1),
             *wrong = damaged(clean, "salt:10", 1);
    zn_image *a = restored(m, noisy, ZN_TASK_AUTO, 1, 0), *b = restored(m, wrong, ZN_TASK_AUTO, 1, 0);
    if (psnr(clean, a) < psnr(clean, noisy) + 2 || psnr(clean, b) < psnr(clean, wrong) + 2)
        fail_msg("noise %.2f -> %.2f dB, impulses %.2f -> %.2f dB", psnr(clean, noisy), psnr(clean, a),
                 psnr(clean, wrong), psnr(clean, b));
    zn_image_free(clean);
    zn_image_free(noisy);
    zn_image_free(wrong);
    zn_image_free(a);
    zn_image_free(b);
    zn_model_free(m);
    snprintf(command, sizeof command, "grep -q psnr_impulse %s/metrics.jsonl && rm -rf %s", run, folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_those_of_the_text),     cmocka_unit_test(gradients_are_those_of_finite_differences),
        cmocka_unit_test(tiles_and_threads_change_nothing), cmocka_unit_test(impulses_are_filled_first),
        cmocka_unit_test(every_allocation_may_fail),        cmocka_unit_test(layers_are_the_blocks_at_a_quarter),
        cmocka_unit_test(a_short_training_restores),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
