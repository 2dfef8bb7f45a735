/* Training: from a folder of pictures to weights in use.
 *
 *     zn_train_options o = { .recipe = "zenith-r", .data = "photos", .run = "runs/first" };
 *     zn_train_result r;
 *     zn_train(&o, &r);                    // writes runs/first/model.safetensors and everything beside it
 *
 * The run folder holds the recipe as used (recipe.yaml), metrics.jsonl, a TensorBoard event file, sample pictures,
 * report.html, checkpoint.safetensors to continue from and model.safetensors to use. A run stopped at any moment can be
 * continued from its last checkpoint and then gives the same bits as one that was never stopped. */
#ifndef ZN_TRAIN_H
#define ZN_TRAIN_H

#include <stdint.h>
#include <zenith/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_train_progress {
    int64_t step, steps;
    double loss; /* of the last step */
    double lr;
    double images_per_second; /* mean of this call */
    double seconds_left;
    double waited;    /* share of the time spent waiting for pictures */
    double eval_psnr; /* dB on held-out pictures, last evaluation; 0 before the first */
} zn_train_progress;

typedef struct zn_train_options {
    const char *recipe; /* a preset or a .yaml file; with resume NULL means the run's own */
    const char *data;   /* a folder of pictures (with subfolders) or an .lmdb data set */
    const char *run;    /* folder of the run; must be new or empty unless resume */
    int resume;         /* continue from the run's last checkpoint, or from the start if it was cut off before one */
    int64_t steps;      /* 0: the recipe's */
    int threads;        /* 0: one for each CPU */
    /* Called after every step; non-zero stops: the state is saved and ZN_ECANCELLED returned. May be NULL. */
    int (*progress)(void *user, const zn_train_progress *progress);
    void *user;
} zn_train_options;

typedef struct zn_train_result {
    int64_t steps;
    double loss, eval_psnr, seconds;
    double waited; /* share of the steps' time spent waiting for pictures */
} zn_train_result;

/* ZN_ENUMERIC: NaN or infinity; the sentence names the layer and the state before it is kept. */
ZN_API ZN_MUST_USE zn_status zn_train(const zn_train_options *options, zn_train_result *out);

/* Presets: name and one line of description; NULL after the last. */
ZN_API const char *zn_train_preset(int index, const char **description);

#ifdef __cplusplus
}
#endif
#endif
