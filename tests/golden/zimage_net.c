/* Z-Image's transformer for golden cases. */
#include "zimage_net.h"

#include "base/fail.h"
#include "network.h"

#include <stdio.h>
#include <string.h>

zn_status zimage_open_beside(const golden *g, const char *key, zn_weights **out)
{
    char path[4096];
    const char *slash = strrchr(g->path, '/'), *name = zn_json_string(zn_json_get(g->config, key));
    *out = NULL;
    if (!name)
        return ZN_OK;
    snprintf(path, sizeof path, "%.*s%s", slash ? (int)(slash - g->path) + 1 : 0, g->path, name);
    return zn_weights_open(path, out);
}

zn_status zimage_net_open(zimage_net *n, const golden *g)
{
    *n = (zimage_net){ 0 };
    ZN_TRY(zimage_open_beside(g, "weights", &n->beside));
    n->files[0] = n->beside ? n->beside : g->file;
    const zn_status status = zn_zimage_recognise(n->files, 1, golden_network_config(g), &n->form, &n->naming);
    if (status != ZN_OK)
        zimage_net_close(n);
    return status;
}

void zimage_net_close(zimage_net *n)
{
    zn_weights_close(n->beside);
    n->beside = NULL;
}

zn_status zimage_run_new(zimage_run *r, const golden *g, const zimage_net *n, int64_t h, int64_t w, int64_t caption,
                         bool traced)
{
    const zn_stored from = { n->files, 1, zn_zimage_place, &n->naming };
    *r = (zimage_run){ .graph = zn_graph_new() };
    if (!r->graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    const zn_scope s = { r->graph, "" };
    r->latent = zn_graph_input(r->graph, "latent", ZN_SHAPE(1, h, w, n->form.channels));
    r->time = zn_graph_input(r->graph, "time", ZN_SHAPE(1, 1, 1, ZN_ZIMAGE_TIME));
    r->features = zn_graph_input(r->graph, "features", ZN_SHAPE(1, 1, caption, n->form.caption));
    zn_node *modulation = zn_zimage_modulation(s, r->time, &n->form);
    r->out = zn_zimage(s, r->latent, modulation, zn_zimage_caption(s, r->features, &n->form), &n->form);
    zn_status status = zn_stored_bind(&from, r->graph);
    if (status == ZN_OK)
        status = graph_start(g, r->graph, r->out, traced, &r->exec);
    if (status != ZN_OK)
        zimage_run_free(r);
    return status;
}

void zimage_run_free(zimage_run *r)
{
    zn_exec_free(r->exec);
    zn_graph_free(r->graph);
    *r = (zimage_run){ 0 };
}

zn_status zimage_run_once(zimage_run *r, const zimage_net *n, const float *latent, const float *features, float time)
{
    memcpy(r->latent->data, latent, sizeof(float) * (size_t)zn_shape_count(r->latent->shape));
    memcpy(r->features->data, features, sizeof(float) * (size_t)zn_shape_count(r->features->shape));
    zn_zimage_time(&n->form, time, r->time->data);
    return zn_exec_run(r->exec);
}
