/* Evaluating models on images: quality of a round trip, or of restoration after degradation.
 *
 *     zn_eval_options o = { .data = "kodak" };
 *     zn_eval_result r;
 *     zn_eval(model, &o, &r);
 *     printf("%.2f dB over %lld images\n", r.groups[0].model.psnr, (long long)r.groups[0].pictures);
 *     zn_eval_write("kodak.csv", &r);
 *     zn_eval_result_clear(&r);
 *
 * Scores compare the 8-bit RGB values, as zn_image_compare does. */
#ifndef ZN_EVAL_H
#define ZN_EVAL_H

#include <zenith/dataset.h>
#include <zenith/ranks.h>
#include <zenith/restore.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ZN_SCORE_BANDS = 3, ZN_LPIPS_NETWORKS = 2 };

/* A score is NaN if there is nothing to measure. docs/scores.md says what each is good for. */
typedef struct zn_scores {
    double psnr;    /* dB; infinity for equal images */
    double ssim;    /* as zn_image_compare */
    double ms_ssim; /* five scales; NaN for sides below 176 */
    /* Perceptual distance (LPIPS v0.1, 0 for equal images) with AlexNet and with SqueezeNet; NaN without their weights
     * and for sides below 64. Images with a side above 2048 are measured in pieces, averaged by area. */
    double lpips_alex, lpips_squeeze;
    /* Energy of detail as a share of the original's, of luma and of chroma, finest scale first: below 1 detail is lost,
     * above 1 there is noise or invented texture. NaN where the original has none. */
    double luma_kept[ZN_SCORE_BANDS], chroma_kept[ZN_SCORE_BANDS];
    /* Of clips: mean absolute difference, in 8-bit steps, of the changes from frame to frame and those of the original;
     * the other scores are then means over frames. NaN for images. */
    double flicker;
    /* Images whose PSNR is infinite: 0 or 1 for a single image. The mean leaves them out; it is infinite if all are. */
    int64_t psnr_infinite;
} zn_scores;

/* Which networks measure LPIPS. AUTO: all whose weights are found (zn_model_find) under the names lpips-alex and
 * lpips-squeeze; the latter come with the program. */
typedef enum zn_lpips { ZN_LPIPS_AUTO, ZN_LPIPS_NONE, ZN_LPIPS_ALEX, ZN_LPIPS_SQUEEZE } zn_lpips;
/* "auto", "none", "alex", "squeeze"; NULL for any other number. */
ZN_API const char *zn_lpips_name(int lpips);

/* Scores of pairs of images:
 *
 *     zn_scorer *s;
 *     zn_scores scores;
 *     zn_scorer_new(ZN_LPIPS_AUTO, NULL, &s);
 *     zn_scorer_compare(s, original, result, &scores);
 *     zn_scorer_free(s);
 *
 * The network runs on the CPU with the threads of `compute`, which may be NULL. A scorer is used by one thread at a
 * time. */
typedef struct zn_scorer zn_scorer;
ZN_API ZN_MUST_USE zn_status zn_scorer_new(zn_lpips lpips, const zn_options *compute, zn_scorer **out);
ZN_API ZN_MUST_USE zn_status zn_scorer_compare(zn_scorer *scorer, const zn_image *original, const zn_image *result,
                                               zn_scores *out);
ZN_API void zn_scorer_free(zn_scorer *scorer);

/* What a restorer is compared with. */
typedef enum zn_eval_plain {
    ZN_PLAIN_DAMAGED, /* the degraded image itself */
    ZN_PLAIN_MEAN,    /* 3x3 */
    ZN_PLAIN_MEDIAN,  /* 3x3 */
    ZN_PLAIN_NLM,     /* non-local means, given the standard deviation of the noise; only on request */
    ZN_PLAIN_COUNT
} zn_eval_plain;
ZN_API const char *zn_eval_plain_name(int plain); /* "damaged", "mean", "median", "nlm" */

typedef struct zn_eval_row {
    char *name;      /* of the image */
    char damage[32]; /* "gaussian:25"; "" for a round trip, except that of a diffusion autoencoder: zn_trip_name */
    int width, height;
    double ms; /* of the model: encoder and decoder together, or the restorer */
    zn_scores model, plain[ZN_PLAIN_COUNT];
} zn_eval_row;

/* Means over the images with one degradation, or one kind of round trip. */
typedef struct zn_eval_group {
    char damage[32];
    int64_t pictures;
    double ms;
    zn_scores model, plain[ZN_PLAIN_COUNT];
    double fid; /* distance of the set of results from the set of originals, as zn_fid; NaN if not asked for */
} zn_eval_group;

enum { ZN_EVAL_GROUPS = 16 };

typedef struct zn_eval_options {
    const char *data;          /* a folder of images or an .lmdb data set */
    const zn_options *compute; /* how the model is run, NULL: defaults; its progress and user are ignored */
    /* Restorers: the hint given to the network. With damage NONE it also selects the degradations that are tried: those
     * of zn_corruption_of_task, of every task for AUTO. */
    zn_task task;
    zn_corruption damage;
    uint64_t seed;           /* of the degradation */
    int held_out;            /* percent: only images that training with this value holds out; 0: all */
    int nlm;                 /* also non-local means, which is slow */
    zn_lpips lpips;          /* of the model, and of degraded images; of plain filters it is not measured */
    int clips;               /* the data are clips (zn_dataset_build), for a model that supports video */
    int fid;                 /* also the distance of the sets (zn_fid); only in one process */
    zn_skipped_fn skipped;   /* called for images that could not be evaluated; may be NULL */
    zn_ranks *ranks;         /* processes that share the work; rank 0 gets the result. NULL: one process */
    zn_progress_fn progress; /* may be NULL */
    void *user;
} zn_eval_options;

typedef struct zn_eval_result {
    char architecture[64];
    char data[256];
    char varied[16]; /* what the rows of an image differ in: "damage", "noise"; "": an image has one row */
    zn_eval_row *rows;
    int64_t row_count;
    zn_eval_group groups[ZN_EVAL_GROUPS];
    int group_count;
    int64_t failed; /* images that could not be evaluated */
    double seconds;
} zn_eval_result;

/* Round trips for an autoencoder; degradation and restoration for a restorer. An image that fails does not stop the
 * others; if all fail, the call fails. Ranks other than 0 get no rows. */
ZN_API ZN_MUST_USE zn_status zn_eval(const zn_model *model, const zn_eval_options *options, zn_eval_result *out);
ZN_API void zn_eval_result_clear(zn_eval_result *result);

/* Rows and means as .csv or .json, by the extension. The file appears whole or not at all. */
ZN_API ZN_MUST_USE zn_status zn_eval_write(const char *path, const zn_eval_result *result);

/* How far two sets of images are from each other: the Frechet distance of features of EfficientNet-Lite0. It is made
 * like the FID of papers but with another network, so that values compare only with each other. Sets should have more
 * than a thousand images, of the same size in both. Needs the weights of efficientnet-lite0 (docs/scores.md). */
typedef struct zn_fid_options {
    const char *data[2];       /* folders of images or .lmdb data sets */
    const zn_options *compute; /* threads; NULL: defaults */
    zn_skipped_fn skipped;     /* called for images that could not be used; may be NULL */
    zn_progress_fn progress;   /* may be NULL */
    void *user;
} zn_fid_options;
typedef struct zn_fid_result {
    double fid;
    int64_t images[2]; /* that were used */
} zn_fid_result;
ZN_API ZN_MUST_USE zn_status zn_fid(const zn_fid_options *options, zn_fid_result *out);

/* Block gates of an encoder: how much they prune on these images, and the time of each layer. */
typedef struct zn_gate_row {
    char layer[96];
    double ms;     /* mean over the images */
    double share;  /* of the encoder's time */
    double pruned; /* fraction of its work that gates skip; NaN for a layer without a gate */
} zn_gate_row;

typedef struct zn_gate_result {
    zn_gate_row *rows; /* layers in execution order */
    int row_count;
    int64_t pictures, failed;
    double ms; /* of the encoder, mean */
} zn_gate_result;

/* Uses data, compute, held_out, skipped, progress and user of the options. ZN_EUNSUPPORTED if the model has no gates.
 */
ZN_API ZN_MUST_USE zn_status zn_eval_gates(const zn_model *model, const zn_eval_options *options, zn_gate_result *out);
ZN_API void zn_gate_result_clear(zn_gate_result *result);

/* ---- nearest images ---- */

typedef struct zn_nearest_options {
    const char *data;          /* a folder of images or an .lmdb data set */
    const zn_options *compute; /* NULL: defaults; its progress and user are ignored */
    zn_skipped_fn skipped;     /* called for images that could not be used; may be NULL */
    zn_progress_fn progress;   /* may be NULL */
    void *user;
} zn_nearest_options;

/* An image of the data, and the distance of its features. */
typedef struct zn_neighbour {
    char name[256];
    double distance;
} zn_neighbour;

/* Finds the image of a data set nearest to each of `count` images, by features of EfficientNet-Lite0, to see whether
 * they are copies. found: an array of `count`. pictures: NULL, or an array of `count` that receives the images found,
 * which the caller frees. */
ZN_API ZN_MUST_USE zn_status zn_nearest(const zn_nearest_options *options, int count, zn_image *const *images,
                                        zn_neighbour *found, zn_image **pictures);

#ifdef __cplusplus
}
#endif
#endif
