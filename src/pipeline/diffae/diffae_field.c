/* Diffusion autoencoders over points: conditions of some pixels, colours at any points. */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/numbers.h"
#include "base/rng.h"
#include "diffusion/sampler.h"
#include "io/image/pixels/pixels.h"
#include "models/diffae/diffae_files.h"
#include "pipeline/diffae/diffae.h"
#include "train/data/pictures.h"
#include "train/objective/noising.h"

#include <math.h>
#include <string.h>
#include <zenith/field.h>

enum { MOST_SCALE = 16 };

static const zn_mamba_form *form_of(const zn_diffae *d) { return zn_diffae_mamba(&d->model->config); }

int zn_diffae_is_field(const zn_diffae *d) { return form_of(d)->kind != ZN_FIELD_NONE; }
int zn_diffae_inverts(const zn_diffae *d) { return form_of(d)->kind <= ZN_FIELD_NOISE; }
int zn_diffae_is_direct(const zn_diffae *d) { return form_of(d)->kind == ZN_FIELD_VALUES; }

static zn_status check_field(const zn_diffae *d)
{
    if (zn_diffae_is_field(d))
        return ZN_OK;
    return ZN_FAIL(ZN_EUNSUPPORTED, "%s is a %s; only mamba-field models render other sizes or points",
                   d->model->info.path, d->model->info.architecture);
}

/* ---- a part for so many points ---- */

typedef struct part_run {
    zn_graph *graph;
    zn_exec *exec;
    zn_node *in[ZN_NETWORK_INPUTS], *output; /* as the architecture orders them */
    zn_tokens_at at;                         /* among them */
} part_run;

static void part_close(part_run *p)
{
    zn_exec_free(p->exec);
    zn_graph_free(p->graph);
}

/* From its inputs to an executor. */
static zn_status part_prepare(zn_diffae *d, zn_part part, part_run *p)
{
    const zn_model *m = d->model;
    p->output = m->arch->network((zn_scope){ p->graph, m->arch->scope[part] }, part, p->in, &m->config);
    ZN_TRY(zn_graph_status(p->graph));
    zn_model_bind(m, p->graph, "");
    zn_graph_fuse(p->graph, &p->output, 1);
    const zn_exec_options options = { .pool = d->compute.pool,
                                      .device = d->compute.device,
                                      .packs = d->compute.packs,
                                      .math = d->compute.math,
                                      .whole = true };
    return zn_exec_new(p->graph, &p->output, 1, &options, &p->exec);
}

/* A part of a field. */
static zn_status part_open(zn_diffae *d, zn_part part, int64_t length, part_run *p)
{
    const zn_model *m = d->model;
    zn_shape shapes[ZN_NETWORK_INPUTS];
    *p = (part_run){ .graph = zn_graph_new() };
    if (!p->graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    const int count = m->arch->inputs(&m->config, part, 1, 1, length, shapes);
    for (int i = 0; i < count; i++)
        p->in[i] = zn_graph_input(p->graph, "input", shapes[i]);
    p->at.points = p->in[count] = zn_graph_input(p->graph, "points", ZN_SHAPE(1, 1, length, 2));
    p->at.orders = p->in[count + 1] = zn_graph_input(p->graph, "orders", ZN_SHAPE(2, 1, ZN_SCAN_WAYS, length));
    return part_prepare(d, part, p);
}

/* ---- some pixels to a condition ---- */

static zn_status encode_some(zn_diffae *d, part_run *p, const zn_image *picture, uint64_t seed, float *cond)
{
    const int side = zn_diffae_side(d);
    const zn_points_choice all = { side, 1, 1, form_of(d)->net.grid };
    float *pixels;
    ZN_TRY(
        zn_alloc_for("an image", sizeof *pixels * (size_t)side * (size_t)side * ZN_DIFFAE_CHANNELS, (void **)&pixels));
    zn_picture_plain(picture, pixels);
    zn_rng rng = zn_rng_new(zn_seed_for(seed, "pixels"));
    zn_status status;
    ZN_TRY_DONE(zn_points_draw(&(zn_points){ p->at, p->in[0] }, &all, 0, pixels, &rng));
    ZN_TRY_DONE(zn_exec_run(p->exec));
    ZN_TRY_DONE(zn_exec_check_finite(p->exec));
    memcpy(cond, p->output->data, sizeof *cond * (size_t)zn_diffae_width(d));
done:
    zn_free(pixels);
    return status;
}

/* A convolutional encoder has all pixels as its input, and a mask of those that count. */
static zn_status encode_masked(zn_diffae *d, const zn_image *picture, const zn_points_choice *how, uint64_t seed,
                               float *cond)
{
    const zn_model *m = d->model;
    part_run p = { .graph = zn_graph_new() };
    const int side = how->side;
    zn_rng rng = zn_rng_new(zn_seed_for(seed, "pixels"));
    zn_status status = p.graph ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    ZN_TRY_DONE(status);
    p.in[0] = zn_graph_input(p.graph, "image", ZN_SHAPE(1, side, side, ZN_DIFFAE_CHANNELS));
    p.in[1] = zn_graph_input(p.graph, "mask", ZN_SHAPE(1, side, side, 1));
    ZN_TRY_DONE(part_prepare(d, ZN_ENCODER, &p));
    zn_picture_signed(picture, p.in[0]->data);
    ZN_TRY_DONE(zn_mask_draw(p.in[1], how, 0, &rng));
    ZN_TRY_DONE(zn_exec_run(p.exec));
    ZN_TRY_DONE(zn_exec_check_finite(p.exec));
    memcpy(cond, p.output->data, sizeof *cond * (size_t)m->config.latent);
done:
    part_close(&p);
    return status;
}

static zn_status encode_points(zn_diffae *d, const zn_image *picture, int64_t count, uint64_t seed, float *cond)
{
    part_run p;
    zn_status status = part_open(d, ZN_ENCODER, count, &p);
    if (status == ZN_OK)
        status = encode_some(d, &p, picture, seed, cond);
    part_close(&p);
    return status;
}

zn_status zn_field_encode_some(zn_diffae *d, const zn_image *picture, double share, uint64_t seed, float *cond)
{
    const int side = zn_diffae_side(d);
    const bool masked = zn_diffae_is_masked(&d->model->config);
    if (!masked && !zn_diffae_is_field(d))
        return ZN_FAIL(ZN_EUNSUPPORTED,
                       "%s is a %s; only mamba-field and diffae-masked models encode some of the pixels",
                       d->model->info.path, d->model->info.architecture);
    ZN_TRY(zn_diffae_check_picture(d, picture));
    if (!(share > 0 && share <= 1))
        return ZN_FAIL(ZN_EINVALID, "a share of %g of the pixels is not above 0 and up to 1", share);
    const int64_t exact = (int64_t)lround(share * side * side), count = exact < 1 ? 1 : exact;
    const zn_points_choice how = { .side = side, .least = share, .most = share };
    pthread_mutex_lock(&d->lock);
    const zn_status status =
        masked ? encode_masked(d, picture, &how, seed, cond) : encode_points(d, picture, count, seed, cond);
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* ---- a condition to values at points ---- */

typedef struct walk {
    zn_diffae *d;
    part_run *p;
    zn_diffusion *all; /* every step, for what is left of the signal */
    int64_t done, of;  /* steps, over all runs */
} walk;

static zn_status run_at(const walk *w, int step)
{
    zn_time_embedding(step, zn_channels(w->p->in[1]), w->p->in[1]->data);
    ZN_TRY(zn_exec_run(w->p->exec));
    return zn_exec_check_finite(w->p->exec);
}

/* The noise by which noisy features differ from the clean ones that the network returns. */
static void noise_in(const walk *w, const float *x, int step, float *noise)
{
    const int channels = zn_channels(w->p->in[0]), stride = zn_channels(w->p->output);
    const float signal = (float)sqrt(w->all->kept[step]), rest = (float)sqrt(1 - w->all->kept[step]);
    const int64_t points = zn_positions(w->p->in[0]);
    for (int64_t i = 0; i < points; i++)
        for (int c = 0; c < channels; c++)
            noise[i * channels + c] = (x[i * channels + c] - signal * w->p->output->data[i * stride + c]) / rest;
}

static zn_status predict(void *self, const float *x, int step, float *noise)
{
    const walk *w = self;
    const size_t count = (size_t)zn_shape_count(w->p->in[0]->shape);
    memcpy(w->p->in[0]->data, x, sizeof *x * count);
    ZN_TRY(run_at(w, step));
    if (form_of(w->d)->kind == ZN_FIELD_FEATURES)
        noise_in(w, x, step, noise);
    else
        memcpy(noise, w->p->output->data, sizeof *noise * count);
    return ZN_OK;
}

static zn_status report(void *self, int done, int of, const float *x)
{
    (void)done;
    (void)of;
    (void)x;
    walk *w = self;
    const zn_options *o = &w->d->compute.options;
    w->done++;
    if (o->progress && o->progress(o->user, (double)w->done / (double)w->of))
        return ZN_FAIL(ZN_ECANCELLED, "cancelled");
    return ZN_OK;
}

/* The values that stand behind the features of the last run. */
static void take_values(const walk *w, float *values)
{
    const int stride = zn_channels(w->p->output);
    const int64_t points = zn_positions(w->p->in[0]);
    for (int64_t i = 0; i < points; i++)
        for (int c = 0; c < ZN_FIELD_COLOURS; c++)
            values[i * ZN_FIELD_COLOURS + c] = w->p->output->data[(i + 1) * stride - ZN_FIELD_COLOURS + c];
}

/* From noise x, which is lost, to values in [-1,1], for the points that the run has. */
static zn_status sample(walk *w, int steps, float *x, float *values)
{
    const zn_field_kind kind = form_of(w->d)->kind;
    if (kind == ZN_FIELD_VALUES) {
        ZN_TRY(run_at(w, ZN_REGRESSION_STEP));
        take_values(w, values);
        return ZN_OK;
    }
    zn_diffusion *schedule;
    ZN_TRY(zn_diffusion_new("linear", ZN_SPACING_DDIM, steps, &schedule));
    const zn_sampling s = { .schedule = schedule,
                            .count = zn_shape_count(w->p->in[0]->shape),
                            .clamp = kind == ZN_FIELD_NOISE,
                            .predict = predict,
                            .done = report,
                            .self = w };
    const zn_status status = zn_ddim(&s, x);
    zn_diffusion_free(schedule);
    if (kind == ZN_FIELD_FEATURES)
        take_values(w, values);
    else
        memcpy(values, x, sizeof *x * (size_t)s.count);
    return status;
}

/* Sets the points, whose number is that of the run, and samples from a copy of the noise. */
static zn_status sample_at(walk *w, const float *points, const float *noise, int steps, float *values)
{
    const int64_t length = zn_positions(w->p->at.points), count = zn_shape_count(w->p->in[0]->shape);
    float *x;
    ZN_TRY(zn_alloc_for("noise", sizeof *x * (size_t)count, (void **)&x));
    memcpy(x, noise, sizeof *x * (size_t)count);
    if (w->p->at.points->data) /* features stand for them where those are noised */
        memcpy(w->p->at.points->data, points, sizeof *points * 2 * (size_t)length);
    zn_status status = zn_scan_orders(points, NULL, 1, length, form_of(w->d)->net.grid, w->p->at.orders->data);
    if (status == ZN_OK)
        status = sample(w, steps, x, values);
    zn_free(x);
    return status;
}

static zn_status walk_open(walk *w, zn_diffae *d, part_run *p, const float *cond, int64_t length, int64_t steps)
{
    *w = (walk){ .d = d, .p = p, .of = steps };
    ZN_TRY(zn_diffusion_new("linear", ZN_SPACING_ALL, 0, &w->all));
    ZN_TRY(part_open(d, ZN_DECODER, length, p));
    memcpy(p->in[2]->data, cond, sizeof *cond * (size_t)zn_diffae_width(d));
    return ZN_OK;
}

/* One of the scale x scale points of each pixel, at the same place in all of them: they lie as those that the model
 * learned from. pixels: [side * scale][side * scale][3] in [-1,1]. */
static zn_status sample_grid(walk *w, int scale, int which, const float *noise, int steps, float *pixels)
{
    const int side = zn_diffae_side(w->d), wide = side * scale;
    const int64_t length = (int64_t)side * side;
    float *points;
    ZN_TRY(zn_alloc_for("points", sizeof *points * 5 * (size_t)length, (void **)&points));
    float *values = points + 2 * length;
    for (int64_t i = 0; i < length; i++) {
        const int64_t row = i / side * scale + which / scale, column = i % side * scale + which % scale;
        zn_cell_centre(row * wide + column, wide, wide, points + 2 * i);
    }
    const zn_status status = sample_at(w, points, noise, steps, values);
    for (int64_t i = 0; i < length && status == ZN_OK; i++) {
        const int64_t row = i / side * scale + which / scale, column = i % side * scale + which % scale;
        memcpy(pixels + (row * wide + column) * ZN_FIELD_COLOURS, values + i * ZN_FIELD_COLOURS,
               sizeof *pixels * ZN_FIELD_COLOURS);
    }
    zn_free(points);
    return status;
}

static zn_status to_image(float *pixels, int side, zn_image **out)
{
    for (int64_t i = 0; i < (int64_t)side * side * ZN_FIELD_COLOURS; i++)
        pixels[i] = 0.5f * (pixels[i] + 1);
    ZN_TRY(zn_image_new(side, side, 8, out));
    zn_pixels_from_float(pixels, (size_t)side * ZN_FIELD_COLOURS, *out, (zn_region){ 0, 0, side, side });
    return ZN_OK;
}

/* One image of noise as zn_diffae_noise draws it. */
static zn_status render(zn_diffae *d, const float *cond, int scale, const float *noise, int steps, zn_image **out)
{
    const int side = zn_diffae_side(d), wide = side * scale, parts = scale * scale;
    float *pixels;
    walk w;
    part_run p = { 0 };
    ZN_TRY(zn_alloc_for("an image", sizeof *pixels * (size_t)wide * (size_t)wide * ZN_FIELD_COLOURS, (void **)&pixels));
    pthread_mutex_lock(&d->lock);
    zn_status status = walk_open(&w, d, &p, cond, (int64_t)side * side, (int64_t)parts * steps);
    for (int i = 0; i < parts && status == ZN_OK; i++)
        status = sample_grid(&w, scale, i, noise, steps, pixels);
    zn_diffusion_free(w.all);
    part_close(&p);
    pthread_mutex_unlock(&d->lock);
    if (status == ZN_OK)
        status = to_image(pixels, wide, out);
    zn_free(pixels);
    return status;
}

zn_status zn_field_render_each(zn_diffae *d, int count, const float *cond, const float *noise, int steps,
                               zn_image **out)
{
    zn_status status = ZN_OK;
    for (int i = 0; i < count && status == ZN_OK; i++)
        status = render(d, cond + (size_t)i * (size_t)zn_diffae_width(d), 1,
                        noise + (size_t)i * zn_diffae_noise_size(d, 1), steps, &out[i]);
    for (int i = 0; i < count && status != ZN_OK; i++) {
        zn_image_free(out[i]);
        out[i] = NULL;
    }
    return status;
}

zn_status zn_field_render(zn_diffae *d, const float *cond, int scale, uint64_t seed, int steps, zn_image **out)
{
    float *noise;
    *out = NULL;
    if (scale != 1)
        ZN_TRY(check_field(d));
    if (scale < 1 || scale > MOST_SCALE)
        return ZN_FAIL(ZN_EINVALID, "a scale of %d is not from 1 to %d", scale, MOST_SCALE);
    ZN_TRY(zn_alloc_for("noise", sizeof *noise * zn_diffae_noise_size(d, 1), (void **)&noise));
    zn_diffae_noise(d, 1, seed, noise);
    const zn_status status = zn_diffae_is_field(d) ? render(d, cond, scale, noise, steps, out)
                                                   : zn_diffae_render(d, 1, cond, noise, steps, out);
    zn_free(noise);
    return status;
}

zn_status zn_field_colours_at(zn_diffae *d, const float *cond, const float *points, int count, uint64_t seed, int steps,
                              float *colours)
{
    ZN_TRY(check_field(d));
    if (count < 1)
        return ZN_FAIL(ZN_EINVALID, "colours of %d points cannot be made", count);
    float *noise;
    const size_t floats = (size_t)count * (size_t)zn_field_channels(form_of(d));
    ZN_TRY(zn_alloc_for("noise", sizeof *noise * floats, (void **)&noise));
    zn_rng rng = zn_rng_new(zn_seed_for(seed, "noise"));
    for (size_t i = 0; i < floats; i++)
        noise[i] = zn_rng_normal(&rng);
    walk w;
    part_run p = { 0 };
    pthread_mutex_lock(&d->lock);
    zn_status status = walk_open(&w, d, &p, cond, count, steps);
    if (status == ZN_OK)
        status = sample_at(&w, points, noise, steps, colours);
    zn_diffusion_free(w.all);
    part_close(&p);
    pthread_mutex_unlock(&d->lock);
    for (int64_t i = 0; i < (int64_t)count * ZN_FIELD_COLOURS && status == ZN_OK; i++)
        colours[i] = fminf(fmaxf(0.5f * (colours[i] + 1), 0), 1);
    zn_free(noise);
    return status;
}

/* ---- points as files ---- */

void zn_field_scatter(uint64_t seed, int count, float *points)
{
    zn_rng rng = zn_rng_new(zn_seed_for(seed, "scattered points"));
    for (int64_t i = 0; i < 2 * (int64_t)count; i++)
        points[i] = 2 * zn_rng_uniform(&rng) - 1;
}

zn_status zn_field_write(const char *path, int count, const float *points, const float *colours)
{
    zn_outfile out;
    char line[160];
    ZN_TRY(zn_outfile_open(&out, path));
    const locale_t old = zn_numbers_begin();
    zn_outfile_write(&out, "x,y,r,g,b\n", 10);
    for (int64_t i = 0; i < count; i++) {
        const float *p = points + 2 * i, *c = colours + ZN_FIELD_COLOURS * i;
        const int n = snprintf(line, sizeof line, "%.6g,%.6g,%.5g,%.5g,%.5g\n", (double)p[0], (double)p[1],
                               (double)c[0], (double)c[1], (double)c[2]);
        zn_outfile_write(&out, line, (size_t)n);
    }
    zn_numbers_end(old);
    return zn_outfile_commit(&out);
}
