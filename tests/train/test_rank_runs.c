/* Whole runs on ranks, by mpi.sh like test-ranks: they are those of one process with the whole batch, and go on with
 * another number of ranks. */
#include "on_ranks.h"
#include "train/ranks/ranks.h"
#include "train_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zenith/train.h>

enum { BATCH = 12, SIDE = 32 };

/* In a folder that is the same on all ranks. */
static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/zenith-ranks-XXXXXX");
    if (rank == 0) {
        assert_non_null(mkdtemp(folder));
        make_pictures(in_folder("pictures"), 15, SIDE);
        make_pictures(in_folder("broken"), 15, SIDE);
        write_text(in_folder("broken/p07.png"), "no picture");
        assert_int_equal(mkdir(in_folder("useless"), 0777), 0);
        write_text(in_folder("useless/a.png"), "no picture");
        write_text(in_folder("useless/b.png"), "no picture");
        char text[300];
        snprintf(text, sizeof text,
                 "model: zenith-hier-r\nbatch: %d\naccumulate: %d\nsize: %d\nsteps: 6\nwarmup: 2\neval_every: 2\n"
                 "checkpoint_every: 4\nheld_out: 20\n",
                 BATCH, count, SIDE);
        write_text(in_folder("recipe.yaml"), text);
        snprintf(strstr(text, "accumulate"), 100, "size: %d\nsteps: 6\nwarmup: 2\nheld_out: 20\n", SIDE);
        write_text(in_folder("whole.yaml"), text); /* in as many parts as there are ranks */
    }
    return zn_ranks_share(ranks, folder, sizeof folder) != ZN_OK;
}

static int tear_down(void **state)
{
    together();
    return rank == 0 ? files_tear_down(state) : 0;
}

/* The rank that asks for a stop after step 3, -1: none; and what was remarked. */
typedef struct watch {
    int stopper, remarks;
    char remark[512];
} watch;

static int stop_at_three(void *user, const zn_train_progress *p)
{
    return p->step == 3 && rank == ((watch *)user)->stopper;
}

static void remark(void *user, const char *sentence)
{
    watch *w = user;
    w->remarks++;
    snprintf(w->remark, sizeof w->remark, "%s", sentence);
}

/* recipe NULL: the run is resumed. */
static zn_status train_by(const char *recipe, const char *run, const char *data, zn_ranks *among, watch *w)
{
    const zn_train_options o = { .recipe = recipe ? in_folder(recipe) : NULL,
                                 .run = { .data = in_folder(data),
                                          .folder = in_folder(run),
                                          .resume = !recipe,
                                          .compute = &(zn_options){ .threads = 1 },
                                          .ranks = among,
                                          .progress = stop_at_three,
                                          .remark = remark,
                                          .user = w } };
    zn_train_result r;
    return zn_train(&o, &r);
}

static zn_status train_into(const char *run, const char *data, zn_ranks *among, bool resume, int stopper)
{
    return train_by(resume ? NULL : "recipe.yaml", run, data, among, &(watch){ .stopper = stopper });
}

static void same_file(const char *a, const char *b)
{
    char command[300];
    snprintf(command, sizeof command, "cmp %s %s", in_folder(a), in_folder(b));
    assert_int_equal(system(command), 0);
}

static void runs_are_those_of_one_process(void **state)
{
    (void)state;
    assert_int_equal(train_into("all", "pictures", ranks, false, -1), ZN_OK);
    if (rank == 0) {
        assert_int_equal(train_into("one", "pictures", NULL, false, -1), ZN_OK);
        same_file("one/checkpoint.safetensors", "all/checkpoint.safetensors");
        same_file("one/model.safetensors", "all/model.safetensors");
        same_file("one/samples/step-0000006.png", "all/samples/step-0000006.png");
    }
    together();
}

/* Stopped by one rank among all, continued by one process alone, and the other way round. */
static void runs_go_on_with_other_ranks(void **state)
{
    (void)state;
    assert_int_equal(train_into("some", "pictures", ranks, false, count - 1), ZN_ECANCELLED);
    assert_non_null(strstr(zn_error_text(), "stopped after step 3"));
    if (rank == 0) {
        assert_int_equal(train_into("some", "pictures", NULL, true, -1), ZN_OK);
        same_file("some/checkpoint.safetensors", "all/checkpoint.safetensors");
        assert_int_equal(train_into("first", "pictures", NULL, false, 0), ZN_ECANCELLED);
    }
    together();
    assert_int_equal(train_into("first", "pictures", ranks, true, -1), ZN_OK);
    if (rank == 0)
        same_file("first/checkpoint.safetensors", "all/checkpoint.safetensors");
    together();
}

/* A recipe of one part, which ranks divide: whoever goes on does so too, or says that this cannot be. */
static void parts_stay_when_ranks_do_not(void **state)
{
    (void)state;
    watch none = { .stopper = -1 }, last = { .stopper = count - 1 }, zero = { .stopper = 0 };
    assert_int_equal(train_by("whole.yaml", "parts", "pictures", ranks, &none), ZN_OK);
    assert_int_equal(train_by("whole.yaml", "kept", "pictures", ranks, &last), ZN_ECANCELLED);
    if (rank == 0) {
        assert_int_equal(train_by(NULL, "kept", "pictures", NULL, &none), ZN_OK);
        same_file("kept/checkpoint.safetensors", "parts/checkpoint.safetensors");
        assert_int_equal(train_by("whole.yaml", "lone", "pictures", NULL, &zero), ZN_ECANCELLED);
    }
    together();
    assert_int_equal(none.remarks, 0);
    assert_int_equal(train_by(NULL, "lone", "pictures", ranks, &none), ZN_OK);
    assert_int_equal(none.remarks, rank == 0 && count > 1);
    if (none.remarks)
        assert_non_null(strstr(none.remark, "where it had 1: gradients are added up in another order"));
    together();
}

/* The file is in one rank's slice, or one picture of the evaluation: another takes its place, the same one as when one
 * process does it all. */
static void a_broken_picture_stops_nobody(void **state)
{
    (void)state;
    assert_int_equal(train_into("bad", "broken", ranks, false, -1), ZN_OK);
    if (rank == 0) {
        assert_int_equal(train_into("bad_one", "broken", NULL, false, -1), ZN_OK);
        same_file("bad/checkpoint.safetensors", "bad_one/checkpoint.safetensors");
    }
    together();
}

static void what_cannot_go_on_stops_everyone(void **state)
{
    (void)state;
    assert_int_not_equal(train_into("hopeless", "useless", ranks, false, -1), ZN_OK);
    assert_non_null(strstr(zn_error_text(), "images to train on can be read"));
    assert_int_not_equal(train_into("worse", "nowhere", ranks, false, -1), ZN_OK);
    assert_non_null(strstr(zn_error_text(), "nowhere"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_those_of_one_process),    cmocka_unit_test(runs_go_on_with_other_ranks),
        cmocka_unit_test(parts_stay_when_ranks_do_not),     cmocka_unit_test(a_broken_picture_stops_nobody),
        cmocka_unit_test(what_cannot_go_on_stops_everyone),
    };
    return run_on_ranks("rank runs", tests, sizeof tests / sizeof *tests, set_up, tear_down);
}
