/* What block gates do on real pictures. The encoder's graph is searched for gates, so any network that has them can be
 * looked at; each picture is run whole, with a clock around every node. */
#include <zenith/eval.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "graph/compute.h"
#include "graph/exec.h"
#include "io/dataset/dataset.h"
#include "io/image/pixels/pixels.h"
#include "models/model.h"
#include "ops/ops.h"
#include "pipeline/codec/codec.h"
#include "pipeline/eval/eval_score.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_GATES = 64, MAX_LAYERS = 512 };

typedef struct gates {
    const zn_model *model;
    const zn_eval_options *o;
    zn_compute compute;
    zn_dataset *data;
    double *pixels; /* zn_eval_count_pixels */
    /* of the last size */
    zn_shape shape;
    zn_graph *graph;
    zn_exec *exec;
    zn_node *input, *masks[MAX_GATES];
    int mask_count;
    zn_gate_result *out;
    double pruned_sum[MAX_LAYERS]; /* by row of the result */
    int64_t counted[MAX_LAYERS];   /* the picture that was added last, from 1 on; 0: a layer without a gate */
} gates;

static void drop_graph(gates *g)
{
    zn_exec_free(g->exec);
    zn_graph_free(g->graph);
    g->exec = NULL;
    g->graph = NULL;
}

/* The encoder for one size, with the masks of its gates among the outputs so that they can be looked at. */
static zn_status make_graph(gates *g, zn_shape shape)
{
    if (g->exec && zn_shape_equal(g->shape, shape))
        return ZN_OK;
    drop_graph(g);
    zn_node *outputs[MAX_GATES + 1];
    int count = 0;
    ZN_TRY(zn_model_graph(g->model, ZN_ENCODER, shape, &g->graph, &g->input, &outputs[count]));
    count++;
    g->mask_count = 0;
    for (int i = 0; i < zn_graph_count(g->graph) && g->mask_count < MAX_GATES; i++)
        if (zn_graph_at(g->graph, i)->op == &zn_op_gate_mask)
            outputs[count++] = g->masks[g->mask_count++] = zn_graph_at(g->graph, i);
    if (!g->mask_count)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: %s has no block gates", zn_model_info_of(g->model)->path,
                       zn_model_info_of(g->model)->architecture);
    zn_graph_fuse(g->graph, outputs, count);
    g->shape = shape;
    const zn_exec_options options = { .pool = g->compute.pool,
                                      .device = g->compute.device,
                                      .packs = g->compute.packs,
                                      .math = g->compute.math,
                                      .profile = true };
    ZN_TRY(zn_exec_new(g->graph, outputs, count, &options, &g->exec));
    return zn_exec_run(g->exec); /* warm-up */
}

static zn_status row_for(gates *g, const char *layer, int *index)
{
    zn_gate_result *r = g->out;
    for (*index = 0; *index < r->row_count; ++*index)
        if (!strcmp(r->rows[*index].layer, layer))
            return ZN_OK;
    if (r->row_count == MAX_LAYERS)
        return ZN_FAIL(ZN_ELIMIT, "more than %d layers", MAX_LAYERS);
    zn_gate_row *row = &r->rows[r->row_count++];
    *row = (zn_gate_row){ .pruned = NAN };
    snprintf(row->layer, sizeof row->layer, "%s", layer);
    return ZN_OK;
}

static double shut_fraction(const zn_node *mask)
{
    const int64_t count = zn_shape_count(mask->shape);
    int64_t shut = 0;
    for (int64_t i = 0; i < count; i++)
        shut += mask->data[i] == 0;
    return (double)shut / (double)count;
}

/* The gate whose mask this node makes or goes by, or NULL. zn_positive may stand between. */
static const zn_node *gate_of(const zn_node *n)
{
    if (n->op == &zn_op_gate_mask)
        return n;
    for (int s = 0; n->op != &zn_op_positive && s < n->source_count; s++) {
        const zn_node *m = n->source[s];
        m = m->op == &zn_op_positive ? m->source[0] : m;
        if (m->op == &zn_op_gate_mask)
            return m;
    }
    return NULL;
}

static zn_status count_run(gates *g)
{
    for (int i = 0; i < zn_exec_rows(g->exec); i++) {
        const zn_exec_row e = zn_exec_row_at(g->exec, i);
        const zn_node *mask = gate_of(e.node);
        int row;
        ZN_TRY(row_for(g, e.node->name, &row));
        g->out->rows[row].ms += e.ms;
        g->out->ms += e.ms;
        if (mask && g->counted[row] <= g->out->pictures) { /* a layer has one gate, but several nodes that go by it */
            g->counted[row] = g->out->pictures + 1;
            g->pruned_sum[row] += shut_fraction(mask);
        }
    }
    g->out->pictures++;
    return ZN_OK;
}

/* *read: the image could be read, so that a failure is the model's. */
static zn_status run_picture(gates *g, int64_t index, bool *read)
{
    zn_image *image;
    *read = false;
    ZN_TRY(zn_dataset_read(g->data, index, &image));
    *read = true;
    const int step = zn_model_info_of(g->model)->downscale;
    const int64_t h = zn_round_up(image->height, step), w = zn_round_up(image->width, step);
    zn_status status = make_graph(g, ZN_SHAPE(1, h, w, 3));
    if (status == ZN_OK) {
        zn_pixels_to_float(image, (zn_region){ 0, 0, (int)w, (int)h }, g->input->data, (size_t)w * 3);
        status = zn_exec_run(g->exec);
    }
    zn_image_free(image);
    return status == ZN_OK ? count_run(g) : status;
}

static zn_status run_all(gates *g)
{
    const zn_eval_options *o = g->o;
    const int64_t count = zn_dataset_count(g->data);
    int64_t wanted = 0, number = 0;
    for (int64_t i = 0; i < count; i++)
        wanted += zn_eval_wants(o, g->data, i);
    for (int64_t i = 0; i < count; i++) {
        if (!zn_eval_wants(o, g->data, i))
            continue;
        number++;
        bool read;
        const zn_status status = run_picture(g, i, &read);
        if ((status == ZN_EUNSUPPORTED && read) || status == ZN_ENOMEM)
            return status;
        if (status != ZN_OK) {
            g->out->failed++;
            if (o->skipped)
                o->skipped(o->user, zn_dataset_name(g->data, i), zn_error_text());
        }
        if (o->progress && o->progress(o->user, g->pixels[number] / g->pixels[wanted]))
            return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    }
    if (!g->out->pictures)
        return ZN_FAIL(ZN_ENOTFOUND, "%s: no image could be used", o->data);
    return ZN_OK;
}

static void average(gates *g)
{
    zn_gate_result *r = g->out;
    r->ms /= (double)r->pictures;
    for (int i = 0; i < r->row_count; i++) {
        zn_gate_row *row = &r->rows[i];
        row->ms /= (double)r->pictures;
        row->share = r->ms > 0 ? row->ms / r->ms : 0;
        if (g->counted[i])
            row->pruned = g->pruned_sum[i] / (double)r->pictures;
    }
}

zn_status zn_eval_gates(const zn_model *model, const zn_eval_options *options, zn_gate_result *out)
{
    *out = (zn_gate_result){ 0 };
    if (zn_model_info_of(model)->diffuses)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: a diffusion autoencoder, which has no block gates",
                       zn_model_info_of(model)->path);
    if (!zn_model_info_of(model)->has_encoder)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: has no encoder, and gates are in encoders", zn_model_info_of(model)->path);
    gates g = { .model = model, .o = options, .out = out };
    zn_status status;
    ZN_TRY_DONE(zn_alloc_for("a list of layers", sizeof *out->rows * MAX_LAYERS, (void **)&out->rows));
    ZN_TRY_DONE(zn_compute_begin(options->compute, &g.compute));
    ZN_TRY_DONE(zn_dataset_open(options->data, &g.data));
    ZN_TRY_DONE(zn_eval_count_pixels(options, g.data, &g.pixels));
    ZN_TRY_DONE(run_all(&g));
    average(&g);
done:
    drop_graph(&g);
    zn_free(g.pixels);
    zn_dataset_close(g.data);
    zn_compute_end(&g.compute);
    if (status != ZN_OK)
        zn_gate_result_clear(out);
    return status;
}

void zn_gate_result_clear(zn_gate_result *r)
{
    zn_free(r->rows);
    r->rows = NULL;
    r->row_count = 0;
}
