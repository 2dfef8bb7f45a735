/* Qwen3 in files: which of three namings they have, and what sizes. */
#include "base/fail.h"
#include "models/qwen3/qwen3.h"

#include <stdio.h>
#include <string.h>

static const char *const gguf_names[][2] = {
    { "self_attn.q_proj", "attn_q" },      { "self_attn.k_proj", "attn_k" },
    { "self_attn.v_proj", "attn_v" },      { "self_attn.o_proj", "attn_output" },
    { "self_attn.q_norm", "attn_q_norm" }, { "self_attn.k_norm", "attn_k_norm" },
    { "input_layernorm", "attn_norm" },    { "post_attention_layernorm", "ffn_norm" },
    { "mlp.gate_proj", "ffn_gate" },       { "mlp.up_proj", "ffn_up" },
    { "mlp.down_proj", "ffn_down" },
};

static void gguf_place(const char *name, zn_place *out)
{
    int block = 0, length = 0;
    if (strcmp(name, "embed_tokens.weight") == 0)
        snprintf(out->name, sizeof out->name, "token_embd.weight");
    else if (strcmp(name, "norm.weight") == 0)
        snprintf(out->name, sizeof out->name, "output_norm.weight");
    else if (sscanf(name, "layers.%d.%n", &block, &length) == 1 && length > 0)
        for (size_t i = 0; i < sizeof gguf_names / sizeof *gguf_names; i++) {
            const size_t n = strlen(gguf_names[i][0]);
            if (strncmp(name + length, gguf_names[i][0], n) == 0 && strcmp(name + length + n, ".weight") == 0)
                snprintf(out->name, sizeof out->name, "blk.%d.%s.weight", block, gguf_names[i][1]);
        }
}

void zn_qwen3_place(const void *self, zn_place *out)
{
    const zn_qwen3_naming *n = self;
    char name[sizeof out->name];
    const bool own = strncmp(out->name, "model.", 6) == 0;
    snprintf(name, sizeof name, "%s", out->name + (own ? 6 : 0));
    if (n->gguf)
        gguf_place(name, out);
    else
        snprintf(out->name, sizeof out->name, "%s%.150s", n->prefix, name);
}

static bool find_naming(const zn_weights *const *files, int count, zn_qwen3_naming *naming)
{
    *naming = (zn_qwen3_naming){ 0 };
    if (zn_find_prefix(files, count, "embed_tokens.weight", naming->prefix, sizeof naming->prefix))
        return true;
    for (int f = 0; f < count; f++)
        naming->gguf |= zn_weights_find(files[f], "token_embd.weight") != NULL;
    return naming->gguf;
}

/* Sizes follow from the tensors; config.json has what does not. */
zn_status zn_qwen3_recognise(const zn_weights *const *files, int count, const zn_json_node *config, zn_qwen3_form *k,
                             zn_qwen3_naming *naming)
{
    if (!find_naming(files, count, naming))
        return ZN_FAIL(ZN_ENOTFOUND, "there is no embedding of tokens: this is not a language model");
    const zn_stored s = { files, count, zn_qwen3_place, naming };
    double eps = (double)zn_qwen3_4b.eps;
    *k = zn_qwen3_4b;
    k->vocabulary = (int)zn_stored_side(&s, "model.embed_tokens.weight", 0);
    k->hidden = (int)zn_stored_side(&s, "model.layers.0.input_layernorm.weight", 0);
    k->head = (int)zn_stored_side(&s, "model.layers.0.self_attn.q_norm.weight", 0);
    k->inner = (int)zn_stored_side(&s, "model.layers.0.mlp.gate_proj.weight", 0);
    const int64_t q = zn_stored_side(&s, "model.layers.0.self_attn.q_proj.weight", 0);
    const int64_t kv = zn_stored_side(&s, "model.layers.0.self_attn.k_proj.weight", 0);
    for (k->layers = 0; k->layers < 1024; k->layers++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.%d.input_layernorm.weight", k->layers);
        if (!zn_stored_find(&s, name, NULL, NULL))
            break;
    }
    if (k->head < 2 || k->head % 2 || k->hidden < 1 || k->inner < 1 || q % k->head || kv < k->head || kv % k->head ||
        q < kv || q % kv)
        return ZN_FAIL(ZN_EFORMAT, "these are not blocks of Qwen3: heads of %d channels, %lld queries, %lld keys",
                       k->head, (long long)q, (long long)kv);
    k->heads = (int)(q / k->head);
    k->groups = (int)(kv / k->head);
    zn_json_update_int(config, "num_hidden_layers", &k->layers);
    zn_json_update_double(config, "rms_norm_eps", &eps);
    zn_json_update_double(config, "rope_theta", &k->theta);
    k->eps = (float)eps;
    return ZN_OK;
}
