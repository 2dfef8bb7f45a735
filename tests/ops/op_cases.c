/* The cases of check-ops: one or more for every line of ops.def that is not part of the gradient of another. */
#include "op_case.h"

static zn_node *conv_3x3(zn_node **in) { return zn_conv(in[0], in[1], in[2], (zn_conv_spec){ .stride = 1, .pad = 1 }); }
/* Gradients that pass ReLUs on their way: one of a convolution, one of a convolution and a residual. */
static zn_node *conv_block(zn_node **in)
{
    const zn_conv_spec k = { .stride = 1, .pad = 1 };
    zn_node *x = zn_relu(in[0]), *first = zn_scale(in[1], 0.02f), *second = zn_scale(in[3], 0.1f);
    return zn_add(zn_conv(zn_relu(zn_conv(x, first, in[2], k)), second, in[4], k), x);
}
static zn_node *conv_s2(zn_node **in) { return zn_conv(in[0], in[1], NULL, (zn_conv_spec){ .stride = 2, .pad = 1 }); }
static zn_node *conv_s4(zn_node **in) { return zn_conv(in[0], in[1], in[2], (zn_conv_spec){ .stride = 4, .pad = 2 }); }
static zn_node *conv_1x1_s2(zn_node **in) { return zn_conv(in[0], in[1], NULL, (zn_conv_spec){ .stride = 2 }); }
static zn_node *conv_1x1(zn_node **in) { return zn_conv(in[0], in[1], in[2], (zn_conv_spec){ .stride = 1 }); }
static zn_node *conv_down(zn_node **in)
{
    return zn_conv(in[0], in[1], in[2], (zn_conv_spec){ .stride = 2, .beyond = 1 });
}
static zn_node *conv_late(zn_node **in)
{
    return zn_conv(in[0], in[1], NULL, (zn_conv_spec){ .stride = 1, .pad = 1, .lag = 2 });
}
static zn_node *conv_causal(zn_node **in) /* over three frames, one of them from before */
{
    const zn_conv_spec now = { .stride = 1, .pad = 1, .lag = -1, .results = 3 },
                       late = { .stride = 1, .pad = 1, .lag = 1, .results = 3 };
    return zn_add(zn_conv(in[0], in[1], in[3], now), zn_conv(in[0], in[2], NULL, late));
}
static zn_node *frames(zn_node **in) { return zn_frames(in, 2, (int32_t[]){ 3, -1, 0, 4, 0, 1 }, 6); }
static zn_node *unit_norm(zn_node **in) { return zn_unit_norm(in[0], in[1], 3); } /* about half are shorter */
static zn_node *dense(zn_node **in) { return zn_dense(in[0], in[1], in[2]); }
static zn_node *matrix(zn_node **in) { return zn_matrix(in[0], in[1], in[2]); }
static zn_node *reshape(zn_node **in) { return zn_scale_channels(zn_reshape(in[0], ZN_SHAPE(2, 3, 5)), in[1]); }
static zn_node *attend(zn_node **in) { return zn_attend(in[0], in[1], in[2], (zn_attend_spec){ 4, 2, false }); }
static zn_node *attend_back(zn_node **in) { return zn_attend(in[0], in[1], in[2], (zn_attend_spec){ 2, 1, true }); }
static zn_node *turned(zn_node **in, bool halves)
{
    static float cosines[] = { 1, 0.6f, -0.8f, 0, 0.28f, 1 }, sines[] = { 0, 0.8f, 0.6f, -1, 0.96f, 0 };
    zn_node *c = zn_graph_parameter(in[0]->graph, "cos", ZN_SHAPE(1, 1, 3, 2), ZN_LAYOUT_PLAIN);
    zn_node *s = zn_graph_parameter(in[0]->graph, "sin", ZN_SHAPE(1, 1, 3, 2), ZN_LAYOUT_PLAIN);
    c->data = cosines;
    s->data = sines;
    return zn_rope(in[0], c, s, halves);
}
static zn_node *rope(zn_node **in) { return turned(in, false); }
static zn_node *rope_halves(zn_node **in) { return turned(in, true); }
static zn_node *lookup(zn_node **in)
{
    static float numbers[] = { 4, 0, 4, -1, 2, 5 };
    zn_node *ids = zn_graph_parameter(in[0]->graph, "ids", ZN_SHAPE(1, 2, 3, 1), ZN_LAYOUT_PLAIN);
    ids->data = numbers;
    return zn_lookup(in[0], ids);
}
static zn_node *relu(zn_node **in) { return zn_relu(in[0]); }
static zn_node *soft_clamp(zn_node **in) { return zn_soft_clamp(in[0], 3); }
static zn_node *clamp(zn_node **in) { return zn_clamp(in[0], -0.7f, 0.4f); }
static zn_node *gaussian(zn_node **in) { return zn_gaussian(in[0], in[1], in[2]); }
static zn_node *scale(zn_node **in) { return zn_scale(in[0], -1.7f); }
static zn_node *add(zn_node **in) { return zn_add(in[0], in[1]); }
static zn_node *add_self(zn_node **in) { return zn_add(in[0], in[0]); }
static zn_node *sub(zn_node **in) { return zn_sub(in[0], in[1]); }
static zn_node *upsample2(zn_node **in) { return zn_upsample2(in[0]); }
static zn_node *group_norm(zn_node **in) { return zn_group_norm(in[0], in[1], in[2], 2, 1e-5f); }
static zn_node *silu_norm(zn_node **in)
{
    zn_node *y = zn_silu(group_norm(in));
    zn_graph_fuse_silu_norms(y->graph, &y, 1);
    return y;
}
/* As in a block of a U-Net: what it computes is added to its input, whose gradient has two parts. */
static zn_node *silu_norm_block(zn_node **in)
{
    zn_node *h = zn_modulate(zn_modulate(group_norm(in), in[3], in[4]), in[5], NULL);
    zn_node *y = zn_add(in[0], zn_dropout(zn_silu(h), zn_ones_like(zn_sample_mean(in[0])), 0.3f, 5));
    zn_graph_fuse_silu_norms(y->graph, &y, 1);
    return y;
}
static zn_node *mse(zn_node **in) { return zn_mean_square_error(in[0], in[1]); }
static zn_node *multiply(zn_node **in) { return zn_multiply(in[0], in[1]); }
static zn_node *square(zn_node **in) { return zn_multiply(in[0], in[0]); }
static zn_node *multiply_scalar(zn_node **in)
{
    return zn_multiply_scalar(in[0], zn_scale(zn_mean(zn_ones_like(in[0])), -1.7f));
}
static zn_node *exponential(zn_node **in) { return zn_exp(in[0]); }
static zn_node *kl(zn_node **in) { return zn_kl_gaussian(in[0], in[1]); }
static zn_node *ssim(zn_node **in) { return zn_scale(zn_ssim_loss(in[0], in[1]), 100); }
static zn_node *ones(zn_node **in) { return zn_add(in[0], zn_ones_like(in[0])); }

static zn_node *logistic(zn_node **in) { return zn_scale(zn_logistic_loss(in[0], zn_positive(in[0])), 10); }
static zn_node *absolute(zn_node **in) { return zn_mean_absolute_error(in[0], in[1]); }
static zn_node *huber(zn_node **in) { return zn_huber(in[0], in[1], 0.7f); }
static zn_node *downsample2(zn_node **in) { return zn_downsample2(in[0]); }
static zn_node *gelu(zn_node **in) { return zn_gelu(in[0]); }
static zn_node *silu(zn_node **in) { return zn_silu(in[0]); }
static zn_node *concat(zn_node **in) { return zn_concat(in[0], in[1]); }
static zn_node *slice(zn_node **in) { return zn_slice_channels(in[0], 1, 3); }
static zn_node *dropout(zn_node **in) { return zn_dropout(in[0], zn_ones_like(zn_sample_mean(in[0])), 0.3f, 2); }
static zn_node *modulate(zn_node **in) { return zn_modulate(in[0], in[1], in[2]); }
/* Blocks that are modulated by products of the same values, which fusion gathers. */
static zn_node *modulated(zn_node **in)
{
    enum { BLOCKS = 5, HALF = 16 };
    zn_node *y = in[0];
    for (int i = 0; i < BLOCKS; i++) {
        zn_node *both = zn_dense(in[1], in[2], NULL);
        y = zn_modulate(y, zn_slice_channels(both, 0, HALF), zn_slice_channels(both, HALF, HALF));
        y = zn_silu(y);
    }
    return y;
}
static zn_node *sample_mean(zn_node **in) { return zn_sample_mean(in[0]); }
static zn_node *attention(zn_node **in) { return zn_attention(in[0], 2); }
static zn_node *attention_apart(zn_node **in) { return zn_attention_apart(in[0], 2); }
static zn_node *layer_norm(zn_node **in) { return zn_layer_norm(in[0], in[1], in[2], 1e-5f); }
static zn_node *positive(zn_node **in) { return zn_add(in[0], zn_positive(in[0])); }
static zn_node *mean(zn_node **in) { return zn_mean(in[0]); }
static zn_node *wht_rows(zn_node **in) { return zn_wht(in[0], 2, 0.25f); }
static zn_node *wht_channels(zn_node **in) { return zn_wht(in[0], 3, 0.25f); }
static zn_node *spectral_w(zn_node **in) { return zn_spectral(in[0], in[1], 2); }
static zn_node *spectral_h(zn_node **in) { return zn_spectral(in[0], in[1], 1); }
static zn_node *scale_channels(zn_node **in) { return zn_scale_channels(in[0], in[1]); }
static zn_node *taps(zn_node **in) { return zn_taps(in[0], in[1]); }
static zn_node *rms_norm(zn_node **in) { return zn_rms_norm(in[0], in[1], 1e-6f); }
static zn_node *grouped(zn_node **in) { return zn_grouped_conv(in[0], in[1], in[2]); }
static zn_node *by_channel(zn_node *x, int side, int stride)
{
    static float weights[5 * 5 * 3];
    for (int i = 0; i < 5 * 5 * 3; i++)
        weights[i] = 0.1f * (float)((7 * i) % 11 - 5);
    zn_node *w = zn_graph_parameter(x->graph, "kernels", ZN_SHAPE(side, side, 1, 3), ZN_LAYOUT_PLAIN);
    w->data = weights;
    return zn_channel_conv(x, w, stride, (side - stride) / 2);
}
static zn_node *channel_conv(zn_node **in) { return by_channel(in[0], 5, 1); }
static zn_node *channel_conv_s2(zn_node **in) { return by_channel(in[0], 5, 2); }
static zn_node *channel_conv_s2_3(zn_node **in) { return by_channel(in[0], 3, 2); }
static zn_node *max_pool(zn_node **in) { return zn_max_pool(in[0], false); }
static zn_node *max_pool_out(zn_node **in) { return zn_max_pool(in[0], true); }
static zn_node *median3(zn_node **in) { return zn_median3(in[0]); }
static zn_node *depthwise(zn_node **in) { return zn_depthwise(in[0], in[1]); }
static zn_node *depthwise_residual(zn_node **in) { return zn_depthwise_residual(in[0], in[1]); }
static zn_node *unshuffle(zn_node **in) { return zn_pixel_unshuffle(in[0], 2); }
static zn_node *shuffle(zn_node **in) { return zn_pixel_shuffle(in[0], 2); }
static zn_node *space_to_depth(zn_node **in) { return zn_space_to_depth(in[0], 2); }
static zn_node *depth_to_space(zn_node **in) { return zn_depth_to_space(in[0], 2); }
static zn_node *select_some(zn_node **in) { return zn_select_channels(in[0], (int32_t[]){ 2, -1, 0, 2 }, 4); }
static zn_node *gate_soft(zn_node **in)
{
    zn_node *m = zn_gate_mask(zn_scale(in[0], 0.05f), in[1], in[2], NULL, ZN_GATE_SOFT, 0);
    return zn_gate_apply(in[0], m);
}
static zn_node *sparse(zn_node **in) { return zn_sparse_depthwise(in[0], in[1], zn_relu(in[2])); } /* half pruned */
static zn_node *add_channels(zn_node **in) { return zn_add_channels(in[0], in[1]); }
static zn_node *row(zn_node **in) { return zn_scale_channels(in[0], zn_row(in[1], 1)); }
static zn_node *permute(zn_node **in)
{
    static float table[] = { 0, 1, 2, 3, 4, 5, 3, 5, 0, 4, 1, 2 };
    zn_node *p = zn_graph_parameter(in[0]->graph, "table", ZN_SHAPE(2, 6), ZN_LAYOUT_INDEX);
    p->data = table;
    return zn_permute_channels(in[0], p, 1);
}
static zn_node *line_norm(zn_node **in) /* half of the blocks are pruned */
{
    zn_node *mask = zn_relu(in[5]);
    const zn_line_sources s = { .scale = in[1], .mixer = in[2], .gamma = in[3], .beta = in[4], .mask = mask };
    return zn_line(zn_gate_apply(in[0], mask), &s, (zn_line_spec){ .unit = 1, .groups = 2, .eps = 1e-5f });
}
static zn_node *line_srig(zn_node **in)
{
    const zn_line_sources s = { .scale = in[1], .mixer = in[2], .w = in[3], .b = in[4] };
    return zn_line(in[0], &s, (zn_line_spec){ .unit = 0.2f });
}
static zn_node *line_threshold(zn_node **in)
{
    const zn_line_sources s = { .scale = in[1], .mixer = in[2], .w = zn_scale(in[3], 0.1f) };
    return zn_line(in[0], &s, (zn_line_spec){ .unit = 0.125f });
}
static zn_node *srig(zn_node **in) { return zn_srig(in[0], in[1], in[2]); }
static zn_node *tile_rows(zn_node **in) { return zn_tile_mix(in[0], in[1], zn_scale(in[2], 0.1f), 2, 0); }
static zn_node *tile_columns(zn_node **in) { return zn_tile_mix(in[0], in[1], zn_scale(in[2], 0.1f), 1, 4); }

const op_case op_cases[] = {
    { "conv", { MAP(2, 5, 7, 3), MAP(3, 3, 3, 4), ROW(4) }, conv_3x3, false },
    { "conv", { MAP(1, 9, 13, 16), MAP(3, 3, 16, 20), ROW(20) }, conv_3x3, false },
    { "conv", { MAP(1, 4, 5, 24), MAP(3, 3, 24, 24), ROW(24), MAP(3, 3, 24, 24), ROW(24) }, conv_block, true },
    { "conv", { MAP(2, 5, 6, 3), MAP(3, 3, 3, 5), ROW(5), MAP(3, 3, 5, 3), ROW(3) }, conv_block, true },
    { "conv", { MAP(2, 6, 8, 5), MAP(3, 3, 5, 6) }, conv_s2, false },
    { "conv", { MAP(2, 7, 9, 3), MAP(3, 3, 3, 16) }, conv_s2, false },
    { "conv", { MAP(2, 7, 9, 16), MAP(1, 1, 16, 32) }, conv_1x1_s2, false },
    { "conv", { MAP(2, 12, 12, 2), MAP(7, 7, 2, 4), ROW(4) }, conv_s4, false },
    { "conv", { MAP(1, 4, 3, 8), MAP(1, 1, 8, 12), ROW(12) }, conv_1x1, false },
    { "conv", { MAP(2, 3, 3, 16), MAP(1, 1, 16, 24), ROW(24) }, conv_1x1, false },
    { "conv", { MAP(2, 6, 8, 5), MAP(3, 3, 5, 6), ROW(6) }, conv_down, false },
    { "conv", { MAP(4, 5, 6, 3), MAP(3, 3, 3, 4) }, conv_late, false },
    { "conv", { MAP(4, 5, 6, 3), MAP(3, 3, 3, 4), MAP(3, 3, 3, 4), ROW(4) }, conv_causal, false },
    { "frames", { MAP(2, 2, 3, 4), MAP(3, 2, 3, 4) }, frames, false },
    { "dense", { MAP(1, 3, 3, 7), MAP(1, 1, 7, 32), ROW(32) }, dense, false },
    { "dense", { MAP(2, 2, 3, 16), MAP(1, 1, 2, 5), MAP(1, 1, 5, 32) }, modulated, false },
    { "matrix", { MAP(2, 1, 5, 7), MAP(1, 1, 9, 7), ROW(9) }, matrix, false },
    { "matrix", { MAP(1, 1, 3, 40), MAP(1, 1, 33, 40) }, matrix, false },
    { "reshape", { MAP(1, 2, 3, 5), ROW(5) }, reshape, false },
    { "relu", { MAP(1, 4, 5, 3) }, relu, true },
    { "soft_clamp", { MAP(1, 4, 5, 3) }, soft_clamp, false },
    { "clamp", { MAP(1, 4, 5, 3) }, clamp, false },
    { "clamp", { ROW(9), ROW(9), ROW(9) }, gaussian, false },
    { "scale", { ROW(17) }, scale, false },
    { "add", { MAP(1, 2, 3, 4), MAP(1, 2, 3, 4) }, add, false },
    { "add", { ROW(9) }, add_self, false },
    { "sub", { ROW(7), ROW(7) }, sub, false },
    { "upsample2", { MAP(2, 3, 4, 5) }, upsample2, false },
    { "upsample2_grad", { MAP(1, 4, 6, 3) }, downsample2, false },
    { "silu", { MAP(1, 4, 5, 3) }, silu, false },
    { "concat", { MAP(2, 2, 3, 5), MAP(2, 2, 3, 4) }, concat, false },
    { "slice", { MAP(1, 2, 3, 5) }, slice, false },
    { "dropout", { MAP(2, 3, 4, 1) }, dropout, false },
    { "modulate", { MAP(2, 3, 4, 6), MAP(1, 1, 2, 6), MAP(1, 1, 2, 6) }, modulate, false },
    { "sample_mean", { MAP(3, 2, 4, 70) }, sample_mean, false },
    { "attention", { MAP(2, 3, 7, 30) }, attention, false },
    { "attention", { MAP(2, 3, 5, 24) }, attention_apart, false },
    { "attend", { MAP(2, 1, 5, 12), MAP(2, 1, 7, 6), MAP(2, 1, 7, 6) }, attend, false },
    { "attend", { MAP(2, 1, 19, 10), MAP(2, 1, 20, 5), MAP(2, 1, 20, 5) }, attend_back, false },
    { "rope", { MAP(2, 1, 3, 8) }, rope, false },
    { "rope", { MAP(1, 1, 3, 8) }, rope_halves, false },
    { "lookup", { MAP(1, 1, 5, 3) }, lookup, false },
    { "group_norm", { MAP(3, 1, 2, 7), ROW(7), ROW(7) }, layer_norm, false },
    { "group_norm", { MAP(2, 3, 5, 8), ROW(8), ROW(8) }, group_norm, false },
    { "silu_norm", { MAP(2, 3, 5, 6), ROW(6), ROW(6) }, silu_norm, false },
    { "silu_norm",
      { MAP(2, 3, 5, 8), ROW(8), ROW(8), MAP(1, 1, 2, 8), MAP(1, 1, 2, 8), MAP(1, 1, 2, 8) },
      silu_norm_block,
      false },
    { "mean_square_error", { MAP(1, 3, 4, 2), MAP(1, 3, 4, 2) }, mse, false },
    { "multiply_scalar", { ROW(6) }, multiply_scalar, false },
    { "multiply", { ROW(7), ROW(7) }, multiply, false },
    { "multiply", { ROW(9) }, square, false },
    { "exp", { ROW(9) }, exponential, false },
    { "exp", { MAP(1, 3, 4, 2), MAP(1, 3, 4, 2) }, kl, false },
    { "ssim", { MAP(2, 12, 15, 2), MAP(2, 12, 15, 2) }, ssim, false },
    { "ones", { ROW(5) }, ones, false },
    { "logistic_loss", { MAP(1, 3, 4, 2) }, logistic, true },
    { "distance", { MAP(1, 3, 4, 2), MAP(1, 3, 4, 2) }, absolute, false },
    { "distance", { MAP(1, 3, 4, 2), MAP(1, 3, 4, 2) }, huber, false },
    { "gelu", { MAP(1, 4, 5, 3) }, gelu, false },
    { "positive", { ROW(9) }, positive, true },
    { "mean", { MAP(1, 3, 4, 2) }, mean, false },
    { "wht", { MAP(2, 3, 8, 5) }, wht_rows, false },
    { "wht", { MAP(1, 3, 2, 16) }, wht_channels, false },
    { "spectral", { MAP(2, 3, 8, 20), ROW(8) }, spectral_w, false },
    { "spectral", { MAP(2, 16, 3, 4), ROW(16) }, spectral_h, false },
    { "mix", { MAP(2, 4, 3, 6), ROW(6) }, scale_channels, false },
    { "mix", { MAP(1, 4, 3, 7), ROWS(3, 7) }, taps, false },
    { "rms_norm", { MAP(1, 4, 3, 8), ROW(8) }, rms_norm, false },
    { "rms_norm", { MAP(1, 4, 3, 8), ROW(8) }, unit_norm, false },
    { "grouped", { MAP(2, 3, 4, 8), CUBE(4, 3, 2), ROW(12) }, grouped, false },
    { "channel_conv", { MAP(2, 4, 6, 3) }, channel_conv, false },
    { "channel_conv", { MAP(2, 6, 8, 3) }, channel_conv_s2, false },
    { "channel_conv", { MAP(1, 5, 4, 3) }, channel_conv_s2_3, false },
    { "max_pool", { MAP(2, 7, 6, 3) }, max_pool, false },
    { "max_pool", { MAP(2, 4, 7, 5) }, max_pool_out, false },
    { "max_pool", { MAP(1, 2, 3, 2) }, max_pool_out, false },
    { "median3", { MAP(2, 4, 5, 3) }, median3, false },
    { "median3", { MAP(1, 1, 4, 2) }, median3, false },
    { "depthwise", { MAP(2, 4, 5, 3), CUBE(3, 3, 3) }, depthwise, false },
    { "depthwise", { MAP(1, 1, 5, 3), CUBE(3, 3, 3) }, depthwise_residual, false },
    { "unshuffle", { MAP(1, 4, 6, 3) }, unshuffle, false },
    { "shuffle", { MAP(1, 2, 3, 8) }, shuffle, false },
    { "space_to_depth", { MAP(2, 4, 6, 3) }, space_to_depth, false },
    { "depth_to_space", { MAP(2, 2, 3, 8) }, depth_to_space, false },
    { "select", { MAP(1, 2, 3, 3) }, select_some, false },
    { "gate_mask", { MAP(1, 2, 3, 16), ROW(2), ROW(2) }, gate_soft, true },
    { "sparse_depthwise", { MAP(2, 3, 4, 64), CUBE(64, 3, 3), MAP(2, 3, 4, 8) }, sparse, true },
    { "add_channels", { MAP(1, 4, 3, 7), ROW(7) }, add_channels, false },
    { "row", { MAP(1, 4, 3, 5), ROWS(3, 5) }, row, false },
    { "permute", { MAP(1, 4, 3, 6) }, permute, false },
    { "srig", { MAP(1, 2, 2, 12), ROWS(12, 5), ROW(12) }, srig, true },
    { "line", { MAP(2, 2, 3, 64), ROW(64), ROWS(3, 64), ROW(64), ROW(64), MAP(2, 2, 3, 8) }, line_norm, true },
    { "line", { MAP(1, 2, 3, 64), ROW(64), ROWS(3, 64), ROWS(64, 5), ROW(64) }, line_srig, true },
    { "line", { MAP(1, 2, 3, 64), ROW(64), ROWS(3, 64), ROW(64) }, line_threshold, true },
    { "line", { MAP(1, 2, 3, 8), ROW(8), ROWS(3, 8), ROW(8) }, line_threshold, true },
    { "tile_mix", { MAP(1, 3, 11, 3), ROWS(8, 3), ROWS(8, 3) }, tile_rows, false },
    { "tile_mix", { MAP(1, 16, 3, 20), ROWS(8, 20), ROWS(8, 20) }, tile_columns, false },
    { "row", { MAP(1, 1, 3, 2), CUBE(3, 2, 1) }, row, false },
    { NULL, { ROW(0) }, NULL, false },
};
