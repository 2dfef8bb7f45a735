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
#include <zenith/zenith.h>

enum {
    CACHE_BYTES = 256 << 20,
    SPAN = 64, /* numbers of tokens in one span use the same products (zn_matrix_i8_pays, zn_matrix_bf16_pays) */
    MOST_TOKENS = 2048 /* of all prompts that run together, padded */
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

/* The open files, and a run for the last batch. */
struct zn_text_encoder {
    zn_part_files files;
    zn_qwen3_form form;
    zn_qwen3_naming naming;
    zn_stored weights;
    zn_graph *graph; /* NULL: there is no run */
    zn_exec *exec;
    zn_ahead ahead;
    bool turns; /* weights of the last run took turns on the device */
    zn_node *ids, *states;
    zn_stage_progress progress;
};

/* A to Z become small letters. */
static zn_status lower(const char *text, char **out)
{
    ZN_TRY(zn_alloc_for("a prompt", strlen(text) + 1, (void **)out));
    char *to = *out;
    do
        *to++ = (char)(*text >= 'A' && *text <= 'Z' ? *text - 'A' + 'a' : *text);
    while (*text++);
    return ZN_OK;
}

static zn_status tokenise(zn_generator *g, const char *text, prompt *p)
{
    zn_features *f = p->features;
    char *small = NULL;
    if (!g->tokenizer)
        ZN_TRY(zn_generator_tokenizer(g->paths.part[ZN_GENERATOR_TOKENIZER], &g->tokenizer));
    if (g->lower_case)
        ZN_TRY(lower(text, &small));
    const zn_status status = zn_tokenizer_chat(g->tokenizer, small ? small : text, strlen(text), SIZE_MAX, &p->ids);
    zn_free(small);
    ZN_TRY(status);
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

/* ---- a run ---- */

static void end_run(zn_text_encoder *e)
{
    zn_exec_free(e->exec);
    zn_ahead_end(&e->ahead);
    zn_graph_free(e->graph);
    e->exec = NULL;
    e->graph = NULL;
}

static int tell(void *self, double fraction)
{
    const zn_text_encoder *e = self;
    return e->progress.call ? e->progress.call(e->progress.user, fraction) : 0;
}

/* How a run uses a device: beside the networks that stay from the last image if it can, even if its weights take turns
 * there, for they are fewer than those that would be copied again. weights: as in zn_exec_options. */
static zn_status plan_on_device(zn_generator *g, zn_text_encoder *e, size_t *weights)
{
    const zn_prepare p = { .math = g->compute.math,
                           .cpu = zn_device_flags(g->compute.device),
                           .constant_parameters = true,
                           .whole = true,
                           .threads = zn_pool_threads(g->compute.pool) };
    const size_t budget = zn_generator_budget(g), overhead = zn_compute_overhead(&g->compute);
    size_t bytes, prepared, all, least;
    ZN_TRY(zn_exec_estimate_weights(e->graph, &e->states, 1, &p, &all, &least));
    ZN_TRY(zn_exec_estimate(e->graph, &e->states, 1, &p, &bytes, &prepared));
    bytes += prepared;
    if (bytes + least > budget)
        return ZN_FAIL(ZN_ENOMEM, "the prompt needs %.0f MiB of the GPU at least, and the budget is %.0f MiB",
                       (double)(bytes + least + overhead) / 1048576, (double)(budget + overhead) / 1048576);
    const size_t others = zn_generator_held_by_others(g, ZN_GENERATOR_TEXT);
    const size_t room = bytes + least + others <= budget ? budget - others : budget;
    *weights = bytes + all > room ? room - bytes : 0;
    g->needs[ZN_GENERATOR_TEXT] = bytes + least;
    zn_generator_make_room(g, ZN_GENERATOR_TEXT, *weights ? room : bytes + all);
    return ZN_OK;
}

/* held: weights of the last run, which a device keeps if all of them and all of the new one's stay there: where they
 * take turns it has no room for those of both. */
static zn_status make_exec(zn_generator *g, zn_text_encoder *e, zn_held_weights *held)
{
    zn_exec_options options = { .pool = g->compute.pool,
                                .device = g->compute.device,
                                .math = g->compute.math,
                                .whole = true,
                                .progress = tell,
                                .user = e };
    ZN_TRY(zn_stored_bind(&e->weights, e->graph));
    if (g->compute.device)
        ZN_TRY(plan_on_device(g, e, &options.weights));
    if (options.weights || e->turns)
        zn_held_weights_free(held);
    e->turns = options.weights > 0;
    const bool release = zn_part_bytes(&e->files) > (double)zn_generator_budget(g);
    ZN_TRY(zn_ahead_start(&e->ahead, e->graph, &e->weights, release, &options));
    return zn_exec_new(e->graph, &e->states, 1, &options, &e->exec);
}

/* A run for batches of this form, unless the last one fits. */
static zn_status start_run(zn_generator *g, zn_text_encoder *e, const batch *b)
{
    const zn_shape shape = ZN_SHAPE(b->count, 1, b->tokens, 1);
    zn_held_weights held = { 0 };
    if (e->graph && zn_shape_equal(e->ids->shape, shape))
        return ZN_OK;
    zn_status status = e->exec && g->compute.device ? zn_exec_hold_weights(e->exec, &held) : ZN_OK;
    end_run(e);
    e->graph = status == ZN_OK ? zn_graph_new() : NULL;
    if (status == ZN_OK && !e->graph)
        status = ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    if (status == ZN_OK) {
        e->ids = zn_graph_input(e->graph, "ids", shape);
        e->states = zn_qwen3((zn_scope){ e->graph, "" }, e->ids, &e->form, e->form.layers - 1, NULL);
        status = make_exec(g, e, &held);
    }
    zn_held_weights_free(&held);
    if (status != ZN_OK)
        end_run(e);
    return status;
}

/* That so many tokens fill, the last one perhaps in part. */
static int spans(int tokens) { return (tokens + SPAN - 1) / SPAN; }

static zn_status encode_batch(zn_generator *g, zn_text_encoder *e, const batch *b, zn_stage_progress progress)
{
    batch padded = *b;
    /* On a device a new run takes longer than more tokens do, so all lengths of a span share one. */
    if (g->compute.device)
        padded.tokens = spans(b->tokens) * SPAN;
    e->progress = progress;
    ZN_TRY(start_run(g, e, &padded));
    write_ids(&padded, e->ids->data);
    ZN_TRY(zn_exec_run(e->exec));
    ZN_TRY(zn_exec_check_finite(e->exec));
    ZN_TRY(read_features(&padded, e->states->data, e->form.hidden));
    if (!g->compute.device)
        end_run(e);
    return ZN_OK;
}

/* ---- all prompts ---- */

/* The prompts from the first without features on that may run with it, at most `most`. */
static batch next_batch(const prompt *all, int count, int most, const prompt **members)
{
    batch b = { .prompts = members };
    for (int i = 0; i < count && b.count < most; i++) {
        const zn_features *f = all[i].features;
        const int length = spans(f->tokens);
        if (f->data || (b.count && (length != spans(b.tokens) || length * SPAN * (b.count + 1) > MOST_TOKENS)))
            continue;
        b.tokens = f->tokens > b.tokens ? f->tokens : b.tokens;
        members[b.count++] = &all[i];
    }
    return b;
}

static zn_status encode(zn_generator *g, zn_text_encoder *e, const prompt *all, int count, zn_stage_progress progress)
{
    const prompt **members;
    for (int i = 0; i < count; i++)
        ZN_TRY(check_ids(&all[i], &e->form));
    ZN_TRY(zn_alloc_for("prompts", sizeof *members * (size_t)count, (void **)(void *)&members));
    zn_status status = ZN_OK;
    int most = count;
    for (batch b = next_batch(all, count, most, members); status == ZN_OK && b.count > 0;
         b = next_batch(all, count, most, members)) {
        status = encode_batch(g, e, &b, progress);
        if (status == ZN_ENOMEM && b.count > 1) {
            most = b.count / 2;
            status = ZN_OK;
        }
    }
    zn_free(members);
    return status;
}

void zn_text_encoder_free(zn_text_encoder *e)
{
    if (!e)
        return;
    end_run(e);
    zn_part_close(&e->files);
    zn_free(e);
}

static zn_status open_files(const char *path, zn_text_encoder *e)
{
    const zn_part_files *f = &e->files;
    ZN_TRY(zn_part_open(path, ZN_GENERATOR_TEXT, &e->files));
    ZN_TRY(zn_qwen3_recognise(f->files, f->count, f->config.root, &e->form, &e->naming));
    e->weights = (zn_stored){ f->files, f->count, zn_qwen3_place, &e->naming };
    return ZN_OK;
}

/* Opens the encoder, unless that of the last image is there. */
static zn_status open_encoder(zn_generator *g)
{
    if (g->text)
        return ZN_OK;
    zn_text_encoder *e = zn_calloc(1, sizeof *e);
    if (!e)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a text encoder");
    const zn_status status = open_files(g->paths.part[ZN_GENERATOR_TEXT], e);
    if (status != ZN_OK)
        zn_text_encoder_free(e);
    else
        g->text = e;
    return status;
}

static zn_status open_and_encode(zn_generator *g, const prompt *all, int count, zn_stage_progress progress)
{
    zn_status status = open_encoder(g);
    if (status == ZN_OK)
        status = encode(g, g->text, all, count, progress);
    zn_generator_end_stage(g, ZN_GENERATOR_TEXT, status);
    return status == ZN_OK || status == ZN_ECANCELLED ? status
                                                      : zn_fail_in_file(status, g->paths.part[ZN_GENERATOR_TEXT]);
}

/* Everything that the features depend on: the encoder's files, how they are computed, and the tokens, which hold
 * tokenizer, template and prompt. Their last bits depend on the version and on the processor, and machines may share
 * the folder. */
static void key_of(const zn_generator *g, const zn_tokens *ids, int tokens, char key[65])
{
    char about[192];
    zn_sha256 h;
    zn_sha256_start(&h);
    const int n = snprintf(about, sizeof about, "zenith prompt 2, %s, %s, %s on %s %x, %d tokens:", zn_version(),
                           g->identity[ZN_GENERATOR_TEXT], zn_precision_name(g->compute.math),
                           g->compute.device ? "device" : "CPU", (unsigned)zn_device_flags(g->compute.device), tokens);
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
