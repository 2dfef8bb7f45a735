/* The Zenith family: blocks that its networks share (docs/models/zenith.md).
 *
 *     x = zn_lite_r_block(zn_at(s, "block0"), x, &(zn_lite_r_spec){ .tile = 32 });
 *
 * Its files keep convolutions as [k,k,in,out] and everything else as it is used, so the layouts are plain. */
#ifndef ZN_MODELS_ZENITH_H
#define ZN_MODELS_ZENITH_H

#include "models/arch.h"

/* Convolution with bias to `out` channels, zero padding kernel/2; parameters weight [k,k,in,out] and bias. */
zn_node *zn_plain_conv(zn_scope s, zn_node *x, int out, int kernel, int stride);
/* Convolution with kernel = stride, no padding: 2 or 4. */
zn_node *zn_patch_conv(zn_scope s, zn_node *x, int out, int stride);

/* Lite block (A1): grouped 1x1 to a quarter of the channels, M(gate_h) along rows, M(gate_v) along columns, grouped 1x1
 * back, plus x. The gates have the sides of x, which must be powers of two. */
zn_node *zn_lite_block(zn_scope s, zn_node *x);

/* Lite-R block (D2): norm, local 3x3, grouped 1x1 to half the channels, spectral tiles of `tile` that begin at
 * `offset`, GELU, dense 1x1 back, plus x. Any sides. */
typedef struct zn_lite_r_spec {
    int tile, offset;
    zn_start back;  /* of the dense 1x1 */
    zn_start gamma; /* how much of the block counts at first */
} zn_lite_r_spec;
zn_node *zn_lite_r_block(zn_scope s, zn_node *x, const zn_lite_r_spec *spec);

/* Block of the Prune family (B1), spectral over the channels, which must be a power of two. */
typedef struct zn_prune_spec {
    bool srig;
    zn_node *mask; /* of the gate before it, or NULL: multiplies the depthwise sums, which are skipped where it is 0 */
    zn_node *keep; /* [C] 0 or 1: spectral dropout, for training; or NULL */
    float drop;    /* its rate */
} zn_prune_spec;
zn_node *zn_prune_block(zn_scope s, zn_node *x, const zn_prune_spec *spec);
/* Its residual form (D1). */
zn_node *zn_prune_r_block(zn_scope s, zn_node *x);

/* Input of a restorer, [pixels][ZN_RESTORE_INPUTS]: RGB, then a plane for each task, 1 in that of the hint (1..3; 0:
 * none). The colours lie packed at the end of the map and are spread from there. */
enum { ZN_RESTORE_INPUTS = 6 };
/* Form of a restorer: blocks at 1/2 before and after those at 1/4; at 1/4 the plain and the spectral ones. */
typedef struct zn_restore_form {
    int8_t down, quarter, up, spectral;
} zn_restore_form;
void zn_restore_spread(float *map, int64_t pixels, int hint);
/* The hint of one pixel of a spread map. */
void zn_restore_hint(float *map, int64_t pixel, int hint);
static inline float *zn_restore_colours(float *map, int64_t pixels) { return map + pixels * (ZN_RESTORE_INPUTS - 3); }

enum { ZN_PRUNE_GATES = 2 };

/* How a hierarchical autoencoder is run. Zero: gates as in inference, no dropout. */
typedef enum zn_prune_mode {
    ZN_PRUNE_HARD,      /* open or shut by the score's sign; the mask is a constant */
    ZN_PRUNE_SOFT,      /* soft mask, skipping where it is exactly 0, that pattern a constant (as the source trains) */
    ZN_PRUNE_SOFT_MASK, /* soft mask that also multiplies the depthwise sums, differentiated through both */
    ZN_PRUNE_STE,       /* hard mask with a straight-through gradient, differentiated through both */
} zn_prune_mode;
typedef struct zn_prune_run {
    zn_prune_mode mode;
    float temperature;              /* of the noise in soft masks */
    zn_node *noise[ZN_PRUNE_GATES]; /* [N,H/32,W/32,C/8] normal, or NULL */
    zn_node *keep[3];               /* dropout of the three blocks, [C] 0 or 1, or NULL */
    float drop;
    zn_node *mask[ZN_PRUNE_GATES]; /* filled; NULL when the network has none */
} zn_prune_run;
zn_node *zn_prune_encode(zn_scope s, zn_node *image, const zn_config *k, zn_prune_run *run);

/* Zenith-R: starts that make it a Walsh transform codec (zenith_r_start.c). The channels that carry the transform are
 * written over random ones; a is the level where there are several. */
bool zn_walsh_fits(const zn_config *k); /* wide enough to carry it */
void zn_walsh_start_stem(const zn_fresh *p, float a);
void zn_walsh_start_stem_bias(const zn_fresh *p, float a);
void zn_walsh_start_down(const zn_fresh *p, float a);
void zn_walsh_start_latent(const zn_fresh *p, float a); /* the encoder's last convolution */
void zn_walsh_start_in(const zn_fresh *p, float a);     /* the decoder's first */
void zn_walsh_start_up(const zn_fresh *p, float a);
void zn_walsh_start_image(const zn_fresh *p, float a);
void zn_walsh_start_branch(const zn_fresh *p, float a); /* He times a, smaller beside the transform */

/* More rules than nn/start.h has. */
void zn_start_shared(const zn_fresh *p, float a);     /* He, alike for groups of a outputs: before a pixel shuffle it is
                                                         nearest up-sampling */
void zn_start_eyes(const zn_fresh *p, float a);       /* [C,3,3]: identity + N(0, a^2) */
void zn_start_dense_eyes(const zn_fresh *p, float a); /* [C,3,3]: N(0, a^2 2/(9C)) */
void zn_start_inverse(const zn_fresh *p, float a);    /* a / last side */
void zn_start_root(const zn_fresh *p, float a);       /* N(0, a^2 / last side) */
void zn_start_mixer(const zn_fresh *p, float a);      /* [3,C]: 0, a, 0 */
void zn_start_permutation(const zn_fresh *p, float a); /* identity, then random rows */

#endif
