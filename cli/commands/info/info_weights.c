/* zenith info for weights: their network and its cost, metadata, tensors. */
#include "commands/info/info.h"
#include "ui/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

void file_facts(facts *f, const char *path, const char *kind)
{
    struct stat s;
    fact_text(f, "file", path);
    fact_text(f, "kind", kind);
    if (stat(path, &s) == 0 && S_ISREG(s.st_mode))
        fact_bytes(f, "bytes", (int64_t)s.st_size);
}

static void cost_facts(facts *f, const zn_model *model, const options *o, zn_part part, const char *name)
{
    const int width = o->size[0] ? o->size[0] : 512, height = o->size[1] ? o->size[1] : 512;
    zn_cost cost;
    if (zn_model_cost(model, part, width, height, &cost) != ZN_OK) {
        note(o, "cannot compute the cost to %s %dx%d: %s", name, width, height, zn_error_text());
        return;
    }
    if (f->json) {
        json_open(&f->out, name, '{');
        json_integer(&f->out, "width", width);
        json_integer(&f->out, "height", height);
        json_real(&f->out, "gflop", cost.gflop);
        json_integer(&f->out, "activation_bytes", cost.activations);
        json_integer(&f->out, "weight_bytes", cost.weights);
        json_close(&f->out, '}');
    } else {
        char a[32], w[32];
        say("%-15s %dx%d: %.2f GFLOP, %s of activations, %s of weights\n", name, width, height, cost.gflop,
            bytes_text((double)cost.activations, a), bytes_text((double)cost.weights, w));
    }
}

void model_facts(facts *f, const zn_model *model, const options *o)
{
    const zn_model_info *m = zn_model_info_of(model);
    fact_text(f, "architecture", m->architecture);
    fact_text(f, "description", m->description);
    if (m->restores) {
        fact_bool(f, m->upscales ? "upscales" : "restores", 1);
    } else if (m->judges) {
        fact_bool(f, "judges", 1);
    } else if (m->diffuses) {
        fact_bool(f, "diffuses", 1);
        fact_integer(f, "condition", m->latent_channels);
        fact_integer(f, "image_size", m->image_size);
        fact_bool(f, "latent_net", m->has_latent_net);
        fact_bool(f, "classifier", m->has_classifier);
    } else {
        fact_integer(f, "latent_channels", m->latent_channels);
        fact_integer(f, "downscale", m->downscale);
        if (m->clip_frames)
            fact_integer(f, "clip_frames", m->clip_frames);
        fact_bool(f, "encoder", m->has_encoder);
        fact_bool(f, "decoder", m->has_decoder);
    }
    fact_integer(f, "parameters", m->parameters);
    if (m->restores)
        cost_facts(f, model, o, ZN_ENCODER, "restore");
    if (m->has_encoder)
        cost_facts(f, model, o, ZN_ENCODER, "encode");
    if (m->has_decoder)
        cost_facts(f, model, o, ZN_DECODER, "decode");
}

/* "1x4x64x64" */
static const char *shape_text(const zn_weight *w, char text[160])
{
    size_t n = 0;
    text[0] = 0;
    for (int i = 0; i < w->rank; i++)
        n += (size_t)snprintf(text + n, 160 - n, "%s%lld", i ? "x" : "", (long long)w->shape[i]);
    return w->rank ? text : "scalar";
}

static int64_t element_count(const zn_weight *w)
{
    const size_t size = zn_dtype_size(w->dtype);
    return size ? (int64_t)(w->bytes / size * zn_dtype_block(w->dtype)) : 0;
}

static void tensor_facts(facts *f, const zn_weights *weights)
{
    if (f->json)
        json_open(&f->out, "tensors", '[');
    else
        say("tensors\n");
    for (int64_t i = 0; i < zn_weights_count(weights); i++) {
        const zn_weight *w = zn_weights_at(weights, i);
        char shape[160];
        if (!f->json) {
            say("  %-40s %-5s %s\n", w->name, zn_dtype_name(w->dtype), shape_text(w, shape));
            continue;
        }
        json_open(&f->out, NULL, '{');
        json_text(&f->out, "name", w->name);
        json_text(&f->out, "dtype", zn_dtype_name(w->dtype));
        json_open(&f->out, "shape", '[');
        for (int d = 0; d < w->rank; d++)
            json_integer(&f->out, NULL, w->shape[d]);
        json_close(&f->out, ']');
        json_close(&f->out, '}');
    }
    if (f->json)
        json_close(&f->out, ']');
}

static void metadata_facts(facts *f, const zn_weights *weights)
{
    const int64_t count = zn_weights_metadata_count(weights);
    if (f->json)
        json_open(&f->out, "metadata", '{');
    for (int64_t i = 0; i < count; i++) {
        const char *value = "", *key = zn_weights_metadata_at(weights, i, &value);
        if (f->json)
            json_text(&f->out, key, value);
        else
            say("%-15s %s = %s\n", i ? "" : "metadata", key, value);
    }
    if (f->json)
        json_close(&f->out, '}');
}

void weights_info(const options *o, const char *path, const zn_weights *weights)
{
    facts f;
    facts_begin(&f, o->json);
    file_facts(&f, path, "weights");
    fact_text(&f, "format", zn_weights_format(weights));
    char hex[65];
    if (zn_file_sha256(path, hex) == ZN_OK)
        fact_text(&f, "sha256", hex);
    int64_t elements = 0;
    for (int64_t i = 0; i < zn_weights_count(weights); i++)
        elements += element_count(zn_weights_at(weights, i));
    fact_integer(&f, "tensor_count", zn_weights_count(weights));
    fact_integer(&f, "element_count", elements);
    zn_model *model = NULL;
    char description[128];
    const char *network = zn_weights_network(weights, description, sizeof description);
    if (network) {
        fact_text(&f, "architecture", network);
        fact_text(&f, "description", description);
    } else if (zn_model_find_released(path, &model) == ZN_OK) {
        model_facts(&f, model, o);
    } else if (f.json) {
        json_null(&f.out, "architecture");
        json_text(&f.out, "why", zn_error_text());
    } else {
        char *text = must_print("unknown (%s)", zn_error_text());
        fact_text(&f, "architecture", text);
        free(text);
    }
    zn_model_free(model);
    metadata_facts(&f, weights);
    tensor_facts(&f, weights);
    facts_end(&f);
}
