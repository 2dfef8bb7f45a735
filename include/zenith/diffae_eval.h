/* Judging diffusion autoencoders and plain diffusion models: round trips, attributes, edits and samples.
 *
 *     zn_diffae_eval_options o = { .data = "faces.lmdb", .held_out = 4, .labels = "faces.csv", .samples = 64 };
 *     zn_diffae_eval_result r;
 *     zn_diffae_eval(model, &o, &r);
 *     printf("%.2f dB\n", r.trips.groups[ZN_TRIP_INVERTED].model.psnr);
 *     zn_diffae_eval_clear(&r); */
#ifndef ZN_DIFFAE_EVAL_H
#define ZN_DIFFAE_EVAL_H

#include <zenith/eval.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where the noise of a round trip comes from: the image itself (zn_diffae_invert), or the seed (zn_diffae_noise), so
 * that the result shows what the condition alone holds. */
typedef enum zn_trip { ZN_TRIP_INVERTED, ZN_TRIP_RANDOM, ZN_TRIP_COUNT } zn_trip;
ZN_API const char *zn_trip_name(int trip); /* "inverted", "random" */

typedef struct zn_diffae_eval_options {
    const char *data;          /* a folder of images or an .lmdb data set */
    const zn_options *compute; /* NULL: defaults; its progress and user are ignored */
    int held_out;              /* percent: only images that training with this value holds out; 0: all */
    int most;                  /* round trips of at most this many images; 0: of all */
    int steps, encode_steps;   /* of a sampler, and of the inversion; 0: 20 and 100 */
    const char *labels;        /* attributes of the images, as training reads them; NULL: none are judged */
    const char *attribute;     /* the only one to edit; NULL: all that labels name */
    int edits;                 /* images to edit for each attribute; 0: none */
    double amount;             /* of an edit; 0: 0.3 */
    int samples, latent_steps; /* new images to draw, and steps of the latent net; 0: none, 200 */
    uint64_t seed;             /* of random noise and samples */
    zn_lpips lpips;
    zn_skipped_fn skipped;   /* called for images that could not be used; may be NULL */
    zn_progress_fn progress; /* may be NULL */
    void *user;
} zn_diffae_eval_options;

typedef struct zn_diffae_eval_attribute {
    char name[64];
    int64_t with, without;   /* images that are known to have it, and to lack it */
    double auroc, low, high; /* of the classifier, and its 95 % interval (Newcombe 2006) */
    /* Images are moved towards having it if the classifier says that they lack it, and away from it otherwise. */
    int64_t edited;
    double before,
        after;       /* mean probability of what they are moved to: of the images, and of the results, encoded again */
    double likeness; /* mean cosine of the features of image and result */
    double recognised; /* share of results whose nearest of the images, by features, is the one they were made of */
} zn_diffae_eval_attribute;

/* Figures are NaN where there is nothing to measure: without labels or samples; and those that need features, without
 * the weights of efficientnet-lite0 (docs/scores.md). */
typedef struct zn_diffae_eval_result {
    zn_eval_result trips; /* round trips; groups[zn_trip], RANDOM only of models with conditions. fid: from all data */
    zn_diffae_eval_attribute *attributes;
    int attribute_count;
    int64_t edited; /* images, over all attributes */
    double edit_fid;
    int sample_count;
    double sample_fid;
    zn_neighbour *nearest; /* [sample_count]; NULL without features */
    double held_distance;  /* median distance of a held-out image to its nearest among those trained on; NaN without */
} zn_diffae_eval_result;

ZN_API ZN_MUST_USE zn_status zn_diffae_eval(const zn_model *model, const zn_diffae_eval_options *options,
                                            zn_diffae_eval_result *out);
ZN_API void zn_diffae_eval_clear(zn_diffae_eval_result *result);

#ifdef __cplusplus
}
#endif
#endif
