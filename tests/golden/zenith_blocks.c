/* Zenith's blocks, one by one (specification A1, B1 to B3, D1, D2). */
#include "zenith_blocks.h"

#include "base/fail.h"
#include "models/zenith/zenith.h"
#include "probe.h"

#include <stdio.h>
#include <string.h>

zn_status zenith_lite_run(golden *g)
{
    probe p;
    ZN_TRY(probe_new(&p, g, "", "w."));
    zn_node *x = probe_input(&p, "x");
    probe_want(&p, x, "x");
    return probe_finish(&p, zn_lite_block((zn_scope){ p.graph, "" }, x), "dy");
}

/* The longest in.<begin>.x whose name begins the tag: "odd" for "oddh". */
static void input_of(const golden *g, const char *tag, char *name, size_t size)
{
    name[0] = 0;
    for (size_t n = strlen(tag); n > 0 && !name[0]; n--) {
        char begin[64];
        snprintf(begin, sizeof begin, "%.*s.x", (int)n, tag);
        if (golden_has(g, "in.", begin))
            snprintf(name, size, "%.*s", (int)n, tag);
    }
}

static zn_status lite_r_one(golden *g, const char *tag, int offset)
{
    char begin[64], name[80], prefix[80];
    probe p;
    input_of(g, tag, begin, sizeof begin);
    snprintf(prefix, sizeof prefix, "%s.", tag);
    ZN_TRY(probe_new(&p, g, prefix, "w."));
    snprintf(name, sizeof name, "%s.x", begin);
    zn_node *x = probe_input(&p, name);
    probe_want(&p, x, "x");
    snprintf(name, sizeof name, "%s.dy", begin);
    const zn_lite_r_spec spec = { .tile = (int)golden_int(g, "P", 32), .offset = offset };
    return probe_finish(&p, zn_lite_r_block((zn_scope){ p.graph, "" }, x, &spec), name);
}

zn_status zenith_lite_r_run(golden *g)
{
    const zn_json_node *tags = zn_json_get(g->config, "tags");
    ZN_JSON_EACH(key, tags)
    {
        const char *tag = zn_json_string(key);
        int64_t offset;
        if (!tag || !zn_json_i64(zn_json_get(zn_json_get(tags, tag), "offset"), &offset))
            return ZN_FAIL(ZN_EFORMAT, "a tag has no offset");
        ZN_TRY(lite_r_one(g, tag, (int)offset));
    }
    return ZN_OK;
}

static zn_status prune_one(golden *g, const char *size, bool srig, bool train)
{
    char tag[64], weights[64], name[64], seed[64];
    probe p;
    snprintf(tag, sizeof tag, "c%s.%s.%s.", size, srig ? "srig" : "plain", train ? "train" : "eval");
    snprintf(weights, sizeof weights, "w.c%s.", size);
    snprintf(name, sizeof name, "c%s.x", size);
    snprintf(seed, sizeof seed, "c%s.dy", size);
    ZN_TRY(probe_new(&p, g, tag, weights));
    zn_node *x = probe_input(&p, name);
    probe_want(&p, x, "x");
    zn_prune_spec spec = { .srig = srig, .drop = (float)golden_double(g, "dropout_p", 0.1) };
    snprintf(name, sizeof name, "c%s.drop", size);
    if (train)
        spec.keep = probe_input(&p, name);
    return probe_finish(&p, zn_prune_block((zn_scope){ p.graph, "" }, x, &spec), seed);
}

static zn_status prune_size(golden *g, const char *size)
{
    for (int form = 0; form < 4; form++)
        ZN_TRY(prune_one(g, size, form & 1, form & 2));
    return ZN_OK;
}

zn_status zenith_prune_run(golden *g) { return probe_each_name(g, "in.c", ".x", prune_size); }

zn_status zenith_prune_r_run(golden *g)
{
    probe p;
    ZN_TRY(probe_new(&p, g, "", "w."));
    zn_node *x = probe_input(&p, "x");
    probe_want(&p, x, "x");
    return probe_finish(&p, zn_prune_r_block((zn_scope){ p.graph, "" }, x), "dy");
}
