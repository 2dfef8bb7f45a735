/* The Wan video autoencoders 2.1 and 2.2: clips [T,H,W,3] in [-1,1] to latents [1+(T-1)/4,H/8,W/8,16] (2.2: H/16, W/16,
 * 48 channels) and back. An image is a clip of one frame. Networks take a whole clip (m NULL) or a piece (nn/video.h):
 * of images one frame first, then multiples of 4; of latents one first, then any number. Or they process images
 * independently.
 */
#ifndef ZN_WAN_H
#define ZN_WAN_H

#include "nn/video.h"

#include <zenith/weights.h>

enum { ZN_WAN_LEVELS = 6, ZN_WAN_LATENT = 48 };

typedef struct zn_wan_form {
    bool staged;           /* 2.2: levels by name, each with a shortcut around it, pixels in patches of 2x2 */
    int width, back_width; /* channels of the encoder's first level and of the decoder's last */
    int levels, mult[ZN_WAN_LEVELS];
    int blocks;               /* of a level of the encoder; of the decoder's one more */
    bool time[ZN_WAN_LEVELS]; /* after this level of the encoder there are half as many frames */
    bool flat;                /* made for images alone: without the layers that halve and double frames */
    int latent;
    float mean[ZN_WAN_LATENT], deviation[ZN_WAN_LATENT]; /* of latents, by channel */
} zn_wan_form;

/* The published networks. */
extern const zn_wan_form zn_wan21, zn_wan22;

/* Means and log-variances of latents, [..,2 latent], not normalised. */
zn_node *zn_wan_encoder(zn_scope s, zn_node *clip, const zn_wan_form *k, zn_stream *m);
/* The clip, which may leave [-1,1] a little, of latents that are not normalised. */
zn_node *zn_wan_decoder(zn_scope s, zn_node *latent, const zn_wan_form *k, zn_stream *m);

/* Latents of mean 0 and deviation 1, as generators know them, of rows of channels, and back. In place. */
void zn_wan_normalise(const zn_wan_form *k, float *latent, int64_t rows);
void zn_wan_restore(const zn_wan_form *k, float *latent, int64_t rows);
/* The same as layers. */
zn_node *zn_wan_normalised(zn_scope s, zn_node *latent, const zn_wan_form *k);
zn_node *zn_wan_restored(zn_scope s, zn_node *latent, const zn_wan_form *k);

/* How many frames become one. */
int zn_wan_frames(const zn_wan_form *k);

/* What diffusers calls the parameter that the original calls `name`. */
void zn_wan_diffusers_name(const zn_wan_form *k, const char *name, char *out, size_t size);

/* How a file names the parameters, and which parts it has: encoder, decoder. */
typedef struct zn_wan_naming {
    bool diffusers;
    bool present[2];
    bool published; /* it is one of the two published networks */
    char prefix[96];
} zn_wan_naming;

/* The network that a file holds. ZN_ENOTFOUND: it holds no such network. */
ZN_MUST_USE zn_status zn_wan_recognise(const zn_weights *w, zn_wan_form *k, zn_wan_naming *naming);
/* What the file calls the parameter `name`; of the form only staged and blocks matter. */
void zn_wan_file_name(const zn_wan_naming *naming, const zn_wan_form *k, const char *name, char *out, size_t size);

/* ---- blocks, small to large ---- */

/* x / |x| sqrt(C) gamma over the channels of each pixel. */
zn_node *zn_wan_norm(zn_scope s, zn_node *x);
/* conv(silu(norm(conv(silu(norm(x)))))) + x; x through a 1x1 where channels change. */
zn_node *zn_wan_residual(zn_scope s, zn_node *x, int out, zn_stream *m);
/* Of each frame by itself, one head. */
zn_node *zn_wan_attention(zn_scope s, zn_node *x);
/* Half and twice the sides, with `time` the frames too; cut: where frames change, the network may be cut (zn_cut). */
zn_node *zn_wan_down(zn_scope s, zn_node *x, bool time, bool cut, zn_stream *m);
zn_node *zn_wan_up(zn_scope s, zn_node *x, int out, bool time, bool cut, zn_stream *m);

/* Shortcuts without parameters: sub-positions of `frames` x side x side, as channels, averaged; channels repeated over
 * sub-positions. Of m only counts whether something came before. */
zn_node *zn_wan_average(zn_node *x, int out, int frames, int side, const zn_stream *m);
zn_node *zn_wan_repeat(zn_node *x, int out, int frames, int side, const zn_stream *m);

/* Patches of 2x2 pixels as channels, columns before rows, and back. */
zn_node *zn_wan_patches(zn_node *x);
zn_node *zn_wan_pixels(zn_node *x);

#endif
