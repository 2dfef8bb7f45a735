/* Run folders: what is in one may be damaged or from elsewhere, and a run started there says so, or goes on with what
 * is good. */
#include "io/weights/writer.h"
#include "train/record/journal.h"
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
#include <zenith/train.h>
#include <zenith/weights.h>

static const char small[] =
    "model: taesd\nwidth: 8\nbatch: 1\nsize: 8\nsteps: 4\nwarmup: 0\nheld_out: 20\neval_every: 1\n"
    "checkpoint_every: 100\nloss: {l1: 1, bands: 0}\n";

/* A run into the folder's `name`; stop 0: up to its end. */
static zn_status start(const char *name, const char *recipe, int64_t stop, zn_train_result *r)
{
    char run[128], data[128], path[128];
    snprintf(run, sizeof run, "%s/%s", folder, name);
    snprintf(data, sizeof data, "%s/pictures", folder);
    snprintf(path, sizeof path, "%s/%s.yaml", folder, name);
    write_text(path, recipe);
    const zn_train_options o = { .recipe = path,
                                 .run = { .data = data,
                                          .folder = run,
                                          .compute = &(zn_options){ .threads = 1 },
                                          .progress = stop ? stop_at : NULL,
                                          .user = &stop } };
    return zn_train(&o, r);
}

static zn_status resume(const char *name, int64_t steps, zn_train_result *r)
{
    char run[128], data[128];
    snprintf(run, sizeof run, "%s/%s", folder, name);
    snprintf(data, sizeof data, "%s/pictures", folder);
    const zn_train_options o = {
        .run = { .data = data, .folder = run, .resume = 1, .steps = steps, .compute = &(zn_options){ .threads = 1 } }
    };
    return zn_train(&o, r);
}

static int stop_if_there(void *path) { return !path || !access(path, F_OK); }

/* There: a path that must exist before the run is stopped; NULL: it is stopped as soon as it asks. */
static zn_status stop_early(const char *run, const char *there)
{
    char data[128];
    zn_train_result r;
    snprintf(data, sizeof data, "%s/pictures", folder);
    const zn_train_options o = { .recipe = in_folder("early.yaml"),
                                 .run = { .data = data,
                                          .folder = run,
                                          .compute = &(zn_options){ .threads = 1 },
                                          .stop = stop_if_there,
                                          .user = (void *)(uintptr_t)there } };
    return zn_train(&o, &r);
}

/* A network that gets its values leaves nothing; after that there is a run without a checkpoint, which can go on. */
static void stops_are_heard_before_the_first_step(void **state)
{
    (void)state;
    char run[128];
    zn_train_result r;
    write_text(in_folder("early.yaml"), small);
    snprintf(run, sizeof run, "%s/early", folder);
    assert_int_equal(stop_early(run, NULL), ZN_ECANCELLED);
    expect_text("before the weights had values");
    assert_int_not_equal(access(run, F_OK), 0);
    assert_int_equal(stop_early(run, run), ZN_ECANCELLED);
    expect_text("stopped before the first step");
    assert_int_equal(access(in_folder("early/recipe.yaml"), F_OK), 0);
    assert_int_not_equal(access(in_folder("early/checkpoint.safetensors"), F_OK), 0);
    assert_int_equal(resume("early", 0, &r), ZN_OK);
    assert_int_equal(r.steps, 4);
}

static void checkpoints_that_lie_are_refused(void **state)
{
    (void)state;
    zn_train_result r;
    assert_int_equal(start("lies", small, 1, &r), ZN_ECANCELLED);
    static const char *const steps[] = {
        "-5", "x", "", "1x", " 1", "+1", "0x1", "99999999999999999999999", "1000000001", "-9223372036854775808"
    };
    zn_weights *w;
    rename(in_folder("lies/checkpoint.safetensors"), in_folder("good.safetensors"));
    assert_int_equal(zn_weights_open(in_folder("good.safetensors"), &w), ZN_OK);
    const int64_t count = zn_weights_count(w);
    zn_weight *tensors = calloc((size_t)count, sizeof *tensors);
    for (int64_t i = 0; i < count; i++)
        tensors[i] = *zn_weights_at(w, i);
    for (size_t i = 0; i < 2 * sizeof steps / sizeof *steps; i++) {
        const char *lie = steps[i / 2], *step = i % 2 ? lie : "1", *stage = i % 2 ? "0" : lie;
        const zn_metadata metadata[] = { { "format", "zenith-checkpoint" }, { "step", step }, { "stage", stage } };
        assert_int_equal(zn_safetensors_write(in_folder("lies/checkpoint.safetensors"), tensors, count, metadata, 3),
                         ZN_OK);
        assert_int_equal(resume("lies", 0, &r), ZN_EFORMAT);
        expect_text("checkpoint.safetensors: its ");
        expect_text(i % 2 ? "step '" : "stage '");
    }
    const zn_metadata metadata[] = { { "format", "zenith-checkpoint" }, { "step", "1" }, { "stage", "0" } };
    assert_int_equal(zn_safetensors_write(in_folder("lies/checkpoint.safetensors"), tensors, count - 1, metadata, 3),
                     ZN_OK);
    assert_int_equal(resume("lies", 0, &r), ZN_ENOTFOUND);
    expect_text("checkpoint.safetensors: tensor '");
    expect_text("' is missing");
    free(tensors);
    zn_weights_close(w);
}

/* A moment that is NaN makes the next update's weights NaN: what was saved before must stay. */
static void what_is_not_finite_is_not_saved(void **state)
{
    (void)state;
    static const char *const files[] = { "finite/checkpoint.safetensors", "finite/model.safetensors" };
    zn_train_result r;
    size_t size, again;
    assert_int_equal(start("finite", small, 1, &r), ZN_ECANCELLED);
    FILE *f = fopen(in_folder(files[0]), "r+b");
    assert_int_equal(fseek(f, -4, SEEK_END), 0);
    assert_int_equal(fwrite("\xff\xff\xff\xff", 4, 1, f), 1);
    fclose(f);
    char *before[2], *after;
    before[0] = contents(files[0], &size);
    before[1] = contents(files[1], &size);
    for (int64_t steps = 2; steps <= 4; steps += 2) { /* the end of the run; a step that finds NaN */
        assert_int_equal(resume("finite", steps, &r), ZN_ENUMERIC);
        expect_text("holds NaN or infinity after the update; what is saved is from step 1");
        for (int i = 0; i < 2; i++) {
            after = contents(files[i], &again);
            assert_memory_equal(before[i], after, again);
            free(after);
        }
    }
    free(before[0]);
    free(before[1]);
}

static int64_t scalars_in(const char *name, int64_t *last)
{
    size_t size;
    uint8_t *bytes = (uint8_t *)contents(name, &size);
    int64_t count = 0;
    *last = 0;
    for (size_t at = 0; at < size; count++) {
        uint64_t length;
        memcpy(&length, bytes + at, sizeof length);
        if (count > 0) { /* the first names the version; small steps are one byte */
            assert_int_equal(bytes[at + 12 + 9], 0x10);
            assert_true(bytes[at + 12 + 10] >= *last); /* no step comes back */
            *last = bytes[at + 12 + 10];
        }
        at += 16 + length;
    }
    free(bytes);
    return count;
}

/* Steps 2 to 4 are done again after the checkpoint of step 1 is put back. */
static void events_are_cut_back(void **state)
{
    (void)state;
    zn_train_result r;
    int64_t last;
    assert_int_equal(start("events", small, 1, &r), ZN_ECANCELLED);
    rename(in_folder("events/checkpoint.safetensors"), in_folder("first.safetensors"));
    assert_int_equal(link(in_folder("first.safetensors"), in_folder("events/checkpoint.safetensors")), 0);
    assert_int_equal(resume("events", 0, &r), ZN_OK);
    const int64_t once = scalars_in("events/events.out.tfevents.zenith", &last);
    assert_int_equal(last, 4);
    rename(in_folder("first.safetensors"), in_folder("events/checkpoint.safetensors"));
    assert_int_equal(resume("events", 0, &r), ZN_OK);
    assert_int_equal(scalars_in("events/events.out.tfevents.zenith", &last), once);
    assert_int_equal(last, 4);
}

static void a_run_needs_a_folder(void **state)
{
    (void)state;
    char sentence[200];
    zn_train_result r;
    write_text(in_folder("file"), "not a folder");
    assert_int_equal(start("file", small, 0, &r), ZN_EIO);
    snprintf(sentence, sizeof sentence, "cannot make the folder %s/file: Not a directory", folder);
    assert_string_equal(zn_error_text(), sentence);
}

static void reports_escape_names(void **state)
{
    (void)state;
    zn_journal *j;
    zn_recipe r = { .model = "<script>&" };
    size_t size;
    assert_int_equal(mkdir(in_folder("page"), 0777), 0);
    assert_int_equal(zn_journal_open(in_folder("page"), 0, &j), ZN_OK);
    assert_int_equal(zn_journal_report(j, &r), ZN_OK);
    zn_journal_close(j);
    char *page = contents("page/report.html", &size);
    assert_null(strstr(page, "<script>"));
    assert_non_null(strstr(page, "<title>&lt;script>&amp;</title>"));
    assert_non_null(strstr(page, "Training of &lt;script>&amp;</h1>"));
    free(page);
}

/* A resumed run may save before it makes another sample; samples of steps that were taken back are none of its own. */
static void reports_keep_the_last_sample(void **state)
{
    (void)state;
    static const int64_t steps[] = { 5, 1, 0 };
    static const char *const shown[] = { "'data:image/png;base64,Mg==", "'data:image/png;base64,MQ==", NULL };
    const zn_recipe r = { .model = "taesd" };
    zn_journal *j;
    size_t size;
    assert_int_equal(mkdir(in_folder("sampled"), 0777), 0);
    assert_int_equal(mkdir(in_folder("sampled/samples"), 0777), 0);
    write_text(in_folder("sampled/samples/step-0000001.png"), "1");
    write_text(in_folder("sampled/samples/step-0000002.png"), "2");
    write_text(in_folder("sampled/samples/step-0000009.png"), "9");
    write_text(in_folder("sampled/samples/step-3.png"), "not one of a run");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(zn_journal_open(in_folder("sampled"), steps[i], &j), ZN_OK);
        assert_int_equal(zn_journal_report(j, &r), ZN_OK);
        zn_journal_close(j);
        char *page = contents("sampled/report.html", &size);
        if (shown[i])
            assert_non_null(strstr(page, shown[i]));
        else
            assert_null(strstr(page, "<img"));
        free(page);
    }
}

/* One that cannot be opened, here a link to itself, is neither taken for a new one nor replaced. */
static void journals_that_cannot_be_read_stay(void **state)
{
    (void)state;
    zn_journal *j;
    assert_int_equal(mkdir(in_folder("loop"), 0777), 0);
    assert_int_equal(symlink("metrics.jsonl", in_folder("loop/metrics.jsonl")), 0);
    assert_int_equal(zn_journal_open(in_folder("loop"), 0, &j), ZN_EIO);
    expect_text("metrics.jsonl");
    char target[64];
    assert_int_equal(readlink(in_folder("loop/metrics.jsonl"), target, sizeof target), strlen("metrics.jsonl"));
    assert_int_equal(unlink(in_folder("loop/metrics.jsonl")), 0);
}

/* Weights named by a path from one folder, in a folder with an odd name; the run is resumed from another. */
static void names_are_good_from_anywhere(void **state)
{
    (void)state;
    char run[128], data[128], recipe[128];
    zn_train_result r;
    assert_int_equal(start("w #1", small, 1, &r), ZN_ECANCELLED);
    snprintf(run, sizeof run, "%s/further", folder);
    snprintf(data, sizeof data, "%s/pictures", folder);
    snprintf(recipe, sizeof recipe, "%s/further.yaml", folder);
    write_text(recipe, "model: taesd\nwidth: 8\nbatch: 1\nsize: 8\nsteps: 1\nlr: 0\nema: 0\nheld_out: 20\n");
    assert_int_equal(chdir(folder), 0);
    zn_train_options o = { .recipe = recipe,
                           .run = { .from = "w #1/model.safetensors",
                                    .data = data,
                                    .folder = run,
                                    .compute = &(zn_options){ .threads = 1 } } };
    assert_int_equal(zn_train(&o, &r), ZN_OK);
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(unlink(in_folder("further/checkpoint.safetensors")), 0); /* cut off before the first one */
    assert_int_equal(resume("further", 0, &r), ZN_OK);
    same_tensors(in_folder("w #1/model.safetensors"), in_folder("further/model.safetensors"));
    o.run.folder = in_folder("never");
    o.run.from = "a\nb";
    assert_int_equal(zn_train(&o, &r), ZN_EINVALID);
    expect_text("line break");
}

static int psnr_is_unknown(void *user, const zn_train_progress *p)
{
    (void)user;
    return !isnan(p->eval_psnr);
}

static void nothing_held_out_is_nothing_measured(void **state)
{
    (void)state;
    zn_train_result r;
    char data[128], run[128], recipe[128];
    snprintf(data, sizeof data, "%s/pictures", folder);
    snprintf(run, sizeof run, "%s/all", folder);
    snprintf(recipe, sizeof recipe, "%s/all.yaml", folder);
    write_text(recipe, "model: taesd\nwidth: 8\nbatch: 1\nsize: 8\nsteps: 1\nheld_out: 0\n");
    const zn_train_options o = {
        .recipe = recipe,
        .run = { .data = data, .folder = run, .compute = &(zn_options){ .threads = 1 }, .progress = psnr_is_unknown }
    };
    assert_int_equal(zn_train(&o, &r), ZN_OK);
    assert_true(isnan(r.eval_psnr) && isfinite(r.loss));
}

static void count_told(void *user, const char *name, const char *why)
{
    int *told = user;
    assert_non_null(strstr(why, name));
    told[strcmp(name, "bad_a.png") == 0 ? 0 : strcmp(name, "bad_b.png") == 0 ? 1 : 2]++;
}

/* Half of the pictures are held out; of these too, one may be broken. */
static void broken_pictures_are_told_once(void **state)
{
    (void)state;
    char data[128], run[128], recipe[128];
    int told[3] = { 0 };
    snprintf(data, sizeof data, "%s/patchy", folder);
    snprintf(run, sizeof run, "%s/told", folder);
    snprintf(recipe, sizeof recipe, "%s/told.yaml", folder);
    make_pictures(data, 6, 16);
    write_text(in_folder("patchy/bad_a.png"), "not a picture");
    write_text(in_folder("patchy/bad_b.png"), "");
    write_text(recipe, "model: taesd\nwidth: 8\nbatch: 4\nsize: 8\nsteps: 6\nheld_out: 50\n");
    zn_train_result r;
    const zn_train_options o = { .recipe = recipe,
                                 .run = { .data = data,
                                          .folder = run,
                                          .compute = &(zn_options){ .threads = 1 },
                                          .skipped = count_told,
                                          .user = told } };
    assert_int_equal(zn_train(&o, &r), ZN_OK);
    assert_true(r.steps == 6 && r.skipped == 2);
    assert_true(told[0] == 1 && told[1] == 1 && told[2] == 0);
}

static int resume_meanwhile(void *user, const zn_train_progress *p)
{
    zn_train_result r;
    (void)p;
    *(zn_status *)user = resume("busy", 0, &r);
    return 1;
}

static void one_process_at_a_time(void **state)
{
    (void)state;
    char data[128];
    zn_status other = ZN_OK;
    zn_train_result r;
    assert_int_equal(start("busy", small, 1, &r), ZN_ECANCELLED);
    snprintf(data, sizeof data, "%s/pictures", folder);
    const zn_train_options o = { .run = { .data = data,
                                          .folder = in_folder("busy"),
                                          .resume = 1,
                                          .compute = &(zn_options){ .threads = 1 },
                                          .progress = resume_meanwhile,
                                          .user = &other } };
    assert_int_equal(zn_train(&o, &r), ZN_ECANCELLED);
    assert_int_equal(other, ZN_EINVALID);
    assert_int_equal(resume("busy", 0, &r), ZN_OK);
    assert_int_equal(r.steps, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stops_are_heard_before_the_first_step),
        cmocka_unit_test(checkpoints_that_lie_are_refused),
        cmocka_unit_test(what_is_not_finite_is_not_saved),
        cmocka_unit_test(events_are_cut_back),
        cmocka_unit_test(a_run_needs_a_folder),
        cmocka_unit_test(reports_escape_names),
        cmocka_unit_test(reports_keep_the_last_sample),
        cmocka_unit_test(journals_that_cannot_be_read_stay),
        cmocka_unit_test(names_are_good_from_anywhere),
        cmocka_unit_test(nothing_held_out_is_nothing_measured),
        cmocka_unit_test(broken_pictures_are_told_once),
        cmocka_unit_test(one_process_at_a_time),
    };
    return cmocka_run_group_tests_name("runs", tests, files_set_up, files_tear_down);
}
