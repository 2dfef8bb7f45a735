/* Lists of models for clients: what was found, what each can do, and what of it is loaded. */
#include "files/extensions.h"
#include "options/model_names.h"
#include "server/models.h"
#include "ui/report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zenith/pull.h>

typedef struct listing {
    sv_models *models;
    json *out;
    char **names; /* listed so far: of models of one name, the first is used */
    int count;
} listing;

/* Non-zero if the name was listed before. */
static int was_listed(listing *l, const char *name)
{
    for (int i = 0; i < l->count; i++)
        if (!strcmp(l->names[i], name))
            return 1;
    l->names = must_alloc(l->names, (size_t)(l->count + 1) * sizeof *l->names);
    l->names[l->count++] = must_copy(name);
    return 0;
}

static void tasks_json(json *j, const zn_model_info *m)
{
    const int codec = m->has_encoder && m->has_decoder;
    json_open(j, "tasks", '[');
    if (m->restores) {
        json_text(j, NULL, m->upscales ? "upscale" : "restore");
    } else if (m->diffuses) {
        json_text(j, NULL, "reconstruct");
        json_text(j, NULL, "interpolate");
        if (m->has_classifier)
            json_text(j, NULL, "edit");
        if (m->has_latent_net)
            json_text(j, NULL, "sample");
    } else if (!m->judges) {
        if (m->has_encoder)
            json_text(j, NULL, "encode");
        if (m->has_decoder)
            json_text(j, NULL, "decode");
        if (codec && !m->clip_frames)
            json_text(j, NULL, "reconstruct");
        if (codec || m->clip_frames)
            json_text(j, NULL, "clip");
    }
    json_close(j, ']');
}

/* Bytes of the files that zn_models_visit gave one path: PATH.*, PATH_encoder.* and so on. Of several formats the first
 * counts. */
static int64_t file_bytes(const char *path)
{
    static const char *const extensions[] = { "safetensors", "gguf", "pth", "pt", "ckpt", "bin" };
    static const char *const ends[] = { "",
                                        "_encoder",
                                        "-encoder",
                                        ".encoder",
                                        "_decoder",
                                        "-decoder",
                                        ".decoder",
                                        "/encoder",
                                        "/decoder",
                                        "/model",
                                        "/diffusion_pytorch_model" };
    int64_t sum = 0;
    for (size_t e = 0; !sum && e < sizeof extensions / sizeof *extensions; e++)
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            struct stat st;
            char *file = must_print("%s%s.%s", path, ends[i], extensions[e]);
            sum += stat(file, &st) ? 0 : (int64_t)st.st_size;
            free(file);
        }
    return sum;
}

static void visit_model(void *user, const char *path, const zn_model_info *info, const char *error)
{
    listing *l = user;
    json *j = l->out;
    char *name = model_name(path);
    if (was_listed(l, name)) {
        free(name);
        return;
    }
    json_open(j, NULL, '{');
    json_text(j, "name", name);
    if (!info || (error && *error)) {
        json_text(j, "kind", "unusable");
        json_open(j, "tasks", '[');
        json_close(j, ']');
        json_text(j, "error", error ? error : "");
        json_bool(j, "loaded", 0);
    } else {
        json_text(j, "architecture", info->architecture);
        json_text(j, "description", info->upscales ? "enlarges photos 2 or 4 times; any size" : info->description);
        json_text(j, "kind",
                  info->judges        ? "judge"
                  : info->upscales    ? "upscaler"
                  : info->restores    ? "restorer"
                  : info->diffuses    ? "diffusion"
                  : info->clip_frames ? "video"
                                      : "autoencoder");
        tasks_json(j, info);
        json_integer(j, "bytes", file_bytes(info->path));
        json_integer(j, "latent_channels", info->latent_channels);
        json_integer(j, "downscale", info->downscale);
        json_integer(j, "clip_frames", info->clip_frames);
        json_bool(j, "encoder", info->has_encoder);
        json_bool(j, "decoder", info->has_decoder);
        json_integer(j, "image_size", info->image_size);
        json_bool(j, "latent_net", info->has_latent_net);
        json_bool(j, "classifier", info->has_classifier);
        json_integer(j, "parameters", info->parameters);
        json_bool(j, "loaded", sv_model_is_loaded(l->models, name));
    }
    json_close(j, '}');
    free(name);
}

typedef struct part_list {
    json *out;
    double bytes; /* of all files */
} part_list;

static void visit_part(void *user, const zn_generator_part_info *p)
{
    part_list *parts = user;
    json *j = parts->out;
    json_open(j, NULL, '{');
    json_text(j, "name", p->name);
    json_bool(j, "present", p->path != NULL);
    json_bool(j, "optional", p->optional);
    json_text(j, "format", p->format ? p->format : "");
    json_text(j, "dtype", p->dtype ? p->dtype : "");
    json_real(j, "bytes", p->bytes);
    json_close(j, '}');
    parts->bytes += p->bytes;
}

/* What a generator says about itself. */
static void about_json(json *j, const zn_generator_files *files)
{
    zn_generator_about about = { .size = sizeof about };
    if (zn_generator_describe(files, &about) != ZN_OK)
        return;
    json_text(j, "description", about.description);
    json_open(j, "examples", '[');
    for (char *next, *line = about.examples; *line; line = next) {
        next = line + strcspn(line, "\n");
        if (*next)
            *next++ = 0;
        json_text(j, NULL, line);
    }
    json_close(j, ']');
    json_integer(j, "width", about.width);
    json_integer(j, "height", about.height);
}

static void visit_generator(void *user, const char *folder)
{
    listing *l = user;
    json *j = l->out;
    if (was_listed(l, base_name(folder)))
        return;
    const zn_generator_files files = { .size = sizeof files, .model = folder };
    json_open(j, NULL, '{');
    json_text(j, "name", base_name(folder));
    json_text(j, "architecture", "z-image");
    json_open(j, "parts", '[');
    part_list parts = { .out = j };
    const zn_status status = zn_generator_parts(&files, visit_part, &parts);
    json_close(j, ']');
    json_integer(j, "bytes", (int64_t)parts.bytes);
    json_text(j, "kind", status == ZN_OK ? "generator" : "unusable");
    json_open(j, "tasks", '[');
    if (status == ZN_OK)
        json_text(j, NULL, "generate");
    json_close(j, ']');
    if (status != ZN_OK)
        json_text(j, "error", zn_error_text());
    about_json(j, &files);
    json_bool(j, "loaded", sv_model_is_loaded(l->models, base_name(folder)));
    json_close(j, '}');
}

/* ---- published models ---- */

/* Models that zenith pull fetches, with the address of each file, and which of them are here under their own names. */
static void published_json(const listing *l)
{
    json *j = l->out;
    const zn_published *p;
    json_open(j, "published", '[');
    for (int i = 0; (p = zn_published_at(i)) != NULL; i++) {
        int64_t bytes = 0;
        int found = 0;
        for (int k = 0; k < l->count; k++)
            found |= !strcmp(l->names[k], p->name);
        json_open(j, NULL, '{');
        json_text(j, "name", p->name);
        json_text(j, "description", p->description);
        json_text(j, "licence", p->licence);
        json_text(j, "used_by", p->used_by);
        json_bool(j, "present", found);
        json_open(j, "files", '[');
        for (int k = 0; k < p->file_count; k++) {
            json_text(j, NULL, p->files[k].url);
            bytes += p->files[k].bytes;
        }
        json_close(j, ']');
        json_integer(j, "bytes", bytes);
        json_close(j, '}');
    }
    json_close(j, ']');
}

void sv_models_json(sv_models *m, const char *generator, json *j)
{
    listing l = { .models = m, .out = j };
    double budget, loaded;
    int count;
    json_open(j, "models", '[');
    zn_status status = zn_models_visit(visit_model, &l);
    if (status == ZN_OK)
        status = zn_generators_visit(visit_generator, &l);
    json_close(j, ']');
    json_text(j, "generator", generator);
    published_json(&l);
    for (int i = 0; i < l.count; i++)
        free(l.names[i]);
    free(l.names);
    if (status != ZN_OK)
        json_text(j, "error", zn_error_text());
    sv_models_memory(m, &budget, &loaded, &count);
    json_open(j, "memory", '{');
    json_real(j, "budget", budget);
    json_real(j, "loaded", loaded);
    json_close(j, '}');
}

typedef struct naming {
    void (*visit)(void *user, const char *name);
    void *user;
} naming;

static void name_generator(void *user, const char *folder)
{
    const naming *n = user;
    n->visit(n->user, base_name(folder));
}

zn_status sv_generators_visit(void (*visit)(void *user, const char *name), void *user)
{
    naming n = { visit, user };
    return zn_generators_visit(name_generator, &n);
}
