/* Restoring photos: noise, wrong pixels and blur taken out by a network; the same damage made on purpose, and the plain
 * filters that a network has to beat.
 *
 *     zn_model *m;
 *     zn_codec *c;
 *     zn_image *noisy, *clean;
 *     zn_model_find("zenith-restore", &m);
 *     zn_codec_new(m, NULL, &c);
 *     zn_image_read("noisy.png", NULL, &noisy);
 *     zn_restore(c, noisy, ZN_TASK_AUTO, &clean);
 *
 * Everything here works on pictures of any size and gives the same bits for any number of threads. */
#ifndef ZN_RESTORE_H
#define ZN_RESTORE_H

#include <zenith/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is wrong with a picture: a hint for the network. AUTO lets it see for itself. */
typedef enum zn_task { ZN_TASK_AUTO, ZN_TASK_DENOISE, ZN_TASK_IMPULSE, ZN_TASK_DEBLUR } zn_task;

/* "auto", "denoise", "impulse", "deblur"; NULL for any other number, so names can be listed. */
ZN_API const char *zn_task_name(int task);

/* The restored picture, of the size and bits of the input. The codec's model must be a restorer
 * (zn_model_info.restores). */
ZN_API ZN_MUST_USE zn_status zn_restore(zn_codec *codec, const zn_image *image, zn_task task, zn_image **out);

/* Damage, in units of 8-bit files whatever the bits of the picture. */
typedef enum zn_damage {
    ZN_DAMAGE_NONE,
    ZN_DAMAGE_GAUSSIAN, /* normal noise; amount: deviation of 255 */
    ZN_DAMAGE_SALT,     /* samples that become 0 or full; amount: percent of them */
    ZN_DAMAGE_RANDOM,   /* samples that become any value; amount: percent of them */
    ZN_DAMAGE_BLUR,     /* Gaussian blur; amount: deviation in pixels */
    ZN_DAMAGE_BOX,      /* mean of a square; amount: its odd side in pixels */
} zn_damage;

typedef struct zn_corruption {
    zn_damage damage;
    double amount;
} zn_corruption;

/* Reads "gaussian:25", "salt:5", "random:10", "blur:1.5", "box:5" or "none". */
ZN_API ZN_MUST_USE zn_status zn_corruption_parse(const char *text, zn_corruption *out);
/* The same the other way; returns text. */
ZN_API const char *zn_corruption_text(zn_corruption c, char text[32]);
/* The task that a damage belongs to; AUTO for none. */
ZN_API zn_task zn_corruption_task(zn_corruption c);
/* Damages that a task is judged by: index 0, 1, ... until it returns 0. */
ZN_API int zn_corruption_of_task(zn_task task, int index, zn_corruption *out);

/* The picture damaged, rounded to its own bits as a file would be. The same seed gives the same picture. */
ZN_API ZN_MUST_USE zn_status zn_corrupt(const zn_image *image, zn_corruption c, uint64_t seed, zn_image **out);

/* Filters to compare with. */
typedef enum zn_filter_kind {
    ZN_FILTER_MEAN,   /* of 3x3; strength: side, 0 means 3 */
    ZN_FILTER_MEDIAN, /* of 3x3; strength: side, 3 or 5, 0 means 3 */
    ZN_FILTER_NLM,    /* non-local means; strength: deviation of the noise, of 255 */
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
