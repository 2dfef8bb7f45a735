/* DiffAE's networks as the configuration of a golden file has them. */
#include "diffae_nets.h"

#include "base/fail.h"

#include <string.h>

const zn_json_node *diffae_section(const golden *g)
{
    const char *name = zn_weights_metadata(g->file, "case");
    const zn_json_node *own = zn_json_get(g->config, name ? name : "");
    return own ? own : g->config;
}

int diffae_number(const zn_json_node *k, const char *key, int fallback)
{
    int64_t value;
    return zn_json_i64(zn_json_get(k, key), &value) ? (int)value : fallback;
}

static zn_unet walk_of(const zn_json_node *k, const char *mult, const char *blocks, int out)
{
    zn_unet u = { .width = diffae_number(k, "model_channels", 0),
                  .blocks = diffae_number(k, blocks, 0),
                  .heads = diffae_number(k, "num_heads", 1),
                  .out = out };
    ZN_JSON_EACH(m, zn_json_get(k, mult))
    {
        int64_t value = 0;
        if (u.levels < ZN_UNET_LEVELS && zn_json_i64(m, &value))
            u.mult[u.levels++] = (int)value;
    }
    ZN_JSON_EACH(r, zn_json_get(k, "attention_resolutions"))
    {
        int64_t value = 0;
        for (int level = 0; zn_json_i64(r, &value) && level < u.levels; level++)
            u.attention[level] |= diffae_number(k, "image_size", 0) >> level == value;
    }
    return u;
}

void diffae_unets(const golden *g, zn_unet *encoder, zn_unet *unet, int *embed)
{
    const zn_json_node *k = diffae_section(g);
    *embed = diffae_number(k, "embed_channels", 0);
    *encoder = walk_of(k, "enc_channel_mult", "enc_num_res_block", diffae_number(k, "enc_out_channels", 0));
    *unet = walk_of(k, "channel_mult", "num_res_blocks", 3);
}

zn_status diffae_unet_new(golden *g, zn_shape shape, bool traced, network *n)
{
    zn_unet encoder, unet;
    int embed;
    diffae_unets(g, &encoder, &unet, &embed);
    *n = (network){ .g = g, .graph = zn_graph_new(), .samples = shape.dim[0], .width = unet.width };
    n->x = zn_graph_input(n->graph, "x", shape);
    n->time = zn_graph_input(n->graph, "time", ZN_SHAPE(1, 1, n->samples, n->width));
    n->cond = zn_graph_input(n->graph, "cond", ZN_SHAPE(1, 1, n->samples, encoder.out));
    const zn_unet_facts facts = { .time = n->time, .cond = n->cond, .embed = embed };
    n->y = zn_diffae_unet((zn_scope){ n->graph, "" }, n->x, &facts, &unet);
    ZN_TRY(network_bind(g, n->graph, "w."));
    return network_start(n, traced);
}
