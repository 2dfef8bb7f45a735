/* Training: from a folder of images to a usable model.
 *
 *     zn_train_options o = { .recipe = "zenith-r", .run = { .data = "photos", .folder = "runs/first" } };
 *     zn_train_result r;
 *     zn_train(&o, &r);                    // writes runs/first/model.safetensors and more
 *
 * The run folder contains the recipe as used (recipe.yaml), the data (data.jsonl), how the run was started
 * (origin.json), metrics.jsonl, a TensorBoard event file, sample images, report.html, checkpoint.safetensors to resume
 * from and model.safetensors to use. A run stopped at any moment can be resumed from its last checkpoint and then gives
 * the same bits as an uninterrupted one. */
#ifndef ZN_TRAIN_H
#define ZN_TRAIN_H

#include <stdint.h>
#include <zenith/dataset.h>
#include <zenith/options.h>
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
    double waited;      /* share of the time spent waiting for images */
    double eval_psnr;   /* dB on held-out images, last evaluation; NaN before the first */
    double eval_pruned; /* share of the blocks that block gates skip there; NaN for a network without gates */
    /* Tasks that learn from conditions: images encoded so far by this rank, and their total; 0 after the first step. */
    int64_t encoded, to_encode;
} zn_train_progress;

/* Options of zn_train and zn_distill. */
typedef struct zn_run_options {
    /* A folder of images (with subfolders) or an .lmdb data set; of recipes with frames, of clips. NULL with resume:
     * those that the run had. */
    const char *data;
    const char *folder; /* of the run; must be new or empty unless resume */
    const char *from;   /* weights to start from: name, file or folder; NULL: the recipe's, or random ones */
    /* Resume from the run's last checkpoint, or from the start if there is none. The run keeps its original options,
     * which need not be repeated. If the call asks for something else (a recipe, `from`, seed, precision, or a teacher
     * or labels with other contents) it fails. */
    int resume;
    const int64_t *seed; /* for initial weights, order and crops, 0 to 9e15; NULL: the recipe's */
    /* 0: the recipe's; with resume at least as many as are done. In a distillation the total of all stages, divided as
     * in the recipe; with resume the run's own. */
    int64_t steps;
    /* Settings of the recipe to change, such as "lr=1e-3" or "loss.l1=0.5"; ends with NULL. NULL: none */
    const char *const *settings;
    /* NULL: defaults. Its context, threads (of this process when there are several), device (NULL: the CPU, or the
     * device that a resumed run had) and, for zn_train, precision count; training computes in f32, bf16 or f16. */
    const zn_options *compute;
    zn_ranks *ranks; /* processes that share the work; only rank 0 writes. NULL: alone */
    /* Called after every step, on every rank; non-zero on any of them stops the run: the state is saved and
     * ZN_ECANCELLED returned. May be NULL. */
    int (*progress)(void *user, const zn_train_progress *progress);
    /* Called many times within a step, so it must be fast; non-zero stops as above and discards the unfinished step.
     * May be NULL. */
    int (*stop)(void *user);
    /* Called once, on rank 0, for each unreadable image; the next one takes its place. May be NULL. */
    zn_skipped_fn skipped;
    /* Called on rank 0 with a sentence: the recipe's held_out holds out no image; or a resumed run has other images
     * than before (the same ones in another place are not), or a number of ranks that adds up in another order, and so
     * will not be like one that was never stopped. May be NULL. */
    void (*remark)(void *user, const char *sentence);
    void *user;
} zn_run_options;

typedef struct zn_train_options {
    const char *recipe; /* a preset or a .yaml file; with resume NULL or the run's own */
    const char *labels; /* of a classifier, file with attributes of the images; NULL: the recipe's */
    zn_run_options run;
    const char *captions; /* of a generator, CSV file with columns file and caption; NULL: the recipe's */
} zn_train_options;

typedef struct zn_train_result {
    int64_t first;      /* step at which this call started: 0, or that of the checkpoint */
    int64_t steps;      /* step at which it ended; the same if nothing was left to do */
    int64_t skipped;    /* unreadable images */
    double loss;        /* of the last step; NaN before the first */
    double eval_psnr;   /* dB on held-out images, last evaluation; NaN if there are none */
    double eval_pruned; /* share of the blocks that block gates skip there; NaN for a network without gates */
    /* Tasks that learn from conditions, likewise; else NaN. A classifier has accuracy and the area under the ROC curve,
     * mean over attributes. */
    double eval_loss, eval_accuracy, eval_auroc;
    double bf16; /* share of the operations computed in the precision below, if it has 16 bits; else NaN */
    double seconds;
    double waited;          /* share of the steps' time spent waiting for images */
    zn_precision precision; /* of the run */
} zn_train_result;

/* ZN_ENUMERIC: NaN or infinity; the message names the layer, and the state before that step is saved. */
ZN_API ZN_MUST_USE zn_status zn_train(const zn_train_options *options, zn_train_result *out);

/* Fails as zn_train would for a mistake in the recipe and its settings, with the same sentence. Reads neither images
 * nor weights, and says nothing about data, folder and device. */
ZN_API ZN_MUST_USE zn_status zn_train_check(const zn_train_options *options);

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
 * In stages: the encoder learns the teacher's latents; the decoder learns the teacher's images and activations from
 * noisy latents; both learn the original images while latents stay near the teacher's; optionally a discriminator
 * sharpens the result. A teacher without decoder teaches an encoder. The run folder is like that of zn_train. */
typedef struct zn_distill_options {
    const char *teacher; /* weights by name, file or folder; with resume NULL means the run's own, as below */
    const char *student; /* a preset or a .yaml file */
    zn_run_options run;
    int clips; /* learn from clips: of 17 frames, unless the recipe has `frames` */
} zn_distill_options;

/* On held-out images; NaN if there was nothing to measure. */
typedef struct zn_distill_result {
    int64_t first, steps, skipped; /* as in zn_train_result */
    double loss, seconds;
    double latent_error; /* mean square difference of latents to the teacher's, % of their variance */
    double decoder_psnr; /* dB, to the teacher's image of the same latents */
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
