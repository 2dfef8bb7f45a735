/* The transformer, cut where its parts know less than all: captions know no time, modulations no image. */
#include "pipeline/generate/denoise.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/least.h"
#include "diffusion/flow.h"
#include "pipeline/generate/ahead.h"

#include <string.h>

/* Steps whose modulations are kept: 2 MB each for the published network. */
enum { ROWS = 32 };

/* A step for captions of one length. */
typedef struct step_run {
    zn_graph *graph;
    zn_exec *exec;
    zn_ahead ahead;
    zn_node *latent, *modulation, *caption, *out;
} step_run;

typedef struct caption_tokens {
    float *data; /* [count][dim] */
    int count;   /* filled up */
} caption_tokens;

struct zn_denoiser {
    zn_denoiser_setup setup;
    caption_tokens caption[2]; /* wanted, unwanted */
    step_run step[2];          /* captions of the same length share the first */
    float *rows;               /* modulations of steps [first,first+count) */
    int first, count;
};

/* ---- a graph that runs once ---- */

typedef zn_node *(*build_fn)(zn_scope s, zn_node *x, const zn_zimage_form *k);

/* Binds the graph to the weights, and makes it ready to run. */
static zn_status ready(const zn_denoiser_setup *s, zn_graph *g, zn_node *y, zn_ahead *ahead, zn_exec **out)
{
    zn_exec_options o = s->exec;
    if (o.device)
        zn_graph_fuse_tokens(g, &y, 1);
    ZN_TRY(zn_stored_bind(s->weights, g));
    ZN_TRY(zn_ahead_start(ahead, g, s->weights, s->release, &o));
    return zn_exec_new(g, &y, 1, &o, out);
}

static zn_status run_graph(const zn_denoiser_setup *s, zn_graph *g, zn_node *x, const float *input, zn_node *y,
                           zn_ahead *ahead, float *output)
{
    zn_exec *e;
    ZN_TRY(ready(s, g, y, ahead, &e));
    memcpy(x->data, input, sizeof *input * (size_t)zn_shape_count(x->shape));
    zn_status status = zn_exec_run(e);
    if (status == ZN_OK)
        status = zn_exec_check_finite(e);
    if (status == ZN_OK)
        memcpy(output, y->data, sizeof *output * (size_t)zn_shape_count(y->shape));
    zn_exec_free(e);
    return status;
}

/* build(input [1,1,rows,width]) into output, which has room for it. */
static zn_status run_once(const zn_denoiser_setup *s, build_fn build, int rows, int width, const float *input,
                          float *output)
{
    zn_graph *g = zn_graph_new();
    if (!g)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    zn_node *x = zn_graph_input(g, "input", ZN_SHAPE(1, 1, rows, width));
    zn_node *y = build((zn_scope){ g, "" }, x, s->form);
    zn_ahead ahead = { 0 };
    const zn_status status = run_graph(s, g, x, input, y, &ahead, output);
    zn_ahead_end(&ahead);
    zn_graph_free(g);
    return status;
}

static zn_status refine(const zn_denoiser_setup *s, const zn_caption *c, caption_tokens *out)
{
    out->count = zn_zimage_filled(c->tokens);
    const size_t bytes = sizeof(float) * (size_t)out->count * (size_t)s->form->dim;
    ZN_TRY(zn_alloc_for("a caption", bytes, (void **)&out->data));
    return run_once(s, zn_zimage_caption, c->tokens, s->form->caption, c->features, out->data);
}

static zn_status modulate(zn_denoiser *d, int first)
{
    const zn_denoiser_setup *s = &d->setup;
    const int count = (int)zn_least(ROWS, s->steps - first);
    float times[ROWS * ZN_ZIMAGE_TIME];
    for (int i = 0; i < count; i++)
        zn_zimage_time(s->form, zn_flow_time(s->sigma[first + i]), times + i * ZN_ZIMAGE_TIME);
    d->count = 0;
    ZN_TRY(run_once(s, zn_zimage_modulation, count, ZN_ZIMAGE_TIME, times, d->rows));
    d->first = first;
    d->count = count;
    return ZN_OK;
}

/* ---- steps ---- */

static zn_status build_step(const zn_zimage_form *k, int64_t height, int64_t width, int tokens, step_run *r)
{
    r->graph = zn_graph_new();
    if (!r->graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    r->latent = zn_graph_input(r->graph, "latent", ZN_SHAPE(1, height, width, k->channels));
    r->modulation = zn_graph_input(r->graph, "modulation", ZN_SHAPE(1, 1, 1, zn_zimage_modulation_width(k)));
    r->caption = zn_graph_input(r->graph, "caption", ZN_SHAPE(1, 1, tokens, k->dim));
    r->out = zn_zimage((zn_scope){ r->graph, "" }, r->latent, r->modulation, r->caption, k);
    return zn_graph_status(r->graph);
}

static zn_status prepare_step(const zn_denoiser_setup *s, int tokens, step_run *r)
{
    ZN_TRY(build_step(s->form, s->height, s->width, tokens, r));
    return ready(s, r->graph, r->out, &r->ahead, &r->exec);
}

static bool shares_graph(const zn_denoiser *d) { return d->caption[1].count == d->caption[0].count; }

static zn_status prepare(zn_denoiser *d)
{
    const zn_denoiser_setup *s = &d->setup;
    const int rows = (int)zn_least(ROWS, s->steps - s->first);
    const size_t bytes = sizeof(float) * (size_t)rows * (size_t)zn_zimage_modulation_width(s->form);
    ZN_TRY(zn_alloc_for("modulations", bytes, (void **)&d->rows));
    ZN_TRY(refine(s, &s->wanted, &d->caption[0]));
    if (s->unwanted.tokens)
        ZN_TRY(refine(s, &s->unwanted, &d->caption[1]));
    ZN_TRY(modulate(d, s->first));
    ZN_TRY(prepare_step(s, d->caption[0].count, &d->step[0]));
    return s->unwanted.tokens && !shares_graph(d) ? prepare_step(s, d->caption[1].count, &d->step[1]) : ZN_OK;
}

zn_status zn_denoiser_new(const zn_denoiser_setup *setup, zn_denoiser **out)
{
    *out = NULL;
    zn_denoiser *d = zn_calloc(1, sizeof *d);
    if (!d)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a denoiser");
    d->setup = *setup;
    const zn_status status = prepare(d);
    if (status != ZN_OK)
        zn_denoiser_free(d);
    else
        *out = d;
    return status;
}

void zn_denoiser_free(zn_denoiser *d)
{
    if (!d)
        return;
    for (int i = 0; i < 2; i++) {
        zn_exec_free(d->step[i].exec);
        zn_ahead_end(&d->step[i].ahead);
        zn_graph_free(d->step[i].graph);
        zn_free(d->caption[i].data);
    }
    zn_free(d->rows);
    zn_free(d);
}

zn_status zn_denoiser_predict(void *denoiser, const float *x, int step, bool unwanted, float *out)
{
    zn_denoiser *d = denoiser;
    const caption_tokens *c = &d->caption[unwanted];
    const step_run *r = &d->step[unwanted && !shares_graph(d)];
    const size_t count = (size_t)zn_shape_count(r->latent->shape);
    const size_t width = (size_t)zn_channels(r->modulation);
    if (step < d->first || step >= d->first + d->count)
        ZN_TRY(modulate(d, step));
    memcpy(r->latent->data, x, sizeof *x * count);
    memcpy(r->modulation->data, d->rows + (size_t)(step - d->first) * width, sizeof *x * width);
    memcpy(r->caption->data, c->data, sizeof *x * (size_t)zn_shape_count(r->caption->shape));
    ZN_TRY(zn_exec_run(r->exec));
    ZN_TRY(zn_exec_check_finite(r->exec));
    memcpy(out, r->out->data, sizeof *out * count);
    return ZN_OK;
}

zn_status zn_denoiser_estimate(const zn_zimage_form *k, int64_t height, int64_t width, int tokens, const zn_prepare *p,
                               size_t *bytes)
{
    size_t prepared = 0;
    step_run r = { 0 };
    *bytes = 0;
    zn_status status = build_step(k, height, width, zn_zimage_filled(tokens), &r);
    if (status == ZN_OK)
        status = zn_exec_estimate(r.graph, &r.out, 1, p, bytes, &prepared);
    *bytes += prepared + sizeof(float) * ROWS * (size_t)zn_zimage_modulation_width(k);
    zn_graph_free(r.graph);
    return status;
}
