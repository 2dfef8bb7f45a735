/* Operations: each function appends a node to the graph of its arguments and checks the shapes.
 *
 *     zn_node *y = zn_relu(zn_conv(x, w, b, (zn_conv_spec){ .stride = 1, .pad = 1 }));
 *
 * Tensors are [N,H,W,C]. Every op has a gradient; tests/ops checks each against finite differences. */
#ifndef ZN_OPS_H
#define ZN_OPS_H

#include "graph/graph.h"
#include "kernels/gates.h"
#include "kernels/line.h"

typedef struct zn_conv_spec {
    int stride, pad;
    int beyond;          /* additional rows and columns of zeros at the bottom and right; below 0: fewer */
    bool up2;            /* upsample the input x2 (nearest); set by fuse.c */
    bool residual, relu; /* y = relu(conv + bias + residual); set by fuse.c */
    bool mask;           /* and 0 where the last source is not above 0: the gradient of a ReLU; set by fuse.c */
    bool unshuffle;      /* 1x1 only: x is read through a pixel unshuffle by 2; set by fuse.c */
    bool shuffle;        /* 1x1 only: y is written through a pixel shuffle by 2; set by fuse.c */
    bool bias;
    int lag;      /* result n is computed from sample n - lag, and is 0 if that sample does not exist */
    int results;  /* number of results; 0: the number of samples */
    bool flipped; /* w is [kh,kw,O,I] with reversed taps: the gradient with respect to the input of a convolution
                   * with w */
} zn_conv_spec;

/* x [N,H,W,I], w [kh,kw,I,O], bias [O] or NULL. Callers set only stride, pad, beyond, lag and results of the spec.
 * Results that are 0 because of a lag get no bias. */
zn_node *zn_conv(zn_node *x, zn_node *w, zn_node *bias, zn_conv_spec spec);
/* With a lag: samples [first,first+count) give the results that begin at `to`. */
typedef struct zn_overlap {
    int64_t first, to, count;
} zn_overlap;
zn_overlap zn_conv_overlap(int64_t samples, int64_t results, int lag);
/* x [N,H,W,I], w [1,1,I,O], bias [O] or NULL: a 1x1 convolution with too many weights to pack. O is a multiple of
 * 32. */
zn_node *zn_dense(zn_node *x, zn_node *w, zn_node *bias);
/* x [N,H,W,I], w [1,1,O,I] in the file's layout, floats or packed, bias [O] or NULL: y = x w' + bias. Packed weights
 * have no gradient and propagate none. */
zn_node *zn_matrix(zn_node *x, zn_node *w, zn_node *bias);
zn_node *zn_reshape(zn_node *x, zn_shape shape); /* the same values in the same order */
zn_node *zn_relu(zn_node *x);
zn_node *zn_soft_clamp(zn_node *x, float limit); /* limit * tanh(x / limit) */
zn_node *zn_clamp(zn_node *x, float low, float high);
zn_node *zn_scale(zn_node *x, float factor);
zn_node *zn_add(zn_node *a, zn_node *b);
zn_node *zn_sub(zn_node *a, zn_node *b);
zn_node *zn_multiply(zn_node *a, zn_node *b);        /* elementwise */
zn_node *zn_multiply_scalar(zn_node *x, zn_node *s); /* s [1]; s gets no gradient */
zn_node *zn_exp(zn_node *x);
zn_node *zn_upsample2(zn_node *x); /* nearest */
zn_node *zn_group_norm(zn_node *x, zn_node *gamma, zn_node *beta, int groups, float eps);
zn_node *zn_layer_norm(zn_node *x, zn_node *gamma, zn_node *beta, float eps); /* over the channels of each pixel */
zn_node *zn_mean_square_error(zn_node *a, zn_node *b);                        /* scalar [1] */
zn_node *zn_mean_absolute_error(zn_node *a, zn_node *b);
zn_node *zn_logistic_loss(zn_node *logits, zn_node *labels); /* cross-entropy with labels 0 and 1, averaged */
zn_node *zn_huber(zn_node *a, zn_node *b, float knee);       /* quadratic below the knee */
zn_node *zn_ssim_loss(zn_node *a, zn_node *b);               /* 1 - SSIM of [N,H,W,C] in [0,1]: 11x11 Gaussian window */
zn_node *zn_kl_gaussian(zn_node *mean, zn_node *logvar);     /* KL from N(mean, exp(logvar)) to N(0,1), averaged over
                                                              * elements */
/* A sample of N(mean, exp(logvar)) computed from eps of N(0,1): mean + eps exp(logvar / 2), logvar clamped to
 * [-30,20]. */
zn_node *zn_gaussian(zn_node *mean, zn_node *logvar, zn_node *eps);
zn_node *zn_downsample2(zn_node *x); /* mean of 2x2 */
zn_node *zn_ones_like(zn_node *x);
zn_node *zn_gelu(zn_node *x);     /* exact erf form */
zn_node *zn_silu(zn_node *x);     /* x / (1 + exp(-x)) */
zn_node *zn_positive(zn_node *x); /* 1 where x > 0; constant with respect to gradients */
zn_node *zn_mean(zn_node *x);     /* scalar [1] */

/* Concatenates feature maps along channels, and takes a range of channels of a map. */
zn_node *zn_concat(zn_node *a, zn_node *b);
zn_node *zn_slice_channels(zn_node *x, int first, int count);
/* What n takes channels of, from *first on, and how many that has; n itself if it is not a slice. */
zn_node *zn_slice_whole(zn_node *n, int *first, int *whole);

/* Videos [T,H,W,C]: frame t is frame from[t] of the concatenated sources, or zeros if from[t] < 0. */
zn_node *zn_frames(zn_node *const *sources, int count, const int32_t *from, int frames);
/* The same for convolutions alone: on the CPU the result may be 16 bits where the last source is not. If there are two,
 * the first is what stayed between runs. */
zn_node *zn_frames_to_multiply(zn_node *const *sources, int count, const int32_t *from, int frames);

/* Feature maps with a table that has one row per sample, [1,1,N,C]: x (1 + scale) + shift (shift may be NULL), where
 * the rows of x that belong to a sample are consecutive; and the mean over each sample's pixels. */
zn_node *zn_modulate(zn_node *x, zn_node *scale, zn_node *shift);
/* Sets a fraction `share` of the elements to 0 and scales the others by 1 / (1 - share). The choice depends on the
 * sample's seed, an integer below 2^24 in seeds [.., samples], and on `place`, a number unique to the layer. */
zn_node *zn_dropout(zn_node *x, zn_node *seeds, float share, int place);
zn_node *zn_sample_mean(zn_node *x);

/* Self-attention over the pixels of each map: qkv [N,H,W,3C] stores, for each head, its d = C / heads channels of q,
 * then k, then v; y [N,H,W,C] = softmax(q k' / sqrt d) v. */
zn_node *zn_attention(zn_node *qkv, int heads);
zn_node *zn_attention_apart(zn_node *qkv, int heads); /* the same, but qkv stores q of all heads, then k, then v */

/* Attention of q over k and v, [N,H,W,heads * d] and [N,H,W,groups * d]. Consecutive heads form a group and share
 * its k and v. causal: a row attends to the rows of k and v up to its own, aligned at the end. */
typedef struct zn_attend_spec {
    int heads, groups;
    bool causal;
} zn_attend_spec;
zn_node *zn_attend(zn_node *q, zn_node *k, zn_node *v, zn_attend_spec spec);

/* Rotary position embeddings: rotates pairs of channels of each head by angles. Their cosines and sines are
 * [..,L,pairs], one row for each token of x, reused for each sample. halves: channel i is paired with i + pairs, not
 * with its neighbour. */
zn_node *zn_rope(zn_node *x, zn_node *cosines, zn_node *sines, bool halves);

/* Rows of a table [1,1,rows,C], floats or packed, selected by the integers ids [N,H,W,1]; zeros for an id outside
 * the table. */
zn_node *zn_lookup(zn_node *table, zn_node *ids);

/* Spectral ops: scale * H x along an axis (1: image height, 2: width, 3: channels), and (1/n) H (gate .* H x). */
zn_node *zn_wht(zn_node *x, int axis, float scale);
zn_node *zn_spectral(zn_node *x, zn_node *gate, int axis);
/* In tiles of P along an axis: Q soft(gate .* Q x, |th|), gate and th [P,C]; tiles begin at offset + k P. */
zn_node *zn_tile_mix(zn_node *x, zn_node *gate, zn_node *th, int axis, int offset);

/* Ops on each pixel's channels with per-channel parameters. */
zn_node *zn_add_channels(zn_node *x, zn_node *b);           /* x[k] + b[k] */
zn_node *zn_scale_channels(zn_node *x, zn_node *w);         /* w[k] x[k] */
zn_node *zn_taps(zn_node *x, zn_node *w);                   /* w[0][k] x[k-1] + w[1][k] x[k] + w[2][k] x[k+1] */
zn_node *zn_rms_norm(zn_node *x, zn_node *w, float eps);    /* x / sqrt(mean x^2 + eps) * w[k] */
zn_node *zn_unit_norm(zn_node *x, zn_node *w, float floor); /* x / max(|x|, floor) * sqrt(C) * w[k] */

zn_node *zn_grouped_conv(zn_node *x, zn_node *w, zn_node *bias);        /* 1x1, w [G,out/G,in/G], bias [out] or NULL */
zn_node *zn_grouped_interleaved(zn_node *x, zn_node *w, zn_node *bias); /* the same, but y[j*G + g] is output j of
                                                                         * group g */
zn_node *zn_depthwise(zn_node *x, zn_node *w);                          /* 3x3, w [C,3,3], zero padding */
zn_node *zn_depthwise_residual(zn_node *x, zn_node *w);                 /* x + depthwise(x) */
/* Each channel with a kernel of its own, w [k,k,1,C], which is not trained; `pad` zeros before the map, and as many
 * after it as a result for every `stride` positions needs. */
zn_node *zn_channel_conv(zn_node *x, zn_node *w, int stride, int pad);
/* The largest of each 3x3 window at a stride of 2. reaches_out: a last window may reach past the edge (the "ceil mode"
 * of other frameworks). */
zn_node *zn_max_pool(zn_node *x, bool reaches_out);
zn_node *zn_median3(zn_node *x);                /* 3x3 in each channel, edge pixels repeated */
zn_node *zn_pixel_unshuffle(zn_node *x, int r); /* PyTorch channel order */
zn_node *zn_pixel_shuffle(zn_node *x, int r);
zn_node *zn_space_to_depth(zn_node *x, int r); /* TensorFlow channel order: patches of r x r pixels */
zn_node *zn_depth_to_space(zn_node *x, int r);
zn_node *zn_select_channels(zn_node *x, const int32_t *from, int count); /* y[k] = x[from[k]], 0 where from[k] < 0 */

/* y[k] = x[table[row][k]]: a permutation stored with the weights, table [rows,C] of ZN_LAYOUT_INDEX; and row `row`
 * of a table of parameters [rows,...], as [...]. */
zn_node *zn_permute_channels(zn_node *x, zn_node *table, int row);
zn_node *zn_row(zn_node *table, int row);

/* Block gates: computes the mask [..,C/8] from the energy of blocks of eight channels, and applies it. eps (noise)
 * may be NULL. */
zn_node *zn_gate_mask(zn_node *x, zn_node *w, zn_node *v, zn_node *eps, zn_gate_mode mode, float temperature);
zn_node *zn_gate_apply(zn_node *x, zn_node *mask);
/* mask .* depthwise(x, w), not computed where the mask is 0. zn_positive(mask) makes the pattern a constant. Without
 * a mask (NULL) the same as zn_depthwise, for pixels with many channels. C must be a multiple of 8. */
zn_node *zn_sparse_depthwise(zn_node *x, zn_node *w, zn_node *mask);

/* The spectral half of a Prune block in one op: unit H taps(scale .* N(unit H e)). N is the SRIG gate (w, b), a soft
 * threshold (w) or the identity. With gamma and beta, the group norm of its positive part follows. Where the mask
 * (only with a norm) is 0, e must be 0. */
typedef struct zn_line_spec {
    float unit, eps;
    int groups;
    zn_line_kind kind; /* zn_line sets kind, mask and which */
    bool mask;
    int which;
} zn_line_spec;
typedef struct zn_line_sources {
    zn_node *scale, *mixer;               /* [C], [3,C] */
    zn_node *mask, *w, *b, *gamma, *beta; /* or NULL */
} zn_line_sources;
zn_node *zn_line(zn_node *e, const zn_line_sources *sources, zn_line_spec spec);

zn_node *zn_srig(zn_node *u, zn_node *w, zn_node *b); /* u * G(u), w [C,5], b [C] */

/* Sequences of tokens [N,1,L,C]. */
/* Causal convolution over the tokens of each channel: w [C,..,taps], the last tap applies to the token itself, bias
 * [C] or NULL. */
zn_node *zn_causal_conv(zn_node *x, zn_node *w, zn_node *bias);
zn_node *zn_fourier(zn_node *p, zn_node *b); /* [cos 2 pi b p, sin 2 pi b p], b [F,sides]: b is not trained */

/* Reorders tokens. `orders` [2,N,K,L] holds integers. Its first half gives, for each sequence and order, the token
 * at position t. Its second half is the inverse: the position of each token. -1 gives zeros; it marks positions
 * after the last token, and tokens without a position. */
zn_node *zn_gather_tokens(zn_node *x, zn_node *orders, int order);                    /* into this order */
zn_node *zn_merge_tokens(zn_node *const *x, int count, zn_node *orders, float scale); /* scale * sum over all orders,
                                                                                       * back to the original order */
zn_node *zn_mean_tokens(zn_node *x, zn_node *orders); /* [1,1,N,C], over the tokens that have a position */

/* The selective scan of Mamba: u, dt [N,1,L,C], b, c [N,1,L,S], a_log [C,S], d, dt_bias [C]; y like u. */
typedef struct zn_scan_sources {
    zn_node *u, *dt, *b, *c, *a_log, *d, *dt_bias;
    zn_node *first; /* [N,C,S], the state before the first token, or NULL */
} zn_scan_sources;
zn_node *zn_scan(const zn_scan_sources *sources);
/* After a run: copies the state after the last token, [N,C,S]. The scan must be a graph output; otherwise its memory
 * is reused. */
void zn_scan_last_state(const zn_node *scan, float *out);

/* Adds the gradients of `of` with respect to wrt[count], seeded with `seed` (shaped like `of`; NULL: `of` is a
 * scalar and the seed is 1). gradients[i] is NULL if `of` does not depend on wrt[i]. */
ZN_MUST_USE zn_status zn_graph_differentiate(zn_graph *g, zn_node *of, zn_node *seed, zn_node *const *wrt, int count,
                                             zn_node **gradients);
/* The same. With `lean`, activations inside segments of the forward pass are recomputed for the backward pass
 * instead of kept. The gradients have the same bits. */
ZN_MUST_USE zn_status zn_graph_differentiate_as(zn_graph *g, zn_node *of, zn_node *seed, zn_node *const *wrt, int count,
                                                zn_node **gradients, bool lean);
/* Chooses the segments: sets starts[i], for the first `count` nodes, where a segment begins. */
ZN_MUST_USE zn_status zn_recompute_segments(const zn_graph *g, int count, bool *starts);
/* The gradient of a convolution n with respect to its input. */
zn_node *zn_conv_input_gradient(zn_node *n, zn_node *dy);
/* For ops that contain a convolution: the gradient with respect to its weights; taps are kh and kw. */
zn_node *zn_conv_weight_gradient(zn_node *x, zn_node *dy, const zn_conv_spec *k, const int64_t *taps);
/* The gradient with respect to the bias, along with that of the weights (NULL: not wanted) where a kernel has both. */
zn_node *zn_conv_bias_gradient(zn_node *dy, zn_node *weight_gradient);
/* For gradient functions of ops: adds g to the gradient of n. Does nothing if n needs no gradient. */
void zn_accumulate(zn_node *n, zn_node *g);
bool zn_needs_gradient(const zn_node *n);
/* What n's gradient is so far, for ops that add their own to it in the same pass; NULL if there is none. The result of
 * that op must then be accumulated in its place. */
zn_node *zn_take_gradient(zn_node *n);

/* Turns products with weights that are floats into convolutions, which compute in bf16 where that is asked for and use
 * a GPU's matrix units. After differentiation: a convolution with such weights has no gradient. */
void zn_graph_multiply_by_convolutions(zn_graph *g);

/* Makes a norm, its modulations, SiLU and dropout one op, which has a gradient: before differentiation, for training on
 * a device. */
void zn_graph_fuse_silu_norms(zn_graph *g, zn_node *const *outputs, int count);

/* Merges upsampling, residual additions and activations into convolutions; outputs[count] keep their nodes. */
void zn_graph_fuse(zn_graph *g, zn_node *const *outputs, int count);
/* The same for steps of transformers on GPUs, where it changes results by less than their rounding to 16 bits does. */
void zn_graph_fuse_tokens(zn_graph *g, zn_node *const *outputs, int count);
/* The same for clips on a device: a convolution over frames is one step, and so are a norm and its SiLU, without
 * rounding to 16 bits in between. After zn_graph_fuse; not for training. */
void zn_graph_fuse_frames(zn_graph *g, zn_node *const *outputs, int count);

/* After it: convolutions over frames multiply FP8 numbers (kernels/fp8.h) where a norm with SiLU computes what they
 * read, which writes codes, and a kernel for `cpu` can. Returns their number. */
int zn_graph_use_fp8_frames(zn_graph *g, zn_node *const *outputs, int count, uint32_t cpu);

/* Makes products without bias multiply FP8 numbers (kernels/fp8.h), where `uses` is true for the name of their weights.
 * After zn_graph_fuse_tokens, so that norms before them write FP8 themselves. With `trial` the products can be turned
 * on and off between runs (zn_fp8_try); they are off at first, and all weights stay on the device in both forms. */
typedef struct zn_fp8_choice {
    bool (*uses)(const void *user, const char *weights);
    const void *user;
    bool trial;
} zn_fp8_choice;
void zn_graph_use_fp8(zn_graph *g, zn_node *const *outputs, int count, const zn_fp8_choice *choice);
bool zn_is_fp8_product(const zn_node *n);
void zn_fp8_try(zn_node *product, bool on);

/* Declares every op by name: ops.def is the list. */
#define ZN_OP(name) extern const zn_op zn_op_##name;
#include "ops/ops.def"
#undef ZN_OP

/* Properties of ops, for fusion: the axis of a spectral op, whether a transform has this axis and scale, whether a
 * mix is zn_scale_channels, which row a row or permute op takes, the factor of a pixel (un)shuffle, whether a select
 * keeps or fills the first channels. */
int zn_spectral_axis(const zn_node *spectral);
bool zn_grouped_is_interleaved(const zn_node *grouped);
bool zn_depthwise_is_residual(const zn_node *depthwise); /* x + conv(x), and no gradient */
bool zn_wht_is(const zn_node *wht, int axis, float scale);
bool zn_rms_norm_has_limit(const zn_node *rms_norm);
float zn_rms_norm_eps(const zn_node *rms_norm);
bool zn_is_scale_channels(const zn_node *mix);
int zn_row_index(const zn_node *row);
int zn_permute_row(const zn_node *permute);
int zn_shuffle_factor(const zn_node *shuffle);
bool zn_selects_first(const zn_node *select);
void zn_dropout_settings(const zn_node *dropout, float *share, int *place);
int zn_tile_mix_axis(const zn_node *tile_mix, int *offset);
/* Extends output positions [*lo,*hi) to whole tiles of `side` that begin at offset. */
void zn_tile_reach(int64_t side, int offset, int64_t *lo, int64_t *hi);

/* The last dimension, and the product of all others: pixels of a map, tokens of sequences. */
static inline int zn_channels(const zn_node *x) { return (int)x->shape.dim[x->shape.rank - 1]; }
static inline int64_t zn_positions(const zn_node *x) { return zn_shape_count(x->shape) / zn_channels(x); }

/* Helpers for shape functions; the first three are shape functions themselves. */
zn_status zn_same_shape(zn_node *n);                /* output like source 0; all sources have the same shape */
zn_status zn_like_first(zn_node *n);                /* output like source 0; other sources may have any shape */
zn_status zn_like_second(zn_node *n);               /* like source 1 */
zn_status zn_need_rank(const zn_node *n, int rank); /* source 0 has this rank */

/* If x needs a gradient, adds to it the values that begin `first` floats after the end of the result of `from`. */
void zn_accumulate_tail(zn_node *x, zn_node *from, int64_t first);

/* For zn_op.in_place. */
int zn_first_source(const zn_node *n);
int zn_second_source(const zn_node *n);

/* For zn_op.reach: one position on either side. For zn_op.flops and .slots: one per element of the result, as for
 * sums and products, and for ops that are counted as if they were one. */
void zn_reach_neighbours(const zn_node *n, const zn_prepare *p, int64_t *lo, int64_t *hi);
double zn_one_flop(const zn_node *n);
double zn_one_slot(const zn_node *n, const zn_prepare *p);

/* For zn_op.types: all sources and the result have one type, F32 or of 16 bits. */
zn_node_types zn_types_alike(const zn_node *n, const zn_prepare *p);
/* The result and the first source have one type; other sources are F32. */
zn_node_types zn_types_like_first(const zn_node *n, const zn_prepare *p);
/* The result and the first source, each in any type; other sources are F32. */
zn_node_types zn_types_of_map(const zn_node *n, const zn_prepare *p);
/* The result dx, and the sources x and dy, of the gradient of a norm with sources x, gains, dy. */
zn_node_types zn_types_of_norm_grad(const zn_node *n, const zn_prepare *p);
/* For zn_op.host_types: as the two above; and as zn_types_alike where a pixel is a whole number of floats, for ops that
 * copy 16-bit values in pairs. */
zn_node_types zn_host_types_of_map(const zn_node *n, const zn_prepare *p);
zn_node_types zn_host_types_of_pairs(const zn_node *n, const zn_prepare *p);
/* The next multiple of 64 bytes, so that what follows in scratch memory begins on a cache line. */
static inline size_t zn_aligned(size_t size) { return (size + 63) / 64 * 64; }
/* Floats that take the memory of `count` values of a node, which is even unless they are floats. */
int64_t zn_floats_of(const zn_node *n, int64_t count);
/* Address of element `index` of a node's values. */
void *zn_values_at(const zn_node *n, int64_t index);

/* For zn_op.launches: always true. */
bool zn_launches(const zn_node *n);
/* Runs a kernel over `units` in blocks of `grain` on the context's threads, or all units on its device. */
void zn_launch(const zn_launch_context *c, zn_body body, int64_t units, int64_t grain, const void *args);

#endif
