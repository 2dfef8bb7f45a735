/* Prompts to features: the states of Qwen3 before its last block. Prompts of about the same length run through it
 * together, padded at their ends: every token sees only those before it, so each prompt has the bits it has alone. */
#include "pipeline/generate/ahead.h"
#include "pipeline/generate/cache.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/sha256.h"
#include "models/qwen3/qwen3.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    CACHE_BYTES = 256 << 20,
    SPAN = 64, /* numbers of tokens in one span use the same products (zn_matrix_i8_pays, zn_matrix_bf16_pays) */
    MOST_TOKENS = 2048 /* of all prompts that run together */
};

/* A prompt on its way. */
typedef struct prompt {
    zn_tokens ids;
    char key[65];
    zn_features *features; /* data: NULL until they are known */
} prompt;

/* Prompts that run together, `count` of them, padded to `tokens` tokens. */
typedef struct batch {
    const prompt **prompts;
    int count, tokens;
} batch;

typedef struct encoder {
    zn_part_files files;
    zn_qwen3_form form;
    zn_qwen3_naming naming;
} encoder;

static zn_status tokenise(zn_generator *g, const char *text, prompt *p)
{
    zn_features *f = p->features;
    if (!g->tokenizer)
        ZN_TRY(zn_generator_tokenizer(g->paths.part[ZN_GENERATOR_TOKENIZER], &g->tokenizer));
    ZN_TRY(zn_tokenizer_chat(g->tokenizer, text, strlen(text), SIZE_MAX, &p->ids));
    f->cut = p->ids.count > ZN_PROMPT_TOKENS ? (int)p->ids.count - ZN_PROMPT_TOKENS : 0;
    f->tokens = (int)p->ids.count - f->cut;
    return ZN_OK;
}

static zn_status check_ids(const prompt *p, const zn_qwen3_form *k)
{
    for (int i = 0; i < p->features->tokens; i++)
        if ((int64_t)p->ids.ids[i] >= k->vocabulary)
            return ZN_FAIL(ZN_EFORMAT,
                           "the tokenizer gives token %lld, but the text encoder knows %d: they do not belong together",
                           (long long)p->ids.ids[i], k->vocabulary);
    return ZN_OK;
}

/* Tokens of the prompts, [prompt][token]; what pads them is any token. */
static void write_ids(const batch *b, float *x)
{
    for (int p = 0; p < b->count; p++)
        for (int i = 0; i < b->tokens; i++)
            x[p * b->tokens + i] = i < b->prompts[p]->features->tokens ? (float)b->prompts[p]->ids.ids[i] : 0.0f;
}

/* y: [prompt][token][width]. */
static zn_status read_features(const batch *b, const float *y, int width)
{
    for (int p = 0; p < b->count; p++) {
        zn_features *f = b->prompts[p]->features;
        const size_t bytes = sizeof(float) * (size_t)f->tokens * (size_t)width;
        ZN_TRY(zn_alloc_for("the prompt's features", bytes, (void **)&f->data));
        memcpy(f->data, y + (int64_t)p * b->tokens * width, bytes);
        f->width = width;
    }
    return ZN_OK;
}

static zn_status run(zn_generator *g, const encoder *e, zn_graph *graph, const batch *b, zn_stage_progress progress)
{
    const zn_stored from = { e->files.files, e->files.count, zn_qwen3_place, &e->naming };
    zn_node *x = zn_graph_input(graph, "ids", ZN_SHAPE(b->count, 1, b->tokens, 1));
    zn_node *y = zn_qwen3((zn_scope){ graph, "" }, x, &e->form, e->form.layers - 1, NULL);
    zn_ahead ahead = { 0 };
    zn_exec_options options = { .pool = g->compute.pool,
                                .device = g->compute.device,
                                .math = g->compute.math,
                                .whole = true,
                                .progress = progress.call,
                                .user = progress.user };
    zn_exec *exec = NULL;
    zn_status status;
    ZN_TRY_DONE(zn_stored_bind(&from, graph));
    ZN_TRY_DONE(
        zn_ahead_start(&ahead, graph, &from, zn_part_bytes(&e->files) > (double)zn_generator_budget(g), &options));
    ZN_TRY_DONE(zn_exec_new(graph, &y, 1, &options, &exec));
    write_ids(b, x->data);
    ZN_TRY_DONE(zn_exec_run(exec));
    ZN_TRY_DONE(zn_exec_check_finite(exec));
    ZN_TRY_DONE(read_features(b, y->data, e->form.hidden));
done:
    zn_exec_free(exec);
    zn_ahead_end(&ahead);
    return status;
}

static zn_status encode_batch(zn_generator *g, const encoder *e, const batch *b, zn_stage_progress progress)
{
    zn_graph *graph = zn_graph_new();
    if (!graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    const zn_status status = run(g, e, graph, b, progress);
    zn_graph_free(graph);
    return status;
}

/* The prompts from the first without features on that may run with it. */
static batch next_batch(const prompt *all, int count, const prompt **room)
{
    batch b = { .prompts = room };
    int span = -1;
    for (int i = 0; i < count; i++) {
        const zn_features *f = all[i].features;
        const int longest = f->tokens > b.tokens ? f->tokens : b.tokens;
        if (f->data || (span >= 0 && (f->tokens / SPAN != span || longest * (b.count + 1) > MOST_TOKENS)))
            continue;
        span = f->tokens / SPAN;
        b.tokens = longest;
        room[b.count++] = &all[i];
    }
    return b;
}

static zn_status encode(zn_generator *g, const encoder *e, const prompt *all, int count, zn_stage_progress progress)
{
    const prompt **room;
    for (int i = 0; i < count; i++)
        ZN_TRY(check_ids(&all[i], &e->form));
    ZN_TRY(zn_alloc_for("prompts", sizeof *room * (size_t)count, (void **)(void *)&room));
    zn_status status = ZN_OK;
    for (batch b = next_batch(all, count, room); status == ZN_OK && b.count > 0; b = next_batch(all, count, room))
        status = encode_batch(g, e, &b, progress);
    zn_free(room);
    return status;
}

static zn_status open_and_encode(zn_generator *g, const prompt *all, int count, zn_stage_progress progress)
{
    const char *path = g->paths.part[ZN_GENERATOR_TEXT];
    encoder e;
    ZN_TRY(zn_part_open(path, ZN_GENERATOR_TEXT, &e.files));
    zn_status status = zn_qwen3_recognise(e.files.files, e.files.count, e.files.config.root, &e.form, &e.naming);
    if (status == ZN_OK)
        status = encode(g, &e, all, count, progress);
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

/* Those that the cache has; true if others remain. */
static bool look_up(const zn_generator *g, prompt *all, int count)
{
    bool missing = false;
    for (int i = 0; i < count; i++) {
        key_of(g, &all[i].ids, all[i].features->tokens, all[i].key);
        missing |= !zn_cache_get(g->cache, all[i].key, all[i].features);
    }
    return missing;
}

static zn_status find_features(zn_generator *g, const char *const *texts, prompt *all, int count,
                               zn_stage_progress progress)
{
    for (int i = 0; i < count; i++)
        ZN_TRY(tokenise(g, texts[i], &all[i]));
    if (!look_up(g, all, count))
        return ZN_OK;
    ZN_TRY(open_and_encode(g, all, count, progress));
    for (int i = 0; i < count; i++)
        if (!all[i].features->cached)
            zn_cache_put(g->cache, all[i].key, all[i].features, CACHE_BYTES);
    return ZN_OK;
}

zn_status zn_generator_features(zn_generator *g, const char *const *prompts, int count, zn_stage_progress progress,
                                zn_features *out)
{
    prompt *all;
    ZN_TRY(zn_alloc_for("prompts", sizeof *all * (size_t)count, (void **)&all));
    for (int i = 0; i < count; i++) {
        out[i] = (zn_features){ 0 };
        all[i] = (prompt){ .features = &out[i] };
    }
    const zn_status status = find_features(g, prompts, all, count, progress);
    for (int i = 0; i < count; i++)
        zn_free(all[i].ids.ids);
    zn_free(all);
    return status;
}
