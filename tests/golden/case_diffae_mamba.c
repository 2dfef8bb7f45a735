/* Mamba layers and the sparse-field networks (specification B1 to B5). Tokens are [N,L,C] in files, in the scan's
 * [N,C,L]; sizes come from the tensors, the grid from the configuration. */
#include "network.h"
#include "tokens.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "diffusion/schedule.h"
#include "models/mamba/mamba_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- B1: the scan ---- */

/* in[8]: u, dt_raw, B, C, A_log, D, dt_bias, z of the tokens [begin,end); first may be NULL. */
static const item scan_inputs[] = { { NULL, "u", TURNED },      { NULL, "dt_raw", TURNED }, { NULL, "B", TURNED },
                                    { NULL, "C", TURNED },      { NULL, "A_log", PLAIN },   { NULL, "D", PLAIN },
                                    { NULL, "dt_bias", PLAIN }, { NULL, "z", TURNED } };
enum { SCAN_INPUTS = 8 };

static zn_node *scan_of(bench *b, int64_t begin, int64_t end, const float *state, zn_node **gated)
{
    zn_node *in[SCAN_INPUTS], *first = NULL;
    for (int i = 0; i < SCAN_INPUTS; i++) {
        in[i] = bench_part(b, scan_inputs[i].name, scan_inputs[i].form, begin, end);
        bench_want(b, in[i], scan_inputs[i].name, scan_inputs[i].form);
    }
    if (state && zn_graph_status(b->graph) == ZN_OK) {
        first =
            zn_graph_input(b->graph, "state", ZN_SHAPE(in[0]->shape.dim[0], in[4]->shape.dim[0], in[4]->shape.dim[1]));
        first->data = (float *)state;
    }
    zn_node *y = zn_scan(&(zn_scan_sources){ in[0], in[1], in[2], in[3], in[4], in[5], in[6], first });
    *gated = zn_multiply(y, zn_silu(in[7]));
    return y;
}

/* state [N,C,S] behind token `end`; the gated y of the tokens from `begin` on goes to y [N,L,C]. */
static zn_status scan_half(golden *g, int64_t begin, int64_t end, const float *from, const char *state_name,
                           float *state, float *y)
{
    bench b;
    zn_node *gated;
    ZN_TRY(bench_new(&b, g));
    zn_node *scan = scan_of(&b, begin, end, from, &gated);
    bench_output(&b, scan, "-", TOKENS); /* no such tensor: kept, not compared */
    bench_output(&b, gated, "-", TOKENS);
    zn_status status = bench_run(&b, NULL, NULL);
    if (status == ZN_OK) {
        const zn_weight *all = golden_find(g, "in.", "u"), *rates = golden_find(g, "in.", "A_log");
        const int64_t length = all->shape[2], c = all->shape[1], tokens = gated->shape.dim[2];
        for (int64_t i = 0; i < all->shape[0]; i++)
            memcpy(y + (i * length + begin) * c, gated->data + i * tokens * c, sizeof(float) * (size_t)(tokens * c));
        zn_scan_last_state(scan, state);
        status = golden_compare(g, state_name, state, ZN_SHAPE(all->shape[0], c, rates->shape[1]), GOLDEN_MAP,
                                GOLDEN_FORWARD);
    }
    bench_free(&b);
    return status;
}

/* Two halves, the state carried over, give the same as all at once. */
static zn_status scan_halves(golden *g)
{
    const zn_weight *u = golden_find(g, "in.", "u"), *rates = golden_find(g, "in.", "A_log");
    const int64_t n = u->shape[0], c = u->shape[1], length = u->shape[2], states = n * c * rates->shape[1];
    float *memory;
    ZN_TRY(zn_alloc_for("states", sizeof(float) * (size_t)(2 * states + 2 * n * c * length), (void **)&memory));
    float *end = memory + states, *y = end + states, *turned = y + n * c * length;
    zn_status status;
    ZN_TRY_DONE(scan_half(g, 0, length / 2, NULL, "state_at_half", memory, y));
    ZN_TRY_DONE(scan_half(g, length / 2, length, memory, "last_state", end, y));
    bench_turn(y, n, length, c, turned);
    status = golden_compare(g, "y", turned, ZN_SHAPE(n, c, length), GOLDEN_MAP, GOLDEN_FORWARD);
done:
    zn_free(memory);
    return status;
}

static zn_status scan_run(golden *g)
{
    bench b;
    zn_node *gated;
    ZN_TRY(bench_new(&b, g));
    scan_of(&b, 0, -1, NULL, &gated);
    bench_output(&b, gated, "y", TURNED);
    zn_node *dy = bench_input(&b, "dy", TURNED);
    const zn_status status = bench_run(&b, gated, dy);
    bench_free(&b);
    ZN_TRY(status);
    return scan_halves(g);
}

/* ---- B2, B3: mixers ---- */

static zn_mamba mixer_of(const golden *g, const char *prefix, int width)
{
    const zn_weight *rates = golden_find(g, prefix, "mixer.A_log"),
                    *conv = golden_find(g, prefix, "mixer.conv1d.weight");
    if (!rates || rates->rank < 2 || !conv || width < 1)
        return (zn_mamba){ 0 };
    return (zn_mamba){ .states = (int)rates->shape[rates->rank - 1],
                       .taps = (int)conv->shape[conv->rank - 1],
                       .expand = (int)rates->shape[rates->rank - 2] / width };
}

static zn_status block_run(golden *g)
{
    bench b;
    ZN_TRY(bench_new(&b, g));
    const zn_scope s = { b.graph, "" };
    zn_node *x = bench_input(&b, "x", TOKENS), *dy = bench_input(&b, "dy", TOKENS);
    const zn_mamba k = mixer_of(g, "w.", zn_channels(x));
    zn_node *y = zn_mamba_line(zn_at(s, "mixer"), x, &k);
    bench_want(&b, x, "x", TOKENS);
    bench_want_parameters(&b);
    zn_node *gain = zn_vector(s, "norm.weight", zn_channels(x), ZN_ROLE_GAIN);
    bench_output(&b, y, "mixer", TOKENS);
    bench_output(&b, zn_add(x, zn_mamba_line(zn_at(s, "mixer"), zn_rms_norm(x, gain, 1e-5f), &k)), "block", TOKENS);
    zn_status status = network_bind(g, b.graph, "w.");
    if (status == ZN_OK)
        status = bench_run(&b, y, dy);
    bench_free(&b);
    return status;
}

static int grid_of(const golden *g)
{
    int64_t grid;
    return zn_json_i64(zn_json_get(zn_json_get(g->config, "mamba"), "grid"), &grid) ? (int)grid : 64;
}

/* The orders of points [N,1,L,2] or [L,2] as an input, compared with out.NAME unless that is NULL. */
static zn_node *orders_of(bench *b, const zn_node *points, int grid, const char *name)
{
    const zn_shape s = points->shape;
    const int64_t n = s.rank == 4 ? s.dim[0] : 1, length = s.dim[s.rank - 2], count = n * ZN_SCAN_WAYS * length;
    zn_node *orders = zn_graph_input(b->graph, "orders", ZN_SHAPE(2, n, ZN_SCAN_WAYS, length));
    double *values = zn_calloc((size_t)count + 1, sizeof *values);
    orders->data = zn_arena_alloc(zn_graph_arena(b->graph), sizeof(float) * (size_t)(2 * count));
    zn_status status = values && orders->data ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for orders");
    if (status == ZN_OK)
        status = zn_scan_orders(points->data, NULL, n, length, grid, orders->data);
    for (int64_t i = 0; i < count && status == ZN_OK; i++)
        values[i] = (double)orders->data[i];
    if (status == ZN_OK && name)
        status = golden_compare_double(b->g, name, values, count, 0);
    zn_free(values);
    return status == ZN_OK ? orders : zn_graph_poison(b->graph, status, zn_error_text());
}

/* out.grid_orders_<size>_G<grid> of in.grid_coords_<size>. */
static void grid_orders(bench *b)
{
    static const char begin[] = "out.grid_orders_";
    for (int64_t i = 0; i < zn_weights_count(b->g->file); i++) {
        const char *name = zn_weights_at(b->g->file, i)->name, *grid = strstr(name, "_G");
        char coords[128];
        if (strncmp(name, begin, sizeof begin - 1) != 0 || !grid)
            continue;
        const char *size = name + sizeof begin - 1;
        snprintf(coords, sizeof coords, "grid_coords_%.*s", (int)(grid - size), size);
        orders_of(b, bench_input(b, coords, PLAIN), (int)strtol(grid + 2, NULL, 10), name + 4);
    }
}

static zn_status plane_run(golden *g)
{
    bench b;
    ZN_TRY(bench_new(&b, g));
    const zn_scope s = { b.graph, "" };
    zn_node *x = bench_input(&b, "x", TOKENS), *dy = bench_input(&b, "dy", TOKENS),
            *points = bench_input(&b, "coords", TOKENS);
    zn_status status;
    ZN_TRY_DONE(zn_graph_status(b.graph));
    grid_orders(&b);
    const zn_mamba k = mixer_of(g, "w.", zn_channels(x));
    zn_node *y = zn_mamba_plane(zn_at(s, "mixer"), x, orders_of(&b, points, grid_of(g), "orders"), &k);
    bench_output(&b, y, "mixer", TOKENS);
    bench_want(&b, x, "x", TOKENS);
    bench_want_parameters(&b);
    ZN_TRY_DONE(network_bind(g, b.graph, "w."));
    status = bench_run(&b, y, dy);
done:
    bench_free(&b);
    return status;
}

/* ---- B4, B5: networks ---- */

static int side(const golden *g, const char *name, int index)
{
    const zn_weight *w = golden_find(g, "w.", name);
    return w && w->rank > index ? (int)w->shape[index] : 0;
}

static zn_field field_of(const golden *g)
{
    const zn_weight *values = golden_find(g, "in.", "values");
    zn_field k = { .width = side(g, "enc.embed.weight", 0),
                   .features = side(g, "enc.fourier.B", 0),
                   .values = values && values->rank == 3 ? (int)values->shape[2] : 0,
                   .latent = side(g, "enc.proj.weight", 0),
                   .embed = side(g, "dec.time.0.weight", 0),
                   .colours = side(g, "coord.rgb.2.weight", 0),
                   .hidden = side(g, "coord.rgb.0.weight", 0),
                   .grid = grid_of(g) };
    char name[64];
    do
        snprintf(name, sizeof name, "enc.blocks.%d.norm.weight", k.blocks);
    while (side(g, name, 0) && k.blocks++ < ITEMS);
    k.mixer = mixer_of(g, "w.enc.blocks.0.", k.width);
    return k;
}

/* Embeddings [1,1,N,width] of the steps in.t. */
static zn_node *times(bench *b, int width)
{
    zn_node *t = bench_input(b, "t", PLAIN);
    const int64_t n = zn_shape_count(t->shape);
    zn_node *time = zn_graph_input(b->graph, "time", ZN_SHAPE(1, 1, n, width));
    time->data = zn_arena_alloc(zn_graph_arena(b->graph), sizeof(float) * (size_t)(n * width));
    for (int64_t i = 0; i < n && time->data; i++)
        zn_time_embedding((double)t->data[i], width, time->data + i * width);
    return time;
}

static zn_status field_run(golden *g)
{
    bench b;
    ZN_TRY(bench_new(&b, g));
    const zn_field k = field_of(g);
    const zn_scope enc = { b.graph, "enc" }, dec = { b.graph, "dec" }, coord = { b.graph, "coord" };
    zn_node *points = bench_input(&b, "coords", TOKENS), *query = bench_input(&b, "query", TOKENS);
    zn_node *values = bench_input(&b, "values", TOKENS), *noisy = bench_input(&b, "v_t", TOKENS),
            *f = bench_input(&b, "f_t", TOKENS);
    zn_node *time = times(&b, k.width);
    zn_status status;
    ZN_TRY_DONE(zn_graph_status(b.graph));
    /* as the models have them: encoder and decoders over points */
    const zn_mamba_form noise = { k, 1, ZN_FIELD_NOISE }, features = { k, 1, ZN_FIELD_FEATURES };
    const zn_tokens_at from = { points, orders_of(&b, points, k.grid, NULL) },
                       at = { query, orders_of(&b, query, k.grid, NULL) };
    zn_node *cond = zn_mamba_encoder(enc, values, &from, &noise);
    zn_node *clean = zn_mamba_decoder(coord, f, time, cond, &at, &features);
    bench_output(&b, cond, "latent", ROWS);
    bench_output(&b,
                 zn_fourier(points, zn_plain_parameter(enc, "fourier.B", ZN_SHAPE(k.features, 2), ZN_ROLE_CONSTANT)),
                 "fourier", TOKENS);
    bench_output(&b, zn_mamba_decoder(dec, noisy, time, cond, &at, &noise), "eps", TOKENS);
    bench_output(&b, zn_mamba_features(coord, f->shape, &at, &features), "coord.f0", TOKENS);
    bench_output(&b, zn_slice_channels(clean, 0, 2 * k.features), "coord.f0_pred", TOKENS);
    bench_output(&b, zn_slice_channels(clean, 2 * k.features, k.colours), "coord.rgb", TOKENS);
    ZN_TRY_DONE(network_bind(g, b.graph, "w."));
    status = bench_run(&b, NULL, NULL);
done:
    bench_free(&b);
    return status;
}

static const struct {
    const char *name;
    zn_status (*run)(golden *g);
} cases[] = { { "mamba_scan", scan_run },
              { "mamba_block", block_run },
              { "mamba_multidir", plane_run },
              { "mamba_field", field_run } };

static int case_of(const golden *g)
{
    const char *name = zn_weights_metadata(g->file, "case");
    for (int i = 0; name && i < (int)(sizeof cases / sizeof *cases); i++)
        if (strcmp(name, cases[i].name) == 0)
            return i;
    return -1;
}

static bool matches(const golden *g) { return case_of(g) >= 0; }
static zn_status run(golden *g) { return cases[case_of(g)].run(g); }

const golden_kind golden_diffae_mamba = { "mamba", matches, run };
