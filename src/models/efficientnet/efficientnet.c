/* EfficientNet-Lite0 (Google, 2020), without its classifier: features of images, for the distance of two sets of them.
 *
 *   image [N,H,W,3] in [0,1], H and W multiples of 32
 *   stem: conv 3x3 with stride 2, 32 channels
 *   16 blocks in seven stages: expand by 1x1 to six times the channels, one kernel for each channel, project by 1x1;
 * the input is added where shapes agree. ReLU6 after all but the projection. result [1,1,N,320]: the mean of the last
 * block over pixels
 *
 * Batch norms are folded into the convolutions. Padding is TensorFlow's: with a stride of 2 on even sides, one row and
 * column less before the map than after it. */
#include "models/arch.h"

#include <string.h>

enum { STEM = 32, EXPANSION = 6, FEATURES = 320, DOWNSCALE = 32 };

static const zn_config configs[] = {
    { .name = "efficientnet-lite0",
      .aliases = "efficientnet_lite0",
      .description = "features of images, for the distance of two sets: EfficientNet-Lite0 without its classifier",
      .latent = FEATURES,
      .downscale = DOWNSCALE },
    { .name = NULL },
};

static const struct {
    int kernel, stride, channels, blocks;
} stages[] = { { 3, 1, 16, 1 },  { 3, 2, 24, 2 },  { 5, 2, 40, 2 }, { 3, 2, 80, 3 },
               { 5, 1, 112, 3 }, { 5, 2, 192, 4 }, { 3, 1, 320, 1 } };

static zn_node *relu6(zn_node *x) { return zn_clamp(x, 0, 6); }

/* (255 x - 127) / 128 */
static zn_node *normalise(zn_node *image)
{
    return zn_sub(zn_scale(image, 255.0f / 128), zn_scale(zn_ones_like(image), 127.0f / 128));
}

static zn_node *stem(zn_scope s, zn_node *x)
{
    zn_graph_name_layer(s.graph, s.prefix);
    zn_node *w = zn_parameter(s, "weight", ZN_SHAPE(3, 3, 3, STEM), ZN_LAYOUT_CONV, ZN_ROLE_WEIGHT);
    return relu6(zn_conv(x, w, zn_vector(s, "bias", STEM, ZN_ROLE_BIAS), (zn_conv_spec){ .stride = 2, .beyond = 1 }));
}

static zn_node *by_channel(zn_scope s, zn_node *x, int kernel, int stride)
{
    const int c = zn_channels(x);
    zn_graph_name_layer(s.graph, s.prefix);
    zn_node *w = zn_parameter(s, "weight", ZN_SHAPE(kernel, kernel, 1, c), ZN_LAYOUT_CONV, ZN_ROLE_WEIGHT);
    zn_node *y = zn_channel_conv(x, w, stride, (kernel - stride) / 2);
    return relu6(zn_add_channels(y, zn_vector(s, "bias", c, ZN_ROLE_BIAS)));
}

static zn_node *block(zn_scope s, zn_node *x, int expansion, int kernel, int stride, int out)
{
    const int in = zn_channels(x);
    zn_node *y = expansion > 1 ? relu6(zn_conv1x1(zn_at(s, "expand"), x, in * expansion)) : x;
    y = zn_conv1x1(zn_at(s, "project"), by_channel(zn_at(s, "dw"), y, kernel, stride), out);
    return stride == 1 && in == out ? zn_add(x, y) : y;
}

static zn_node *network(zn_scope s, zn_part part, zn_node *const *images, const zn_config *k)
{
    (void)part;
    (void)k;
    zn_node *x = stem(zn_at(s, "stem"), normalise(images[0]));
    int index = 0;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        for (int b = 0; b < stages[i].blocks; b++, index++)
            x = block(zn_at(s, "block%d", index), x, index ? EXPANSION : 1, stages[i].kernel, b ? 1 : stages[i].stride,
                      stages[i].channels);
    return zn_sample_mean(x);
}

static int inputs(const zn_config *k, zn_part part, int64_t n, int64_t h, int64_t w, zn_shape *shapes)
{
    (void)k;
    (void)part;
    shapes[0] = ZN_SHAPE(n, h, w, 3);
    return 1;
}

static zn_status recognise(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it)
{
    memset(naming, 0, sizeof *naming * ZN_PARTS);
    *is_it = naming[ZN_ENCODER].present =
        zn_weights_find(w, "stem.weight") && zn_weights_find(w, "block15.project.weight");
    *k = configs[0];
    return ZN_OK;
}

const zn_arch zn_arch_efficientnet = { .name = "efficientnet",
                                       .configs = configs,
                                       .scope = { "" },
                                       .can = ZN_JUDGES,
                                       .network = network,
                                       .inputs = inputs,
                                       .recognise = recognise };
