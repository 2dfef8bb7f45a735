/* Networks in weights files that are not models of this program: reported by name. */
#include "models/qwen3/qwen3.h"
#include "models/zimage/zimage.h"

#include <stdio.h>

/* How many numbers the parameters of a graph have; frees it. */
static double parameters(zn_graph *g)
{
    double count = 0;
    for (int i = 0; g && i < zn_graph_count(g); i++)
        if (zn_graph_at(g, i)->op == &zn_op_parameter)
            count += (double)zn_shape_count(zn_graph_at(g, i)->shape);
    zn_graph_free(g);
    return count;
}

static double zimage_parameters(const zn_zimage_form *k)
{
    zn_graph *g = zn_graph_new();
    if (!g)
        return 0;
    const zn_scope s = { g, "" };
    zn_node *latent = zn_graph_input(g, "latent", ZN_SHAPE(1, ZN_ZIMAGE_PATCH, ZN_ZIMAGE_PATCH, k->channels));
    zn_node *time = zn_graph_input(g, "time", ZN_SHAPE(1, 1, 1, ZN_ZIMAGE_TIME));
    zn_node *features = zn_graph_input(g, "features", ZN_SHAPE(1, 1, 1, k->caption));
    zn_zimage(s, latent, zn_zimage_modulation(s, time, k), zn_zimage_caption(s, features, k), k);
    return parameters(g);
}

static double qwen3_parameters(const zn_qwen3_form *k)
{
    zn_graph *g = zn_graph_new();
    if (!g)
        return 0;
    const zn_scope s = { g, "" };
    zn_qwen3_norm(s, zn_qwen3(s, zn_graph_input(g, "ids", ZN_SHAPE(1, 1, 1, 1)), k, k->layers, NULL), k);
    return parameters(g);
}

const char *zn_weights_network(const zn_weights *weights, char *description, size_t size)
{
    zn_zimage_form z;
    zn_zimage_naming z_naming;
    zn_qwen3_form q;
    zn_qwen3_naming q_naming;
    if (zn_zimage_recognise(&weights, 1, NULL, &z, &z_naming) == ZN_OK) {
        snprintf(description, size, "transformer of Z-Image: %d layers of %d channels, %.1f M parameters", z.layers,
                 z.dim, zimage_parameters(&z) / 1e6);
        return "z-image";
    }
    if (zn_qwen3_recognise(&weights, 1, NULL, &q, &q_naming) == ZN_OK) {
        snprintf(description, size, "Qwen3, a language model: %d layers of %d channels, %.1f M parameters", q.layers,
                 q.hidden, qwen3_parameters(&q) / 1e6);
        return "qwen3";
    }
    return NULL;
}
