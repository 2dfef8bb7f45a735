/* Runs that learn from captions: images become latents once, by an autoencoder that stays as it is, captions become
 * tokens; both are kept, and steps take their batches from there. */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "text/vocabulary.h"
#include "train/data/order.h"
#include "train/run/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WORDS = ZN_ZIMAGE_BLOCK, MOST_MEASURED = 4 }; /* batches */

/* ---- captions and vocabulary ---- */

static zn_status find_captions(zn_run *r)
{
    char path[ZN_RUN_PATH];
    snprintf(path, sizeof path, "%s/captions.csv", r->options.data);
    if (!r->recipe.captions[0] && zn_exists(path))
        ZN_TRY(zn_run_set_path(r->recipe.captions, sizeof r->recipe.captions, path, "the captions' file"));
    if (r->recipe.captions[0])
        return ZN_OK;
    return ZN_FAIL(ZN_EINVALID,
                   "a generator needs captions: name their file (--captions, or captions in the recipe), or put a "
                   "captions.csv beside the images in %s",
                   r->options.data);
}

static zn_status learn_vocabulary(zn_run *r)
{
    const zn_captions *c = r->said_of.captions;
    const char **texts = zn_calloc((size_t)c->count + 1, sizeof *texts);
    if (!texts)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for captions");
    for (int64_t i = 0; i < c->count; i++)
        texts[i] = c->list[i].text;
    const zn_status status = zn_vocabulary_learn(texts, c->count, r->recipe.vocabulary, &r->said_of.vocabulary);
    zn_free(texts);
    return status;
}

zn_status zn_run_read_captions(zn_run *r)
{
    ZN_TRY(find_captions(r));
    ZN_TRY(zn_captions_read(r->recipe.captions, &r->said_of.captions));
    ZN_TRY(zn_run_check_captions(r));
    ZN_TRY(learn_vocabulary(r));
    const zn_json_out *v = &r->said_of.vocabulary;
    return zn_tokenizer_read(v->bytes, v->size, "the captions' vocabulary", &r->said_of.tokenizer);
}

/* The tokens of a caption, -1 after the last; false: they are more than there is room for. */
static zn_status tokens_of(const zn_run *r, const char *caption, float to[WORDS], bool *fits)
{
    zn_tokens ids = { 0 };
    const zn_status status = zn_tokenizer_chat(r->said_of.tokenizer, caption, strlen(caption), SIZE_MAX, &ids);
    *fits = ids.count <= WORDS;
    for (size_t i = 0; i < WORDS; i++)
        to[i] = i < ids.count ? (float)ids.ids[i] : -1;
    zn_free(ids.ids);
    return status;
}

/* Tokens of all images that have a caption; only these are looked at. */
static zn_status read_tokens(zn_run *r)
{
    const int64_t count = zn_dataset_count(r->set);
    int64_t found = 0, cut = 0;
    bool fits;
    r->on.wanted = zn_calloc((size_t)count + 1, 1);
    r->said_of.ids = zn_calloc((size_t)count + 1, sizeof(float) * WORDS);
    if (!r->on.wanted || !r->said_of.ids)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for captions");
    ZN_TRY(tokens_of(r, "", r->said_of.none, &fits));
    for (int64_t i = 0; i < count; i++) {
        const char *text = zn_captions_of(r->said_of.captions, zn_dataset_name(r->set, i));
        if (!text)
            continue;
        found += r->on.wanted[i] = 1;
        ZN_TRY(tokens_of(r, text, r->said_of.ids + i * WORDS, &fits));
        cut += !fits;
    }
    if (!found)
        return ZN_FAIL(ZN_EINVALID, "%s names none of the images in %s: it has '%.100s' for example, they '%.100s'",
                       r->recipe.captions, r->options.data, r->said_of.captions->list[0].file,
                       zn_dataset_name(r->set, 0));
    if (cut && r->options.remark) {
        char sentence[160];
        snprintf(sentence, sizeof sentence,
                 "%lld of %lld captions have more than %d tokens and are cut; a larger vocabulary makes fewer",
                 (long long)cut, (long long)found, WORDS);
        r->options.remark(r->options.user, sentence);
    }
    return ZN_OK;
}

/* ---- latents ---- */

static int side_of(const zn_run *r) { return r->recipe.size / ZN_ZIMAGE_SCALE; }
static int channels_of(const zn_run *r) { return r->model->config.latent; }
static int width_of(const zn_run *r) { return side_of(r) * side_of(r) * channels_of(r); }
static int share_of(const zn_run *r) { return r->recipe.batch / zn_ranks_count(r->options.ranks); }

/* A run that goes on has a copy of its own. */
static zn_status open_autoencoder(zn_run *r)
{
    char own[ZN_RUN_PATH];
    zn_run_path(r, ZN_RUN_VAE, own);
    const char *name = r->has_checkpoint && zn_exists(own) ? own : r->recipe.autoencoder;
    ZN_TRY(zn_model_find(name, &r->said_of.autoencoder));
    const zn_model *m = r->said_of.autoencoder;
    if (!m->has[ZN_ENCODER] || !m->has[ZN_DECODER] || m->config.downscale != ZN_ZIMAGE_SCALE ||
        m->config.latent != channels_of(r))
        return ZN_FAIL(ZN_EINVALID, "%s: a %s, but a generator needs an autoencoder of %d channels at 1/%d", name,
                       m->config.name, channels_of(r), ZN_ZIMAGE_SCALE);
    return ZN_OK;
}

zn_status zn_run_prepare_captions(zn_run *r)
{
    const size_t share = (size_t)share_of(r), channels = (size_t)channels_of(r);
    ZN_TRY(open_autoencoder(r));
    ZN_TRY(read_tokens(r));
    ZN_TRY(zn_alloc_for("a batch", sizeof(float) * share * (size_t)width_of(r), (void **)&r->inputs));
    ZN_TRY(zn_alloc_for("a batch", sizeof(float) * share * WORDS, (void **)&r->batch));
    ZN_TRY(zn_alloc_for("statistics", 2 * sizeof(float) * channels, (void **)&r->said_of.mean));
    r->said_of.deviation = r->said_of.mean + channels;
    ZN_TRY(zn_run_prepare_skips(r));
    return zn_conditions_new(r->set, width_of(r), 2, &r->on.table);
}

/* Mean and deviation of each channel over all images that are learned from. */
static void find_statistics(zn_run *r)
{
    const zn_conditions *t = r->on.table;
    const int channels = channels_of(r), cells = t->width / channels;
    for (int c = 0; c < channels; c++) {
        double sum = 0, squares = 0;
        const double count = (double)t->learned_count * cells;
        for (int64_t i = 0; i < t->learned_count; i++)
            for (int k = 0; k < cells; k++) {
                const double v = (double)t->values[t->learned[i] * t->views * t->width + k * channels + c];
                sum += v;
                squares += v * v;
            }
        const double mean = sum / count, square = squares / count - mean * mean;
        r->said_of.mean[c] = (float)mean;
        r->said_of.deviation[c] = (float)sqrt(square > 1e-8 ? square : 1e-8);
    }
}

zn_status zn_run_encode_latents(zn_run *r)
{
    ZN_TRY(zn_run_fill_table(r, "latents.safetensors", r->said_of.autoencoder, r->recipe.size));
    ZN_TRY(zn_run_tell_skips(r));
    ZN_TRY(zn_conditions_split(r->on.table, r->set, r->recipe.held_out));
    find_statistics(r);
    return ZN_OK;
}

/* ---- batches ---- */

static void normalise(const zn_run *r, const float *latent, float *to)
{
    const int channels = channels_of(r);
    for (int i = 0; i < width_of(r); i++)
        to[i] = (latent[i] - r->said_of.mean[i % channels]) / r->said_of.deviation[i % channels];
}

void zn_run_take_latents(zn_run *r)
{
    const int share = share_of(r), first = share * zn_ranks_rank(r->options.ranks);
    const uint64_t seed = (uint64_t)r->recipe.seed, drop = zn_seed_for(seed, "captions");
    for (int i = 0; i < share; i++) {
        int64_t image;
        const uint64_t n = (uint64_t)r->done * (uint64_t)r->recipe.batch + (uint64_t)(first + i);
        normalise(r, zn_conditions_at(r->on.table, seed, n, &image), r->inputs + (int64_t)i * width_of(r));
        const bool without = (double)(zn_order_mix(drop, n) >> 11) * 0x1p-53 < r->recipe.caption_dropout;
        memcpy(r->batch + (int64_t)i * WORDS, without ? r->said_of.none : r->said_of.ids + image * WORDS,
               sizeof(float) * WORDS);
    }
}

/* The mean loss of held-out images, in batches; few of them are repeated to make one. */
zn_status zn_run_measure_latents(zn_run *r, zn_measures *out)
{
    const zn_conditions *t = r->on.table;
    const int batch = r->trainer->batch, all = (int)((t->held_count + batch - 1) / batch),
              batches = all < MOST_MEASURED ? all : MOST_MEASURED;
    double sum = 0;
    for (int b = 0; b < batches; b++) {
        double loss;
        for (int i = 0; i < batch; i++) {
            const int64_t image = t->held[((int64_t)b * batch + i) % t->held_count];
            normalise(r, t->values + image * t->views * t->width, r->inputs + (int64_t)i * t->width);
            memcpy(r->batch + (int64_t)i * WORDS, r->said_of.ids + image * WORDS, sizeof(float) * WORDS);
        }
        ZN_TRY(zn_trainer_measure(r->trainer, r->inputs, r->batch, b, &loss));
        sum += loss;
    }
    if (batches)
        out->loss = sum / batches;
    return ZN_OK;
}

void zn_run_free_captions(zn_run *r)
{
    zn_captions_free(r->said_of.captions);
    zn_json_out_free(&r->said_of.vocabulary);
    zn_tokenizer_free(r->said_of.tokenizer);
    zn_model_free(r->said_of.autoencoder);
    zn_free(r->said_of.ids);
    zn_free(r->said_of.mean);
}
