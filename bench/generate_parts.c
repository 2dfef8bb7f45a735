/* Times the networks of Z-Image one by one, on files of any form. Our side of bench/generate.
 *
 *     generate-parts text FILE TOKENS THREADS RUNS [cuda] [profile]
 *     generate-parts step FILE PIXELS THREADS RUNS [cuda [fp8|fusion]] [profile] [LAYERS]
 *     generate-parts decode FILE PIXELS THREADS RUNS [cuda] [profile]
 *
 * PIXELS is the side of a square image; a step is one evaluation of the transformer with a caption of 32 tokens,
 * without what is computed once for all steps. LAYERS leaves out main blocks after the first LAYERS. Prints a JSON
 * object with the CPU seconds and the seconds of each run, the operations and the peak memory. With `profile`, prints
 * what the last run spent where instead; it is wall time, so nothing else should run. With `cuda`, bf16 from device
 * memory to device memory, after three runs that are not counted: the second is recorded as a CUDA graph. With `fp8`,
 * first in bf16, then with products in FP8, and the second object has the relative error of its result: of all main
 * blocks, or of the layers that FILE.fp8.json names. With `fusion`, in f32, then in bf16 with each op by itself, then
 * fused, and the last two have their errors against f32. */
#define _DEFAULT_SOURCE
#include "profile.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/rng.h"
#include "graph/exec.h"
#include "models/flux/flux_vae.h"
#include "models/qwen3/qwen3.h"
#include "models/zimage/zimage.h"
#include "ops/ops.h"
#include "pipeline/generate/fp8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { CAPTION = 32, MAX_RUNS = 64, WARM_UPS = 3 };

typedef struct job {
    const char *part, *file;
    int size; /* tokens or pixels */
    int threads, runs, layers;
    bool cuda, profile, fp8, fusion;
} job;

/* One way to compute a network. */
typedef struct way {
    const char *name; /* NULL: nothing is compared */
    zn_precision math;
    bool fused;
    const zn_fp8_layers *fp8; /* the layers that multiply FP8 numbers, or NULL */
} way;

/* ---- the networks ---- */

static void fill(zn_node *x)
{
    zn_rng rng = zn_rng_new(1);
    for (int64_t i = 0; i < zn_shape_count(x->shape); i++)
        x->data[i] = zn_rng_normal(&rng);
}

static zn_status text(const job *j, const zn_weights *const *file, zn_graph *g, zn_node **out)
{
    zn_qwen3_form k;
    zn_qwen3_naming naming;
    ZN_TRY(zn_qwen3_recognise(file, 1, NULL, &k, &naming));
    zn_node *ids = zn_graph_input(g, "ids", ZN_SHAPE(1, 1, j->size, 1));
    *out = zn_qwen3((zn_scope){ g, "" }, ids, &k, k.layers - 1, NULL);
    return zn_stored_bind(&(zn_stored){ file, 1, zn_qwen3_place, &naming }, g);
}

static zn_status step(const job *j, const zn_weights *const *file, zn_graph *g, zn_node **out)
{
    zn_zimage_form k;
    zn_zimage_naming naming;
    ZN_TRY(zn_zimage_recognise(file, 1, NULL, &k, &naming));
    if (j->layers > 0 && j->layers < k.layers)
        k.layers = j->layers;
    k.piece = j->cuda ? ZN_ZIMAGE_WHOLE : 0;
    const zn_scope s = { g, "" };
    zn_node *latent = zn_graph_input(g, "latent", ZN_SHAPE(1, j->size / 8, j->size / 8, k.channels));
    zn_node *modulation = zn_graph_input(g, "modulation", ZN_SHAPE(1, 1, 1, zn_zimage_modulation_width(&k)));
    zn_node *caption = zn_graph_input(g, "caption", ZN_SHAPE(1, 1, CAPTION, k.dim));
    *out = zn_zimage(s, latent, modulation, caption, &k);
    return zn_stored_bind(&(zn_stored){ file, 1, zn_zimage_place, &naming }, g);
}

static zn_status decode(const job *j, const zn_weights *const *file, zn_graph *g, zn_node **out)
{
    zn_flux_form k;
    zn_flux_naming naming;
    ZN_TRY(zn_flux_recognise(file, 1, NULL, &k, &naming));
    zn_node *z = zn_graph_input(g, "z", ZN_SHAPE(1, j->size / 8, j->size / 8, k.latent));
    *out = zn_flux_decoder((zn_scope){ g, "" }, z, &k);
    return zn_stored_bind(&(zn_stored){ file, 1, zn_flux_place, &naming }, g);
}

static const struct part {
    const char *name;
    zn_status (*build)(const job *j, const zn_weights *const *file, zn_graph *g, zn_node **out);
    bool floats; /* what its inputs are; otherwise numbers of tokens, all 0 */
} parts[] = { { "text", text, false }, { "step", step, true }, { "decode", decode, true } };

/* ---- measuring ---- */

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void print_numbers(const char *name, const double *x, int count)
{
    printf(", \"%s\": [", name);
    for (int i = 0; i < count; i++)
        printf("%s%.4f", i ? ", " : "", x[i]);
    printf("]");
}

static zn_status run_once(zn_exec *e, zn_device *device)
{
    ZN_TRY(zn_exec_run(e));
    return device ? zn_device_wait(device) : ZN_OK;
}

/* The result of the first call, which later ones are compared with. */
typedef struct reference {
    float *data;
    double error; /* of the last call, relative; negative: it was the first */
} reference;

static zn_status compare(zn_exec *e, zn_node *out, reference *r)
{
    const int64_t count = zn_shape_count(out->shape);
    double difference = 0, all = 0;
    ZN_TRY(zn_exec_fetch(e, &out, 1));
    ZN_TRY(zn_exec_check_finite(e));
    r->error = -1;
    if (!r->data) {
        ZN_TRY(zn_alloc_for("a result", sizeof(float) * (size_t)count, (void **)&r->data));
        memcpy(r->data, out->data, sizeof(float) * (size_t)count);
        return ZN_OK;
    }
    for (int64_t i = 0; i < count; i++) {
        const double d = (double)out->data[i] - (double)r->data[i];
        difference += d * d;
        all += (double)r->data[i] * (double)r->data[i];
    }
    r->error = sqrt(difference / all);
    return ZN_OK;
}

static zn_status measure(const job *j, zn_exec *e, zn_device *device, const way *w, zn_node *out, reference *r)
{
    double cpu[MAX_RUNS], wall[MAX_RUNS], flops = 0;
    if (device)
        zn_exec_send(e);
    for (int i = 0; i < WARM_UPS && device; i++)
        ZN_TRY(run_once(e, device));
    for (int i = 0; i < j->runs; i++) {
        const double start = zn_clock_ms(), start_cpu = cpu_seconds();
        ZN_TRY(run_once(e, device));
        wall[i] = 1e-3 * (zn_clock_ms() - start);
        cpu[i] = cpu_seconds() - start_cpu;
    }
    if (w->name)
        ZN_TRY(compare(e, out, r));
    if (j->profile) {
        print_profile(e);
        return ZN_OK;
    }
    for (int i = 0; i < zn_exec_rows(e); i++)
        flops += zn_exec_row_at(e, i).flops;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"part\": \"%s\", \"size\": %d, \"gflop\": %.1f, \"plan_mib\": %.1f, \"rss_mib\": %.1f", j->part, j->size,
           flops * 1e-9, (double)zn_exec_activation_bytes(e) / 1048576.0, (double)usage.ru_maxrss / 1024.0);
    print_numbers("cpu_s", cpu, j->runs);
    print_numbers("wall_s", wall, j->runs);
    if (w->name)
        printf(", \"math\": \"%s\"", w->name);
    if (r->error >= 0)
        printf(", \"error\": %.3e", r->error);
    printf("}\n");
    fflush(stdout);
    return ZN_OK;
}

/* Builds, runs and frees a network. */
static zn_status run_network(const job *j, const struct part *p, const zn_weights *const *files, zn_pool *pool,
                             zn_device *device, const way *w, reference *r)
{
    zn_exec *e = NULL;
    zn_node *out;
    zn_graph *g = zn_graph_new();
    zn_status status = g ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    if (status != ZN_OK)
        return status;
    ZN_TRY_DONE(p->build(j, files, g, &out));
    zn_graph_fuse(g, &out, 1);
    if (device && w->fused)
        zn_graph_fuse_tokens(g, &out, 1);
    if (w->fp8)
        zn_graph_use_fp8(g, &out, 1, &(zn_fp8_choice){ .uses = zn_fp8_layers_use, .user = w->fp8 });
    const zn_exec_options options = { .pool = pool,
                                      .device = device,
                                      .math = w->math,
                                      .whole = j->cuda,
                                      .resident = j->cuda,
                                      .profile = j->profile || !j->cuda };
    ZN_TRY_DONE(zn_exec_new(g, &out, 1, &options, &e));
    for (int i = 0; i < zn_graph_count(g) && p->floats; i++)
        if (zn_graph_at(g, i)->op == &zn_op_input)
            fill(zn_graph_at(g, i));
    status = measure(j, e, device, w, out, r);
done:
    zn_exec_free(e);
    zn_graph_free(g);
    return status;
}

static zn_status run(const job *j, const struct part *p)
{
    zn_weights *file = NULL;
    zn_pool *pool = NULL;
    zn_device *device = NULL;
    zn_fp8_layers layers = { 0 };
    reference r = { .error = -1 };
    zn_status status;
    ZN_TRY_DONE(zn_weights_open(j->file, &file));
    const zn_weights *const files[] = { file };
    ZN_TRY_DONE(zn_pool_new(j->threads, &pool));
    if (j->cuda)
        ZN_TRY_DONE(zn_device_open("cuda", &device));
    if (j->fp8)
        ZN_TRY_DONE(zn_fp8_layers_open(j->file, &layers));
    const way alone = { .math = j->cuda ? ZN_PRECISION_BF16 : ZN_PRECISION_INT8, .fused = true };
    const way fp8[] = { { "bf16", ZN_PRECISION_BF16, true, NULL }, { "fp8", ZN_PRECISION_BF16, true, &layers } };
    const way fusion[] = { { "f32", ZN_PRECISION_F32, false, NULL },
                           { "bf16, op by op", ZN_PRECISION_BF16, false, NULL },
                           { "bf16, fused", ZN_PRECISION_BF16, true, NULL } };
    const way *ways = j->fp8 ? fp8 : j->fusion ? fusion : &alone;
    for (int i = 0; i < (j->fp8 ? 2 : j->fusion ? 3 : 1); i++)
        ZN_TRY_DONE(run_network(j, p, files, pool, device, &ways[i], &r));
done:
    zn_fp8_layers_close(&layers);
    zn_free(r.data);
    zn_device_close(device);
    zn_pool_free(pool);
    zn_weights_close(file);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(
            stderr,
            "usage: generate-parts text|step|decode FILE SIZE THREADS RUNS [cuda [fp8|fusion]] [profile] [LAYERS]\n");
        return 2;
    }
    const bool cuda = argc > 6 && strcmp(argv[6], "cuda") == 0;
    const bool fp8 = cuda && argc > 7 && strcmp(argv[7], "fp8") == 0;
    const bool fusion = cuda && argc > 7 && strcmp(argv[7], "fusion") == 0;
    const int next = 6 + cuda + (fp8 || fusion);
    const bool profile = argc > next && strcmp(argv[next], "profile") == 0;
    const job j = { .part = argv[1],
                    .file = argv[2],
                    .size = atoi(argv[3]),
                    .threads = atoi(argv[4]),
                    .runs = atoi(argv[5]),
                    .layers = argc > next + profile ? atoi(argv[next + profile]) : 0,
                    .cuda = cuda,
                    .fp8 = fp8,
                    .fusion = fusion,
                    .profile = profile };
    const struct part *p = NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i].name, j.part) == 0)
            p = &parts[i];
    if (!p || j.size < 1 || j.size > 4096 || j.runs < 1 || j.runs > MAX_RUNS) {
        fprintf(stderr, "generate-parts: a part, size or number of runs is none\n");
        return 2;
    }
    const zn_status status = run(&j, p);
    if (status != ZN_OK)
        fprintf(stderr, "generate-parts: %s\n", zn_error_text());
    return status == ZN_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
