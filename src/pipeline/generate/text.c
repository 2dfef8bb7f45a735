/* Prompts to features: the states of Qwen3 before its last block. */
#include "pipeline/generate/ahead.h"
#include "pipeline/generate/cache.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/sha256.h"
#include "models/qwen3/qwen3.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { CACHE_BYTES = 256 << 20 };

typedef struct encoder {
    zn_part_files files;
    zn_qwen3_form form;
    zn_qwen3_naming naming;
} encoder;

static zn_status tokenise(zn_generator *g, const char *prompt, zn_tokens *out, zn_features *f)
{
    if (!g->tokenizer)
        ZN_TRY(zn_generator_tokenizer(g->paths.part[ZN_GENERATOR_TOKENIZER], &g->tokenizer));
    ZN_TRY(zn_tokenizer_chat(g->tokenizer, prompt, strlen(prompt), SIZE_MAX, out));
    f->cut = out->count > ZN_PROMPT_TOKENS ? (int)out->count - ZN_PROMPT_TOKENS : 0;
    f->tokens = (int)out->count - f->cut;
    return ZN_OK;
}

static zn_status check_ids(const zn_tokens *ids, int count, const zn_qwen3_form *k)
{
    for (int i = 0; i < count; i++)
        if ((int64_t)ids->ids[i] >= k->vocabulary)
            return ZN_FAIL(ZN_EFORMAT,
                           "the tokenizer gives token %lld, but the text encoder knows %d: they do not belong together",
                           (long long)ids->ids[i], k->vocabulary);
    return ZN_OK;
}

static zn_status run(zn_generator *g, const encoder *e, zn_graph *graph, const zn_tokens *ids,
                     zn_stage_progress progress, zn_features *f)
{
    const zn_stored from = { e->files.files, e->files.count, zn_qwen3_place, &e->naming };
    zn_node *x = zn_graph_input(graph, "ids", ZN_SHAPE(1, 1, f->tokens, 1));
    zn_node *y = zn_qwen3((zn_scope){ graph, "" }, x, &e->form, e->form.layers - 1, NULL);
    zn_ahead ahead = { 0 };
    zn_exec_options options = { .pool = g->compute.pool,
                                .device = g->compute.device,
                                .math = g->compute.math,
                                .whole = true,
                                .progress = progress.call,
                                .user = progress.user };
    const size_t bytes = sizeof(float) * (size_t)f->tokens * (size_t)e->form.hidden;
    zn_exec *exec = NULL;
    zn_status status;
    ZN_TRY_DONE(zn_stored_bind(&from, graph));
    ZN_TRY_DONE(
        zn_ahead_start(&ahead, graph, &from, zn_part_bytes(&e->files) > (double)zn_generator_budget(g), &options));
    ZN_TRY_DONE(zn_exec_new(graph, &y, 1, &options, &exec));
    for (int i = 0; i < f->tokens; i++)
        x->data[i] = (float)ids->ids[i];
    ZN_TRY_DONE(zn_exec_run(exec));
    ZN_TRY_DONE(zn_exec_check_finite(exec));
    ZN_TRY_DONE(zn_alloc_for("the prompt's features", bytes, (void **)&f->data));
    memcpy(f->data, y->data, bytes);
    f->width = e->form.hidden;
done:
    zn_exec_free(exec);
    zn_ahead_end(&ahead);
    return status;
}

static zn_status encode(zn_generator *g, const encoder *e, const zn_tokens *ids, zn_stage_progress progress,
                        zn_features *f)
{
    ZN_TRY(check_ids(ids, f->tokens, &e->form));
    zn_graph *graph = zn_graph_new();
    if (!graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    const zn_status status = run(g, e, graph, ids, progress, f);
    zn_graph_free(graph);
    return status;
}

static zn_status open_and_encode(zn_generator *g, const zn_tokens *ids, zn_stage_progress progress, zn_features *f)
{
    const char *path = g->paths.part[ZN_GENERATOR_TEXT];
    encoder e;
    ZN_TRY(zn_part_open(path, ZN_GENERATOR_TEXT, &e.files));
    zn_status status = zn_qwen3_recognise(e.files.files, e.files.count, e.files.config.root, &e.form, &e.naming);
    if (status == ZN_OK)
        status = encode(g, &e, ids, progress, f);
    zn_part_close(&e.files);
    return status == ZN_OK || status == ZN_ECANCELLED ? status : zn_fail_in_file(status, path);
}

/* Everything that the features depend on: the encoder's files, how they are computed, and the tokens, which hold
 * tokenizer, template and prompt. */
static void key_of(const zn_generator *g, const zn_tokens *ids, int tokens, char key[65])
{
    char about[128];
    zn_sha256 h;
    zn_sha256_start(&h);
    const int n = snprintf(about, sizeof about, "zenith prompt 1, %s, %s%s, %d tokens:", g->identity[ZN_GENERATOR_TEXT],
                           zn_precision_name(g->compute.math), g->compute.device ? " on a device" : "", tokens);
    zn_sha256_add(&h, about, (size_t)n);
    zn_sha256_add(&h, ids->ids, sizeof *ids->ids * (size_t)tokens);
    zn_sha256_finish_hex(&h, key);
}

zn_status zn_generator_features(zn_generator *g, const char *prompt, zn_stage_progress progress, zn_features *out)
{
    zn_tokens ids = { 0 };
    char key[65];
    *out = (zn_features){ 0 };
    zn_status status = tokenise(g, prompt, &ids, out);
    if (status == ZN_OK)
        key_of(g, &ids, out->tokens, key);
    if (status == ZN_OK && !zn_cache_get(g->cache, key, out)) {
        status = open_and_encode(g, &ids, progress, out);
        if (status == ZN_OK)
            zn_cache_put(g->cache, key, out, CACHE_BYTES);
    }
    zn_free(ids.ids);
    return status;
}
