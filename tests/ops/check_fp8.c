/* FP8 products in a whole graph: a transformer's block on the CPU and on a device, with norms that write codes, codes
 * made by the product itself, weights in their file format, and trials. */
#include "../must.h"
#include "base/alloc.h"
#include "base/convert.h"
#include "base/rng.h"
#include "graph/exec.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 40, DIM = 64, INNER = 160 };

static zn_pool *pool;
static int checks, failures;

static void expect(const char *what, double error, double least, double most)
{
    checks++;
    if (error >= least && error <= most)
        return;
    printf("FAIL %s: relative error %.3g, allowed %.3g to %.3g\n", what, error, least, most);
    failures++;
}

/* ---- the block ---- */

typedef struct matrix {
    zn_packed packed;
    uint8_t data[DIM * INNER * 2];
    float scales[INNER];
} matrix;

typedef struct block {
    zn_graph *graph;
    zn_node *x, *out;
    matrix w[4];
} block;

static void fill(float *to, int64_t count, uint64_t seed, float scale)
{
    zn_rng rng = zn_rng_new(seed);
    for (int64_t i = 0; i < count; i++)
        to[i] = scale * (float)zn_rng_normal(&rng);
}

/* Weights in bf16, or in FP8 with a scale for each row. */
static zn_node *weights(block *b, int number, int out, int in, bool fp8)
{
    char name[32];
    float *numbers = zn_alloc(sizeof(float) * DIM * INNER);
    matrix *m = &b->w[number];
    snprintf(name, sizeof name, "w%d.weight", number);
    zn_node *n = zn_graph_parameter(b->graph, name, ZN_SHAPE(1, 1, out, in), ZN_LAYOUT_ROWS);
    fill(numbers, (int64_t)in * out, 10 + (uint64_t)number, 1 / sqrtf((float)in));
    m->packed =
        (zn_packed){ .data = m->data, .row_bytes = (size_t)in * (fp8 ? 1 : 2), .dtype = fp8 ? ZN_F8_E4M3 : ZN_BF16 };
    for (int j = 0; j < out && fp8; j++) {
        must(zn_e4m3_scale(numbers + j * in, (size_t)in, &m->scales[j]));
        zn_to_e4m3(m->data + j * in, numbers + j * in, m->scales[j], (size_t)in);
    }
    if (fp8) {
        m->packed.scales = (const uint8_t *)m->scales;
        m->packed.scale_dtype = ZN_F32;
        m->packed.groups = 1;
    } else {
        zn_from_f32(m->data, ZN_BF16, numbers, (size_t)in * (size_t)out);
    }
    n->packed = &m->packed;
    zn_free(numbers);
    return n;
}

static zn_node *vector(block *b, const char *name, uint64_t seed)
{
    zn_node *n = zn_graph_parameter(b->graph, name, ZN_SHAPE(DIM), ZN_LAYOUT_PLAIN);
    n->data = zn_arena_alloc(zn_graph_arena(b->graph), sizeof(float) * DIM);
    fill(n->data, DIM, seed, 1);
    return n;
}

/* out = (x + last(silu(first(h)) * second(h))) through `through`, which reads no codes; h = norm(x), modulated. */
static block *block_new(bool fp8_weights)
{
    block *b = zn_calloc(1, sizeof *b);
    b->graph = zn_graph_new();
    b->x = zn_graph_input(b->graph, "x", ZN_SHAPE(1, 1, TOKENS, DIM));
    zn_node *scale = zn_graph_input(b->graph, "scale", ZN_SHAPE(1, 1, 1, DIM));
    scale->data = zn_arena_alloc(zn_graph_arena(b->graph), sizeof(float) * DIM);
    fill(scale->data, DIM, 3, 0.3f);
    zn_node *h = zn_modulate(zn_rms_norm(b->x, vector(b, "norm", 2), 1e-5f), scale, NULL);
    zn_node *first = zn_matrix(h, weights(b, 0, INNER, DIM, fp8_weights), NULL);
    zn_node *second = zn_matrix(h, weights(b, 1, INNER, DIM, fp8_weights), NULL);
    zn_node *inner = zn_multiply(zn_silu(first), second);
    zn_node *y = zn_add(b->x, zn_matrix(inner, weights(b, 2, DIM, INNER, fp8_weights), NULL));
    b->out = zn_matrix(y, weights(b, 3, DIM, DIM, fp8_weights), NULL);
    must(zn_graph_status(b->graph));
    return b;
}

static void block_free(block *b)
{
    zn_graph_free(b->graph);
    zn_free(b);
}

static bool all(const void *user, const char *name)
{
    (void)user;
    return strstr(name, ".weight") != NULL;
}

/* ---- runs ---- */

static zn_exec *prepare(block *b, zn_device *device, bool fp8, bool trial)
{
    zn_exec *e;
    const zn_fp8_choice choice = { .uses = all, .trial = trial };
    const zn_exec_options o = {
        .pool = pool, .device = device, .math = ZN_PRECISION_BF16, .whole = true, .varies = trial
    };
    if (device || fp8)
        zn_graph_fuse_tokens(b->graph, &b->out, 1);
    if (fp8)
        zn_graph_use_fp8(b->graph, &b->out, 1, &choice);
    must(zn_exec_new(b->graph, &b->out, 1, &o, &e));
    fill(b->x->data, TOKENS * DIM, 1, 1);
    return e;
}

/* Three times: the device records the second run. */
static void run(zn_exec *e, const block *b, float *to)
{
    for (int i = 0; i < 3; i++)
        must(zn_exec_run(e));
    must(zn_exec_check_finite(e));
    memcpy(to, b->out->data, sizeof(float) * TOKENS * DIM);
}

static void compute(zn_device *device, bool fp8, bool fp8_weights, float *to)
{
    block *b = block_new(fp8_weights);
    zn_exec *e = prepare(b, device, fp8, false);
    run(e, b, to);
    zn_exec_free(e);
    block_free(b);
}

static double difference(const float *a, const float *b)
{
    double sum = 0, whole = 0;
    for (int i = 0; i < TOKENS * DIM; i++) {
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        whole += (double)b[i] * (double)b[i];
    }
    return sqrt(sum / whole);
}

/* Off, a trial is the usual product; each one that is on adds an error. */
static void check_trials(zn_device *device, const float *exact, const float *fp8)
{
    float y[TOKENS * DIM];
    block *b = block_new(false);
    zn_exec *e = prepare(b, device, true, true);
    run(e, b, y);
    expect("trials that are off", difference(y, exact), 0, 1e-2);
    for (int i = 0; i < zn_graph_count(b->graph); i++)
        if (zn_is_fp8_product(zn_graph_at(b->graph, i)))
            zn_fp8_try(zn_graph_at(b->graph, i), true);
    run(e, b, y);
    expect("trials that are on", difference(y, fp8), 0, 3e-2); /* some codes are the next ones */
    expect("trials that are on, against bf16", difference(y, exact), 1.5e-2, 8e-2);
    zn_exec_free(e);
    block_free(b);
}

int main(void)
{
    static float exact[TOKENS * DIM], fp8[TOKENS * DIM], stored[TOKENS * DIM], y[TOKENS * DIM];
    zn_device *device = NULL;
    must(zn_pool_new(2, &pool));
    compute(NULL, false, false, exact);
    compute(NULL, true, false, fp8);
    compute(NULL, true, true, stored);
    expect("FP8 on the CPU", difference(fp8, exact), 1.5e-2, 8e-2);
    expect("weights as stored on the CPU", difference(stored, exact), 1.5e-2, 8e-2);
    check_trials(NULL, exact, fp8);
    if (zn_device_open("cuda", &device) == ZN_OK) {
        compute(device, false, false, y);
        expect("bf16 on the device", difference(y, exact), 0, 1e-2);
        compute(device, true, false, y);
        expect("FP8 on the device", difference(y, fp8), 0, 2e-2);
        compute(device, true, true, y);
        expect("weights as stored on the device", difference(y, stored), 0, 2e-2);
        check_trials(device, exact, fp8);
        zn_device_close(device);
    }
    zn_pool_free(pool);
    printf("%d passed, %d failed%s\n", checks - failures, failures, device ? "" : "; no device");
    return failures != 0;
}
