/* Restoring photos: a network removes noise, impulse noise, JPEG artefacts and blur. Also: generating these
 * degradations, and plain filters to compare with.
 *
 *     zn_model *m;
 *     zn_codec *c;
 *     zn_image *noisy, *clean;
 *     zn_model_find("zenith-restore", &m);
 *     zn_codec_new(m, NULL, &c);
 *     zn_image_read("noisy.png", NULL, &noisy);
 *     zn_restore(c, noisy, ZN_TASK_AUTO, &clean);
 *
 * Everything here works on images of any size and gives the same bits for any number of threads. */
#ifndef ZN_RESTORE_H
#define ZN_RESTORE_H

#include <zenith/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of degradation: a hint for the network. AUTO: the network detects it. JPEG: the same, because networks have
 * no hint for it; the task only selects what zn_eval measures. */
typedef enum zn_task { ZN_TASK_AUTO, ZN_TASK_DENOISE, ZN_TASK_IMPULSE, ZN_TASK_DEBLUR, ZN_TASK_JPEG } zn_task;

/* "auto", "denoise", "impulse", "deblur", "jpeg"; NULL for any other number, so that names can be listed. */
ZN_API const char *zn_task_name(int task);

/* The restored image, with the size and bits of the input. The codec's model must be a restorer
 * (zn_model_info.restores). Salt-and-pepper impulses are replaced by a filter before the network, unless the task is
 * DENOISE or DEBLUR. */
ZN_API ZN_MUST_USE zn_status zn_restore(zn_codec *codec, const zn_image *image, zn_task task, zn_image **out);

/* The image with `factor` (2 or 4) times its width and height, and its bits: enlarged by two with a bicubic filter and
 * sharpened by a network trained for that, such as zenith-upscale; 4 does it twice. */
ZN_API ZN_MUST_USE zn_status zn_upscale(zn_codec *codec, const zn_image *image, int factor, zn_image **out);

/* Degradations, in units of 8-bit files whatever the bits of the image. */
typedef enum zn_damage {
    ZN_DAMAGE_NONE,
    ZN_DAMAGE_GAUSSIAN, /* Gaussian noise; amount: standard deviation, of 255 */
    ZN_DAMAGE_SALT,     /* samples set to 0 or full scale; amount: percent */
    ZN_DAMAGE_RANDOM,   /* samples set to random values; amount: percent */
    ZN_DAMAGE_BLUR,     /* Gaussian blur; amount: standard deviation in pixels */
    ZN_DAMAGE_BOX,      /* mean of a square; amount: its odd side in pixels */
    ZN_DAMAGE_GREY,     /* Gaussian noise, the same in R, G and B; amount: standard deviation, of 255 */
    ZN_DAMAGE_JPEG,     /* saved as JPEG with 4:2:0 chroma; amount: quality. Needs a build with JPEG. */
    ZN_DAMAGE_JPEG444,  /* the same with full chroma */
    ZN_DAMAGE_SCALE,    /* reduced and enlarged again, both bicubic; amount: factor, 2 */
    ZN_DAMAGE_WEBP,     /* saved as lossy WebP; amount: quality. Needs a build with WebP. */
} zn_damage;

typedef struct zn_corruption {
    zn_damage damage;
    double amount;
    zn_damage then; /* applied to the result; NONE: nothing */
    double then_amount;
} zn_corruption;

/* Reads "gaussian:25", "grey:25", "salt:5", "random:10", "blur:1.5", "box:5", "jpeg:25", "jpeg444:25", "webp:25",
 * "scale:2", "none", or two of them one after the other: "gaussian:20+jpeg:90". */
ZN_API ZN_MUST_USE zn_status zn_corruption_parse(const char *text, zn_corruption *out);
/* The inverse; returns text. */
ZN_API const char *zn_corruption_text(zn_corruption c, char text[32]);
/* The task for a degradation; for two, that of the first. AUTO for none and for scaling. */
ZN_API zn_task zn_corruption_task(zn_corruption c);
/* Degradations with which a task is evaluated: call it with index 0, 1, ... until it returns 0. */
ZN_API int zn_corruption_of_task(zn_task task, int index, zn_corruption *out);

/* The degraded image, rounded to the bits of the input. The same seed gives the same image. */
ZN_API ZN_MUST_USE zn_status zn_corrupt(const zn_image *image, zn_corruption c, uint64_t seed, zn_image **out);

/* Filters to compare with. */
typedef enum zn_filter_kind {
    ZN_FILTER_MEAN,   /* of 3x3; strength: side, 0 means 3 */
    ZN_FILTER_MEDIAN, /* of 3x3; strength: side, 3 or 5, 0 means 3 */
    ZN_FILTER_NLM,    /* non-local means; strength: standard deviation of the noise, of 255 */
} zn_filter_kind;

/* threads 0: one for each CPU. */
ZN_API ZN_MUST_USE zn_status zn_filter(const zn_image *image, zn_filter_kind kind, double strength, int threads,
                                       zn_image **out);
/* "mean", "median", "nlm"; NULL for any other number. */
ZN_API const char *zn_filter_name(int kind);

#ifdef __cplusplus
}
#endif
#endif
