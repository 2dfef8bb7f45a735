/* zenith info: what a file is. Pictures, latents, weights (with the network they belong to and what it costs) and
 * folders of weights are told apart by content. */
#include "commands.h"
#include "facts.h"
#include "files.h"
#include "report.h"
#include "session.h"
#include "show.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int fail(const char *path)
{
    complain_about(path);
    return EXIT_FAILURE;
}

static void file_facts(facts *f, const char *path, const char *kind)
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
        note(o, "cannot tell the cost to %s %dx%d: %s", name, width, height, zn_error_text());
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

static void model_facts(facts *f, const zn_model *model, const options *o)
{
    const zn_model_info *m = zn_model_info_of(model);
    fact_text(f, "architecture", m->architecture);
    fact_text(f, "description", m->description);
    if (m->restores) {
        fact_bool(f, "restores", 1);
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

static void weights_info(const options *o, const char *path, const zn_weights *weights)
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
    } else if (zn_model_open(path, &model) == ZN_OK) {
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

static void latent_info(const options *o, const char *path, const zn_latent *z)
{
    double low = 0, high = 0, sum = 0;
    const int64_t n = (int64_t)z->width * z->height * z->channels * (z->frames > 1 ? z->frames : 1);
    for (int64_t i = 0; i < n; i++) {
        low = i == 0 || z->data[i] < low ? z->data[i] : low;
        high = i == 0 || z->data[i] > high ? z->data[i] : high;
        sum += z->data[i];
    }
    facts f;
    facts_begin(&f, o->json);
    file_facts(&f, path, "latent");
    fact_text(&f, "model", z->model[0] ? z->model : "unknown");
    fact_integer(&f, "width", z->width);
    fact_integer(&f, "height", z->height);
    fact_integer(&f, "channels", z->channels);
    if (z->frames > 1) {
        fact_integer(&f, "frames", z->frames);
        fact_integer(&f, "image_frames", z->image_frames);
    }
    fact_integer(&f, "image_width", z->image_width);
    fact_integer(&f, "image_height", z->image_height);
    fact_integer(&f, "downscale", z->downscale);
    fact_real(&f, "minimum", low, 4, "");
    fact_real(&f, "maximum", high, 4, "");
    fact_real(&f, "mean", n ? sum / (double)n : 0, 4, "");
    facts_end(&f);
    if (o->show)
        show_latent(o, z);
}

static int image_info(const options *o, const char *path, const char *format)
{
    zn_image *image = NULL;
    if (zn_image_read(path, NULL, &image) != ZN_OK)
        return fail(path);
    facts f;
    facts_begin(&f, o->json);
    file_facts(&f, path, "image");
    fact_text(&f, "format", format);
    fact_integer(&f, "width", image->width);
    fact_integer(&f, "height", image->height);
    fact_integer(&f, "bits", image->bits);
    facts_end(&f);
    if (o->show)
        show_image(o, image);
    zn_image_free(image);
    return 0;
}

static int model_info(const options *o, const char *path, zn_model *model)
{
    facts f;
    facts_begin(&f, o->json);
    file_facts(&f, path, "model");
    fact_text(&f, "weights", zn_model_info_of(model)->path);
    model_facts(&f, model, o);
    facts_end(&f);
    zn_model_free(model);
    return 0;
}

/* The format of a file that starts like a picture, or NULL. */
static const char *image_format(const char *path)
{
    unsigned char head[12] = { 0 };
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(head, 1, sizeof head, file) : 0;
    if (file)
        fclose(file);
    if (n < sizeof head)
        return NULL;
    return !memcmp(head, "\x89PNG\r\n\x1a\n", 8)                      ? "png"
           : !memcmp(head, "\xFF\xD8\xFF", 3)                         ? "jpeg"
           : !memcmp(head, "RIFF", 4) && !memcmp(head + 8, "WEBP", 4) ? "webp"
                                                                      : NULL;
}

/* A safetensors file is a latent if it says so, or if it can be read as one and fits no network. */
static int is_latent(const char *path, const zn_weights *weights, zn_latent **latent)
{
    const char *format = zn_weights_metadata(weights, "format");
    if (format && !strcmp(format, "zenith-latent"))
        return zn_latent_read(path, latent) == ZN_OK;
    return zn_weights_count(weights) == 1 && zn_latent_read(path, latent) == ZN_OK;
}

/* Why a file cannot be opened as weights; one that was not meant to be any is told what else it could have been. */
static int fail_weights(const char *path, zn_status status)
{
    if (status != ZN_EFORMAT || has_extension(path, "safetensors pth pt ckpt bin"))
        return fail(path);
    complain(
        "%s: neither a picture (PNG, JPEG, WebP) nor a latent, weights (.safetensors, PyTorch) or a data set (.lmdb)",
        path);
    return EXIT_FAILURE;
}

static int file_info(const options *o, const char *path)
{
    zn_latent *latent = NULL;
    int status = 0;
    const char *format = image_format(path);
    if (format) {
        /* Any RGBA picture could be a latent; only one that records its image size says it is. */
        if (zn_latent_read(path, &latent) == ZN_OK && latent->image_width > 0)
            latent_info(o, path, latent);
        else
            status = image_info(o, path, format);
    } else {
        zn_weights *weights = NULL;
        const zn_status opened = zn_weights_open(path, &weights);
        if (opened != ZN_OK)
            status = fail_weights(path, opened);
        else if (is_latent(path, weights, &latent))
            latent_info(o, path, latent);
        else
            weights_info(o, path, weights);
        zn_weights_close(weights);
    }
    zn_latent_free(latent);
    return status;
}

int info_run(const options *o)
{
    const char *path = o->files[0];
    zn_model *model = NULL;
    if (has_extension(path, "lmdb"))
        return dataset_info(o, path);
    if (is_folder(path))
        return zn_model_open(path, &model) == ZN_OK ? model_info(o, path, model) : fail(path);
    if (!file_exists(path) && !strpbrk(path, "/."))
        return model_open(o, path, &model) ? EXIT_FAILURE : model_info(o, path, model);
    return file_info(o, path);
}
