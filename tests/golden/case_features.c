/* Networks that judge images, with their published weights: distances, their gradients and features of two pairs of
 * images. Weights that are not found are skipped. */
#include "golden.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <stdio.h>
#include <string.h>

static bool matches(const golden *g) { return golden_int(g, "features", 0) == 1; }

/* An image as U8 in the file, in [0,1]. */
static zn_status load_image(const golden *g, const char *name, zn_shape *shape, float **data)
{
    ZN_TRY(golden_load(g, "in.", name, shape, data));
    for (int64_t i = 0; i < zn_shape_count(*shape); i++)
        (*data)[i] /= 255;
    return ZN_OK;
}

/* The model under the name of its configuration or of its published file; NULL: there is none. */
static zn_model *find(golden *g, const char *name, const char *file, const char *out)
{
    zn_model *m;
    if (zn_model_find(name, &m) == ZN_OK || zn_model_find(file, &m) == ZN_OK)
        return m;
    golden_skip(g, out, zn_error_text());
    return NULL;
}

/* The distance of a pair; with `gradient` also its gradient by the second image, which the reference has in the scale
 * -1 to 1. */
static zn_status check_pair(golden *g, const zn_model *m, const char *net, const char *pair, bool gradient)
{
    zn_graph *graph = zn_graph_new();
    zn_exec *e = NULL;
    zn_node *image[2], *outputs[2] = { NULL, NULL };
    float *data[2] = { NULL, NULL };
    char name[64];
    zn_status status = ZN_OK;
    for (int i = 0; i < 2; i++) {
        zn_shape shape;
        snprintf(name, sizeof name, "%s%s", pair, i ? "_d" : "");
        ZN_TRY_DONE(load_image(g, name, &shape, &data[i]));
        image[i] = zn_graph_input(graph, name, shape);
        image[i]->data = data[i];
    }
    outputs[0] = m->arch->network((zn_scope){ graph, "" }, ZN_ENCODER, image, &m->config);
    zn_model_bind(m, graph, "");
    if (gradient)
        ZN_TRY_DONE(zn_graph_differentiate(graph, outputs[0], NULL, &image[1], 1, &outputs[1]));
    zn_graph_fuse(graph, outputs, 1 + gradient);
    ZN_TRY_DONE(golden_exec_new(g, graph, outputs, 1 + gradient, &(zn_exec_options){ .training = false }, &e));
    ZN_TRY_DONE(zn_exec_run(e));
    snprintf(name, sizeof name, "%s.%s.distance", net, pair);
    ZN_TRY_DONE(golden_compare_within(g, name, outputs[0]->data, outputs[0]->shape, 1e-4));
    if (gradient) {
        for (int64_t i = 0; i < zn_shape_count(outputs[1]->shape); i++)
            outputs[1]->data[i] /= 2;
        snprintf(name, sizeof name, "%s.%s.grad", net, pair);
        ZN_TRY_DONE(golden_compare(g, name, outputs[1]->data, outputs[1]->shape, GOLDEN_MAP, GOLDEN_GRADIENT));
    }
done:
    zn_exec_free(e);
    zn_graph_free(graph);
    zn_free(data[0]);
    zn_free(data[1]);
    return status;
}

static zn_status check_distances(golden *g, const char *net, const char *name, const char *file)
{
    zn_model *m = find(g, name, file, net);
    if (!m)
        return ZN_OK;
    zn_status status;
    ZN_TRY_DONE(check_pair(g, m, net, "pic1", true));
    ZN_TRY_DONE(check_pair(g, m, net, "pic2", false));
done:
    zn_model_free(m);
    return status;
}

static zn_status check_features(golden *g, const zn_model *m, const char *picture)
{
    zn_network n = { 0 };
    zn_exec *e = NULL;
    zn_shape shape;
    float *image = NULL;
    char name[64];
    zn_status status;
    ZN_TRY_DONE(load_image(g, picture, &shape, &image));
    ZN_TRY_DONE(zn_model_network(m, ZN_ENCODER, 1, shape.dim[1], shape.dim[2], &n));
    n.input[0]->data = image;
    zn_graph_fuse(n.graph, &n.output, 1);
    ZN_TRY_DONE(golden_exec_new(g, n.graph, &n.output, 1, &(zn_exec_options){ .training = false }, &e));
    ZN_TRY_DONE(zn_exec_run(e));
    snprintf(name, sizeof name, "effnet.%s.features", picture);
    status = golden_compare_within(g, name, n.output->data, ZN_SHAPE(zn_channels(n.output)), 1e-4);
done:
    zn_exec_free(e);
    zn_graph_free(n.graph);
    zn_free(image);
    return status;
}

static zn_status check_efficientnet(golden *g)
{
    zn_model *m = find(g, "efficientnet-lite0", "efficientnet_lite0", "effnet");
    if (!m)
        return ZN_OK;
    zn_status status;
    ZN_TRY_DONE(check_features(g, m, "pic1"));
    ZN_TRY_DONE(check_features(g, m, "pic2"));
done:
    zn_model_free(m);
    return status;
}

static zn_status run(golden *g)
{
    ZN_TRY(check_efficientnet(g));
    ZN_TRY(check_distances(g, "alex", "lpips-alex", "lpips_alex"));
    return check_distances(g, "squeeze", "lpips-squeeze", "lpips_squeeze");
}

const golden_kind golden_features = { "networks that judge", matches, run };
