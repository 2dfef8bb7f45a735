/* Recipes are read strictly and come back from their text as they were; schedules have their shapes. */
#include "train/recipe/recipe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/restore.h>

static void recipes_are_read_strictly(void **state)
{
    (void)state;
    zn_recipe r, again;
    char text[ZN_RECIPE_TEXT];
    const char *good = "# comment\nmodel: taesd\nlr: 3e-4   # rate\nloss:\n  l1: 0\n  mse: 2\nschedule: step\n";
    assert_int_equal(zn_recipe_parse(good, strlen(good), "r.yaml", &r), ZN_OK);
    assert_string_equal(r.model, "taesd");
    assert_true(r.lr == 3e-4 && r.mse == 2 && r.l1 == 0 && r.schedule == ZN_SCHEDULE_STEP);
    const int length = zn_recipe_text(&r, text, sizeof text);
    assert_int_equal(zn_recipe_parse(text, (size_t)length, "again", &again), ZN_OK);
    assert_memory_equal(&r, &again, sizeof r);
    const char *braces = "loss: {l1: 0, ssim: 0.1,haar:3}   # all in one line\ndistill: {teacher: a#b}\n";
    assert_int_equal(zn_recipe_parse(braces, strlen(braces), "r.yaml", &r), ZN_OK);
    assert_true(r.l1 == 0 && r.ssim == 0.1 && r.haar == 3 && r.bands == 0.5);
    assert_string_equal(r.teacher, "a#b");
    const char *photo = "task: restore\ndamage: {mix: photo, clean: 0.25, quality: 30}\nloss: {lpips: 0.5}\n";
    assert_null(strstr(text, "damage"));
    assert_null(strstr(text, "lpips_model"));
    assert_int_equal(zn_recipe_parse(photo, strlen(photo), "r.yaml", &r), ZN_OK);
    assert_true(r.damage.kind == ZN_DAMAGE_MIX_PHOTO && r.damage.clean == 0.25 && r.damage.quality == 30 &&
                r.damage.noise == 55 && r.lpips == 0.5);
    assert_int_equal(zn_recipe_parse(text, (size_t)zn_recipe_text(&r, text, sizeof text), "again", &again), ZN_OK);
    assert_memory_equal(&r, &again, sizeof r);
    static const struct {
        const char *text, *word;
    } bad[] = {
        { "damage: {mix: rain}\n", "plain photo" },
        { "damage: {quality: 96}\n", "1 to 95" },
        { "modle: taesd\n", "'modle'" },
        { "modle:\nsteps: 3\n", "line 1: there is no setting 'modle'" },
        { "los:\n  l1: 1\n", "line 1: there is no setting 'los'" },
        { "loss: 1\n", "set each by its own name, such as loss." },
        { "lpips: 1\n", "did you mean loss.lpips?" },
        { "lr: fast\n", "'fast'" },
        { "steps: 2\nlr:   # rate\n", "line 2: lr has no value" },
        { "model:\n", "model has no value" },
        { "loss:\n  l1:\n", "line 2: loss.l1 has no value" },
        { "loss: {l1: , mse: 1}\n", "loss.l1 has no value" },
        { "\"lr\" 1\n", "'lr' is not of the form" },
        { "\"lr: 1\n", "not closed" },
        { "\"l r\": 1\n", "no setting 'l r'" },
        { "\nbatch: 2.5\n", "line 2" },
        { "batch: 0\n", "1 to 4096" },
        { "schedule: linear\n", "cosine" },
        { "just words\n", "key: value" },
        { "loss:\n  l3: 1\n", "'loss.l3'" },
        { "  l1: 1\n", "unexpected indentation" },
        { "loss: {l1: 1\n", "not closed" },
        { "loss: {l1}\n", "key: value" },
        { "beta1: 1\n", "0 to 0.999999" },
        { "beta2: 1\n", "to 0.999999" },
        { "model: \"a\n", "not closed" },
        { "model: 'a\n", "not closed" },
        { "model: \"a\" b\n", "'b' follows" },
        { "loss: {l1: 1} mse: 1\n", "'mse: 1' follows" },
        { "model: \"a\\nb\"\n", "backslash" },
        { "gates: {form: firm}\n", "one of auto straight soft hard" },
        { "gates: {penalty: -1}\n", "0 to" },
        { "beta2: 0\n", "1e-12 to" },
        { "eps: 0\n", "1e-12 to" },
        { "lr: 1\nlr: 2\n", "line 2: lr is set twice" },
        { "loss: {l1: 1, l1: 2}\n", "set twice" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_not_equal(zn_recipe_parse(bad[i].text, strlen(bad[i].text), "r.yaml", &r), ZN_OK);
        if (!strstr(zn_error_text(), bad[i].word))
            fail_msg("'%s' does not say %s", zn_error_text(), bad[i].word);
    }
}

/* Who sets one thing about gates has them trained; a recipe that does not speak of them is written without. */
static void gates_are_read(void **state)
{
    (void)state;
    zn_recipe r, again;
    char text[ZN_RECIPE_TEXT];
    const char *plain = "model: zenith-hier\n", *penalty = "gates: {penalty: 0.25}\n",
               *soft = "gates:\n  form: soft\n  temperature: 2\n  lr: 7\n";
    assert_int_equal(zn_recipe_parse(plain, strlen(plain), "r.yaml", &r), ZN_OK);
    assert_int_equal(r.gates, ZN_RECIPE_GATES_AS_USUAL);
    zn_recipe_text(&r, text, sizeof text);
    assert_null(strstr(text, "gates:"));
    assert_int_equal(zn_recipe_apply(penalty, strlen(penalty), "r.yaml", &r), ZN_OK);
    assert_true(r.gates == ZN_RECIPE_GATES_STRAIGHT && r.gate_penalty == 0.25);
    assert_int_equal(zn_recipe_apply(soft, strlen(soft), "r.yaml", &r), ZN_OK);
    assert_true(r.gates == ZN_RECIPE_GATES_SOFT && r.gate_penalty == 0.25 && r.gate_temperature == 2 &&
                r.block_gate_lr == 7);
    const int length = zn_recipe_text(&r, text, sizeof text);
    assert_non_null(strstr(text, "\neps: 1.0e-08\n")); /* "1e-08" is a text to some readers */
    assert_non_null(strstr(text, "gates:\n  form: soft\n  penalty: 0.25\n"));
    assert_int_equal(zn_recipe_parse(text, (size_t)length, "again", &again), ZN_OK);
    assert_true(!r.sets_losses && again.sets_losses); /* the text has every key */
    again.sets_losses = false;
    assert_memory_equal(&r, &again, sizeof r);
}

/* The gan stage of a distillation has a discriminator even where loss.discriminator is 0: its start is kept. */
static void a_gan_stage_keeps_its_start(void **state)
{
    (void)state;
    zn_recipe r, again;
    char text[ZN_RECIPE_TEXT];
    const char *gan = "distill: {gan: 10}\n", *const settings[] = { "loss.discriminator_start=0.1", NULL };
    assert_int_equal(zn_recipe_parse(gan, strlen(gan), "r.yaml", &r), ZN_OK);
    assert_int_equal(zn_recipe_set_all(settings, &r), ZN_OK);
    const int length = zn_recipe_text(&r, text, sizeof text);
    assert_int_equal(zn_recipe_parse(text, (size_t)length, "again", &again), ZN_OK);
    assert_true(again.gan_steps == 10 && again.discriminator == 0 && again.discriminator_start == 0.1);
    assert_int_equal(zn_recipe_parse("", 0, "none", &r), ZN_OK);
    assert_int_equal(zn_recipe_set_all(settings, &r), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "loss.discriminator is 0"));
}

static void schedules_have_their_shapes(void **state)
{
    (void)state;
    zn_recipe r;
    const char *text = "steps: 100\nwarmup: 10\nlr: 1\n";
    assert_int_equal(zn_recipe_parse(text, strlen(text), "r", &r), ZN_OK);
    assert_true(fabs(zn_recipe_lr(&r, 0) - 0.1) < 1e-12 && fabs(zn_recipe_lr(&r, 9) - 1) < 1e-12);
    assert_true(fabs(zn_recipe_lr(&r, 55) - (0.01 + 0.99 * 0.5)) < 1e-9);
    assert_true(fabs(zn_recipe_lr(&r, 100) - 0.01) < 1e-9);
    r.schedule = ZN_SCHEDULE_CONSTANT;
    assert_true(zn_recipe_lr(&r, 4) == 0.5 && zn_recipe_lr(&r, 10) == 1 && zn_recipe_lr(&r, 99) == 1);
    r.schedule = ZN_SCHEDULE_STEP;
    r.step_every = 20;
    r.step_factor = 0.1;
    assert_true(zn_recipe_lr(&r, 29) == 1 && fabs(zn_recipe_lr(&r, 30) - 0.1) < 1e-12);
    assert_true(fabs(zn_recipe_lr(&r, 50) - 0.01) < 1e-12);
}

/* A warmup of more than half of the steps becomes a tenth of them. */
static void short_runs_reach_their_rate(void **state)
{
    (void)state;
    zn_recipe r;
    const char *text = "steps: 100\nwarmup: 1000\nlr: 1\n";
    assert_int_equal(zn_recipe_parse(text, strlen(text), "r", &r), ZN_OK);
    assert_true(fabs(zn_recipe_lr(&r, 0) - 0.1) < 1e-12 && fabs(zn_recipe_lr(&r, 9) - 1) < 1e-12);
    assert_true(fabs(zn_recipe_lr(&r, 55) - (0.01 + 0.99 * 0.5)) < 1e-9);
    r.steps = 2000;
    assert_true(fabs(zn_recipe_lr(&r, 499) - 0.5) < 1e-12 && zn_recipe_lr(&r, 999) == 1);
    r.steps = 5;
    assert_true(zn_recipe_lr(&r, 0) == 1);
}

/* Whatever a file may be called, but for line breaks. */
static void names_survive_writing(void **state)
{
    (void)state;
    static const char *const names[] = {
        "w #1/a.safetensors",
        " a ",
        "#a",
        "a\"b",
        "\"",
        "\\",
        "it's",
        "'a'",
        "{a}",
        "a, b}",
        "a: b",
        "a:",
        "/tmp/x-y",
        "random:taesd",
        "",
        "\ta\t\\",
        "---",
        "\xc3\xa4 b",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        zn_recipe r, again;
        char text[ZN_RECIPE_TEXT];
        assert_int_equal(zn_recipe_parse("", 0, "none", &r), ZN_OK);
        strcpy(r.from, names[i]);
        strcpy(r.labels, names[i]);
        strcpy(r.teacher, names[i]);
        const int length = zn_recipe_text(&r, text, sizeof text);
        assert_int_equal(zn_recipe_parse(text, (size_t)length, "again", &again), ZN_OK);
        assert_string_equal(again.from, names[i]);
        assert_string_equal(again.labels, names[i]);
        assert_string_equal(again.teacher, names[i]);
    }
    zn_recipe longest, again;
    char text[ZN_RECIPE_TEXT];
    assert_int_equal(zn_recipe_parse("", 0, "none", &longest), ZN_OK);
    memset(longest.from, '"', sizeof longest.from - 1);
    memset(longest.labels, '"', sizeof longest.labels - 1);
    memset(longest.teacher, '\\', sizeof longest.teacher - 1);
    const int length = zn_recipe_text(&longest, text, sizeof text);
    assert_true(length < (int)sizeof text);
    assert_int_equal(zn_recipe_parse(text, (size_t)length, "again", &again), ZN_OK);
    again.sets_losses = false; /* the text has every key */
    assert_memory_equal(&longest, &again, sizeof longest);
}

static void quotes_are_read(void **state)
{
    (void)state;
    zn_recipe r;
    const char *marked =
        "\xef\xbb\xbf\"model\" : taesd\r\n'batch': 3\n\"loss\":\n  'l1': 2\ndistill: {\"joint\": 5}\nfrom:\n";
    assert_int_equal(zn_recipe_parse(marked, strlen(marked), "r.yaml", &r), ZN_OK);
    assert_string_equal(r.model, "taesd");
    assert_true(r.batch == 3 && r.l1 == 2 && r.joint_steps == 5 && !r.from[0]);
    const char *text = "from: 'it''s # here'   # there\nmodel: \"taesd\"\ndistill: {teacher: \"a, b}\", joint: 7}\r\n";
    assert_int_equal(zn_recipe_parse(text, strlen(text), "r.yaml", &r), ZN_OK);
    assert_string_equal(r.from, "it's # here");
    assert_string_equal(r.model, "taesd");
    assert_string_equal(r.teacher, "a, b}");
    assert_int_equal(r.joint_steps, 7);
    text = "from: \"\"\n";
    assert_int_equal(zn_recipe_apply(text, strlen(text), "r.yaml", &r), ZN_OK);
    assert_string_equal(r.from, "");
}

/* In a program that speaks German. Where no such locale can be had there is nothing to see. */
static void numbers_have_a_point(void **state)
{
    (void)state;
    char folder[] = "/tmp/zenith-locale-XXXXXX", command[128], text[ZN_RECIPE_TEXT], damage[32];
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1", folder);
    const int made = system(command) == 0;
    setenv("LOCPATH", folder, 1);
    if (made && setlocale(LC_ALL, "de_DE.UTF-8")) {
        zn_recipe r;
        zn_corruption c;
        snprintf(text, sizeof text, "%.1f", 0.5);
        assert_string_equal(text, "0,5");
        assert_int_equal(zn_recipe_parse("lr: 0.25\n", 9, "r.yaml", &r), ZN_OK);
        assert_true(r.lr == 0.25);
        zn_recipe_text(&r, text, sizeof text);
        assert_non_null(strstr(text, "lr: 0.25\n"));
        assert_int_equal(zn_corruption_parse("blur:1.5", &c), ZN_OK);
        assert_string_equal(zn_corruption_text(c, damage), "blur:1.5");
        snprintf(text, sizeof text, "%.1f", 0.5); /* the program's own numbers stay as they were */
        assert_string_equal(text, "0,5");
        setlocale(LC_ALL, "C");
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recipes_are_read_strictly),
        cmocka_unit_test(gates_are_read),
        cmocka_unit_test(a_gan_stage_keeps_its_start),
        cmocka_unit_test(schedules_have_their_shapes),
        cmocka_unit_test(short_runs_reach_their_rate),
        cmocka_unit_test(names_survive_writing),
        cmocka_unit_test(quotes_are_read),
        cmocka_unit_test(numbers_have_a_point),
    };
    return cmocka_run_group_tests_name("recipe", tests, NULL, NULL);
}
