/* What learns from conditions: a latent net and a classifier, trained on an autoencoder that stays as it is, in runs
 * that can be stopped anywhere, into files that the library's calls work with. */
#include "base/alloc.h"
#include "condition_runs.h"
#include "train/data/conditions.h"
#include "train/score/scores.h"
#include "train_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zenith/diffae.h>
#include <zenith/train.h>

static const char latent[] = "model: diffae-celeba64\ntask: imagine\nwidth: 32\nbatch: 8\naccumulate: 2\nsteps: 200\n"
                             "warmup: 0\nlr: 2e-3\nema: 0.9\nema_warmup: false\nheld_out: 20\neval_every: 100\n"
                             "checkpoint_every: 1000\nschedule: constant\n";
static const char classifier[] = "model: diffae-celeba64\ntask: classify\nbatch: 8\nsteps: 300\nwarmup: 0\nlr: 1e-2\n"
                                 "optimizer: adam\nweight_decay: 0\nema: 0\nclip: 0\nheld_out: 20\neval_every: 100\n"
                                 "checkpoint_every: 1000\nschedule: constant\n";

/* All parameters that both have are the same, but for those of the part. */
static void rest_is_the_same(const zn_model *a, const zn_model *b, const char *part)
{
    for (int i = 0; i < a->count; i++) {
        const zn_model_parameter *p = &a->parameters[i], *q = zn_model_parameter_find(b, p->name);
        assert_non_null(q);
        if (strncmp(p->name, part, strlen(part)) != 0)
            assert_memory_equal(p->data, q->data, sizeof(float) * (size_t)zn_shape_count(p->shape));
    }
}

static void statistics_are_those_of_the_pictures(void **state)
{
    (void)state;
    watch w = { 0 };
    zn_train_result r;
    zn_diffae *d;
    char recipe[512];
    snprintf(recipe, sizeof recipe, "%s", latent);
    memcpy(strstr(recipe, "held_out: 20"), "held_out: 0 ", 12);
    memcpy(strstr(recipe, "steps: 200"), "steps: 1  ", 10);
    finish(&(order){ .name = "statistics", .recipe = recipe, .from = "auto" }, &w, &r);
    assert_int_equal(w.encoded, PICTURES);
    assert_true(isnan(r.eval_loss));
    zn_model *m = open_run("statistics");
    const float *mean = zn_model_parameter_find(m, "conds_mean")->data,
                *deviation = zn_model_parameter_find(m, "conds_std")->data;
    assert_int_equal(zn_diffae_new(m, NULL, &d), ZN_OK);
    float conds[PICTURES][WIDTH];
    for (int n = 0; n < PICTURES; n++)
        condition_of(d, n, conds[n]);
    for (int i = 0; i < WIDTH; i++) {
        double sum = 0, square = 0;
        for (int n = 0; n < PICTURES; n++)
            sum += (double)conds[n][i] / PICTURES;
        for (int n = 0; n < PICTURES; n++)
            square += ((double)conds[n][i] - sum) * ((double)conds[n][i] - sum);
        assert_true(fabs((double)mean[i] - sum) < 1e-6);
        assert_true(fabs((double)deviation[i] - sqrt(square / (PICTURES - 1))) < 1e-6);
    }
    zn_diffae_free(d);
    zn_model_free(m);
}

static void a_latent_net_learns_and_imagines(void **state)
{
    (void)state;
    watch w = { 0 };
    zn_train_result r;
    zn_diffae *d;
    finish(&(order){ .name = "latent", .recipe = latent, .from = "auto", .threads = 2 }, &w, &r);
    printf("loss %.3f to %.3f, held out %.3f\n", w.first, w.last, r.eval_loss);
    assert_true(w.last < 0.85 * w.first);
    assert_true(r.eval_loss < 0.9 && isnan(r.eval_psnr) && isnan(r.eval_auroc));
    zn_image *sample;
    assert_int_equal(zn_image_read(in_folder("latent/samples/step-0000200.png"), NULL, &sample), ZN_OK);
    assert_true(sample->width == 4 * 32 && sample->height == 32);
    zn_image_free(sample);
    zn_model *m = open_run("latent"), *before = open_run("auto");
    assert_true(m->info.has_latent_net && !m->info.has_classifier);
    rest_is_the_same(before, m, "latent_net.");
    assert_int_equal(zn_diffae_new(m, NULL, &d), ZN_OK);
    float conds[2][WIDTH];
    assert_int_equal(zn_diffae_imagine(d, 2, 5, 10, conds[0]), ZN_OK);
    const float *mean = zn_model_parameter_find(m, "conds_mean")->data,
                *deviation = zn_model_parameter_find(m, "conds_std")->data;
    for (int n = 0; n < 2; n++)
        for (int i = 0; i < WIDTH; i++)
            assert_true(fabs((double)(conds[n][i] - mean[i]) / (double)deviation[i]) < 20);
    assert_memory_not_equal(conds[0], conds[1], sizeof conds[0]);
    zn_diffae_free(d);
    zn_model_free(before);
    zn_model_free(m);
}

/* In the middle of encoding, after some steps, without the conditions that were kept, on other threads. */
static void latent_nets_go_on_to_the_bit(void **state)
{
    (void)state;
    watch w = { .stop_encoding = 5 };
    zn_train_result r;
    assert_int_equal(start(&(order){ .name = "cut", .recipe = latent, .from = "auto" }, &w, &r), ZN_ECANCELLED);
    assert_int_not_equal(access(in_folder("cut/conditions.safetensors"), F_OK), 0);
    w = (watch){ .stop = 7 };
    assert_int_equal(start(&(order){ .name = "cut", .resume = true }, &w, &r), ZN_ECANCELLED);
    assert_int_equal(w.encoded, PICTURES);
    w = (watch){ .stop = 30 };
    assert_int_equal(start(&(order){ .name = "cut", .resume = true, .threads = 3 }, &w, &r), ZN_ECANCELLED);
    assert_int_equal(w.encoded, 0); /* they were kept */
    assert_int_equal(remove(in_folder("cut/conditions.safetensors")), 0);
    w = (watch){ 0 };
    finish(&(order){ .name = "cut", .resume = true }, &w, &r);
    assert_int_equal(w.encoded, PICTURES);
    same_models("cut", "latent");
}

/* The autoencoder may be gone by then: the run's own model has it. */
static void damaged_conditions_are_made_anew(void **state)
{
    (void)state;
    watch w = { .stop = 3 };
    zn_train_result r;
    assert_int_equal(start(&(order){ .name = "damaged", .recipe = latent, .from = "auto" }, &w, &r), ZN_ECANCELLED);
    write_text(in_folder("damaged/conditions.safetensors"), "nonsense");
    assert_int_equal(rename(in_folder("auto"), in_folder("elsewhere")), 0);
    w = (watch){ 0 };
    finish(&(order){ .name = "damaged", .resume = true }, &w, &r);
    assert_int_equal(rename(in_folder("elsewhere"), in_folder("auto")), 0);
    assert_int_equal(w.encoded, PICTURES);
    same_models("damaged", "latent");
}

/* Other images of the same names: what the old ones were encoded to says nothing of them, also in a later call. */
static void other_pictures_are_encoded(void **state)
{
    (void)state;
    watch w = { .stop = 3 };
    zn_train_result r;
    assert_int_equal(start(&(order){ .name = "swapped", .recipe = latent, .from = "auto" }, &w, &r), ZN_ECANCELLED);
    assert_int_equal(rename(in_folder("pictures"), in_folder("usual")), 0);
    make_pictures(in_folder("pictures"), PICTURES, 44);
    w = (watch){ .stop_encoding = 5 };
    assert_int_equal(start(&(order){ .name = "swapped", .resume = true }, &w, &r), ZN_ECANCELLED);
    w = (watch){ .stop = 5 };
    assert_int_equal(start(&(order){ .name = "swapped", .resume = true }, &w, &r), ZN_ECANCELLED);
    assert_int_equal(w.encoded, PICTURES);
    w = (watch){ .stop = 7 };
    assert_int_equal(start(&(order){ .name = "swapped", .resume = true }, &w, &r), ZN_ECANCELLED);
    assert_int_equal(w.encoded, 0);
    assert_int_equal(rename(in_folder("pictures"), in_folder("swapped_pictures")), 0);
    assert_int_equal(rename(in_folder("usual"), in_folder("pictures")), 0);
}

static double logit(const zn_model *m, const float *cond, int row)
{
    const float *mean = zn_model_parameter_find(m, "conds_mean")->data,
                *deviation = zn_model_parameter_find(m, "conds_std")->data,
                *weight = zn_model_parameter_find(m, "classifier.weight")->data;
    double sum = (double)zn_model_parameter_find(m, "classifier.bias")->data[row];
    for (int i = 0; i < WIDTH; i++)
        sum += (double)((cond[i] - mean[i]) / deviation[i]) * (double)weight[i * 2 + row];
    return sum;
}

static void a_classifier_learns_and_moves(void **state)
{
    (void)state;
    watch w = { 0 };
    zn_train_result r;
    zn_diffae *d;
    finish(
        &(order){ .name = "classifier", .recipe = classifier, .from = "latent", .labels = "labels.csv", .threads = 2 },
        &w, &r);
    printf("loss %.3f to %.3f, held out: %.3f, %.2f right\n", w.first, w.last, r.eval_loss, r.eval_accuracy);
    assert_int_equal(w.encoded, PICTURES);
    assert_true(w.last < 0.7 * w.first && r.eval_accuracy > 0.3);
    zn_model *m = open_run("classifier"), *before = open_run("latent");
    assert_true(m->info.has_classifier && m->info.has_latent_net);
    rest_is_the_same(before, m, "classifier.");
    assert_int_equal(zn_diffae_new(m, NULL, &d), ZN_OK);
    assert_string_equal(zn_diffae_attribute(d, 0), "flat");
    assert_string_equal(zn_diffae_attribute(d, 1), "odd");
    assert_null(zn_diffae_attribute(d, 2));
    int right = 0;
    for (int n = 0; n < PICTURES; n++) {
        float cond[WIDTH], moved[WIDTH];
        condition_of(d, n, cond);
        right += (logit(m, cond, 0) > 0) == (n % 5 == 0);
        assert_int_equal(zn_diffae_move(d, cond, "flat", 0.3, moved), ZN_OK);
        assert_true(logit(m, moved, 0) > logit(m, cond, 0) + 0.1);
    }
    assert_true(right >= 17);
    float cond[WIDTH] = { 0 };
    assert_int_equal(zn_diffae_move(d, cond, "1", 0.3, cond), ZN_OK);
    assert_int_equal(zn_diffae_move(d, cond, "Smiling", 0.3, cond), ZN_ENOTFOUND);
    zn_diffae_free(d);
    zn_model_free(before);
    zn_model_free(m);
}

static void classifiers_go_on_to_the_bit(void **state)
{
    (void)state;
    watch w = { .stop = 11 };
    zn_train_result r;
    assert_int_equal(
        start(&(order){ .name = "halved", .recipe = classifier, .from = "latent", .labels = "labels.csv" }, &w, &r),
        ZN_ECANCELLED);
    w = (watch){ 0 };
    finish(&(order){ .name = "halved", .resume = true, .threads = 3 }, &w, &r);
    assert_int_equal(w.encoded, 0);
    same_models("halved", "classifier");
}

/* Straight after the first stage; the statistics are then the classifier's own. And from a file beside the pictures. */
static void a_classifier_needs_no_latent_net(void **state)
{
    (void)state;
    watch w = { 0 };
    zn_train_result r;
    write_labels("pictures/labels.txt");
    finish(&(order){ .name = "alone", .recipe = classifier, .from = "auto" }, &w, &r);
    remove(in_folder("pictures/labels.txt"));
    zn_model *m = open_run("alone");
    assert_true(m->info.has_classifier && !m->info.has_latent_net);
    assert_true(zn_model_parameter_find(m, "conds_std")->data[0] != 1);
    zn_model_free(m);
}

/* Instead of the one that the weights have; a run that goes on keeps its own. */
static void a_classifier_of_other_attributes_is_new(void **state)
{
    (void)state;
    watch w = { .stop = 3 };
    zn_train_result r;
    char text[512] = "file,flat\n";
    for (int n = 0; n < PICTURES; n++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "p%02d.png,%d\n", n, n % 5 == 0);
    write_text(in_folder("other.csv"), text);
    assert_int_equal(
        start(&(order){ .name = "new", .recipe = classifier, .from = "classifier", .labels = "other.csv" }, &w, &r),
        ZN_ECANCELLED);
    zn_model *m = open_run("new"), *before = open_run("classifier");
    assert_true(m->info.has_classifier && m->info.has_latent_net && m->config.classes == 1);
    assert_int_equal(m->count, before->count);
    assert_int_equal(m->info.parameters, before->info.parameters - WIDTH - 1);
    assert_string_equal(m->attributes[0], "flat");
    rest_is_the_same(before, m, "classifier.");
    zn_model_free(before);
    zn_model_free(m);
    w = (watch){ .stop = 5 };
    assert_int_equal(start(&(order){ .name = "new", .resume = true }, &w, &r), ZN_ECANCELLED);
}

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    watch w = { 0 };
    zn_train_result r;
    write_text(in_folder("strange.csv"), "file,bald\nx.png,1\n");
    write_text(in_folder("single.csv"), "file,bald\np00.png,1\n");
    write_text(in_folder("bad.csv"), "file,bald\np00.png,1\np01.png,perhaps\n");
    static const struct {
        const char *recipe, *from, *labels, *words;
    } bad[] = {
        { latent, NULL, NULL, "name its weights" },
        { classifier, NULL, "labels.csv", "name its weights" },
        { classifier, "auto", NULL, "needs labels" },
        { classifier, "auto", "bad.csv", "bad.csv line 3: bald is 'perhaps'" },
        { classifier, "auto", "strange.csv", "names none of the images" },
        { latent, "nothing", NULL, "nothing" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_not_equal(
            start(&(order){ .name = "bad", .recipe = bad[i].recipe, .from = bad[i].from, .labels = bad[i].labels }, &w,
                  &r),
            ZN_OK);
        expect_text(bad[i].words);
        assert_int_not_equal(access(in_folder("bad"), F_OK), 0); /* nothing is left behind */
    }
    assert_int_equal(
        start(&(order){ .name = "single", .recipe = classifier, .from = "auto", .labels = "single.csv" }, &w, &r),
        ZN_EINVALID);
    expect_text("at least two");
}

/* A classifier that has gone wrong is no reason to count for ever. */
static void wrong_answers_have_scores(void **state)
{
    (void)state;
    zn_model *m = open_run("classifier");
    zn_pool *pool;
    zn_measures measures;
    float rows[4 * WIDTH] = { 1 };
    const float labels[4 * 2] = { 1, 0, 0, 1, 1, 1, 0, 0 };
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    zn_model_parameter_find(m, "classifier.bias")->data[1] = NAN;
    const zn_scoring how = {
        .model = m, .goal = ZN_GOAL_CLASSIFIER, .pool = pool, .rows = rows, .labels = labels, .count = 4
    };
    alarm(60);
    assert_int_equal(zn_score_conditions(&how, &measures), ZN_OK);
    alarm(0);
    assert_true(isnan(measures.loss));
    zn_pool_free(pool);
    zn_model_free(m);
}

/* Each allocation of encoding fails in turn: an error, no leak, no crash. */
static void memory_may_run_out(void **state)
{
    (void)state;
    zn_model *m = open_run("auto");
    zn_dataset *set;
    zn_pool *pool;
    assert_int_equal(zn_dataset_open(in_folder("pictures"), &set), ZN_OK);
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    int64_t calls = 0, refused = 0;
    for (int64_t nth = 0; nth <= calls; nth += 1 + nth / 6) { /* the first one counts them */
        zn_conditions *c = NULL;
        const int64_t before = zn_alloc_calls();
        zn_alloc_fail_at(nth);
        zn_status status = zn_conditions_new(set, WIDTH, 2, &c);
        if (status == ZN_OK)
            status = zn_conditions_encode(c, &(zn_encoding){ .model = m, .set = set, .pool = pool });
        zn_alloc_fail_at(0);
        calls = nth ? calls : zn_alloc_calls() - before;
        refused += status == ZN_ENOMEM;
        assert_true(status == ZN_ENOMEM || status == ZN_OK);
        zn_conditions_free(c);
    }
    assert_true(refused > 10);
    zn_pool_free(pool);
    zn_dataset_close(set);
    zn_model_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statistics_are_those_of_the_pictures),
        cmocka_unit_test(a_latent_net_learns_and_imagines),
        cmocka_unit_test(latent_nets_go_on_to_the_bit),
        cmocka_unit_test(damaged_conditions_are_made_anew),
        cmocka_unit_test(other_pictures_are_encoded),
        cmocka_unit_test(a_classifier_learns_and_moves),
        cmocka_unit_test(classifiers_go_on_to_the_bit),
        cmocka_unit_test(a_classifier_needs_no_latent_net),
        cmocka_unit_test(a_classifier_of_other_attributes_is_new),
        cmocka_unit_test(what_cannot_be_is_said),
        cmocka_unit_test(wrong_answers_have_scores),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests_name("conditions", tests, conditions_set_up, files_tear_down);
}
