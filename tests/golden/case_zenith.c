/* Zenith's transforms, gates and blocks, one by one (specification 0, A1, B1 to B3, D1, D2). */
#include "probe.h"
#include "zenith_blocks.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "kernels/spectral.h"
#include "models/zenith/zenith.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static zn_node *parameter(probe *p, const char *name)
{
    const zn_weight *w = golden_find(p->g, p->weights, name);
    if (!w)
        return zn_graph_poison(p->graph, ZN_ENOTFOUND, "a weight is missing");
    zn_shape s = { .rank = w->rank };
    memcpy(s.dim, w->shape, sizeof s.dim);
    return zn_graph_parameter(p->graph, name, s, ZN_LAYOUT_PLAIN);
}

/* ---- Walsh-Hadamard: h unnormalised, q orthonormal, hseq in sequency order, seq that order ---- */

static zn_status fwht_compare(golden *g, const char *kind, const char *size, const zn_node *n)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", kind, size);
    return golden_compare(g, name, n->data, n->shape, GOLDEN_MAP, GOLDEN_FORWARD);
}

static zn_status fwht_one(golden *g, const char *size)
{
    const int64_t n = strtoll(size, NULL, 10);
    char name[64];
    float *order = NULL;
    int32_t *from = NULL;
    zn_exec *e = NULL;
    probe p;
    zn_status status;
    ZN_TRY(probe_new(&p, g, "", "w."));
    ZN_TRY_DONE(zn_alloc_for("an order", sizeof(float) * (size_t)(n + 1), (void **)&order));
    ZN_TRY_DONE(zn_alloc_for("an order", sizeof(int32_t) * (size_t)(n + 1), (void **)&from));
    for (int64_t k = 0; k < n; k++)
        order[k] = (float)(from[k] = (int32_t)zn_wht_sequency(k, n));
    snprintf(name, sizeof name, "x.%s", size);
    zn_node *x = probe_input(&p, name), *h = zn_wht(x, 1, 1);
    zn_node *q = zn_wht(x, 1, 1 / sqrtf((float)n)), *hseq = zn_select_channels(h, from, (int)n);
    ZN_TRY_DONE(
        golden_exec_new(g, p.graph, (zn_node *[]){ h, q, hseq }, 3, &(zn_exec_options){ .training = false }, &e));
    ZN_TRY_DONE(zn_exec_run(e));
    ZN_TRY_DONE(fwht_compare(g, "h", size, h));
    ZN_TRY_DONE(fwht_compare(g, "q", size, q));
    ZN_TRY_DONE(fwht_compare(g, "hseq", size, hseq));
    snprintf(name, sizeof name, "seq.%s", size);
    memset(from, 0, sizeof(int32_t) * (size_t)n); /* zeros are the tolerance too */
    status = golden_compare_each(g, name, order, ZN_SHAPE(n), GOLDEN_MAP, (const float *)(void *)from);
done:
    zn_exec_free(e);
    zn_graph_free(p.graph);
    zn_free(order);
    zn_free(from);
    return status;
}

static zn_status fwht_run(golden *g) { return probe_each_name(g, "in.x.", "", fwht_one); }

/* ---- spectral diagonal along rows and columns, and its dyadic kernel ---- */

static zn_status diagonal(golden *g, const char *tag, const char *gate, const char *seed, int axis)
{
    probe p;
    ZN_TRY(probe_new(&p, g, tag, "w."));
    zn_node *x = probe_input(&p, "x"), *k = probe_input(&p, gate);
    probe_want(&p, x, "x");
    probe_want(&p, k, "g");
    return probe_finish(&p, zn_spectral(x, k, axis), seed);
}

/* M(g) of a unit vector is the kernel. */
static zn_status diagonal_kernel(golden *g)
{
    probe p;
    zn_exec *e = NULL;
    zn_status status;
    if (!golden_has(g, "out.", "kernel_row"))
        return ZN_OK;
    ZN_TRY(probe_new(&p, g, "", "w."));
    zn_node *gate = probe_input(&p, "g_row"), *unit = zn_graph_input(p.graph, "unit", gate->shape);
    zn_node *k = zn_spectral(unit, gate, 0);
    ZN_TRY_DONE(golden_exec_new(g, p.graph, &k, 1, &(zn_exec_options){ .training = false }, &e));
    unit->data[0] = 1;
    ZN_TRY_DONE(zn_exec_run(e));
    status = golden_compare(g, "kernel_row", k->data, k->shape, GOLDEN_MAP, GOLDEN_FORWARD);
done:
    zn_exec_free(e);
    zn_graph_free(p.graph);
    return status;
}

static zn_status diagonal_run(golden *g)
{
    ZN_TRY(diagonal(g, "row.", "g_row", "row.dy", 2));
    ZN_TRY(diagonal(g, "col.", "g_col", "col.dy", 1));
    return diagonal_kernel(g);
}

/* ---- shuffles, exactly ---- */

static zn_status rearranged(golden *g, const char *result, const char *input, const char *factor,
                            zn_node *(*build)(zn_node *, int))
{
    char name[64], from[64];
    float *zeros = NULL;
    zn_exec *e = NULL;
    probe p;
    zn_status status;
    snprintf(name, sizeof name, "%s.r%s", result, factor);
    snprintf(from, sizeof from, "%s.r%s", input, factor);
    ZN_TRY(probe_new(&p, g, "", "w."));
    zn_node *y = build(probe_input(&p, from), (int)strtol(factor, NULL, 10));
    ZN_TRY_DONE(golden_exec_new(g, p.graph, &y, 1, &(zn_exec_options){ .training = false }, &e));
    ZN_TRY_DONE(zn_exec_run(e));
    zeros = zn_calloc((size_t)zn_shape_count(y->shape) + 1, sizeof *zeros);
    status = zeros ? golden_compare_each(g, name, y->data, y->shape, GOLDEN_MAP, zeros) : ZN_ENOMEM;
done:
    zn_free(zeros);
    zn_exec_free(e);
    zn_graph_free(p.graph);
    return status;
}

static zn_status shuffle_high(golden *g, const char *r)
{
    ZN_TRY(rearranged(g, "unshuffle.torch", "high", r, zn_pixel_unshuffle));
    return rearranged(g, "unshuffle.tf", "high", r, zn_space_to_depth);
}

static zn_status shuffle_low(golden *g, const char *r)
{
    ZN_TRY(rearranged(g, "shuffle.torch", "low", r, zn_pixel_shuffle));
    return rearranged(g, "shuffle.tf", "low", r, zn_depth_to_space);
}

static zn_status shuffle_run(golden *g)
{
    ZN_TRY(probe_each_name(g, "in.high.r", "", shuffle_high));
    return probe_each_name(g, "in.low.r", "", shuffle_low);
}

/* ---- grouped 1x1 ---- */

static zn_status grouped_one(golden *g, const char *groups)
{
    char tag[64], weights[64], seed[64];
    probe p;
    snprintf(tag, sizeof tag, "g%s.", groups);
    snprintf(weights, sizeof weights, "w.g%s.", groups);
    snprintf(seed, sizeof seed, "g%s.dy", groups);
    ZN_TRY(probe_new(&p, g, tag, weights));
    zn_node *x = probe_input(&p, "x");
    probe_want(&p, x, "x");
    return probe_finish(&p, zn_grouped_conv(x, parameter(&p, "W"), parameter(&p, "b")), seed);
}

static zn_status grouped_run(golden *g) { return probe_each_name(g, "w.g", ".W", grouped_one); }

/* ---- gates ---- */

static zn_status srig_run(golden *g)
{
    probe p;
    ZN_TRY(probe_new(&p, g, "", "w."));
    zn_node *u = probe_input(&p, "u");
    probe_want(&p, u, "u");
    return probe_finish(&p, zn_srig(u, parameter(&p, "w"), parameter(&p, "b")), "dy");
}

/* The share of zeros in a mask of zeros and ones is 1 - mean; the penalty is lam * mean. */
static zn_status gate_one(golden *g, const char *tag, zn_gate_mode mode, bool noisy)
{
    probe p;
    ZN_TRY(probe_new(&p, g, tag, "w."));
    zn_node *x = probe_input(&p, "x"), *eps = noisy ? probe_input(&p, "eps") : NULL;
    const float temperature = noisy ? (float)golden_double(g, "T", 0) : 0;
    zn_node *mask = zn_gate_mask(x, parameter(&p, "w"), parameter(&p, "v"), eps, mode, temperature);
    if (mode == ZN_GATE_STE) {
        zn_node *mean = zn_mean(mask);
        p.penalty = zn_scale(mean, (float)golden_double(g, "lam", 0));
        probe_output(&p, p.penalty, "penalty");
        probe_output(&p, zn_sub(zn_ones_like(mean), mean), "pruned_fraction");
    }
    probe_output(&p, mask, "m");
    probe_want(&p, x, "x");
    return probe_finish(&p, zn_gate_apply(x, mask), "dy");
}

static zn_status gate_run(golden *g)
{
    ZN_TRY(gate_one(g, "soft.", ZN_GATE_SOFT, true));
    ZN_TRY(gate_one(g, "soft_t0.", ZN_GATE_SOFT, false));
    ZN_TRY(gate_one(g, "hard.", ZN_GATE_HARD, false));
    return gate_one(g, "ste.", ZN_GATE_STE, false);
}

static const probe_case cases[] = {
    { "fwht", "in.x.", fwht_run },
    { "spectral_diag", "in.g_row", diagonal_run },
    { "shuffle", "in.high.", shuffle_run },
    { "gconv1x1", "w.g1.W", grouped_run },
    { "avxgate", "in.eps", gate_run },
    { "srig", "in.u", srig_run },
    { "lite_r", "w.norm", zenith_lite_r_run },
    { "lite_block", "w.gate_h", zenith_lite_run },
    { "zenith_block", "in.c", zenith_prune_run },
    { "block_r", "w.alpha", zenith_prune_r_run },
    { NULL, NULL, NULL },
};

static bool matches(const golden *g) { return probe_case_find(cases, g) != NULL; }
static zn_status run(golden *g) { return probe_case_find(cases, g)->run(g); }

const golden_kind golden_zenith_ops = { "zenith block", matches, run };
