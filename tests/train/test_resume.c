/* Runs that go on: with the pictures they had, or told that these are others; by their own recipe; up to their end; and
 * with a log that a full disk has not spoiled. */
#include "train/record/journal.h"
#include "train_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char small[] =
    "model: taesd\nwidth: 8\nbatch: 1\nsize: 8\nsteps: 6\nwarmup: 0\nheld_out: 20\neval_every: 1\n"
    "checkpoint_every: 100\nloss: {l1: 1, bands: 0}\n";

/* What a call was told and when it is to stop. */
typedef struct watch {
    int64_t stop;
    int remarks;
    char remark[512];
    double lr[8]; /* by step */
} watch;

static int look(void *user, const zn_train_progress *p)
{
    watch *w = user;
    w->lr[p->step] = p->lr;
    return p->step == w->stop;
}

static void note(void *user, const char *sentence)
{
    watch *w = user;
    w->remarks++;
    snprintf(w->remark, sizeof w->remark, "%s", sentence);
}

/* Good until the next call. */
static const zn_options one_thread = { .threads = 1 };

static zn_train_options options_of(const char *name, const char *data, watch *w)
{
    static char pictures[128], run[128];
    snprintf(pictures, sizeof pictures, "%s/%s", folder, data);
    snprintf(run, sizeof run, "%s/%s", folder, name);
    return (zn_train_options){
        .run = { .data = pictures, .folder = run, .compute = &one_thread, .progress = look, .remark = note, .user = w }
    };
}

/* A run into the folder's `name` up to the step `stop`. */
static void start(const char *name, const char *data, int64_t stop)
{
    watch w = { .stop = stop };
    zn_train_result r;
    zn_train_options o = options_of(name, data, &w);
    write_text(in_folder("small.yaml"), small);
    o.recipe = in_folder("small.yaml");
    assert_int_equal(zn_train(&o, &r), ZN_ECANCELLED);
    assert_int_equal(w.remarks, 0);
}

static void resume_with(const char *name, const char *data, int64_t stop, zn_train_result *r, watch *w)
{
    *w = (watch){ .stop = stop };
    zn_train_options o = options_of(name, data, w);
    o.run.resume = 1;
    assert_int_equal(zn_train(&o, r), stop ? ZN_ECANCELLED : ZN_OK);
}

static int lines_of(const char *text)
{
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    return lines;
}

static void a_run_knows_its_pictures(void **state)
{
    (void)state;
    watch w;
    zn_train_result r;
    char first[8192], part[256];
    make_pictures(in_folder("here"), 20, 16);
    start("run", "here", 1);
    snprintf(first, sizeof first, "%s", text_of("run/data.jsonl"));
    snprintf(part, sizeof part, "{\"step\": 0, \"path\": \"%s\", \"pictures\": 20, \"training\": ", in_folder("here"));
    assert_memory_equal(first, part, strlen(part));
    assert_non_null(strstr(first, "\"digest\": \""));
    rename(in_folder("here"), in_folder("there")); /* the same pictures */
    resume_with("run", "there", 2, &r, &w);
    assert_int_equal(w.remarks, 0);
    snprintf(part, sizeof part, "{\"step\": 0, \"path\": \"%s\", \"pictures\": 20, ", in_folder("there"));
    assert_memory_equal(text_of("run/data.jsonl"), part, strlen(part)); /* where the next call finds them */
    assert_string_equal(strstr(text_of("run/data.jsonl"), "\"pictures\""), strstr(first, "\"pictures\""));
    make_pictures(in_folder("there/more"), 1, 16); /* one more */
    resume_with("run", "there", 3, &r, &w);
    assert_int_equal(w.remarks, 1);
    assert_non_null(strstr(w.remark, "other images than before: 21 in "));
    assert_int_equal(lines_of(text_of("run/data.jsonl")), 2);
    assert_non_null(strstr(text_of("run/data.jsonl"), "\n{\"step\": 2, "));
    unlink(in_folder("run/data.jsonl")); /* as runs were before there was one */
    resume_with("run", "there", 4, &r, &w);
    assert_int_equal(w.remarks, 0);
    assert_int_equal(lines_of(text_of("run/data.jsonl")), 1);
    assert_true(isfinite(r.eval_psnr));
    make_pictures(in_folder("few"), 1, 16); /* none of them held out */
    resume_with("run", "few", 0, &r, &w);
    assert_int_equal(w.remarks, 2);
    assert_non_null(strstr(w.remark, "holds out none of 1 image"));
    assert_true(isnan(r.eval_psnr));
    resume_with("run", "there", 0, &r, &w); /* nothing left to do with them */
    assert_int_equal(w.remarks, 0);
}

/* Refused, with these words, and nothing in the folder is changed. */
static void refused(zn_train_options *o, const char *words)
{
    zn_train_result r;
    char before[8192];
    snprintf(before, sizeof before, "%s", text_of("own/recipe.yaml"));
    assert_int_equal(zn_train(o, &r), ZN_EINVALID);
    expect_text(words);
    assert_string_equal(text_of("own/recipe.yaml"), before);
}

static void a_run_keeps_its_recipe(void **state)
{
    (void)state;
    watch w = { .stop = 2 };
    zn_train_result r;
    char other[256], yaml[128], other_yaml[128], model[128];
    snprintf(yaml, sizeof yaml, "%s/small.yaml", folder);
    snprintf(other_yaml, sizeof other_yaml, "%s/other.yaml", folder);
    snprintf(model, sizeof model, "%s/own/model.safetensors", folder);
    const int64_t same = 1, seed = 2, wrong = -1;
    start("own", "pictures", 1);
    zn_train_options o = options_of("own", "pictures", &w);
    o.run.resume = 1;
    o.recipe = yaml; /* the command of the first time, with resume */
    o.run.seed = &same;
    assert_int_equal(zn_train(&o, &r), ZN_ECANCELLED);
    o.run.seed = &seed;
    refused(&o, "with 'seed: 1' and not the 'seed: 2' of ");
    o.run.seed = NULL;
    snprintf(other, sizeof other, "%slr: 0.5\n", small);
    write_text(other_yaml, other);
    o.recipe = other_yaml;
    refused(&o, "with 'lr: 0.001' and not the 'lr: 0.5' of ");
    expect_text("other.yaml: leave that out");
    o.recipe = NULL;
    o.run.from = model;
    refused(&o, "of the options");
    o.run.from = NULL;
    o.run.steps = 3; /* may be others */
    assert_int_equal(zn_train(&o, &r), ZN_OK);
    o = options_of("never", "pictures", &w);
    o.recipe = yaml;
    o.run.seed = &wrong;
    assert_int_equal(zn_train(&o, &r), ZN_EINVALID);
    o = options_of("seeded", "pictures", &w);
    o.recipe = yaml;
    o.run.seed = &seed;
    assert_int_equal(zn_train(&o, &r), ZN_ECANCELLED);
    assert_non_null(strstr(text_of("seeded/recipe.yaml"), "\nseed: 2\n"));
}

static void a_finished_run_says_so(void **state)
{
    (void)state;
    watch w = { .stop = 0 };
    zn_train_result once, again;
    char before[8192];
    start("done", "pictures", 1);
    resume_with("done", "pictures", 0, &once, &w);
    assert_true(once.first == 1 && once.steps == 6 && isfinite(once.loss) && once.eval_psnr > 0);
    snprintf(before, sizeof before, "%s", text_of("done/recipe.yaml"));
    resume_with("done", "pictures", 0, &again, &w);
    assert_true(again.first == 6 && again.steps == 6);
    assert_true(fabs(again.loss - once.loss) < 1e-6 && fabs(again.eval_psnr - once.eval_psnr) < 1e-5);
    zn_train_options o = options_of("done", "pictures", &w);
    o.run.resume = 1;
    o.run.steps = 5;
    assert_int_equal(zn_train(&o, &again), ZN_EINVALID);
    expect_text("6 steps are done already, more than the 5");
    assert_string_equal(text_of("done/recipe.yaml"), before);
    o.run.steps = 7;
    assert_int_equal(zn_train(&o, &again), ZN_OK);
    assert_true(again.first == 6 && again.steps == 7);
}

static void the_rate_is_that_of_the_step(void **state)
{
    (void)state;
    watch w;
    zn_recipe k;
    zn_train_result r;
    start("rates", "pictures", 1);
    resume_with("rates", "pictures", 0, &r, &w);
    assert_int_equal(zn_recipe_parse(small, strlen(small), "small", &k), ZN_OK);
    for (int step = 2; step <= 6; step++)
        assert_true(w.lr[step] == zn_recipe_lr(&k, step - 1));
    char last[64];
    snprintf(last, sizeof last, "\"lr\": %.9g", zn_recipe_lr(&k, 5));
    assert_non_null(strstr(text_of("rates/metrics.jsonl"), last));
}

/* Bytes of the event file, all of them in whole records. */
static size_t whole_records(const char *name)
{
    FILE *f = fopen(in_folder(name), "rb");
    uint64_t length;
    size_t at = 0;
    assert_non_null(f);
    for (; fseek(f, (long)at, SEEK_SET) == 0 && fread(&length, sizeof length, 1, f) == 1; at += 16 + (size_t)length)
        assert_true(length < 1000);
    fseek(f, 0, SEEK_END);
    assert_int_equal(ftell(f), at);
    fclose(f);
    return at;
}

static void a_full_disk_tears_no_event(void **state)
{
    (void)state;
    static const char file[] = "log/events.out.tfevents.zenith";
    const zn_metric metric = { "loss", 0.5 };
    struct rlimit all, few;
    zn_journal *j;
    assert_int_equal(mkdir(in_folder("log"), 0777), 0);
    assert_int_equal(zn_journal_open(in_folder("log"), 0, &j), ZN_OK);
    assert_int_equal(zn_journal_add(j, 1, &metric, 1), ZN_OK);
    const size_t size = whole_records(file);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &all), 0);
    few = (struct rlimit){ size + 5, all.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
    const zn_status status = zn_journal_add(j, 2, &metric, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &all), 0);
    assert_int_equal(status, ZN_EIO);
    expect_text("events.out.tfevents.zenith: ");
    zn_journal_close(j);
    assert_int_equal(zn_journal_open(in_folder("log"), 1, &j), ZN_OK);
    assert_int_equal(whole_records(file), size);
    assert_int_equal(zn_journal_add(j, 2, &metric, 1), ZN_OK);
    zn_journal_close(j);
    assert_true(whole_records(file) > size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_knows_its_pictures),   cmocka_unit_test(a_run_keeps_its_recipe),
        cmocka_unit_test(a_finished_run_says_so),     cmocka_unit_test(the_rate_is_that_of_the_step),
        cmocka_unit_test(a_full_disk_tears_no_event),
    };
    return cmocka_run_group_tests_name("resume", tests, files_set_up, files_tear_down);
}
