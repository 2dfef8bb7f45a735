/* TAESD cases: forward, and real weights found by their hash. */
#include "taesd.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "models/taesd/taesd.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Runs one part on a map; *result is the caller's. */
static zn_status run_part(const golden *g, const zn_model *m, zn_part part, const float *x, zn_shape shape,
                          zn_shape *result_shape, float **result)
{
    zn_graph *graph;
    zn_node *input, *output;
    zn_exec *e = NULL;
    *result = NULL;
    ZN_TRY(zn_model_graph(m, part, shape, &graph, &input, &output));
    zn_graph_fuse(graph, &output, 1);
    zn_status status;
    ZN_TRY_DONE(golden_exec_new(g, graph, &output, 1, &(zn_exec_options){ .training = false }, &e));
    memcpy(input->data, x, sizeof(float) * (size_t)zn_shape_count(shape));
    ZN_TRY_DONE(zn_exec_run(e));
    const size_t bytes = sizeof(float) * (size_t)zn_shape_count(output->shape);
    ZN_TRY_DONE(zn_alloc_for("a result", bytes, (void **)result));
    memcpy(*result, output->data, bytes);
    *result_shape = output->shape;
done:
    zn_exec_free(e);
    zn_graph_free(graph);
    return status;
}

static float scaled(float z) { return fminf(fmaxf(z / 6 + 0.5f, 0), 1); }

/* out.scaled<suffix>, and the 8-bit form under u8_name: one off is right within 1e-3 of a half. */
static zn_status compare_scaled(golden *g, const char *suffix, const char *u8_name, const float *z, zn_shape s)
{
    const int64_t count = zn_shape_count(s);
    float *values;
    char name[64];
    ZN_TRY(zn_alloc_for("a latent", 2 * sizeof(float) * (size_t)count, (void **)&values));
    float *tolerance = values + count;
    for (int64_t i = 0; i < count; i++)
        values[i] = scaled(z[i]);
    snprintf(name, sizeof name, "scaled%s", suffix);
    zn_status status = golden_compare(g, name, values, s, GOLDEN_MAP, GOLDEN_FORWARD);
    for (int64_t i = 0; i < count; i++) {
        const float v = 255 * values[i], to_half = fabsf(v - floorf(v) - 0.5f);
        tolerance[i] = to_half < 1e-3f ? 1 : 0;
        values[i] = rintf(v);
    }
    if (status == ZN_OK)
        status = golden_compare_each(g, u8_name, values, s, GOLDEN_MAP, tolerance);
    zn_free(values);
    return status;
}

/* Everything that follows from in.image<suffix>: latent, its 8-bit form, and the picture decoded again. */
static zn_status check_image(golden *g, const zn_model *m, const char *suffix)
{
    char name[64], u8[64];
    zn_shape si, sz, so;
    float *image = NULL, *z = NULL, *back = NULL;
    zn_status status;
    snprintf(name, sizeof name, "image%s", suffix);
    ZN_TRY_DONE(golden_load(g, "in.", name, &si, &image));
    ZN_TRY_DONE(run_part(g, m, ZN_ENCODER, image, si, &sz, &z));
    snprintf(name, sizeof name, "latent%s", suffix);
    ZN_TRY_DONE(golden_compare(g, name, z, sz, GOLDEN_MAP, GOLDEN_FORWARD));
    snprintf(u8, sizeof u8, suffix[0] ? "u8_%s" : "u8%s", suffix);
    ZN_TRY_DONE(compare_scaled(g, suffix, u8, z, sz));
    if (!m->info.has_decoder)
        goto done;
    ZN_TRY_DONE(run_part(g, m, ZN_DECODER, z, sz, &so, &back));
    snprintf(name, sizeof name, "decoded%s", suffix);
    ZN_TRY_DONE(golden_compare(g, name, back, so, GOLDEN_MAP, GOLDEN_FORWARD));
done:
    zn_free(image);
    zn_free(z);
    zn_free(back);
    return status;
}

/* out.<result> = decoder of a map made from tensor prefix+name; the 8-bit form is unscaled first. */
static zn_status check_decode(golden *g, const zn_model *m, const char *prefix, const char *name, const char *result)
{
    zn_shape sz, so;
    float *z = NULL, *back = NULL;
    zn_status status;
    ZN_TRY_DONE(golden_load(g, prefix, name, &sz, &z));
    if (golden_find(g, prefix, name)->dtype == ZN_U8)
        for (int64_t i = 0; i < zn_shape_count(sz); i++)
            z[i] = (z[i] / 255 - 0.5f) * 6;
    ZN_TRY_DONE(run_part(g, m, ZN_DECODER, z, sz, &so, &back));
    ZN_TRY_DONE(golden_compare(g, result, back, so, GOLDEN_MAP, GOLDEN_FORWARD));
done:
    zn_free(z);
    zn_free(back);
    return status;
}

static bool same_pooling(const zn_config *a, const zn_config *b)
{
    const zn_taesd_form *of_a = zn_form_of(a), *of_b = zn_form_of(b);
    return of_a->pooled == of_b->pooled;
}

static zn_config config_of(const golden *g)
{
    const bool deep = golden_int(g, "downscale", 8) == 32;
    const zn_config *base;
    zn_arch_find(deep ? "taesana" : "taesd", &base);
    zn_config k = *base;
    k.latent = (int)golden_int(g, "latent_channels", k.latent);
    ((zn_taesd_form *)zn_form_own(&k, sizeof(zn_taesd_form)))->pooled = golden_flag(g, "use_midblock_gn");
    return k;
}

/* ---- random weights ---- */

static bool taesd_matches(const golden *g) { return golden_has(g, "w.", "encoder.0.weight"); }

static zn_status taesd_run(golden *g)
{
    zn_model *m;
    const zn_config *preset, k = config_of(g);
    zn_status status;
    ZN_TRY(zn_model_new(zn_arch_find("taesd", &preset), &k, &m));
    ZN_TRY_DONE(zn_model_load_part(m, ZN_ENCODER, g->file, &(zn_naming){ true, "w.encoder.", 0 }));
    if (golden_has(g, "w.", "decoder.1.weight"))
        ZN_TRY_DONE(zn_model_load_part(m, ZN_DECODER, g->file, &(zn_naming){ true, "w.decoder.", 0 }));
    for (int64_t i = 0; i < zn_weights_count(g->file); i++) {
        const char *name = zn_weights_at(g->file, i)->name;
        char result[128];
        if (strncmp(name, "in.image", 8) == 0)
            ZN_TRY_DONE(check_image(g, m, name + 8));
        if (strncmp(name, "in.latent_", 10) == 0) {
            snprintf(result, sizeof result, "decoded_%s", name + 10);
            ZN_TRY_DONE(check_decode(g, m, "in.", name + 3, result));
        }
    }
    status = taesd_check_training(g, m);
done:
    zn_model_free(m);
    return status;
}

const golden_kind golden_taesd = { "taesd", taesd_matches, taesd_run };

/* ---- real weights ---- */

static bool real_matches(const golden *g)
{
    return zn_json_get(g->config, "sha256") != NULL && golden_has(g, "in.", "image");
}

/* Loads every file the case names; *missing is the name of one that is not there. */
static zn_status load_real(const golden *g, zn_model *m, const char **missing)
{
    const zn_json_node *hashes = zn_json_get(g->config, "sha256");
    *missing = NULL;
    ZN_JSON_EACH(key, hashes)
    {
        const char *name = zn_json_string(key), *sha256 = zn_json_string(zn_json_get(hashes, name ? name : ""));
        char path[4096];
        if (!name || !sha256)
            continue;
        golden_find_file(sha256, path, sizeof path);
        if (!path[0]) {
            *missing = name;
            return ZN_OK;
        }
        zn_weights *w;
        ZN_TRY(zn_weights_open(path, &w));
        zn_config found = { 0 };
        zn_naming naming[ZN_PARTS];
        bool is_it;
        zn_status status = m->arch->recognise(w, &found, naming, &is_it);
        if (status == ZN_OK && (!is_it || found.latent != m->config.latent || !same_pooling(&found, &m->config)))
            status = ZN_FAIL(ZN_EFORMAT, "%s was not recognised as what the case says", path);
        for (int part = 0; part < 2 && status == ZN_OK; part++)
            if (naming[part].present)
                status = zn_model_load_part(m, (zn_part)part, w, &naming[part]);
        zn_weights_close(w);
        ZN_TRY(status);
    }
    return ZN_OK;
}

static zn_status real_run(golden *g)
{
    zn_model *m;
    const zn_config *preset, k = config_of(g);
    const char *missing;
    zn_status status;
    ZN_TRY(zn_model_new(zn_arch_find("taesd", &preset), &k, &m));
    ZN_TRY_DONE(load_real(g, m, &missing));
    if (missing) {
        char why[300];
        snprintf(why, sizeof why, "%s is not under $ZENITH_MODELS", missing);
        golden_skip(g, "", why);
        goto done;
    }
    ZN_TRY_DONE(check_image(g, m, ""));
    if (golden_has(g, "out.", "recon"))
        ZN_TRY_DONE(check_decode(g, m, "out.", "latent", "recon"));
    if (golden_has(g, "out.", "recon_u8"))
        ZN_TRY_DONE(check_decode(g, m, "out.", "u8", "recon_u8"));
done:
    zn_model_free(m);
    return status;
}

const golden_kind golden_taesd_real = { "taesd with real weights", real_matches, real_run };
