/* Chooses where to cut the forward pass into segments when activations are recomputed for the backward pass. Only
 * values that cross a cut are kept. While a segment's gradients are computed, all of its results are in memory. Cuts
 * are made where few bytes cross: between the blocks of a network. Several spacings are tried, and the one with the
 * least memory is used. */
#include "base/alloc.h"
#include "base/fail.h"
#include "ops/ops.h"

#include <string.h>

enum { SPACINGS = 32 };

typedef struct cutter {
    const zn_graph *graph;
    int count;
    int *reader;       /* by node: its last reader */
    int64_t *bytes;    /* by node: cost of keeping it; 0 for leaves and for values that no gradient needs */
    int64_t *crossing; /* by node: bytes computed up to it and read after it */
    bool *starts;
} cutter;

/* A result that its last reader overwrites (a convolution's result by the ReLU after it) needs no memory of its own. */
static void measure(cutter *c)
{
    for (int i = 0; i < c->count; i++) {
        const zn_node *n = zn_graph_at(c->graph, i);
        c->bytes[i] = n->op->is_leaf || !n->gradient ? 0 : (int64_t)sizeof(float) * zn_shape_count(n->shape);
        for (int s = 0; s < n->source_count; s++)
            c->reader[n->source[s]->index] = i;
    }
    for (int i = 0; i < c->count; i++) {
        const zn_node *n = zn_graph_at(c->graph, i);
        const int replaced = n->op->in_place ? n->op->in_place(n) : -1;
        if (replaced >= 0 && c->reader[n->source[replaced]->index] == i)
            c->bytes[n->source[replaced]->index] = 0;
    }
    for (int i = 0; i < c->count; i++) /* what fusion left without readers is not computed */
        c->bytes[i] = c->reader[i] ? c->bytes[i] : 0;
    for (int i = 0; i < c->count; i++)
        for (int k = i; k < c->reader[i]; k++)
            c->crossing[k] += c->bytes[i];
}

/* True if no more bytes cross than at the previous result, and fewer than at the next: the end of a block. */
static bool is_narrow(const cutter *c, int i)
{
    int before = i - 1, after = i + 1;
    while (before >= 0 && !c->bytes[before])
        before--;
    while (after < c->count && !c->bytes[after])
        after++;
    return c->bytes[i] && before >= 0 && after < c->count && c->crossing[i] <= c->crossing[before] &&
           c->crossing[i] < c->crossing[after];
}

/* Cuts at the first narrow point after every `spacing` bytes; returns the approximate peak memory. */
static int64_t cut(const cutter *c, int64_t spacing, bool *starts)
{
    int64_t kept = 0, inside = 0, most = 0, since = 0;
    memset(starts, 0, sizeof(bool) * (size_t)c->count);
    for (int i = 0; i + 1 < c->count; i++) {
        since += c->bytes[i];
        if (since >= spacing && is_narrow(c, i)) {
            starts[i + 1] = true;
            since = 0;
        }
    }
    for (int i = 0; i < c->count; i++) {
        bool crosses = false;
        if (starts[i])
            inside = 0;
        for (int k = i + 1; k <= c->reader[i] && !crosses; k++)
            crosses = starts[k];
        *(crosses ? &kept : &inside) += c->bytes[i];
        most = inside > most ? inside : most;
    }
    return kept + most;
}

static void choose(cutter *c, bool *trial)
{
    int64_t total = 0, least = INT64_MAX;
    for (int i = 0; i < c->count; i++)
        total += c->bytes[i];
    for (int k = 1; k <= SPACINGS; k++) {
        const int64_t held = cut(c, total / k, trial);
        if (held >= least)
            continue;
        least = held;
        memcpy(c->starts, trial, sizeof(bool) * (size_t)c->count);
    }
}

zn_status zn_recompute_segments(const zn_graph *g, int count, bool *starts)
{
    cutter c = { .graph = g,
                 .count = count,
                 .reader = zn_calloc((size_t)count, sizeof(int)),
                 .bytes = zn_calloc((size_t)count, sizeof(int64_t)),
                 .crossing = zn_calloc((size_t)count, sizeof(int64_t)),
                 .starts = starts };
    bool *trial = zn_calloc((size_t)count, sizeof(bool));
    const bool whole = c.reader && c.bytes && c.crossing && trial;
    if (whole) {
        measure(&c);
        choose(&c, trial);
    }
    zn_free(c.reader);
    zn_free(c.bytes);
    zn_free(c.crossing);
    zn_free(trial);
    return whole ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for the segments of %d nodes", count);
}
