/* Z-Image (Tongyi-MAI, 2025): a transformer that moves latents of images [1,h,w,C] along a flow from noise to image,
 * knowing the features of a caption (models/qwen3/qwen3.h). Image and caption are one sequence of tokens.
 *
 *     zn_node *c = zn_zimage_caption(s, features, &k);           // knows no time: once for a prompt
 *     zn_node *m = zn_zimage_modulation(s, times, &k);           // knows no image: once for all steps
 *     zn_node *out = zn_zimage(s, latent, m, c, &k);             // image minus noise, see diffusion/flow.h */
#ifndef ZN_ZIMAGE_H
#define ZN_ZIMAGE_H

#include "base/json.h"
#include "models/stored.h"
#include "nn/transformer.h"

enum {
    ZN_ZIMAGE_PATCH = 2,  /* side of the squares of latents that are tokens */
    ZN_ZIMAGE_BLOCK = 32, /* tokens of the image, and of the caption, are filled up to a multiple of this */
    ZN_ZIMAGE_TIME = 256, /* width of the embedding of the time */
    ZN_ZIMAGE_AXES = 3,   /* place in the caption, row, column */
};

/* A LoRA of one linear layer: y += factor B A x, at run time. */
typedef struct zn_adapter {
    char layer[128]; /* our name, "layers.0.attention.to_q" */
    zn_packed a, b;  /* [rank][in], [out][rank]; mapped or owned by whoever made it */
    int rank;
    float factor;
} zn_adapter;

enum { ZN_ZIMAGE_WHOLE = 1 << 20 }; /* zn_zimage_form.piece: all tokens at once, which keeps a GPU busier */

typedef struct zn_zimage_form {
    int dim, heads, layers, refiners;
    int caption;    /* channels of the caption's features */
    int channels;   /* of latents */
    int inner;      /* width of the feed-forward part */
    int time;       /* inner width of what makes the modulation's source of the time, */
    int modulation; /* and width of that source */
    int axes[ZN_ZIMAGE_AXES];
    float eps;
    double theta, time_scale;
    /* How to compute, not what: tokens that the feed-forward part takes at a time, 0: 1024, which saves memory on a
     * CPU; and LoRAs, borrowed. */
    int piece;
    const zn_adapter *adapters;
    int adapter_count;
} zn_zimage_form;

extern const zn_zimage_form zn_zimage_turbo;

/* Features [1,1,L,caption] to tokens [1,1,L filled up,dim]. */
zn_node *zn_zimage_caption(zn_scope s, zn_node *features, const zn_zimage_form *k);
/* The same for several captions [N,1,L,caption], L a multiple of ZN_ZIMAGE_BLOCK; ids [N,1,L,1]: below 0 where a
 * caption has ended and is filled up. */
zn_node *zn_zimage_captions(zn_scope s, zn_node *features, zn_node *ids, const zn_zimage_form *k);
/* What blocks and final layer know of the time: times [1,1,N,ZN_ZIMAGE_TIME] of zn_zimage_time to [1,1,N,width]. */
zn_node *zn_zimage_modulation(zn_scope s, zn_node *times, const zn_zimage_form *k);
int zn_zimage_modulation_width(const zn_zimage_form *k);
/* latent [N,h,w,C], h and w even; modulation: of zn_zimage_modulation for one time, or for N; caption: N of
 * zn_zimage_caption, of one length. */
zn_node *zn_zimage(zn_scope s, zn_node *latent, zn_node *modulation, zn_node *caption, const zn_zimage_form *k);

/* The embedding of a time from 0 (noise) to 1 (image). */
void zn_zimage_time(const zn_zimage_form *k, float time, float *out);

static inline int zn_zimage_filled(int tokens)
{
    return (tokens + ZN_ZIMAGE_BLOCK - 1) / ZN_ZIMAGE_BLOCK * ZN_ZIMAGE_BLOCK;
}
/* Positions on the axes, [tokens][axes]: of the image's filled-up tokens, rows x columns of them real, and of as many
 * tokens of the caption as it has when filled up. */
void zn_zimage_picture_positions(int rows, int columns, int caption, int32_t *out);
void zn_zimage_caption_positions(int caption, int32_t *out);

/* Whether a layer, by our name, is in a main block: not in a refiner, which every later block reads. */
bool zn_zimage_in_main_block(const char *layer);

/* How files name the parameters. */
typedef struct zn_zimage_naming {
    enum { ZN_ZIMAGE_DIFFUSERS, ZN_ZIMAGE_ORIGINAL, ZN_ZIMAGE_MLX } style;
    bool fused; /* q, k and v are one matrix */
    char prefix[96];
} zn_zimage_naming;

/* The network that files hold. config: its config.json, or NULL. ZN_ENOTFOUND: they hold no such network. */
ZN_MUST_USE zn_status zn_zimage_recognise(const zn_weights *const *files, int count, const zn_json_node *config,
                                          zn_zimage_form *k, zn_zimage_naming *naming);
/* For zn_stored. */
void zn_zimage_place(const void *naming, zn_place *out);

#endif
