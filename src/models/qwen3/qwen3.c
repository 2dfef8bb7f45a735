/* Qwen3, under the names of the published checkpoints.
 *
 *   embedding of the tokens
 *   each block: norm, q k v, norm of each head of q and k, rotary positions, causal attention in groups, product; added
 *               norm, SwiGLU; added
 *   norm */
#include "models/qwen3/qwen3.h"

const zn_qwen3_form zn_qwen3_4b = { .vocabulary = 151936,
                                    .hidden = 2560,
                                    .layers = 36,
                                    .heads = 32,
                                    .groups = 8,
                                    .head = 128,
                                    .inner = 9728,
                                    .eps = 1e-6f,
                                    .theta = 1e6 };

static zn_node *attention(zn_scope s, zn_node *x, const zn_rope_tables *t, const zn_qwen3_form *k)
{
    zn_node *q = zn_matrix_no_bias(zn_at(s, "q_proj"), x, k->heads * k->head);
    zn_node *key = zn_matrix_no_bias(zn_at(s, "k_proj"), x, k->groups * k->head);
    zn_node *value = zn_matrix_no_bias(zn_at(s, "v_proj"), x, k->groups * k->head);
    q = zn_rms_norm_heads(zn_at(s, "q_norm"), q, k->heads, k->eps);
    key = zn_rms_norm_heads(zn_at(s, "k_norm"), key, k->groups, k->eps);
    q = zn_rope(q, t->cosines, t->sines, true);
    key = zn_rope(key, t->cosines, t->sines, true);
    x = zn_attend(q, key, value, (zn_attend_spec){ .heads = k->heads, .groups = k->groups, .causal = true });
    return zn_matrix_no_bias(zn_at(s, "o_proj"), x, k->hidden);
}

static zn_node *block(zn_scope s, zn_node *x, const zn_rope_tables *t, const zn_qwen3_form *k)
{
    const zn_swiglu_scopes mlp = { zn_at(s, "mlp.gate_proj"), zn_at(s, "mlp.up_proj"), zn_at(s, "mlp.down_proj") };
    zn_node *h = zn_rms_norm_layer(zn_at(s, "input_layernorm"), x, k->eps);
    x = zn_add(x, attention(zn_at(s, "self_attn"), h, t, k));
    h = zn_rms_norm_layer(zn_at(s, "post_attention_layernorm"), x, k->eps);
    return zn_add(x, zn_swiglu(&mlp, h, k->inner));
}

/* Positions 0, 1, 2 and so on. */
static zn_rope_tables tables(zn_graph *g, int64_t tokens, const zn_qwen3_form *k)
{
    const zn_rope_axes axes = { .count = 1, .width = { k->head }, .theta = k->theta };
    int32_t *position = zn_arena_alloc(zn_graph_arena(g), sizeof *position * (size_t)(tokens + 1));
    for (int64_t i = 0; position && i < tokens; i++)
        position[i] = (int32_t)i;
    return zn_rope_fixed(g, "position", &axes, position, tokens);
}

zn_node *zn_qwen3(zn_scope s, zn_node *ids, const zn_qwen3_form *k, int blocks, zn_node **states)
{
    const zn_scope own = zn_at(s, "model"), embed = zn_at(own, "embed_tokens");
    zn_graph_name_layer(s.graph, embed.prefix);
    zn_node *table =
        zn_parameter(embed, "weight", ZN_SHAPE(1, 1, k->vocabulary, k->hidden), ZN_LAYOUT_ROWS, ZN_ROLE_EMBEDDING);
    const zn_rope_tables t = tables(s.graph, ids->shape.dim[2], k);
    zn_node *x = zn_lookup(table, ids);
    for (int i = 0; i <= blocks; i++) {
        if (states)
            states[i] = x;
        if (i < blocks)
            x = block(zn_at(own, "layers.%d", i), x, &t, k);
    }
    return x;
}

zn_node *zn_qwen3_norm(zn_scope s, zn_node *state, const zn_qwen3_form *k)
{
    return zn_rms_norm_layer(zn_at(s, "model.norm"), state, k->eps);
}
