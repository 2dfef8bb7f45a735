/* zenith models: lists the architectures of this build and the weights found. */
#include "commands.h"
#include "commands/info/info.h"
#include "options/model_names.h"
#include "ui/facts.h"
#include "ui/report.h"

#include <stdlib.h>
#include <string.h>

typedef struct listing {
    json *out; /* NULL: text */
    int width; /* width of the column of names */
    int found;
} listing;

static int longest_name(void)
{
    size_t longest = 0;
    const char *description;
    for (int i = 0; i < zn_architecture_count(); i++) {
        const size_t length = strlen(zn_architecture_at(i, &description));
        longest = length > longest ? length : longest;
    }
    return (int)longest;
}

/* Weights that are not a model of their own but part of one for `zenith generate`: name and description of the network.
 * NULL: they are not. */
static const char *generator_part(const char *path, char *description, size_t size)
{
    zn_weights *weights = NULL;
    char *file = must_print("%s.safetensors", path);
    const zn_status status = zn_weights_open(file, &weights);
    const char *network = status == ZN_OK ? zn_weights_network(weights, description, size) : NULL;
    zn_weights_close(weights);
    free(file);
    return network;
}

static void visit_part(const listing *l, const char *path, const char *network, const char *description)
{
    char *name = model_name(path);
    if (l->out) {
        json_open(l->out, NULL, '{');
        json_text(l->out, "name", name);
        json_text(l->out, "path", path);
        json_text(l->out, "architecture", network);
        json_text(l->out, "description", description);
        json_close(l->out, '}');
    } else {
        say("  %-*s %-17s %s, %s\n", l->width, name, "for generate", description, path);
    }
    free(name);
}

static void visit_json(json *j, const char *path, const zn_model_info *info, const char *error)
{
    json_open(j, NULL, '{');
    char *name = model_name(path);
    json_text(j, "name", name);
    free(name);
    json_text(j, "path", path);
    if (error && *error) {
        json_text(j, "error", error);
    } else {
        json_text(j, "architecture", info->architecture);
        if (!info->restores && !info->judges)
            json_integer(j, "latent_channels", info->latent_channels);
        if (info->diffuses) {
            json_integer(j, "image_size", info->image_size);
        } else if (!info->restores && !info->judges) {
            json_integer(j, "downscale", info->downscale);
            json_integer(j, "clip_frames", info->clip_frames);
        }
        /* encode and decode take a diffusion autoencoder with conditions, which a codec does not */
        const int conditions = info->diffuses && info->latent_channels;
        json_bool(j, "encoder", info->has_encoder || conditions);
        json_bool(j, "decoder", info->has_decoder || conditions);
        json_bool(j, "restores", info->restores);
        json_bool(j, "upscales", info->upscales);
        json_bool(j, "judges", info->judges);
        json_bool(j, "diffuses", info->diffuses);
        json_integer(j, "parameters", info->parameters);
    }
    json_close(j, '}');
}

static void visit_name(void *user, const char *path, const zn_model_info *info, const char *error)
{
    (void)user;
    if (!info || (error && *error))
        return;
    char *name = model_name(path);
    say("%s\n", name);
    free(name);
}

static void visit_text(const listing *l, const char *path, const zn_model_info *info)
{
    char *name = model_name(path);
    say("  %-*s %-17s %6.2f M parameters  %s, %s\n", l->width, name,
        info->upscales                           ? "upscales"
        : info->restores                         ? "restores"
        : info->judges                           ? "judges"
        : info->diffuses                         ? "diffuses"
        : info->has_encoder && info->has_decoder ? "encoder + decoder"
        : info->has_encoder                      ? "encoder"
                                                 : "decoder",
        (double)info->parameters / 1e6, info->architecture, path);
    free(name);
}

static void visit_bad(const listing *l, const char *path, const zn_model_info *info, const char *error)
{
    if (l->out)
        visit_json(l->out, path, info, error);
    else if (!strncmp(error, path, strlen(path)))
        say("  %-*s %s\n", l->width, "(unusable)", error);
    else
        say("  %-*s %s: %s\n", l->width, "(unusable)", path, error);
}

static void visit(void *user, const char *path, const zn_model_info *info, const char *error)
{
    listing *l = user;
    char description[128];
    if (info && !(error && *error)) {
        l->found++;
        if (l->out)
            visit_json(l->out, path, info, NULL);
        else
            visit_text(l, path, info);
        return;
    }
    char *why = must_copy(error ? error : ""); /* what follows may replace it */
    const char *network = generator_part(path, description, sizeof description);
    l->found += network != NULL;
    if (network)
        visit_part(l, path, network, description);
    else
        visit_bad(l, path, info, why);
    free(why);
}

/* ---- models of zenith generate ---- */

static void visit_generator(void *user, const char *folder)
{
    listing *l = user;
    l->found++;
    facts f = { .json = l->out != NULL };
    char *name = model_name(folder);
    if (l->out) {
        json_open(&f.out, NULL, '{');
        json_text(&f.out, "name", name);
        json_text(&f.out, "path", folder);
        json_bool(&f.out, "generates", 1);
        generator_facts(&f, folder);
        json_close(&f.out, '}');
        json_raw(l->out, f.out.text, f.out.length);
        free(f.out.text);
    } else {
        char *summary = generator_summary(folder);
        say("  %-*s %-17s %s, %s\n", l->width, name, "generates", summary, folder);
        free(summary);
    }
    free(name);
}

static void visit_generator_name(void *user, const char *folder)
{
    (void)user;
    char *name = model_name(folder);
    say("%s\n", name);
    free(name);
}

/* For completions and scripts. */
static int print_names(void)
{
    if (zn_models_visit(visit_name, NULL) == ZN_OK && zn_generators_visit(visit_generator_name, NULL) == ZN_OK)
        return 0;
    complain("%s", zn_error_text());
    return EXIT_FAILURE;
}

int models_run(const options *o)
{
    if (o->names && !o->json)
        return print_names();
    facts f;
    facts_begin(&f, o->json);
    listing l = { .out = f.json ? &f.out : NULL, .width = longest_name() };
    if (f.json)
        json_open(&f.out, "architectures", '[');
    else
        say("architectures\n");
    for (int i = 0; i < zn_architecture_count(); i++) {
        const char *description = "", *name = zn_architecture_at(i, &description);
        if (f.json) {
            json_open(&f.out, NULL, '{');
            json_text(&f.out, "name", name);
            json_text(&f.out, "description", description);
            json_close(&f.out, '}');
        } else {
            say("  %-*s %s\n", l.width, name, description);
        }
    }
    if (f.json) {
        json_close(&f.out, ']');
        json_open(&f.out, "models", '[');
    } else {
        say("weights: names for --model\n");
    }
    zn_status status = zn_models_visit(visit, &l);
    if (status == ZN_OK)
        status = zn_generators_visit(visit_generator, &l);
    if (f.json)
        json_close(&f.out, ']');
    facts_end(&f);
    if (status != ZN_OK) {
        complain("%s", zn_error_text());
        return EXIT_FAILURE;
    }
    zn_model *none = NULL;
    if (!l.found && zn_model_find(NULL, &none) != ZN_OK)
        note(o, "%s", zn_error_text());
    zn_model_free(none);
    return 0;
}
