/* Training: from a folder of pictures to weights in use.
 *
 *     zn_train_options o = { .recipe = "zenith-r", .run = { .data = "photos", .folder = "runs/first" } };
 *     zn_train_result r;
 *     zn_train(&o, &r);                    // writes runs/first/model.safetensors and everything beside it
 *
 * The run folder holds the recipe as used (recipe.yaml), which pictures (data.jsonl), how it was begun (origin.json),
 * metrics.jsonl, a TensorBoard event file, sample pictures, report.html, checkpoint.safetensors to continue from and
 * model.safetensors to use. A run stopped at any moment can be continued from its last checkpoint and then gives the
 * same bits as one that was never stopped. */
#ifndef ZN_TRAIN_H
#define ZN_TRAIN_H

#include <stdint.h>
#include <zenith/dataset.h>
#include <zenith/ranks.h>
#include <zenith/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_train_progress {
    int64_t step, steps; /* of all stages */
    const char *stage;   /* "train"; of a distillation "encoder", "decoder", "joint", "gan" */
    int stage_number, stage_count;
    double loss, lr;          /* of the last step */
    double images_per_second; /* mean of this call */
    double seconds_left;
    double waited;      /* share of the time spent waiting for pictures */
    double eval_psnr;   /* dB on held-out pictures, last evaluation; NaN before the first */
    double eval_pruned; /* share of the blocks that the gates of a network which has some shut there; else NaN */
    /* Before the first step of what learns from conditions: pictures encoded by this rank, and of how many; then 0. */
    int64_t encoded, to_encode;
} zn_train_progress;

/* What zn_train and zn_distill have in common. */
typedef struct zn_run_options {
    const char *data;   /* a folder of pictures (with subfolders) or an .lmdb data set */
    const char *folder; /* of the run; must be new or empty unless resume */
    const char *from;   /* weights to train further, by name, file or folder; NULL: the recipe's, or fresh values */
    /* Continue from the run's last checkpoint, or from the start if it was cut off before one. What options said at
     * first stays and need not be said again. If the call asks for something else (a recipe, `from`, seed, precision,
     * or a teacher or labels that hold something else) it fails. */
    int resume;
    const int64_t *seed; /* of start values, order and crops, 0 to 9e15; NULL: the recipe's */
    /* 0: the recipe's; with resume not fewer than are done. Of a distillation those of all stages, shared out as the
     * recipe does; with resume the run's own. */
    int64_t steps;
    /* Settings of the recipe to change, such as "lr=1e-3" or "loss.l1=0.5"; ends with NULL. NULL: none */
    const char *const *settings;
    int threads;     /* 0: one for each CPU; of this process when there are several */
    zn_ranks *ranks; /* processes that share the work; only rank 0 writes. NULL: alone */
    /* Called after every step, on every rank; non-zero on any of them stops: the state is saved and ZN_ECANCELLED
     * returned. May be NULL. */
    int (*progress)(void *user, const zn_train_progress *progress);
    /* Asked many times within a step, so it must be quick; non-zero stops as above, the unfinished step is forgotten.
     * May be NULL. */
    int (*stop)(void *user);
    /* Told once, on rank 0, of each picture that could not be read; the next one takes its place. May be NULL. */
    zn_skipped_fn skipped;
    /* Called on rank 0 with a sentence: the recipe's held_out holds out no image; or a resumed run has other images
     * than before (the same ones in another place are not), or a number of ranks that adds up in another order, and so
     * will not be like one that was never stopped. May be NULL. */
    void (*remark)(void *user, const char *sentence);
    void *user;
} zn_run_options;

typedef struct zn_train_options {
    const char *recipe;    /* a preset or a .yaml file; with resume NULL or the run's own */
    const char *labels;    /* of a classifier, file with attributes of the pictures; NULL: the recipe's */
    const char *precision; /* of the convolutions, "f32" or "bf16"; NULL: the recipe's */
    zn_run_options run;
} zn_train_options;

typedef struct zn_train_result {
    int64_t first;      /* step that this call began with: 0, or that of the checkpoint */
    int64_t steps;      /* step that it ended with; the same if there was nothing left to do */
    int64_t skipped;    /* pictures that could not be read */
    double loss;        /* of the last step; NaN before the first */
    double eval_psnr;   /* dB on held-out pictures, last evaluation; NaN if there are none */
    double eval_pruned; /* share of the blocks that the gates of a network which has some shut there; else NaN */
    /* Of what learns from conditions, likewise; else NaN. A classifier has shares of right answers, and the area under
     * the curve of right over wrong ones, mean over attributes. */
    double eval_loss, eval_accuracy, eval_auroc;
    double bf16; /* share of the operations that were computed in bf16, where it was asked for; else NaN */
    double seconds;
    double waited; /* share of the steps' time spent waiting for pictures */
} zn_train_result;

/* ZN_ENUMERIC: NaN or infinity; the sentence names the layer, and the state before that step is saved. */
ZN_API ZN_MUST_USE zn_status zn_train(const zn_train_options *options, zn_train_result *out);

/* Presets: name and one line of description; NULL after the last. */
ZN_API const char *zn_train_preset(int index, const char **description);

/* A preset or .yaml file as YAML with every setting written out, changed by `settings` (as in zn_run_options); free
 * *yaml with zn_memory_free. */
ZN_API ZN_MUST_USE zn_status zn_train_recipe(const char *recipe, const char *const *settings, char **yaml);

/* Distillation: a small model for the latent space of a teacher.
 *
 *     zn_distill_options o = { .teacher = "taef2", .student = "zenith-r", .run = { .data = "photos",
 *                              .folder = "runs/small" } };
 *     zn_distill_result r;
 *     zn_distill(&o, &r);                  // runs/small/model.safetensors
 *
 * In stages: the encoder learns the teacher's latents; the decoder learns the teacher's pictures and activations from
 * disturbed latents; both learn the pictures themselves while latents stay near the teacher's; a discriminator may
 * sharpen the end. A teacher with an encoder alone teaches an encoder. The run folder is that of zn_train. */
typedef struct zn_distill_options {
    const char *teacher; /* weights by name, file or folder; with resume NULL means the run's own, as below */
    const char *student; /* a preset or a .yaml file */
    zn_run_options run;
} zn_distill_options;

/* On held-out pictures; NaN where there was nothing to measure. */
typedef struct zn_distill_result {
    int64_t first, steps, skipped; /* as in zn_train_result */
    double loss, seconds;
    double latent_error; /* mean square difference of latents to the teacher's, % of their variance */
    double decoder_psnr; /* dB, to the teacher's picture of the same latents */
    double psnr;         /* dB, of the student's reconstructions */
    double teacher_psnr; /* dB, of the teacher's own */
} zn_distill_result;

ZN_API ZN_MUST_USE zn_status zn_distill(const zn_distill_options *options, zn_distill_result *out);

/* Students: as zn_train_preset. */
ZN_API const char *zn_distill_student(int index, const char **description);
/* As zn_train_recipe. */
ZN_API ZN_MUST_USE zn_status zn_distill_recipe(const char *student, const char *const *settings, char **yaml);

#ifdef __cplusplus
}
#endif
#endif
