/* The choice of layers for FP8; see fp8.h. */
#include "pipeline/generate/fp8.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "models/zimage/zimage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FORMAT = 1, MOST_NAME = 256 };
static const double usual_keep = 0.1;

void zn_fp8_path(const char *transformer, char *path, size_t size) { snprintf(path, size, "%s.fp8.json", transformer); }

/* ---- which layers ---- */

static zn_status check(const zn_json_node *root, const char *path)
{
    int64_t format = 0;
    const zn_json_node *keep = zn_json_get(root, "keep"), *errors = zn_json_get(root, "errors");
    const bool known = zn_json_i64(zn_json_get(root, "format"), &format) && format == FORMAT;
    if (!known || !keep || keep->kind != ZN_JSON_ARRAY || !errors || errors->kind != ZN_JSON_OBJECT)
        return ZN_FAIL(
            ZN_EFORMAT,
            "%s is not a list of layers for FP8: make it again with zenith generate --calibrate, or remove it", path);
    return ZN_OK;
}

zn_status zn_fp8_layers_open(const char *transformer, zn_fp8_layers *out)
{
    char path[4200];
    zn_map map;
    *out = (zn_fp8_layers){ 0 };
    zn_fp8_path(transformer, path, sizeof path);
    if (access(path, F_OK))
        return ZN_OK;
    ZN_TRY(zn_map_open(&map, path));
    zn_status status = zn_json_parse(&out->file, map.bytes, map.size, path);
    zn_map_close(&map);
    if (status == ZN_OK)
        status = check(out->file.root, path);
    if (status != ZN_OK)
        zn_fp8_layers_close(out);
    return status;
}

void zn_fp8_layers_close(zn_fp8_layers *layers)
{
    zn_json_free(&layers->file);
    *layers = (zn_fp8_layers){ 0 };
}

/* The layer's name before ".weight"; false for other tensors, such as those of adapters. */
static bool name_of(const char *weights, char name[MOST_NAME])
{
    static const char ending[] = ".weight";
    const size_t length = strlen(weights), cut = sizeof ending - 1;
    if (length <= cut || length - cut >= MOST_NAME || strcmp(weights + length - cut, ending))
        return false;
    memcpy(name, weights, length - cut);
    name[length - cut] = 0;
    return true;
}

bool zn_fp8_layers_use(const void *user, const char *weights)
{
    const zn_fp8_layers *layers = user;
    char name[MOST_NAME];
    if (!name_of(weights, name))
        return false;
    if (!layers->file.root)
        return zn_zimage_in_main_block(name);
    ZN_JSON_EACH(kept, zn_json_get(layers->file.root, "keep"))
    {
        const char *text = zn_json_string(kept);
        if (text && strcmp(text, name) == 0)
            return false;
    }
    return zn_json_get(zn_json_get(layers->file.root, "errors"), name) != NULL;
}

bool zn_fp8_any_layer(const void *user, const char *weights)
{
    char name[MOST_NAME];
    (void)user;
    return name_of(weights, name);
}

/* ---- measuring ---- */

static double relative_square(const float *x, const float *base, int64_t count)
{
    double difference = 0, all = 0;
    for (int64_t i = 0; i < count; i++) {
        const double d = (double)x[i] - (double)base[i];
        difference += d * d;
        all += (double)base[i] * (double)base[i];
    }
    return all > 0 ? difference / all : 0;
}

zn_status zn_fp8_measure(zn_fp8_errors *e, zn_denoiser *d, const float *x, int step, int64_t count, float *out,
                         zn_fp8_tick tick, void *user)
{
    const int layers = zn_denoiser_trials(d);
    if (!e->squares) {
        ZN_TRY(zn_alloc_for("errors of layers", sizeof *e->squares * (size_t)(layers + 1), (void **)&e->squares));
        ZN_TRY(zn_alloc_for("a latent", sizeof *e->out * (size_t)count, (void **)&e->out));
        memset(e->squares, 0, sizeof *e->squares * (size_t)(layers + 1));
    }
    ZN_TRY(zn_denoiser_predict(d, x, step, false, out));
    for (int i = 0; i < layers; i++) {
        zn_denoiser_try(d, i, true);
        const zn_status status = zn_denoiser_predict(d, x, step, false, e->out);
        zn_denoiser_try(d, i, false);
        ZN_TRY(status);
        e->squares[i] += relative_square(e->out, out, count);
        if (tick(user, i))
            return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    }
    e->steps++;
    return ZN_OK;
}

void zn_fp8_errors_free(zn_fp8_errors *e)
{
    zn_free(e->squares);
    zn_free(e->out);
    *e = (zn_fp8_errors){ 0 };
}

/* ---- the file ---- */

typedef struct layer {
    char name[MOST_NAME];
    double error;
    int number;
} layer;

/* The worst first; equal ones in the order of the network. */
static int compare(const void *a, const void *b)
{
    const layer *x = a, *y = b;
    return x->error > y->error ? -1 : x->error < y->error ? 1 : x->number - y->number;
}

static zn_status list_layers(const zn_fp8_errors *e, const zn_denoiser *d, layer **out)
{
    const int count = zn_denoiser_trials(d);
    ZN_TRY(zn_alloc_for("a list of layers", sizeof **out * (size_t)(count + 1), (void **)out));
    for (int i = 0; i < count; i++) {
        layer *l = &(*out)[i];
        l->number = i;
        l->error = sqrt(e->squares[i] / e->steps);
        if (!name_of(zn_denoiser_trial_name(d, i), l->name))
            l->name[0] = 0;
    }
    qsort(*out, (size_t)count, sizeof **out, compare);
    return ZN_OK;
}

static void print(zn_json_out *o, const layer *layers, int count, int kept)
{
    zn_json_out_format(o, "{\n  \"format\": %d,\n  \"keep\": [", FORMAT);
    for (int i = 0; i < kept; i++) {
        zn_json_out_format(o, "%s\n    ", i ? "," : "");
        zn_json_out_string(o, layers[i].name);
    }
    zn_json_out_format(o, "\n  ],\n  \"errors\": {");
    for (int i = 0; i < count; i++) {
        zn_json_out_format(o, "%s\n    ", i ? "," : "");
        zn_json_out_string(o, layers[i].name);
        zn_json_out_format(o, ": %.3e", layers[i].error);
    }
    zn_json_out_format(o, "\n  }\n}\n");
}

zn_status zn_fp8_write(const zn_fp8_errors *e, const zn_denoiser *d, const char *path, const zn_calibration *c)
{
    const int count = zn_denoiser_trials(d);
    const int kept = (int)ceil((c->keep > 0 ? c->keep : usual_keep) * count);
    layer *layers = NULL;
    zn_json_out o = { 0 };
    if (!count)
        return ZN_FAIL(ZN_EUNSUPPORTED, "no layer of this transformer can be FP8: their sides are no multiples of 16");
    ZN_TRY(list_layers(e, d, &layers));
    print(&o, layers, count, kept);
    zn_status status =
        o.failed ? ZN_FAIL(ZN_ENOMEM, "out of memory for %s", path) : zn_file_write(path, o.bytes, o.size);
    for (int i = 0; i < count && c->visit && status == ZN_OK; i++)
        c->visit(c->user, layers[i].name, layers[i].error, i < kept);
    zn_json_out_free(&o);
    zn_free(layers);
    return status;
}
