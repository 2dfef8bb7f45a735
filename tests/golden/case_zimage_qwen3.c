/* Z-Image's text encoder (specification 3): every hidden state of sequences of several lengths, each run by itself. The
 * rows behind a sequence's end are zeros in the file. */
#include "golden.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "models/qwen3/qwen3.h"

#include <stdio.h>
#include <string.h>

enum { MOST_LAYERS = 64 };

typedef struct states {
    zn_qwen3_form form;
    int64_t samples, padded;
    float *all[MOST_LAYERS + 1]; /* [samples][padded][hidden], zeroed */
} states;

static bool qwen3_matches(const golden *g)
{
    return golden_has(g, "in.", "input_ids") && golden_has(g, "out.", "hidden_states.0");
}

/* The hidden states of one sequence, the last one with the norm behind it. */
static zn_status run_one(golden *g, states *s, const zn_stored *from, const float *ids, int64_t sample, int64_t tokens)
{
    zn_node *nodes[MOST_LAYERS + 1];
    const int layers = s->form.layers;
    const size_t row = sizeof(float) * (size_t)s->form.hidden;
    zn_exec *e = NULL;
    zn_graph *graph = zn_graph_new();
    if (!graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    const zn_scope scope = { graph, "" };
    zn_node *x = zn_graph_input(graph, "ids", ZN_SHAPE(1, 1, tokens, 1));
    nodes[layers] = zn_qwen3_norm(scope, zn_qwen3(scope, x, &s->form, layers, nodes), &s->form);
    zn_status status = zn_stored_bind(from, graph);
    if (status == ZN_OK)
        status = golden_exec_new(g, graph, nodes, layers + 1, &(zn_exec_options){ .training = false }, &e);
    if (status == ZN_OK) {
        memcpy(x->data, ids + sample * s->padded, sizeof(float) * (size_t)tokens);
        status = zn_exec_run(e);
    }
    for (int i = 0; i <= layers && status == ZN_OK; i++)
        memcpy((char *)s->all[i] + (size_t)(sample * s->padded) * row, nodes[i]->data, row * (size_t)tokens);
    zn_exec_free(e);
    zn_graph_free(graph);
    return status;
}

static zn_status compare(golden *g, const states *s, const float *lengths)
{
    char name[48];
    for (int i = 0; i <= s->form.layers; i++) {
        snprintf(name, sizeof name, "hidden_states.%d", i);
        ZN_TRY(golden_compare(g, name, s->all[i], ZN_SHAPE(s->samples, s->padded, s->form.hidden), ZN_LAYOUT_PLAIN,
                              GOLDEN_FORWARD));
    }
    for (int64_t i = 0; i < s->samples; i++) {
        snprintf(name, sizeof name, "caption.%d", (int)i);
        ZN_TRY(golden_compare(g, name, s->all[s->form.layers - 1] + i * s->padded * s->form.hidden,
                              ZN_SHAPE((int64_t)lengths[i], s->form.hidden), ZN_LAYOUT_PLAIN, GOLDEN_FORWARD));
    }
    return ZN_OK;
}

/* Real tokens of each sample, into the first of its row of the mask. */
static void count_tokens(const states *s, float *mask)
{
    for (int64_t i = 0; i < s->samples; i++) {
        float tokens = 0;
        for (int64_t t = 0; t < s->padded; t++)
            tokens += mask[i * s->padded + t];
        mask[i] = tokens;
    }
}

static zn_status qwen3_run(golden *g)
{
    const zn_weights *files[] = { g->file };
    zn_qwen3_naming naming;
    states s = { 0 };
    zn_shape shape, same;
    float *ids = NULL, *mask = NULL;
    ZN_TRY(zn_qwen3_recognise(files, 1, golden_network_config(g), &s.form, &naming));
    const zn_stored from = { files, 1, zn_qwen3_place, &naming };
    if (s.form.layers < 1 || s.form.layers > MOST_LAYERS)
        return ZN_FAIL(ZN_EFORMAT, "%d layers are too many", s.form.layers);
    zn_status status;
    ZN_TRY_DONE(golden_load(g, "in.", "input_ids", &shape, &ids));
    ZN_TRY_DONE(golden_load(g, "in.", "attention_mask", &same, &mask));
    ZN_TRY_DONE(shape.rank == 2 && zn_shape_equal(shape, same) ? ZN_OK : ZN_FAIL(ZN_EFORMAT, "the mask is of others"));
    s.samples = shape.dim[0];
    s.padded = shape.dim[1];
    count_tokens(&s, mask);
    for (int i = 0; i <= s.form.layers; i++) {
        s.all[i] = zn_calloc((size_t)(s.samples * s.padded * s.form.hidden), sizeof(float));
        ZN_TRY_DONE(s.all[i] ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for hidden states"));
    }
    for (int64_t i = 0; i < s.samples; i++)
        ZN_TRY_DONE(run_one(g, &s, &from, ids, i, (int64_t)mask[i]));
    status = compare(g, &s, mask);
done:
    for (int i = 0; i <= s.form.layers && i <= MOST_LAYERS; i++)
        zn_free(s.all[i]);
    zn_free(ids);
    zn_free(mask);
    return status;
}

const golden_kind golden_zimage_qwen3 = { "z-image text encoder", qwen3_matches, qwen3_run };
