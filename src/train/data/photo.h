/* Damage as real photos have it, for training restorers: blur, scaling, noise of several kinds, impulses and JPEG,
 * alone and one after the other; some images stay clean, so that the network learns to leave them alone.
 *
 *     zn_photo_draw d = zn_photo_draw_of(seed, &recipe.damage);       // what to do, drawn for one image
 *     ZN_TRY(zn_photo_damage(clean, 128, 128, &d, damaged));          // [H,W,3] in [0,1], rounded to 8 bits
 *
 * The seed alone decides the bits, with one version of libjpeg. */
#ifndef ZN_TRAIN_PHOTO_H
#define ZN_TRAIN_PHOTO_H

#include <stdbool.h>
#include <stdint.h>
#include <zenith/restore.h>

/* What a recipe says about damage. */
typedef enum zn_damage_kind {
    ZN_DAMAGE_MIX_PLAIN,  /* one damage at a time: zn_draw_training (corrupt.h) */
    ZN_DAMAGE_MIX_PHOTO,  /* as below */
    ZN_DAMAGE_MIX_UPSCALE /* reduced by two and enlarged: halve.h */
} zn_damage_kind;
typedef struct zn_damage_mix {
    zn_damage_kind kind;
    double clean; /* share of images that are not damaged */
    /* Shares of the damaged images with one damage alone, beside those that have it anyway; 0 changes no draw. */
    double independent; /* normal noise, independent in each channel */
    double impulses;
    double blur;
    double grey;  /* share of images that become grey before */
    double noise; /* largest deviation, of 255 */
    int quality;  /* least JPEG quality; the largest is 95 */
} zn_damage_mix;

typedef enum zn_noise_style {
    ZN_NOISE_RGB,    /* independent in each channel */
    ZN_NOISE_GREY,   /* the same in R, G and B */
    ZN_NOISE_CHROMA, /* stronger in chroma than in luma, as cameras leave it */
    ZN_NOISE_CLUMPS, /* independent in each channel, but not from pixel to pixel */
    ZN_NOISE_STYLES
} zn_noise_style;

typedef enum zn_blur_style {
    ZN_BLUR_GAUSSIAN,
    ZN_BLUR_BOX,
    ZN_BLUR_DEFOCUS,
    ZN_BLUR_MOTION,
    ZN_BLUR_STYLES
} zn_blur_style;

/* The steps in their order; what is 0 is not done. */
typedef struct zn_photo_draw {
    bool grey; /* the image itself is to become grey, also as what should come out */
    zn_blur_style blur_style;
    float blur;  /* in pixels: deviation, radius or half the length */
    float angle; /* of motion */
    float scale; /* reduced to this share of its sides and enlarged again */
    zn_noise_style noise_style;
    float noise;    /* deviation, of 255 */
    float shot;     /* share of the variance that grows with brightness */
    float impulses; /* percent of the samples */
    struct {
        int quality;     /* 0: not saved */
        int subsampling; /* 444, 422 or 420; 0: saved as WebP instead */
    } jpeg[2];           /* saved once, and again */
    zn_task hint;        /* what the network is told */
    uint64_t seed;
} zn_photo_draw;

zn_photo_draw zn_photo_draw_of(uint64_t seed, const zn_damage_mix *mix);
/* y may not be x. Fails where a build without JPEG should save one. */
ZN_MUST_USE zn_status zn_photo_damage(const float *x, int width, int height, const zn_photo_draw *d, float *y);
/* Each pixel becomes its luma. */
void zn_make_map_grey(float *x, int64_t pixels);

/* y = x [height,width,3] saved as a JPEG in memory and read again, subsampling 444, 422 or 420. y may be x. */
ZN_MUST_USE zn_status zn_save_as_jpeg(const float *x, int width, int height, int quality, int subsampling, float *y);
/* The same as lossy WebP. */
ZN_MUST_USE zn_status zn_save_as_webp(const float *x, int width, int height, int quality, float *y);
/* x + noise, in place. */
ZN_MUST_USE zn_status zn_add_photo_noise(float *x, int width, int height, const zn_photo_draw *d);

#endif
