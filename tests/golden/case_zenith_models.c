/* Zenith's networks, whole, with gradients (specification A2 to A5, B4, B5, D1). */
#include "probe.h"

#include "base/fail.h"
#include "models/zenith/zenith.h"

#include <stdio.h>
#include <string.h>

/* The architecture of a preset, with the case's base width; sizes from the input. */
static const zn_arch *network(const golden *g, const char *preset, zn_config *k)
{
    const zn_config *known = NULL;
    const zn_arch *arch = zn_arch_find(preset, &known);
    const zn_weight *x = golden_find(g, "in.", "x");
    *k = *known;
    k->width = (int)golden_int(g, "base", k->width);
    if (x && x->rank == 4 && k->made_width) {
        k->made_height = (int)x->shape[1];
        k->made_width = (int)x->shape[2];
    }
    return arch;
}

/* Encoder and decoder of one network in one graph. */
static zn_status autoencoder(golden *g, const char *preset)
{
    zn_config k;
    const zn_arch *arch = network(g, preset, &k);
    probe p;
    ZN_TRY(probe_new(&p, g, "", "w."));
    zn_node *x = probe_input(&p, "x");
    zn_node *z = arch->encode((zn_scope){ p.graph, arch->scope[0] }, x, &k);
    probe_want(&p, x, "x");
    probe_output(&p, z, "latent");
    return probe_finish(&p, arch->decode((zn_scope){ p.graph, arch->scope[1] }, z, &k), "dy");
}

/* Which of the four of one plan it is, its tensors tell. */
static zn_status taesd_run(golden *g)
{
    const zn_weight *first = golden_find(g, "w.", "enc.conv0.weight");
    if (golden_has(g, "w.", "enc.conv0.s"))
        return autoencoder(g, "zenith-spectral");
    if (golden_has(g, "w.", "enc.res0.conv0.weight"))
        return autoencoder(g, "zenith-vanilla");
    return autoencoder(g, first && first->shape[0] == 1 ? "zenith-lite" : "zenith-std");
}

static zn_status hier_r_run(golden *g) { return autoencoder(g, "zenith-hier-r"); }
static zn_status baseline_run(golden *g) { return autoencoder(g, "zenith-baseline"); }

/* ---- the gated hierarchical network in each of its ways to run ---- */

static zn_status hier_one(golden *g, bool srig, const char *mode_name, zn_prune_mode mode)
{
    char tag[64];
    zn_config k;
    const zn_arch *arch = network(g, srig ? "zenith-srig" : "zenith-hier", &k);
    zn_prune_run run = { .mode = mode };
    probe p;
    snprintf(tag, sizeof tag, "%s.%s.", srig ? "srig" : "plain", mode_name);
    if (!probe_holds(g, "out.", tag))
        return ZN_OK;
    ZN_TRY(probe_new(&p, g, tag, "w."));
    const zn_scope s = { p.graph, "" };
    zn_node *x = probe_input(&p, "x"), *z = zn_prune_encode(s, x, &k, &run);
    probe_want(&p, x, "x");
    probe_output(&p, z, "latent");
    return probe_finish(&p, arch->decode(s, z, &k), "dy");
}

static zn_status hier_run(golden *g)
{
    for (int srig = 0; srig < 2; srig++) {
        ZN_TRY(hier_one(g, srig, "hard", ZN_PRUNE_HARD));
        ZN_TRY(hier_one(g, srig, "soft_skip", ZN_PRUNE_SOFT));
        ZN_TRY(hier_one(g, srig, "soft_mask", ZN_PRUNE_SOFT_MASK));
        ZN_TRY(hier_one(g, srig, "ste_mask", ZN_PRUNE_STE));
    }
    return ZN_OK;
}

static const probe_case cases[] = {
    { "zenith_std", "w.enc.conv0.", taesd_run },
    { "zenith_lite", "w.enc.conv0.", taesd_run },
    { "zenith_spectral", "w.enc.conv0.", taesd_run },
    { "vanilla_seed", "w.enc.conv0.", taesd_run },
    { "hier_ae", "w.gate1.", hier_run },
    { "hier_r", "w.block0.alpha", hier_r_run },
    { "conv_baseline", "w.dec0.weight", baseline_run },
    { NULL, NULL, NULL },
};

static bool matches(const golden *g) { return probe_case_find(cases, g) != NULL; }
static zn_status run(golden *g) { return probe_case_find(cases, g)->run(g); }

const golden_kind golden_zenith_models = { "zenith network", matches, run };
