/* LPIPS v0.1: the perceptual distance of two images (Zhang and others 2018, https://arxiv.org/abs/1801.03924).
 *
 *   images [N,H,W,3] in [0,1], normalised by fixed means and deviations
 *   alex:    conv 11x11/4  pool  conv 5x5  pool  conv 3x3  conv 3x3  conv 3x3          a tap after each ReLU
 *   squeeze: conv 3x3/2  pool  fire fire  pool  fire fire  pool  fire fire fire fire   taps after the first convolution
 *            and fires 3, 5, 6, 7, 8, 9; a fire: conv 1x1, then conv 1x1 beside conv 3x3
 *   a tap:   features of each pixel divided by their norm; the squared difference of the two images, summed over
 *            channels with the weights of a head, averaged over pixels
 *   result [1]: the sum over taps, averaged over the N pairs
 *
 * Both images go through the network layer by layer, so that only one stage is in memory at a time. */
#include "models/arch.h"

#include "base/fail.h"

#include <math.h>
#include <string.h>

enum { PAIR = 2, LEAST_SIDE = 32 };

/* ---- configurations ---- */

typedef enum backbone { ALEX, SQUEEZE } backbone;
static const backbone alex_backbone = ALEX, squeeze_backbone = SQUEEZE;

static const zn_config configs[] = {
    { .name = "lpips-alex",
      .aliases = "lpips_alex",
      .description = "perceptual distance of two images: LPIPS v0.1 on AlexNet, the form to report",
      .downscale = LEAST_SIDE,
      .preset_form = &alex_backbone },
    { .name = "lpips-squeeze",
      .aliases = "lpips_squeeze",
      .description = "perceptual distance of two images: LPIPS v0.1 on SqueezeNet 1.1, small; also a loss for training",
      .downscale = LEAST_SIDE,
      .preset_form = &squeeze_backbone },
    { .name = NULL },
};

/* ---- blocks, each for both images ---- */

/* A vector of three constants of the network's definition. */
static zn_node *constant(zn_scope s, const char *name, const float values[3])
{
    zn_node *n = zn_vector(s, name, 3, ZN_ROLE_CONSTANT);
    n->data = zn_arena_alloc(zn_graph_arena(s.graph), sizeof(float) * 3);
    if (n->data)
        memcpy(n->data, values, sizeof(float) * 3);
    return n;
}

/* (2 x - 1 - mean) / deviation */
static void normalise(zn_scope s, zn_node *x[PAIR])
{
    static const double mean[] = { -0.030, -0.088, -0.188 }, deviation[] = { 0.458, 0.448, 0.450 };
    float factor[3], more[3];
    for (int c = 0; c < 3; c++) {
        factor[c] = (float)(2 / deviation[c]);
        more[c] = (float)(-(1 + mean[c]) / deviation[c]);
    }
    zn_node *f = constant(s, "factor", factor), *m = constant(s, "more", more);
    for (int i = 0; i < PAIR; i++)
        x[i] = zn_add_channels(zn_scale_channels(x[i], f), m);
}

/* A convolution and its ReLU. */
static void conv(zn_scope s, zn_node *x[PAIR], int out, int kernel, zn_conv_spec spec)
{
    zn_graph_name_layer(s.graph, s.prefix);
    zn_node *w =
        zn_parameter(s, "weight", ZN_SHAPE(kernel, kernel, zn_channels(x[0]), out), ZN_LAYOUT_CONV, ZN_ROLE_WEIGHT);
    zn_node *b = zn_vector(s, "bias", out, ZN_ROLE_BIAS);
    for (int i = 0; i < PAIR; i++)
        x[i] = zn_relu(zn_conv(x[i], w, b, spec));
}

static void pool(zn_node *x[PAIR], bool reaches_out)
{
    for (int i = 0; i < PAIR; i++)
        x[i] = zn_max_pool(x[i], reaches_out);
}

/* fire2 to fire9: 16, 16, 32, 32, 48, 48, 64, 64 channels, four times as many for each half of the result. */
static void fire(zn_scope s, zn_node *x[PAIR], int index)
{
    const int narrow = index / 2 * 16, wide = 4 * narrow;
    const zn_conv_spec plain = { .stride = 1 }, padded = { .stride = 1, .pad = 1 };
    conv(zn_at(s, "squeeze"), x, narrow, 1, plain);
    zn_node *beside[PAIR] = { x[0], x[1] };
    conv(zn_at(s, "expand1"), x, wide, 1, plain);
    conv(zn_at(s, "expand3"), beside, wide, 3, padded);
    for (int i = 0; i < PAIR; i++)
        x[i] = zn_concat(x[i], beside[i]);
}

/* The distance of tap `index`, added to the sum of those before. */
static zn_node *tap(zn_scope s, zn_node *x[PAIR], int index, zn_node *sum)
{
    static const float floor = 1e-10f; /* of the norm */
    const int channels = zn_channels(x[0]);
    const zn_scope own = zn_at(s, "lin%d", index);
    zn_graph_name_layer(s.graph, own.prefix);
    zn_node *head = zn_vector(own, "weight", channels, ZN_ROLE_GAIN);
    zn_node *gain = zn_scale(zn_ones_like(head), 1 / sqrtf((float)channels));
    zn_node *d = zn_sub(zn_unit_norm(x[0], gain, floor), zn_unit_norm(x[1], gain, floor));
    zn_node *distance = zn_scale(zn_mean(zn_multiply(d, zn_scale_channels(d, head))), (float)channels);
    return sum ? zn_add(sum, distance) : distance;
}

/* ---- the two networks ---- */

static zn_node *alex(zn_scope s, zn_node *x[PAIR])
{
    static const struct {
        int channels, kernel, stride, pad;
        bool pooled; /* before the convolution */
    } layers[] = { { 64, 11, 4, 2, false },
                   { 192, 5, 1, 2, true },
                   { 384, 3, 1, 1, true },
                   { 256, 3, 1, 1, false },
                   { 256, 3, 1, 1, false } };
    zn_node *sum = NULL;
    for (int i = 0; i < (int)(sizeof layers / sizeof *layers); i++) {
        if (layers[i].pooled)
            pool(x, false);
        conv(zn_at(s, "conv%d", i + 1), x, layers[i].channels, layers[i].kernel,
             (zn_conv_spec){ .stride = layers[i].stride, .pad = layers[i].pad });
        sum = tap(s, x, i, sum);
    }
    return sum;
}

static zn_node *squeeze(zn_scope s, zn_node *x[PAIR])
{
    conv(zn_at(s, "conv1"), x, 64, 3, (zn_conv_spec){ .stride = 2 });
    zn_node *sum = tap(s, x, 0, NULL);
    int taps = 1;
    for (int i = 2; i <= 9; i++) {
        if (i == 2 || i == 4 || i == 6)
            pool(x, true);
        fire(zn_at(s, "fire%d", i), x, i);
        if (i == 3 || i >= 5)
            sum = tap(s, x, taps++, sum);
    }
    return sum;
}

static zn_node *network(zn_scope s, zn_part part, zn_node *const *images, const zn_config *k)
{
    (void)part;
    zn_node *x[PAIR] = { images[0], images[1] };
    normalise(s, x);
    return *(const backbone *)zn_form_of(k) == ALEX ? alex(s, x) : squeeze(s, x);
}

static int inputs(const zn_config *k, zn_part part, int64_t n, int64_t h, int64_t w, zn_shape *shapes)
{
    (void)k;
    (void)part;
    for (int i = 0; i < PAIR; i++)
        shapes[i] = ZN_SHAPE(n, h, w, 3);
    return PAIR;
}

/* ---- files: the names are those of the text above ---- */

static zn_status recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it)
{
    const bool is_alex = zn_weights_find(w, "conv5.weight") && zn_weights_find(w, "lin4.weight");
    const bool is_squeeze = zn_weights_find(w, "fire9.expand3.weight") && zn_weights_find(w, "lin6.weight");
    memset(naming, 0, sizeof *naming * ZN_PARTS);
    *is_it = naming[ZN_ENCODER].present = is_alex || is_squeeze;
    *k = configs[is_squeeze];
    return ZN_OK;
}

const zn_arch zn_arch_lpips = { .name = "lpips",
                                .configs = configs,
                                .scope = { "" },
                                .can = ZN_JUDGES,
                                .network = network,
                                .inputs = inputs,
                                .recognise = recognise };
