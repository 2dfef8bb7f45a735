/* How a run was begun: what options said at first need not be said again, and what a resumed run may not change is
 * refused: the teacher, labels, precision; by what is in a file, not by its name. Runs of a time when folders did not
 * tell go on as they did. */
#include "condition_runs.h"
#include "train_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char small[] = "model: taesd\nwidth: 8\nbatch: 2\nsize: 16\nsteps: 6\nwarmup: 0\nheld_out: 20\n"
                            "eval_every: 1\ncheckpoint_every: 100\nseed: 7\n";
static const char classifier[] = "model: diffae-celeba64\ntask: classify\nbatch: 4\nsteps: 20\nwarmup: 0\nema: 0\n"
                                 "held_out: 20\neval_every: 100\ncheckpoint_every: 1000\nschedule: constant\n";

/* A call of zn_train; names are those of files in the folder. */
typedef struct call {
    const char *run, *recipe, *from, *labels;
    zn_precision precision;
    int64_t seed, steps, stop; /* 0: not said */
    int threads;
    bool resume;
    const char *device;
    char *told; /* NULL, or [512]: the last remark */
} call;

static void tell(void *told, const char *sentence) { snprintf(told, 512, "%s", sentence); }

static zn_status train(call c)
{
    char run[128], recipe[128], from[128], labels[128], data[128];
    zn_train_result r;
    snprintf(run, sizeof run, "%s/%s", folder, c.run);
    snprintf(data, sizeof data, "%s/pictures", folder);
    snprintf(recipe, sizeof recipe, "%s/%s", folder, c.recipe ? c.recipe : "");
    snprintf(from, sizeof from, "%s/%s", folder, c.from ? c.from : "");
    snprintf(labels, sizeof labels, "%s/%s", folder, c.labels ? c.labels : "");
    const zn_train_options o = { .recipe = c.recipe ? recipe : NULL,
                                 .labels = c.labels ? labels : NULL,
                                 .run = { .data = data,
                                          .folder = run,
                                          .from = c.from ? from : NULL,
                                          .resume = c.resume,
                                          .seed = c.seed ? &c.seed : NULL,
                                          .steps = c.steps,
                                          .compute = &(zn_options){ .threads = c.threads ? c.threads : 1,
                                                                    .precision = c.precision,
                                                                    .device = c.device },
                                          .progress = c.stop ? stop_at : NULL,
                                          .remark = c.told ? tell : NULL,
                                          .user = c.told ? (void *)c.told : (void *)&c.stop } };
    return zn_train(&o, &r);
}

/* Refused, with these words, and nothing that tells of the run is changed. */
static void refused(call c, const char *words)
{
    static const char *const names[] = { "recipe.yaml", "origin.json", "metrics.jsonl" };
    char before[3][8192], path[64];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", c.run, names[i]);
        strcpy(before[i], access(in_folder(path), F_OK) ? "" : text_of(path));
    }
    assert_int_equal(train(c), ZN_EINVALID);
    expect_text(words);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", c.run, names[i]);
        assert_string_equal(before[i], access(in_folder(path), F_OK) ? "" : text_of(path));
    }
}

static void options_of_the_first_time_stay(void **state)
{
    (void)state;
    write_text(in_folder("small.yaml"), small);
    const call first = {
        .run = "whole", .recipe = "small.yaml", .precision = ZN_PRECISION_BF16, .seed = 5, .steps = 4
    };
    assert_int_equal(train(first), ZN_OK);
    call c = first;
    c.run = "run";
    c.stop = 1;
    assert_int_equal(train(c), ZN_ECANCELLED);
    assert_string_equal(text_of("run/origin.json"),
                        "{\"options\": [\"seed\", \"steps\", \"precision\"], \"device\": \"cpu\", "
                        "\"ranks\": 1, \"parts\": 1}\n");
    c.resume = true; /* the command of the first time */
    c.stop = 2;
    assert_int_equal(train(c), ZN_ECANCELLED);
    c = (call){ .run = "run", .recipe = "small.yaml", .resume = true, .stop = 3, .threads = 3 }; /* its recipe alone */
    assert_int_equal(train(c), ZN_ECANCELLED);
    assert_int_equal(train((call){ .run = "run", .resume = true }), ZN_OK); /* nothing of it */
    same_tensors(in_folder("whole/checkpoint.safetensors"), in_folder("run/checkpoint.safetensors"));
    same_tensors(in_folder("whole/model.safetensors"), in_folder("run/model.safetensors"));
    assert_non_null(strstr(text_of("run/recipe.yaml"), "\nprecision: bf16\n"));
    assert_non_null(strstr(text_of("run/recipe.yaml"), "\nseed: 5\n"));
}

static void other_options_are_refused(void **state)
{
    (void)state;
    const call go_on = { .run = "run", .recipe = "small.yaml", .steps = 6, .resume = true };
    call c = go_on;
    c.precision = ZN_PRECISION_F32;
    refused(c, "with 'precision: bf16' and not the 'precision: f32' of the options: leave that out");
    c.recipe = NULL;
    refused(c, "with 'precision: bf16' and not the 'precision: f32' of the options: leave that out");
    c = go_on;
    c.seed = 7; /* the recipe's, but not the run's */
    refused(c, "with 'seed: 5' and not the 'seed: 7' of the options");
    c = go_on;
    c.from = "whole";
    refused(c, "of the options");
    c = go_on;
    c.recipe = "other.yaml";
    char text[512];
    snprintf(text, sizeof text, "%slr: 0.5\n", small);
    write_text(in_folder("other.yaml"), text);
    refused(c, "and not the 'lr: 0.5' of ");
    expect_text("other.yaml: leave that out");
    assert_int_equal(unlink(in_folder("run/origin.json")), 0); /* as runs were before there was one */
    refused(go_on, "with 'seed: 5' and not the 'seed: 7' of ");
    c = go_on;
    c.recipe = "silent.yaml"; /* what has its usual value may have been an option's */
    snprintf(text, sizeof text, "%.*s", (int)(strstr(small, "seed") - small), small);
    write_text(in_folder("silent.yaml"), text);
    c.stop = 5;
    assert_int_equal(train(c), ZN_ECANCELLED);
    assert_string_equal(text_of("run/origin.json"), "{\"device\": \"cpu\", \"ranks\": 1, \"parts\": 1}\n");
    assert_int_equal(train(c), ZN_OK); /* and still may have */
}

/* No machine has so many GPUs. */
static void the_device_of_the_first_time_stays(void **state)
{
    (void)state;
    call c = { .run = "elsewhere", .recipe = "small.yaml", .stop = 1 };
    char told[512] = "", text[8192];
    assert_int_equal(train(c), ZN_ECANCELLED);
    snprintf(text, sizeof text, "%s", text_of("elsewhere/origin.json"));
    char *const cpu = strstr(text, "\"cpu\"");
    assert_non_null(cpu);
    char other[8200];
    snprintf(other, sizeof other, "%.*s\"cuda:99\"%s", (int)(cpu - text), text, cpu + 5);
    write_text(in_folder("elsewhere/origin.json"), other);
    c = (call){ .run = "elsewhere", .resume = true, .told = told };
    assert_int_not_equal(train(c), ZN_OK);
    expect_text("elsewhere had --device cuda:99: ");
    expect_text("(--device cpu goes on without it)");
    c.device = "cpu";
    assert_int_equal(train(c), ZN_OK);
    assert_non_null(strstr(told, "goes on with --device cpu, where it had cuda:99: "));
    assert_string_equal(text_of("elsewhere/origin.json"), text); /* told no more */
}

static void steps_may_be_others(void **state)
{
    (void)state;
    call c = { .run = "longer", .recipe = "small.yaml", .stop = 1 };
    assert_int_equal(train(c), ZN_ECANCELLED);
    char text[512];
    snprintf(text, sizeof text, "%s", small);
    memcpy(strstr(text, "steps: 6"), "steps: 9", 8);
    write_text(in_folder("nine.yaml"), text);
    c.resume = true;
    c.recipe = "nine.yaml";
    refused(c, "with 'steps: 6' and not the 'steps: 9' of ");
    c = (call){ .run = "longer", .resume = true, .steps = 8, .stop = 3 };
    assert_int_equal(train(c), ZN_ECANCELLED);
    c.steps = 2;
    refused(c, "3 steps are done already, more than the 2 it is to have");
    c = (call){ .run = "longer", .recipe = "small.yaml", .resume = true, .stop = 7 }; /* as the last option said */
    assert_int_equal(train(c), ZN_ECANCELLED);
    assert_non_null(strstr(text_of("longer/recipe.yaml"), "\nsteps: 8\n"));
    c.steps = 7; /* it is done */
    assert_int_equal(train(c), ZN_OK);
}

/* Such gates become straight ones in the run's recipe. */
static void gates_of_no_word_are_the_usual_ones(void **state)
{
    (void)state;
    write_text(in_folder("gated.yaml"), "model: zenith-hier\nbatch: 1\nsize: 32\nsteps: 2\nheld_out: 0\n");
    call c = { .run = "gated", .recipe = "gated.yaml", .stop = 1 };
    assert_int_equal(train(c), ZN_ECANCELLED);
    assert_non_null(strstr(text_of("gated/recipe.yaml"), "\n  form: straight\n"));
    c.resume = true;
    assert_int_equal(train(c), ZN_OK);
}

/* ---- what a run learns from ---- */

static zn_status distill(const char *run, const char *teacher, const char *student, int64_t steps, int64_t stop)
{
    char paths[4][128];
    const char *const names[4] = { run, teacher, student, "pictures" };
    zn_distill_result r;
    for (int i = 0; i < 4; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%s", folder, names[i] ? names[i] : "");
    char checkpoint[64];
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint.safetensors", run);
    const zn_distill_options o = { .teacher = teacher ? paths[1] : NULL,
                                   .student = student ? paths[2] : NULL,
                                   .run = { .data = paths[3],
                                            .folder = paths[0],
                                            .resume = access(in_folder(checkpoint), F_OK) == 0,
                                            .steps = steps,
                                            .compute = &(zn_options){ .threads = 1 },
                                            .progress = stop ? stop_at : NULL,
                                            .user = &stop } };
    return zn_distill(&o, &r);
}

static const char student[] = "model: zenith-r\nwidth: 8\nbatch: 1\nsize: 16\nwarmup: 1\ncheckpoint_every: 100\n"
                              "held_out: 20\ndistill: {encoder: 3, decoder: 3, joint: 0}\n";

static void move(const char *from, const char *to) { assert_int_equal(rename(in_folder(from), in_folder(to)), 0); }

static void a_run_keeps_its_teacher(void **state)
{
    (void)state;
    write_text(in_folder("student.yaml"), student);
    move("whole/model.safetensors", "a.safetensors");
    move("longer/model.safetensors", "b.safetensors");
    assert_int_equal(distill("taught", "a.safetensors", "student.yaml", 8, 0), ZN_OK);
    assert_int_equal(distill("cut", "a.safetensors", "student.yaml", 8, 1), ZN_ECANCELLED);
    assert_int_equal(distill("cut", "b.safetensors", "student.yaml", 0, 0), ZN_EINVALID);
    expect_text("cut: a resumed run keeps its teacher, ");
    expect_text("/a.safetensors, and the contents of ");
    expect_text("/b.safetensors are others: leave that out");
    assert_null(strstr(text_of("cut/recipe.yaml"), "b.safetensors"));
    move("a.safetensors", "c.safetensors"); /* the same one in another place, and the command of the first time */
    assert_int_equal(distill("cut", "c.safetensors", "student.yaml", 8, 3), ZN_ECANCELLED);
    assert_int_equal(distill("cut", NULL, NULL, 9, 0), ZN_EINVALID);
    expect_text("keep their lengths when it is resumed: 8 steps in all, not 9");
    assert_int_equal(distill("cut", NULL, "student.yaml", 0, 6), ZN_ECANCELLED); /* not said: the run's */
    move("c.safetensors", "a.safetensors");
    move("b.safetensors", "c.safetensors");
    assert_int_equal(distill("cut", NULL, NULL, 0, 0), ZN_EINVALID);
    expect_text("/c.safetensors are not those it was begun with: put them back");
    assert_int_equal(distill("cut", "a.safetensors", NULL, 0, 0), ZN_OK);
    same_tensors(in_folder("taught/checkpoint.safetensors"), in_folder("cut/checkpoint.safetensors"));
}

static void stages_keep_their_lengths(void **state)
{
    (void)state;
    char other[512];
    snprintf(other, sizeof other, "%s", student);
    memcpy(strstr(other, "decoder: 3"), "decoder: 4", 10);
    write_text(in_folder("other_student.yaml"), other);
    assert_int_equal(distill("stages", "a.safetensors", "student.yaml", 0, 1), ZN_ECANCELLED);
    assert_int_equal(distill("stages", NULL, "other_student.yaml", 0, 0), ZN_EINVALID);
    expect_text("with 'steps: 6' and not the 'steps: 7' of ");
    assert_int_equal(distill("stages", "a.safetensors", "student.yaml", 0, 2), ZN_ECANCELLED);
    assert_int_equal(unlink(in_folder("stages/origin.json")), 0); /* of an old run the teacher is taken as it is */
    assert_int_equal(distill("stages", "c.safetensors", "student.yaml", 0, 3), ZN_ECANCELLED);
    assert_int_equal(distill("stages", "a.safetensors", "student.yaml", 0, 0), ZN_EINVALID); /* and is known then */
}

static void a_run_keeps_its_labels(void **state)
{
    (void)state;
    write_text(in_folder("classifier.yaml"), classifier);
    call c = { .run = "sorted", .recipe = "classifier.yaml", .from = "auto", .labels = "labels.csv" };
    assert_int_equal(train(c), ZN_OK);
    c.run = "labelled";
    c.stop = 3;
    assert_int_equal(train(c), ZN_ECANCELLED);
    c.resume = true;
    write_text(in_folder("other.csv"), "file,flat,odd\np00.png,1,1\np01.png,0,1\np02.png,1,0\np03.png,0,0\n");
    c.labels = "other.csv";
    refused(c, "labelled: a resumed run keeps its labels, ");
    expect_text("/labels.csv, and the contents of ");
    expect_text("/other.csv are others: leave that out");
    move("labels.csv", "moved.csv"); /* the same ones in another place */
    c.labels = "moved.csv";
    c.stop = 5;
    assert_int_equal(train(c), ZN_ECANCELLED);
    c = (call){ .run = "labelled", .recipe = "classifier.yaml", .stop = 7, .resume = true }; /* not said: the run's */
    assert_int_equal(train(c), ZN_ECANCELLED);
    char text[1024];
    snprintf(text, sizeof text, "%slabels: %s\n", classifier, in_folder("other.csv"));
    write_text(in_folder("classifier.yaml"), text); /* an option had precedence, and has */
    c.stop = 9;
    assert_int_equal(train(c), ZN_ECANCELLED);
    move("moved.csv", "labels.csv");
    move("other.csv", "moved.csv");
    refused(c, "/moved.csv are not those it was begun with: put them back");
    c.labels = "labels.csv";
    c.stop = 0;
    assert_int_equal(train(c), ZN_OK);
    same_models("sorted", "labelled");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_of_the_first_time_stay),      cmocka_unit_test(other_options_are_refused),
        cmocka_unit_test(the_device_of_the_first_time_stays),  cmocka_unit_test(steps_may_be_others),
        cmocka_unit_test(gates_of_no_word_are_the_usual_ones), cmocka_unit_test(a_run_keeps_its_teacher),
        cmocka_unit_test(stages_keep_their_lengths),           cmocka_unit_test(a_run_keeps_its_labels),
    };
    return cmocka_run_group_tests_name("origin", tests, conditions_set_up, files_tear_down);
}
