/* Qwen3 (Qwen team, 2025), a language model, as encoder of prompts: numbers of tokens [1,1,L,1] to hidden states
 * [1,1,L,hidden]. Z-Image takes the states that enter the last block. */
#ifndef ZN_QWEN3_H
#define ZN_QWEN3_H

#include "base/json.h"
#include "models/stored.h"
#include "nn/transformer.h"

typedef struct zn_qwen3_form {
    int vocabulary, hidden, layers;
    int heads, groups, head; /* of queries, of keys and values, and their width */
    int inner;               /* width of the feed-forward part */
    float eps;
    double theta;
} zn_qwen3_form;

extern const zn_qwen3_form zn_qwen3_4b;

/* The states after `blocks` blocks, without the norm that follows the last. states: NULL, or room for blocks + 1 nodes,
 * those of all states from the embedding on. */
zn_node *zn_qwen3(zn_scope s, zn_node *ids, const zn_qwen3_form *k, int blocks, zn_node **states);
/* The norm after the last block. */
zn_node *zn_qwen3_norm(zn_scope s, zn_node *state, const zn_qwen3_form *k);

/* How files name the parameters: as published, without the "model." in front, or as llama.cpp does. */
typedef struct zn_qwen3_naming {
    char prefix[64];
    bool gguf;
} zn_qwen3_naming;

/* The network that files hold. config: its config.json, or NULL. ZN_ENOTFOUND: they hold no such network. */
ZN_MUST_USE zn_status zn_qwen3_recognise(const zn_weights *const *files, int count, const zn_json_node *config,
                                         zn_qwen3_form *k, zn_qwen3_naming *naming);
/* For zn_stored. */
void zn_qwen3_place(const void *naming, zn_place *out);

#endif
