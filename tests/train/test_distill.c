/* Distillation: a small seeded teacher teaches a smaller student. A run that is stopped in any stage and resumed gives
 * the same bits, the result is a model like any other, half a teacher teaches the half it can, and the student learns.
 */
#include "io/weights/writer.h"
#include "train/run/trainer.h"
#include "train_files.h"

#include "base/alloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/model.h>
#include <zenith/train.h>
#include <zenith/weights.h>

/* The tensors of a model whose names begin with `prefix`. */
static void write_part(const zn_model *m, const char *prefix, const char *path)
{
    zn_arena arena = { 0 };
    zn_weight *list = zn_arena_alloc(&arena, sizeof *list * (size_t)m->count);
    int64_t count = 0;
    for (int i = 0; i < m->count; i++) {
        const zn_model_parameter *p = &m->parameters[i];
        if (strncmp(p->name, prefix, strlen(prefix)))
            continue;
        const zn_shape s = zn_weight_file_shape(p->shape, p->layout);
        float *data = zn_arena_alloc(&arena, sizeof(float) * (size_t)zn_shape_count(s));
        zn_weight_export(p->data, p->shape, p->layout, data);
        zn_weight *w = &list[count++];
        *w = (zn_weight){ .name = p->name, .dtype = ZN_F32, .rank = s.rank, .data = data };
        memcpy(w->shape, s.dim, sizeof w->shape);
    }
    assert_int_equal(zn_safetensors_write(path, list, count, NULL, 0), ZN_OK);
    zn_arena_free(&arena);
}

/* A TAESD of 8 channels with 4 latents: whole, and each half by itself. */
static int set_up(void **state)
{
    files_set_up(state);
    const zn_config *known;
    const zn_arch *arch = zn_arch_find("taesd", &known);
    zn_config config = *known;
    config.width = 8;
    zn_model *m;
    assert_int_equal(zn_model_new(arch, &config, &m), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_ENCODER, 3), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_DECODER, 3), ZN_OK);
    for (int i = 0; i < m->count; i++) /* latents and pictures of a sane size */
        for (int64_t k = 0; k < zn_shape_count(m->parameters[i].shape); k++)
            m->parameters[i].data[k] *= 0.6f;
    write_part(m, "", in_folder("teacher.safetensors"));
    write_part(m, "encoder.", in_folder("half_encoder.safetensors"));
    write_part(m, "decoder.", in_folder("other_decoder.safetensors"));
    zn_model_free(m);
    write_text(in_folder("student.yaml"),
               "model: zenith-r\nwidth: 8\nbatch: 2\naccumulate: 2\nsize: 16\nwarmup: 1\neval_every: 3\n"
               "checkpoint_every: 2\nheld_out: 20\ndistill: {encoder: 3, decoder: 3, joint: 2, gan: 2}\n"
               "loss: {ssim: 0.1}\n");
    return 0;
}

typedef struct
try {
    const char *teacher, *student, *run;
    int64_t stop, steps;
    int threads, resume;
}
try;

static zn_status distill(try t, zn_distill_result *r)
{
    char teacher[128], student[128], run[128], data[128];
    snprintf(teacher, sizeof teacher, "%s/%s", folder, t.teacher ? t.teacher : "");
    snprintf(student, sizeof student, "%s/%s", folder, t.student ? t.student : "");
    snprintf(run, sizeof run, "%s/%s", folder, t.run);
    snprintf(data, sizeof data, "%s/pictures", folder);
    const zn_distill_options o = { .teacher = t.teacher ? teacher : NULL,
                                   .student = t.student ? (strchr(t.student, '.') ? student : t.student) : NULL,
                                   .run = { .data = data,
                                            .folder = run,
                                            .resume = t.resume,
                                            .steps = t.steps,
                                            .compute = &(zn_options){ .threads = t.threads },
                                            .progress = t.stop ? stop_at : NULL,
                                            .user = &t.stop } };
    return zn_distill(&o, r);
}

static void a_resumed_distillation_gives_the_same_bits(void **state)
{
    (void)state;
    zn_distill_result r;
    const try whole = { .teacher = "teacher.safetensors", .student = "student.yaml", .run = "whole", .threads = 2 };
    assert_int_equal(distill(whole, &r), ZN_OK);
    assert_int_equal(r.steps, 10);
    assert_true(isfinite(r.latent_error) && isfinite(r.decoder_psnr) && isfinite(r.psnr) && isfinite(r.teacher_psnr));
    try parts = whole;
    parts.run = "parts";
    parts.threads = 1;
    static const int64_t stops[] = { 2, 3, 5, 9 }; /* within stages, and where one ends */
    for (int i = 0; i < 4; i++) {
        parts.stop = stops[i];
        assert_int_equal(distill(parts, &r), ZN_ECANCELLED);
        assert_int_equal(r.steps, stops[i]);
        parts = (try){ .run = "parts", .threads = 1 + i % 2, .resume = 1 };
    }
    assert_int_equal(distill(parts, &r), ZN_OK);
    same_tensors(in_folder("whole/checkpoint.safetensors"), in_folder("parts/checkpoint.safetensors"));
    same_tensors(in_folder("whole/model.safetensors"), in_folder("parts/model.safetensors"));
    parts.steps = 20;
    assert_int_equal(distill(parts, &r), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "keep their lengths"));
}

static void metrics_tell_what_was_learned(void **state)
{
    (void)state;
    char text[1 << 14] = "";
    FILE *f = fopen(in_folder("whole/metrics.jsonl"), "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    static const char *const words[] = {
        "\"latent_error\"", "\"decoder_psnr\"",       "\"teacher_psnr\"",  "\"psnr\"",
        "\"stage\": 1",     "\"stage\": 4",           "\"loss/features\"", "\"loss/ssim\"",
        "\"loss/latent\"",  "\"loss/discriminator\"", "\"loss/judgement\""
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strstr(text, words[i]))
            fail_msg("metrics.jsonl has no %s", words[i]);
}

static void expect_model(const char *path, int encoder, int decoder)
{
    zn_model *m;
    assert_int_equal(zn_model_open(in_folder(path), &m), ZN_OK);
    const zn_model_info *i = zn_model_info_of(m);
    assert_string_equal(i->architecture, "zenith-r");
    assert_int_equal(i->latent_channels, 4);
    assert_int_equal(i->has_encoder, encoder);
    assert_int_equal(i->has_decoder, decoder);
    zn_model_free(m);
}

static void the_student_is_a_model(void **state)
{
    (void)state;
    expect_model("whole/model.safetensors", 1, 1);
}

static void half_a_teacher_teaches_what_it_can(void **state)
{
    (void)state;
    zn_distill_result r;
    try t = { .teacher = "half_encoder.safetensors", .student = "student.yaml", .run = "half", .threads = 2 };
    assert_int_equal(distill(t, &r), ZN_OK);
    assert_int_equal(r.steps, 3);
    assert_true(isfinite(r.latent_error) && isnan(r.psnr) && isnan(r.teacher_psnr));
    expect_model("half/model.safetensors", 1, 0);
    t.run = "half_more";
    t.steps = 5;
    assert_int_equal(distill(t, &r), ZN_OK);
    assert_int_equal(r.steps, 5); /* all of them go to the one stage there is */
    t.steps = 0;
    t.teacher = "other_decoder.safetensors";
    t.run = "other";
    assert_int_equal(distill(t, &r), ZN_OK);
    assert_int_equal(r.steps, 10);
    assert_true(isnan(r.latent_error) && isfinite(r.psnr) && isfinite(r.decoder_psnr));
    expect_model("other/model.safetensors", 1, 1);
}

static void a_narrow_teacher_of_its_own_kind(void **state)
{
    (void)state;
    write_text(in_folder("narrow.yaml"), "model: taesd\nwidth: 4\nbatch: 2\nsize: 16\nwarmup: 1\nheld_out: 20\n"
                                         "distill: {encoder: 6000, decoder: 9000, joint: 5000}\n");
    zn_distill_result r;
    const try t = {
        .teacher = "teacher.safetensors", .student = "narrow.yaml", .run = "narrow", .steps = 4, .threads = 2
    };
    assert_int_equal(distill(t, &r), ZN_OK);
    assert_int_equal(r.steps, 4); /* shared out as 1, 2, 1 */
    zn_model *m;
    assert_int_equal(zn_model_open(in_folder("narrow/model.safetensors"), &m), ZN_OK);
    assert_int_equal(m->config.width, 4);
    zn_model_free(m);
}

/* Prune's parameters have no part in their names. */
static void a_stage_trains_its_part_alone(void **state)
{
    (void)state;
    static const struct {
        const char *run, *stages;
        zn_part part;
    } cases[] = {
        { "prune_encoder", "distill: {encoder: 3, decoder: 0, joint: 0}\n", ZN_ENCODER },
        { "prune_decoder", "distill: {encoder: 0, decoder: 3, joint: 0}\n", ZN_DECODER },
        { "teacher_latents", /* all of them: nothing tells the encoder to change */
          "weight_decay: 0\nloss: {latent: 0}\ndistill: {encoder: 0, decoder: 0, joint: 3, teacher_latents: 1}\n",
          ZN_DECODER }
    };
    char data[128], text[300];
    snprintf(data, sizeof data, "%s/pictures", folder);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char run[128], path[192], student[128];
        snprintf(run, sizeof run, "%s/%s", folder, cases[i].run);
        snprintf(path, sizeof path, "%s/model.safetensors", run);
        snprintf(student, sizeof student, "%s", in_folder("prune.yaml"));
        snprintf(text, sizeof text, "model: zenith-hier\nbatch: 1\nsize: 32\nwarmup: 0\nema: 0\nheld_out: 20\n%s",
                 cases[i].stages);
        write_text(student, text);
        const zn_distill_options o = { .teacher = "random:zenith-hier-r",
                                       .student = student,
                                       .run = {
                                           .data = data, .folder = run, .compute = &(zn_options){ .threads = 2 } } };
        zn_distill_result r;
        assert_int_equal(zn_distill(&o, &r), ZN_OK);
        assert_int_equal(r.steps, 3);
        zn_model *m;
        assert_int_equal(zn_model_open(path, &m), ZN_OK);
        zn_config config = m->config;
        zn_model *start;
        assert_int_equal(zn_model_new(m->arch, &config, &start), ZN_OK);
        assert_int_equal(zn_model_random_part(start, ZN_ENCODER, ZN_RECIPE_SEED), ZN_OK);
        assert_int_equal(zn_model_random_part(start, ZN_DECODER, ZN_RECIPE_SEED), ZN_OK);
        int changed[2] = { 0 };
        for (int k = 0; k < start->count; k++) {
            const zn_model_parameter *p = &start->parameters[k], *q = zn_model_parameter_find(m, p->name);
            changed[p->part] += memcmp(p->data, q->data, sizeof(float) * (size_t)zn_shape_count(p->shape)) != 0;
        }
        if (!changed[cases[i].part] || changed[!cases[i].part])
            fail_msg("%s: %d tensors of the encoder changed, %d of the decoder", cases[i].run, changed[0], changed[1]);
        zn_model_free(start);
        zn_model_free(m);
    }
}

static zn_model *random_model(const char *name)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find(name, &known);
    zn_model *m;
    assert_int_equal(zn_model_new(arch, known, &m), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_ENCODER, 4), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_DECODER, 4), ZN_OK);
    return m;
}

static void expect_close(const zn_model_parameter *p, const zn_model_parameter *q)
{
    for (int64_t k = 0; k < zn_shape_count(p->shape); k++)
        if (!(fabsf(p->data[k] - q->data[k]) < 1e-6f))
            fail_msg("%s has other values than the teacher's", p->name);
}

/* Layers of the teacher's names and shapes have its values, whose rate may be another. A part that no stage trains is
 * not stored. */
static void a_student_starts_with_its_teacher(void **state)
{
    (void)state;
    zn_distill_result r;
    zn_model *teacher = random_model("taef2"), *m;
    write_part(teacher, "", in_folder("cut_teacher.safetensors"));
    write_text(in_folder("cut.yaml"),
               "model: zenith-f2\nwidth: 8\nlayers: 2\nbatch: 2\nsize: 32\nema: 0\nheld_out: 20\nwarmup: 0\n"
               "loss: {features: 0.5}\ndistill: {start: teacher, encoder: 2, decoder: 0, joint: 0, inherited_lr: 0}\n");
    const try t = { .teacher = "cut_teacher.safetensors", .student = "cut.yaml", .run = "cut", .threads = 2 };
    if (distill(t, &r) != ZN_OK)
        fail_msg("%s", zn_error_text());
    assert_int_equal(zn_model_open(in_folder("cut/model.safetensors"), &m), ZN_OK);
    assert_string_equal(m->config.name, "zenith-f2");
    assert_true(m->config.width == 8 && m->arch->layers(&m->config) == 2);
    assert_true(m->has[ZN_ENCODER] && !m->has[ZN_DECODER]);
    int same = 0;
    for (int i = 0; i < m->count; i++) {
        const zn_model_parameter *p = &m->parameters[i], *q = zn_model_parameter_find(teacher, p->name);
        if (q && zn_shape_equal(p->shape, q->shape)) {
            expect_close(p, q);
            same++;
        }
    }
    assert_int_equal(same, 51);
    zn_model_free(m);
    zn_model_free(teacher);
    write_text(in_folder("stranger.yaml"), "model: zenith-r\nsize: 16\ndistill: {start: teacher, encoder: 1}\n");
    const try stranger = { .teacher = "teacher.safetensors", .student = "stranger.yaml", .run = "never" };
    assert_int_equal(distill(stranger, &r), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "distill.start=fresh"));
}

static void mistakes_are_one_sentence(void **state)
{
    (void)state;
    zn_distill_result r;
    char data[128], run[128];
    snprintf(data, sizeof data, "%s/pictures", folder);
    snprintf(run, sizeof run, "%s/never", folder);
    static const struct {
        const char *teacher, *student, *word;
    } cases[] = {
        { "random:taesana", "zenith-r", "1/32" },
        { "random:taesd", "third.yaml", "0.5 of 3 images is not a whole number; a batch of 6 has 2 parts" },
        { "random:taesd", "nobody", "no student is called 'nobody'" },
        { "random:nobody", "zenith-r", "'nobody'" },
        { "random:zenith-restore", "zenith-r", "neither encoder nor decoder" },
        { NULL, "zenith-r", "a teacher and a student" },
    };
    write_text(in_folder("third.yaml"), "model: zenith-r\nwidth: 8\nbatch: 6\naccumulate: 2\nsize: 16\n"
                                        "distill: {encoder: 0, decoder: 0, joint: 1, teacher_latents: 0.5}\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const zn_distill_options o = {
            .teacher = cases[i].teacher,
            .student = strchr(cases[i].student, '.') ? in_folder(cases[i].student) : cases[i].student,
            .run = { .data = data, .folder = run, .compute = &(zn_options){ .threads = 1 } }
        };
        assert_int_not_equal(zn_distill(&o, &r), ZN_OK);
        if (!strstr(zn_error_text(), cases[i].word))
            fail_msg("'%s' does not say %s", zn_error_text(), cases[i].word);
    }
}

/* Sixty steps of the first stage bring the latents much nearer to the teacher's. */
static void the_encoder_learns(void **state)
{
    (void)state;
    write_text(in_folder("eager.yaml"),
               "model: zenith-r\nwidth: 8\nbatch: 2\nsize: 16\nwarmup: 3\nlr: 5e-3\nheld_out: 20\n"
               "distill: {encoder: 60, decoder: 0, joint: 0}\n");
    zn_distill_result early, late;
    try t = {
        .teacher = "half_encoder.safetensors", .student = "eager.yaml", .run = "early", .steps = 2, .threads = 2
    };
    assert_int_equal(distill(t, &early), ZN_OK);
    t.run = "late";
    t.steps = 0;
    assert_int_equal(distill(t, &late), ZN_OK);
    if (!(late.latent_error < 0.6 * early.latent_error))
        fail_msg("latent error %g %% after 2 steps, %g %% after 60", early.latent_error, late.latent_error);
}

/* Each allocation of making a trainer fails in turn: an error, no leak, no crash. */
static void memory_may_run_out(void **state)
{
    (void)state;
    zn_recipe r;
    const char *text = "size: 16\nloss: {features: 0.5, latent: 0.1, discriminator: 0.1, ssim: 1}\n";
    assert_int_equal(zn_recipe_parse(text, strlen(text), "test", &r), ZN_OK);
    zn_model *teacher, *m;
    zn_pool *pool;
    assert_int_equal(zn_model_open(in_folder("teacher.safetensors"), &teacher), ZN_OK);
    assert_int_equal(zn_model_open(in_folder("whole/model.safetensors"), &m), ZN_OK);
    assert_int_equal(zn_pool_new(1, &pool), ZN_OK);
    for (int goal = ZN_GOAL_AUTOENCODER; goal <= ZN_GOAL_JOINT; goal++) {
        zn_status status = ZN_ENOMEM;
        int tried = 0;
        for (int64_t nth = 1; status != ZN_OK; nth += 1 + nth / 6, tried++) {
            zn_trainer *t = NULL;
            const zn_trainer_options o = {
                .model = m, .teacher = teacher, .recipe = &r, .pool = pool, .goal = (zn_goal)goal, .batch = 1
            };
            zn_alloc_fail_at(nth);
            status = zn_trainer_new(&o, &t);
            zn_alloc_fail_at(0);
            if (status != ZN_OK && status != ZN_ENOMEM)
                fail_msg("goal %d, allocation %lld: %s", goal, (long long)nth, zn_error_text());
            zn_trainer_free(t);
        }
        assert_true(tried > 10);
    }
    zn_pool_free(pool);
    zn_model_free(m);
    zn_model_free(teacher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_resumed_distillation_gives_the_same_bits),
        cmocka_unit_test(metrics_tell_what_was_learned),
        cmocka_unit_test(the_student_is_a_model),
        cmocka_unit_test(half_a_teacher_teaches_what_it_can),
        cmocka_unit_test(a_narrow_teacher_of_its_own_kind),
        cmocka_unit_test(a_stage_trains_its_part_alone),
        cmocka_unit_test(a_student_starts_with_its_teacher),
        cmocka_unit_test(mistakes_are_one_sentence),
        cmocka_unit_test(the_encoder_learns),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests_name("distill", tests, set_up, files_tear_down);
}
