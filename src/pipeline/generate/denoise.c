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

/* A graph from one input to one output, ready to run. */
typedef struct graph_run {
    zn_graph *graph; /* NULL: there is none */
    zn_exec *exec;
    zn_ahead ahead;
    zn_node *in, *out;
    zn_node *modulation, *caption;      /* of a step: its other inputs */
    const struct caption_tokens *holds; /* whose tokens are in caption; NULL: none of this image */
} graph_run;

typedef struct caption_tokens {
    float *data; /* [samples][count][dim] */
    int count;   /* filled up */
} caption_tokens;

struct zn_denoiser {
    zn_denoiser_setup setup;
    zn_denoiser_image image; /* without captions */
    bool guided;             /* there are two captions */
    graph_run refiner[2];    /* of the captions: wanted, unwanted */
    graph_run modulator;
    graph_run step[2]; /* captions of the same length share the first */
    caption_tokens caption[2];
    float *rows; /* modulations of steps [first,first+count), which have these sigmas */
    float row_sigma[ROWS];
    int first, count, row_capacity;
};

static void end_run(graph_run *r)
{
    zn_exec_free(r->exec);
    zn_ahead_end(&r->ahead);
    zn_graph_free(r->graph);
    *r = (graph_run){ 0 };
}

static int tell(void *self, double fraction)
{
    const zn_denoiser *d = self;
    return d->image.progress ? d->image.progress(d->image.user, fraction) : 0;
}

/* Binds the graph to the weights, and makes it ready to run. */
static zn_status ready(zn_denoiser *d, size_t weights, graph_run *r)
{
    const zn_denoiser_setup *s = &d->setup;
    zn_exec_options o = s->exec;
    o.progress = tell;
    o.user = d;
    o.weights = weights;
    if (o.device)
        zn_graph_fuse_tokens(r->graph, &r->out, 1);
    if (s->fp8)
        zn_graph_use_fp8(r->graph, &r->out, 1, s->fp8);
    o.varies = s->fp8 && s->fp8->trial;
    ZN_TRY(zn_stored_bind(s->weights, r->graph)); /* and the graph is whole */
    ZN_TRY(zn_ahead_start(&r->ahead, r->graph, s->weights, s->release, &o));
    return zn_exec_new(r->graph, &r->out, 1, &o, &r->exec);
}

/* Ends a run, and puts another of the same network in its place, of which only the graph exists. A device keeps the
 * weights that both read. */
static zn_status replace(zn_denoiser *d, size_t weights, graph_run *r, const graph_run *next)
{
    zn_held_weights held = { 0 };
    zn_status status = ZN_OK;
    if (r->exec && d->setup.exec.device && !d->setup.release)
        status = zn_exec_hold_weights(r->exec, &held);
    end_run(r);
    *r = *next;
    if (status == ZN_OK)
        status = ready(d, weights, r);
    zn_held_weights_free(&held);
    if (status != ZN_OK)
        end_run(r);
    return status;
}

/* ---- what is computed once ---- */

typedef zn_node *(*build_fn)(zn_scope s, zn_node *x, const zn_zimage_form *k);

static zn_status build_once(const zn_zimage_form *k, build_fn build, int rows, int width, graph_run *r)
{
    *r = (graph_run){ .graph = zn_graph_new() };
    if (!r->graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    r->in = zn_graph_input(r->graph, "input", ZN_SHAPE(1, 1, rows, width));
    r->out = build((zn_scope){ r->graph, "" }, r->in, k);
    return ZN_OK;
}

static zn_status start_once(zn_denoiser *d, build_fn build, int rows, int width, graph_run *r)
{
    graph_run next;
    if (r->graph && r->in->shape.dim[2] == rows)
        return ZN_OK;
    ZN_TRY(build_once(d->setup.form, build, rows, width, &next));
    return replace(d, d->setup.once_weights, r, &next);
}

/* build(input [1,1,rows,width]) into output, which has room for it. On a device with room for it, the run stays for the
 * next image. */
static zn_status run_once(zn_denoiser *d, build_fn build, int rows, int width, const float *input, float *output,
                          graph_run *r)
{
    ZN_TRY(start_once(d, build, rows, width, r));
    memcpy(r->in->data, input, sizeof *input * (size_t)zn_shape_count(r->in->shape));
    zn_status status = zn_exec_run(r->exec);
    if (status == ZN_OK)
        status = zn_exec_check_finite(r->exec);
    if (status == ZN_OK)
        memcpy(output, r->out->data, sizeof *output * (size_t)zn_shape_count(r->out->shape));
    if (status != ZN_OK || !d->setup.exec.device || d->setup.release)
        end_run(r);
    return status;
}

/* Of caption i, unless the one before is the same. */
static zn_status refine_one(zn_denoiser *d, const zn_caption *c, int i, int which)
{
    const zn_zimage_form *k = d->setup.form;
    const size_t size = (size_t)d->caption[which].count * (size_t)k->dim;
    float *const to = d->caption[which].data + (size_t)i * size;
    if (i > 0 && c[i].features == c[i - 1].features) {
        memcpy(to, to - size, sizeof *to * size);
        return ZN_OK;
    }
    return run_once(d, zn_zimage_caption, c[i].tokens, k->caption, c[i].features, to, &d->refiner[which]);
}

static zn_status refine(zn_denoiser *d, const zn_caption *c, int which)
{
    caption_tokens *out = &d->caption[which];
    const int samples = d->image.samples;
    zn_free(out->data);
    *out = (caption_tokens){ .count = zn_zimage_filled(c[0].tokens) };
    const size_t bytes = sizeof(float) * (size_t)samples * (size_t)out->count * (size_t)d->setup.form->dim;
    ZN_TRY(zn_alloc_for("captions", bytes, (void **)&out->data));
    for (int i = 0; i < samples; i++) {
        if (zn_zimage_filled(c[i].tokens) != out->count)
            return ZN_FAIL(ZN_ESHAPE, "captions of %d and of %d tokens do not fit into one batch", c[0].tokens,
                           c[i].tokens);
        ZN_TRY(refine_one(d, c, i, which));
    }
    return ZN_OK;
}

static zn_status reserve_rows(zn_denoiser *d, int count)
{
    if (count <= d->row_capacity)
        return ZN_OK;
    zn_free(d->rows);
    d->rows = NULL;
    d->row_capacity = 0;
    const size_t bytes = sizeof(float) * (size_t)count * (size_t)zn_zimage_modulation_width(d->setup.form);
    ZN_TRY(zn_alloc_for("modulations", bytes, (void **)&d->rows));
    d->row_capacity = count;
    return ZN_OK;
}

/* Modulations of the steps from `first` on, unless those of the last image are the same. */
static zn_status modulate(zn_denoiser *d, int first)
{
    const zn_denoiser_image *image = &d->image;
    const int count = (int)zn_least(ROWS, image->steps - first);
    const float *sigma = image->sigma + first;
    float times[ROWS * ZN_ZIMAGE_TIME];
    d->first = first;
    if (d->count == count && memcmp(d->row_sigma, sigma, sizeof *sigma * (size_t)count) == 0)
        return ZN_OK;
    for (int i = 0; i < count; i++)
        zn_zimage_time(d->setup.form, zn_flow_time(sigma[i]), times + i * ZN_ZIMAGE_TIME);
    d->count = 0;
    ZN_TRY(reserve_rows(d, count));
    ZN_TRY(run_once(d, zn_zimage_modulation, count, ZN_ZIMAGE_TIME, times, d->rows, &d->modulator));
    memcpy(d->row_sigma, sigma, sizeof *sigma * (size_t)count);
    d->count = count;
    return ZN_OK;
}

/* ---- steps ---- */

static zn_status build_step(const zn_zimage_form *k, int samples, int64_t height, int64_t width, int tokens,
                            graph_run *r)
{
    r->graph = zn_graph_new();
    if (!r->graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    r->in = zn_graph_input(r->graph, "latent", ZN_SHAPE(samples, height, width, k->channels));
    r->modulation = zn_graph_input(r->graph, "modulation", ZN_SHAPE(1, 1, 1, zn_zimage_modulation_width(k)));
    r->caption = zn_graph_input(r->graph, "caption", ZN_SHAPE(samples, 1, tokens, k->dim));
    r->out = zn_zimage((zn_scope){ r->graph, "" }, r->in, r->modulation, r->caption, k);
    return ZN_OK;
}

static zn_status start_step(zn_denoiser *d, int tokens, graph_run *r)
{
    const zn_denoiser_image *i = &d->image;
    if (r->graph && r->in->shape.dim[0] == i->samples && r->in->shape.dim[1] == i->height &&
        r->in->shape.dim[2] == i->width && r->caption->shape.dim[2] == tokens)
        return ZN_OK;
    graph_run next = { 0 };
    ZN_TRY(build_step(d->setup.form, i->samples, i->height, i->width, tokens, &next));
    return replace(d, d->setup.exec.weights, r, &next);
}

static bool shares_graph(const zn_denoiser *d) { return !d->guided || d->caption[1].count == d->caption[0].count; }

zn_status zn_denoiser_begin(zn_denoiser *d, const zn_denoiser_image *image)
{
    d->image = *image;
    d->step[0].holds = d->step[1].holds = NULL;
    d->image.samples = image->samples ? image->samples : 1;
    d->image.wanted = d->image.unwanted = NULL;
    d->guided = image->unwanted;
    ZN_TRY(refine(d, image->wanted, 0));
    if (image->unwanted)
        ZN_TRY(refine(d, image->unwanted, 1));
    ZN_TRY(modulate(d, image->first));
    if (shares_graph(d))
        end_run(&d->step[1]);
    ZN_TRY(start_step(d, d->caption[0].count, &d->step[0]));
    return shares_graph(d) ? ZN_OK : start_step(d, d->caption[1].count, &d->step[1]);
}

zn_status zn_denoiser_new(const zn_denoiser_setup *setup, zn_denoiser **out)
{
    *out = zn_calloc(1, sizeof **out);
    if (!*out)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a denoiser");
    (*out)->setup = *setup;
    return ZN_OK;
}

void zn_denoiser_free(zn_denoiser *d)
{
    if (!d)
        return;
    for (int i = 0; i < 2; i++) {
        end_run(&d->refiner[i]);
        end_run(&d->step[i]);
        zn_free(d->caption[i].data);
    }
    end_run(&d->modulator);
    zn_free(d->rows);
    zn_free(d);
}

zn_exec_weights zn_denoiser_weights(const zn_denoiser *d) { return zn_exec_count_weights(d->step[0].exec); }

zn_status zn_denoiser_predict(void *denoiser, const float *x, int step, bool unwanted, float *out)
{
    zn_denoiser *d = denoiser;
    const caption_tokens *c = &d->caption[unwanted];
    graph_run *r = &d->step[unwanted && !shares_graph(d)];
    const size_t count = (size_t)zn_shape_count(r->in->shape);
    const size_t width = (size_t)zn_channels(r->modulation);
    if (step < d->first || step >= d->first + d->count)
        ZN_TRY(modulate(d, step));
    memcpy(r->in->data, x, sizeof *x * count);
    memcpy(r->modulation->data, d->rows + (size_t)(step - d->first) * width, sizeof *x * width);
    if (r->holds != c)
        memcpy(r->caption->data, c->data, sizeof *x * (size_t)zn_shape_count(r->caption->shape));
    r->holds = c;
    ZN_TRY(zn_exec_run(r->exec));
    ZN_TRY(zn_exec_check_finite(r->exec));
    memcpy(out, r->out->data, sizeof *out * count);
    return ZN_OK;
}

/* ---- needs ---- */

static zn_status estimate(const zn_stored *weights, graph_run *r, const zn_prepare *p, zn_denoiser_needs *out)
{
    size_t prepared = 0;
    if (weights) {
        zn_graph_fuse_tokens(r->graph, &r->out, 1);
        ZN_TRY(zn_stored_bind(weights, r->graph));
        ZN_TRY(zn_exec_estimate_weights(r->graph, &r->out, 1, p, &out->weights, &out->least_weights));
    }
    ZN_TRY(zn_exec_estimate(r->graph, &r->out, 1, p, &out->bytes, &prepared));
    out->bytes += prepared;
    return ZN_OK;
}

/* What a graph takes that runs once and may stay: its weights need no more than `once_weights` at a time. */
static zn_status estimate_once(const zn_zimage_form *k, const zn_stored *weights, build_fn build, int rows, int width,
                               const zn_prepare *p, zn_denoiser_needs *out)
{
    graph_run r;
    zn_denoiser_needs mine = { 0 };
    ZN_TRY(build_once(k, build, rows, width, &r));
    const zn_status status = estimate(weights, &r, p, &mine);
    out->bytes += mine.bytes;
    out->once_weights = mine.least_weights > out->once_weights ? mine.least_weights : out->once_weights;
    zn_graph_free(r.graph);
    return status;
}

zn_status zn_denoiser_estimate(const zn_zimage_form *k, const zn_stored *weights, int samples, int64_t height,
                               int64_t width, int tokens, const zn_prepare *p, zn_denoiser_needs *out)
{
    graph_run r = { 0 };
    *out = (zn_denoiser_needs){ 0 };
    zn_status status = build_step(k, samples, height, width, zn_zimage_filled(tokens), &r);
    if (status == ZN_OK)
        status = estimate(weights, &r, p, out);
    out->bytes += sizeof(float) * ROWS * (size_t)zn_zimage_modulation_width(k);
    zn_graph_free(r.graph);
    if (status == ZN_OK && weights)
        status = estimate_once(k, weights, zn_zimage_caption, tokens, k->caption, p, out);
    if (status == ZN_OK && weights)
        status = estimate_once(k, weights, zn_zimage_modulation, ROWS, ZN_ZIMAGE_TIME, p, out);
    return status;
}

/* ---- trials of FP8, in the graph for the wanted caption ---- */

static zn_node *trial(const zn_denoiser *d, int layer)
{
    const zn_graph *g = d->step[0].graph;
    for (int i = 0; i < zn_graph_count(g); i++)
        if (zn_is_fp8_product(zn_graph_at(g, i)) && layer-- == 0)
            return zn_graph_at(g, i);
    return NULL;
}

int zn_denoiser_trials(const zn_denoiser *d)
{
    int count = 0;
    while (trial(d, count))
        count++;
    return count;
}

const char *zn_denoiser_trial_name(const zn_denoiser *d, int layer) { return trial(d, layer)->source[1]->name; }

void zn_denoiser_try(zn_denoiser *d, int layer, bool on) { zn_fp8_try(trial(d, layer), on); }
