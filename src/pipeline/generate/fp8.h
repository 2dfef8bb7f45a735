/* Which layers of the transformer multiply FP8 numbers, and how that is measured.
 *
 *     zn_fp8_layers layers;
 *     ZN_TRY(zn_fp8_layers_open("transformer.safetensors", &layers));   // reads transformer.safetensors.fp8.json
 *     zn_graph_use_fp8(graph, &y, 1, &(zn_fp8_choice){ .uses = zn_fp8_layers_use, .user = &layers });
 *     zn_fp8_layers_close(&layers);
 *
 * The file has the relative error of a step with only this layer in FP8, for each layer, and the list of those that
 * stay in bf16:
 *
 *     { "format": 1, "keep": ["layers.1.feed_forward.w2"], "errors": {"layers.0.attention.to_q": 0.0012, ...} }
 *
 * Without a file, all products of the main blocks are FP8; those of the refiners, which every later block reads, are
 * not. */
#ifndef ZN_GENERATE_FP8_H
#define ZN_GENERATE_FP8_H

#include "base/json.h"
#include "pipeline/generate/denoise.h"

#include <zenith/generate.h>

typedef struct zn_fp8_layers {
    zn_json file; /* root is NULL without one */
} zn_fp8_layers;

/* Path of the file for these weights. */
void zn_fp8_path(const char *transformer, char *path, size_t size);
/* A missing file is not an error. */
ZN_MUST_USE zn_status zn_fp8_layers_open(const char *transformer, zn_fp8_layers *out);
void zn_fp8_layers_close(zn_fp8_layers *layers);
/* weights: "layers.0.attention.to_q.weight". Fits zn_fp8_choice. */
bool zn_fp8_layers_use(const void *layers, const char *weights);
/* All layers that can be measured. Fits zn_fp8_choice. */
bool zn_fp8_any_layer(const void *user, const char *weights);

/* ---- measuring ---- */

/* Sums over steps, for each layer of a denoiser with trials. */
typedef struct zn_fp8_errors {
    double *squares; /* of relative errors */
    int steps;
    float *out; /* of one layer in FP8 */
} zn_fp8_errors;

/* Called after every layer; non-zero: cancel. */
typedef int (*zn_fp8_tick)(void *user, int layer);

/* Predicts as zn_denoiser_predict does, then again with one layer after the other in FP8. count: numbers of x. */
ZN_MUST_USE zn_status zn_fp8_measure(zn_fp8_errors *e, zn_denoiser *d, const float *x, int step, int64_t count,
                                     float *out, zn_fp8_tick tick, void *user);
/* Writes the file: the worst layers are kept in bf16. Calls visit for each layer, the worst first. */
ZN_MUST_USE zn_status zn_fp8_write(const zn_fp8_errors *e, const zn_denoiser *d, const char *path,
                                   const zn_calibration *c);
void zn_fp8_errors_free(zn_fp8_errors *e);

#endif
