/* Training: batches depend on seed and step alone, a run that is stopped and resumed gives the same bits, and the
 * network learns. */
#include "base/alloc.h"
#include "io/dataset/dataset.h"
#include "train/data/loader.h"
#include "train_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zenith/model.h>
#include <zenith/train.h>
#include <zenith/weights.h>

#include "../skip.h"

static float *batches(int threads, int64_t first, int count, size_t *floats)
{
    zn_dataset *d;
    zn_loader *l;
    assert_int_equal(zn_dataset_open(in_folder("pictures"), &d), ZN_OK);
    const zn_loader_options o = { .batch = 4, .crop.size = 32, .seed = 9, .threads = threads, .held_out = 10 };
    assert_int_equal(zn_loader_new(d, &o, &l), ZN_OK);
    *floats = (size_t)4 * 32 * 32 * 3;
    float *all = zn_alloc(sizeof(float) * *floats * (size_t)count);
    for (int i = 0; i < count; i++)
        assert_int_equal(zn_loader_next(l, first + i, NULL, all + *floats * (size_t)i), ZN_OK);
    zn_loader_free(l);
    zn_dataset_close(d);
    return all;
}

static void batches_depend_on_seed_and_step_alone(void **state)
{
    (void)state;
    size_t floats;
    float *all = batches(1, 0, 6, &floats), *threaded = batches(3, 0, 6, &floats), *later = batches(2, 4, 2, &floats);
    assert_memory_equal(all, threaded, sizeof(float) * floats * 6);
    assert_memory_equal(all + floats * 4, later, sizeof(float) * floats * 2);
    assert_memory_not_equal(all, all + floats, sizeof(float) * floats);
    zn_free(all);
    zn_free(threaded);
    zn_free(later);
}

static void lmdb_keeps_pictures(void **state)
{
    (void)state;
    zn_dataset *d, *copy;
    zn_dataset_writer *w = NULL, *second = NULL;
    assert_int_equal(zn_dataset_open(in_folder("pictures"), &d), ZN_OK);
    const zn_status status = zn_dataset_writer_open(in_folder("set.lmdb"), &w);
    if (status == ZN_EUNSUPPORTED) {
        zn_dataset_close(d);
        skip_because("this build has no LMDB");
    }
    assert_int_equal(zn_dataset_writer_open(in_folder("set.lmdb"), &second), ZN_EIO); /* one at a time */
    assert_non_null(strstr(zn_error_text(), "another process is writing it"));
    zn_dataset_writer_free(second);
    for (int64_t i = 0; i < zn_dataset_count(d); i++) {
        zn_image *image;
        assert_int_equal(zn_dataset_read(d, i, &image), ZN_OK);
        void *bytes;
        size_t size;
        assert_int_equal(zn_image_write_memory("png", image, NULL, &bytes, &size), ZN_OK);
        assert_int_equal(zn_dataset_writer_add(w, zn_dataset_name(d, i), bytes, size), ZN_OK);
        zn_memory_free(bytes);
        zn_image_free(image);
    }
    assert_int_not_equal(access(in_folder("set.lmdb"), F_OK), 0); /* not there before it is whole */
    assert_int_equal(zn_dataset_writer_commit(w, NULL), ZN_OK);
    zn_dataset_writer_free(w);
    assert_int_equal(zn_dataset_open(in_folder("set.lmdb"), &copy), ZN_OK);
    assert_int_equal(zn_dataset_count(copy), zn_dataset_count(d));
    zn_image *a, *b;
    zn_image_difference difference;
    assert_int_equal(zn_dataset_read(d, 7, &a), ZN_OK);
    assert_int_equal(zn_dataset_read(copy, 7, &b), ZN_OK);
    assert_int_equal(zn_image_compare(a, b, &difference), ZN_OK);
    assert_int_equal(difference.max_difference, 0);
    assert_int_equal(zn_dataset_held_out(d, 7, 50), zn_dataset_held_out(copy, 7, 50));
    zn_image_free(a);
    zn_image_free(b);
    zn_dataset_close(copy);
    zn_dataset_close(d);
}

static const char *recipe_file(void)
{
    static const char text[] =
        "model: taesd\nbatch: 2\naccumulate: 2\nsize: 8\nsteps: 4\nwarmup: 2\nlr: 1e-3\n"
        "eval_every: 2\ncheckpoint_every: 3\nheld_out: 20\nloss:\n  l1: 0\n  mse: 1\n  bands: 0.1\n";
    const char *path = in_folder("recipe.yaml");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static zn_status train_into(const char *run, int threads, bool resume, int64_t stop, zn_train_result *r)
{
    char data[128];
    snprintf(data, sizeof data, "%s/pictures", folder);
    const zn_train_options o = { .recipe = resume ? NULL : recipe_file(),
                                 .run = { .data = data,
                                          .folder = run,
                                          .resume = resume,
                                          .compute = &(zn_options){ .threads = threads },
                                          .progress = stop ? stop_at : NULL,
                                          .user = &stop } };
    return zn_train(&o, r);
}

static void a_resumed_run_gives_the_same_bits(void **state)
{
    (void)state;
    char whole[128], parts[128], a[160], b[160];
    snprintf(whole, sizeof whole, "%s/whole", folder);
    snprintf(parts, sizeof parts, "%s/parts", folder);
    zn_train_result r;
    assert_int_equal(train_into(whole, 2, false, 0, &r), ZN_OK);
    assert_int_equal(r.steps, 4);
    assert_true(isfinite(r.loss) && r.eval_psnr > 0);
    assert_int_equal(train_into(parts, 1, false, 1, &r), ZN_ECANCELLED);
    assert_int_equal(r.steps, 1);
    assert_int_equal(train_into(parts, 2, true, 0, &r), ZN_OK);
    snprintf(a, sizeof a, "%s/checkpoint.safetensors", whole);
    snprintf(b, sizeof b, "%s/checkpoint.safetensors", parts);
    same_tensors(a, b);
    snprintf(a, sizeof a, "%s/report.html", parts);
    assert_int_equal(access(a, F_OK), 0);
    assert_int_equal(train_into(whole, 1, false, 0, &r), ZN_EINVALID); /* the folder is not empty */
    assert_non_null(strstr(zn_error_text(), "not empty"));
}

static void the_model_can_be_used(void **state)
{
    (void)state;
    char path[160];
    snprintf(path, sizeof path, "%s/whole/model.safetensors", folder);
    zn_model *m;
    assert_int_equal(zn_model_open(path, &m), ZN_OK);
    assert_string_equal(zn_model_info_of(m)->architecture, "taesd");
    assert_true(zn_model_info_of(m)->has_encoder && zn_model_info_of(m)->has_decoder);
    zn_model_free(m);
}

/* A step of no length leaves the weights as they were, so it shows what a run began with. */
static void weights_can_be_trained_further(void **state)
{
    (void)state;
    char run[128], data[128], recipe[128], from[160], path[160];
    snprintf(run, sizeof run, "%s/further", folder);
    snprintf(data, sizeof data, "%s/pictures", folder);
    snprintf(recipe, sizeof recipe, "%s/further.yaml", folder);
    snprintf(from, sizeof from, "%s/whole/model.safetensors", folder);
    snprintf(path, sizeof path, "%s/model.safetensors", run);
    write_text(recipe, "model: taesd\nbatch: 1\nsize: 8\nsteps: 1\nlr: 0\nema: 0\nheld_out: 20\n");
    zn_train_result r;
    zn_train_options o = {
        .recipe = recipe, .run = { .from = from, .data = data, .folder = run, .compute = &(zn_options){ .threads = 1 } }
    };
    assert_int_equal(zn_train(&o, &r), ZN_OK);
    same_tensors(from, path);
    o.run.folder = in_folder("none");
    write_text(recipe, "model: taesd\nwidth: 32\nbatch: 1\nsize: 8\nsteps: 1\nheld_out: 20\n");
    assert_int_equal(zn_train(&o, &r), ZN_EINVALID);
    assert_non_null(
        strstr(zn_error_text(), "has width 64, but the recipe's network has width 32: give --set width=64"));
    write_text(recipe, "model: taesd\nlatent: 16\nbatch: 1\nsize: 8\nsteps: 1\nheld_out: 20\n");
    assert_int_equal(zn_train(&o, &r), ZN_EINVALID);
    assert_non_null(
        strstr(zn_error_text(), "has latent 4, but the recipe's network has latent 16: give --set latent=4"));
    write_text(recipe, "model: zenith-r\nbatch: 1\nsize: 8\nsteps: 1\nheld_out: 20\n");
    assert_int_equal(zn_train(&o, &r), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "a taesd, but the recipe trains a zenith-r"));
    assert_int_not_equal(access(in_folder("none"), F_OK), 0); /* a mistake leaves nothing behind */
}

/* Steps far too large: the run ends with the layer's name, and what it saved is from before. */
static void stops_at_nan(const char *name, const char *settings)
{
    char run[128], data[128], recipe[128], path[160], text_of_recipe[512];
    snprintf(run, sizeof run, "%s/%s", folder, name);
    snprintf(data, sizeof data, "%s/pictures", folder);
    snprintf(recipe, sizeof recipe, "%s/wild.yaml", folder);
    snprintf(text_of_recipe, sizeof text_of_recipe,
             "model: zenith-r\nwidth: 8\nbatch: 1\nsize: 16\nsteps: 500\nwarmup: 0\nschedule: constant\nlr: 10\n"
             "clip: 0\n%s",
             settings);
    write_text(recipe, text_of_recipe);
    zn_train_result r;
    zn_train_options o = { .recipe = recipe,
                           .run = { .data = data, .folder = run, .compute = &(zn_options){ .threads = 1 } } };
    assert_int_equal(zn_train(&o, &r), ZN_ENUMERIC);
    const char *text = zn_error_text();
    if (!strstr(text, "enc.") && !strstr(text, "dec.") && !strstr(text, "'loss'"))
        fail_msg("'%s' does not name a layer", text);
    assert_non_null(strstr(text, "state before it is saved"));
    snprintf(path, sizeof path, "%s/checkpoint.safetensors", run);
    zn_weights *w;
    assert_int_equal(zn_weights_open(path, &w), ZN_OK);
    for (int64_t i = 0; i < zn_weights_count(w); i++) {
        const zn_weight *t = zn_weights_at(w, i);
        for (size_t k = 0; k < t->bytes / sizeof(float); k++)
            assert_true(isfinite(((const float *)t->data)[k]));
    }
    zn_weights_close(w);
    const int64_t reached = r.steps;
    o.recipe = NULL;
    o.run.resume = 1;
    assert_int_equal(zn_train(&o, &r), ZN_ENUMERIC); /* and it fails again at the same step */
    assert_int_equal(r.steps, reached);
}

static void not_a_number_stops_the_run(void **state)
{
    (void)state;
    stops_at_nan("plain", "optimizer: sgd\nema: 0\nloss: {l1: 0, bands: 0, mse: 1e6}\n");
    stops_at_nan("moments", "gate_lr: 100\n"); /* squares of finite gradients are not */
    stops_at_nan("first", "loss: {l1: 1e6, bands: 1e6, mse: 1e6}\nweight_decay: 10\n");
    stops_at_nan("decay", "loss: {l1: 0, bands: 0, kl: 1e-6}\nweight_decay: 10\n"); /* weights grow 99-fold */
}

/* test-train [PATTERN]: only the tests whose names match. */
int main(int argc, char **argv)
{
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_depend_on_seed_and_step_alone), cmocka_unit_test(lmdb_keeps_pictures),
        cmocka_unit_test(a_resumed_run_gives_the_same_bits),     cmocka_unit_test(the_model_can_be_used),
        cmocka_unit_test(weights_can_be_trained_further),        cmocka_unit_test(not_a_number_stops_the_run),
    };
    return cmocka_run_group_tests_name("train", tests, files_set_up, files_tear_down);
}
