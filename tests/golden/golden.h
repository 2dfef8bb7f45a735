/* Golden cases: the content of a reference file, and the comparison of results with it.
 *
 * A case is a function for one kind of file, recognised by its content. It computes results and calls golden_compare
 * for every out.* tensor; tensors that are not compared count as failures. To add a family: one file with a
 * golden_kind, one line in check_golden.c. Tensors in files are NCHW / OIHW unless "layout" in the configuration says
 * NHWC; in the engine they are NHWC / [kh,kw,in,out]. */
#ifndef ZN_GOLDEN_H
#define ZN_GOLDEN_H

#include "base/json.h"
#include "graph/exec.h"
#include "models/model.h"

typedef struct golden {
    const char *path;
    zn_weights *file;
    zn_json config_doc;
    const zn_json_node *config; /* object; may be NULL */
    bool nhwc;                  /* feature maps in the file have the layout of the engine */
    zn_pool *pool;
    zn_device *device; /* NULL: the CPU */
    zn_precision math; /* of the graphs that graph_start runs */
    bool *compared;    /* by tensor */
    int passed, failed, skipped;
} golden;

typedef struct golden_kind {
    const char *name;
    bool (*matches)(const golden *g);
    zn_status (*run)(golden *g);
} golden_kind;

extern const golden_kind golden_taesd, golden_taesd_block, golden_taesd_real;
extern const golden_kind golden_diffae_schedule, golden_diffae_networks, golden_diffae_latent, golden_diffae_ops,
    golden_diffae_mamba;
extern const golden_kind golden_wan_fp8, golden_wan_sdpa, golden_wan_ops, golden_wan_vae, golden_wan_taehv,
    golden_wan_train, golden_wan_tiled;
extern const golden_kind golden_zimage_gguf, golden_zimage_mlx, golden_zimage_noise, golden_zimage_schedule,
    golden_zimage_timestep, golden_zimage_rope, golden_zimage_qwen3, golden_zimage_dit, golden_zimage_vae,
    golden_zimage_denoise;
extern const golden_kind golden_features;
extern const golden_kind golden_zenith_ops, golden_zenith_models, golden_zenith_train;

/* TRAINED: results after several optimiser steps, where the reference itself varies by 1e-3. */
enum { GOLDEN_FORWARD, GOLDEN_GRADIENT, GOLDEN_TRAINED };

/* An executor on g's pool and device, with the other options given. Counts where its steps run. */
zn_status golden_exec_new(const golden *g, zn_graph *graph, zn_node *const *outputs, int count,
                          const zn_exec_options *options, zn_exec **exec);
extern zn_exec_places golden_places; /* of all executors so far */

/* Tensor "prefix" "name", or NULL. */
const zn_weight *golden_find(const golden *g, const char *prefix, const char *name);
bool golden_has(const golden *g, const char *prefix, const char *name);

int64_t golden_int(const golden *g, const char *key, int64_t fallback);
double golden_double(const golden *g, const char *key, double fallback);
bool golden_flag(const golden *g, const char *key);
/* The content of the network's config.json: the object "config" of the configuration, or else all of it. */
const zn_json_node *golden_network_config(const golden *g);

/* Loads a tensor as floats in the engine's layout: rank 4 becomes NHWC. The caller frees *data (zn_free). */
zn_status golden_load(const golden *g, const char *prefix, const char *name, zn_shape *shape, float **data);

/* Compares values in the engine's layout with out.NAME and prints a line. layout is the layout in the file: a zn_layout
 * for weights, GOLDEN_MAP for feature maps. */
enum { GOLDEN_MAP = 100 };
zn_status golden_compare(golden *g, const char *name, const float *values, zn_shape shape, int layout, int how);
/* The same with a tolerance for each element (same order as values); NULL: the default tolerance. */
zn_status golden_compare_each(golden *g, const char *name, const float *values, zn_shape shape, int layout,
                              const float *tolerance);
/* Compares with a tensor of doubles or integers. The tolerance is relative to its largest value. */
zn_status golden_compare_double(golden *g, const char *name, const double *values, int64_t count, double tolerance);
/* Compares with a tensor of any type: all values must be equal, and NaN must match NaN. */
zn_status golden_compare_exact(golden *g, const char *name, const float *values, int64_t count);
/* The tolerance is relative to the largest expected value. */
zn_status golden_compare_within(golden *g, const char *name, const float *values, zn_shape shape, double tolerance);
/* Compares bit by bit with the stored tensor. */
void golden_compare_bytes(golden *g, const char *name, const void *bytes, size_t size);
/* Marks out.NAME and every out.NAME.* as skipped and prints the reason. */
void golden_skip(golden *g, const char *name, const char *why);

/* Path of a file under $ZENITH_MODELS with this SHA-256 (hex), or "" when there is none. */
void golden_find_file(const char *sha256, char *path, size_t size);

#endif
