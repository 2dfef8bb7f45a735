/* Student and teacher in one graph without gradients, and sums over the pictures. */
#include "train/score/yardstick.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "train/score/metrics.h"

#include <math.h>
#include <string.h>

/* Where a diffusion model is looked at: noise has the larger half of the picture, but its outlines are still there. */
enum { MIDDLE_STEP = 250, NOISE_SEED = 77 };

/* Always the same noise. */
static void set_noise(zn_yardstick *y)
{
    zn_rng rng = zn_rng_new(NOISE_SEED);
    zn_node *noise = y->noising.noise; /* regression has none */
    for (int64_t i = 0; noise->data && i < zn_shape_count(noise->shape); i++)
        noise->data[i] = zn_rng_normal(&rng);
    for (int i = 0; i < y->options.batch; i++)
        zn_noising_set(&y->noising, y->diffusion, i, MIDDLE_STEP);
}

/* A part of the model or of its teacher. */
static zn_node *part_of(const zn_yardstick *y, const zn_model *m, zn_part part, zn_node *x)
{
    const zn_yardstick_options *k = &y->options;
    return zn_part_of(m, part, m == k->teacher ? ZN_TEACHER : "", x, k->frames ? k->batch : 0);
}

/* Floats of a picture, or of all frames of a video. */
static int64_t picture_floats(const zn_yardstick_options *k)
{
    return (int64_t)k->size * k->size * 3 * (k->frames ? k->frames : 1);
}

/* The model's encoder, there once at most, and the masks of its gates in order. */
static zn_node *own_encoder(zn_yardstick *y, zn_node *x)
{
    const zn_model *m = y->options.model;
    const int first = zn_graph_count(y->graph);
    zn_node *latent = part_of(y, m, ZN_ENCODER, x);
    int count = 0;
    for (int i = first; i < zn_graph_count(y->graph) && count < m->config.gates; i++)
        if (zn_graph_at(y->graph, i)->op == &zn_op_gate_mask)
            y->masks[count++] = zn_graph_at(y->graph, i);
    return latent;
}

/* Which pictures and latents can be had: depends on the goal, and on the parts that the teacher has. */
static void build(zn_yardstick *y)
{
    const zn_yardstick_options *k = &y->options;
    const zn_model *m = k->model, *t = k->teacher;
    zn_node *x = y->input;
    if (m->arch->can & ZN_SAMPLES) {
        y->noising = zn_noising_of(m, x, false);
        y->output = zn_noising_estimate(&y->noising, y->diffusion, MIDDLE_STEP);
        return;
    }
    if (!t) {
        zn_node *out = own_encoder(y, x);
        y->latent = m->arch->can & ZN_RESTORES ? NULL : out;
        y->output = y->latent ? part_of(y, m, ZN_DECODER, out) : out;
        return;
    }
    if (t->info.has_encoder)
        y->teacher_latent = part_of(y, t, ZN_ENCODER, x);
    if (k->goal != ZN_GOAL_DECODER || !t->info.has_encoder)
        y->latent = own_encoder(y, x);
    zn_node *z = y->teacher_latent ? y->teacher_latent : y->latent;
    if (t->info.has_decoder)
        y->teacher_made = part_of(y, t, ZN_DECODER, z);
    if (k->goal != ZN_GOAL_ENCODER)
        y->decoded = part_of(y, m, ZN_DECODER, z);
    if (k->goal == ZN_GOAL_JOINT)
        y->output = z == y->latent ? y->decoded : part_of(y, m, ZN_DECODER, y->latent);
    else if (k->goal == ZN_GOAL_DECODER)
        y->output = y->decoded;
    else if (t->info.has_decoder)
        y->output = z == y->latent ? y->teacher_made : part_of(y, t, ZN_DECODER, y->latent);
}

static zn_status prepare(zn_yardstick *y)
{
    const zn_yardstick_options *k = &y->options;
    y->graph = zn_graph_new();
    if (!y->graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for an evaluation");
    const int inputs = zn_model_inputs(k->model, ZN_ENCODER);
    y->input =
        zn_graph_input(y->graph, "input", ZN_SHAPE(k->batch * (k->frames ? k->frames : 1), k->size, k->size, inputs));
    if (k->model->arch->can & ZN_SAMPLES)
        ZN_TRY(zn_diffusion_new("linear", ZN_SPACING_ALL, 0, &y->diffusion));
    build(y);
    if (k->lpips && y->output) {
        y->target = zn_graph_input(y->graph, "target", y->output->shape);
        y->distance = zn_lpips_loss(k->lpips, y->output, y->target);
    }
    ZN_TRY(zn_graph_status(y->graph));
    zn_model_bind(k->model, y->graph, "");
    if (k->teacher)
        zn_model_bind(k->teacher, y->graph, ZN_TEACHER);
    enum { ALL = 6 + ZN_PRUNE_GATES };
    zn_node *all[ALL] = { y->latent,       y->teacher_latent, y->output,   y->decoded,
                          y->teacher_made, y->distance,       y->masks[0], y->masks[1] };
    zn_node *outputs[ALL];
    int count = 0;
    for (int i = 0; i < ALL; i++)
        if (all[i])
            outputs[count++] = all[i];
    zn_node *pictures[] = { y->input, y->teacher_made, y->output };
    for (int i = 0; i < 3; i++)
        if (pictures[i] && !(i == 1 && y->output == y->teacher_made))
            y->shown[y->shown_count++] = pictures[i];
    zn_graph_fuse(y->graph, outputs, count);
    const zn_exec_options options = {
        .pool = k->pool, .device = k->device, .training = true, .whole = y->diffusion != NULL
    };
    ZN_TRY(zn_exec_new(y->graph, outputs, count, &options, &y->exec));
    if (y->diffusion)
        set_noise(y);
    return ZN_OK;
}

zn_status zn_yardstick_new(const zn_yardstick_options *options, zn_yardstick **out)
{
    zn_yardstick *y = *out = zn_calloc(1, sizeof *y);
    if (!y)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for an evaluation");
    y->options = *options;
    const zn_status status = prepare(y);
    if (status != ZN_OK) {
        zn_yardstick_free(y);
        *out = NULL;
    }
    return status;
}

void zn_yardstick_free(zn_yardstick *y)
{
    if (!y)
        return;
    zn_exec_free(y->exec);
    zn_graph_free(y->graph);
    zn_diffusion_free(y->diffusion);
    zn_free(y);
}

/* Sums over pictures so far. */
typedef struct sums {
    double psnr[ZN_TASKS];   /* dB, by task */
    double teacher, decoder; /* dB */
    double pruned;           /* shares */
    double lpips;            /* means of batches */
    int batches;
    double error;         /* of latents: squares of differences */
    double *sum, *square; /* of the teacher's latents by channel */
    double latents;       /* values of each channel */
} sums;

static double picture_psnr(const zn_node *a, const float *b, int picture, int64_t floats)
{
    return a ? zn_psnr(zn_mean_square(a->data + floats * picture, b, floats), 1) : NAN;
}

static void add_latents(const zn_yardstick *y, int picture, sums *s)
{
    const zn_node *z = y->teacher_latent;
    const int channels = zn_channels(z);
    const int64_t floats = zn_shape_count(z->shape) / y->options.batch;
    const float *wanted = z->data + floats * picture, *got = y->latent->data + floats * picture;
    s->error += zn_mean_square(got, wanted, floats) * (double)floats;
    s->latents += (double)floats / channels;
    for (int64_t i = 0; i < floats; i++) {
        const int64_t c = i % channels;
        s->sum[c] += (double)wanted[i];
        s->square[c] += (double)wanted[i] * (double)wanted[i];
    }
}

/* Share of the blocks of a picture that are shut, mean over the gates; NaN without any. */
static double pruned_share(const zn_yardstick *y, int picture)
{
    const int gates = y->options.model->config.gates;
    double share = 0;
    for (int g = 0; g < gates && y->masks[g]; g++) {
        const int64_t count = zn_shape_count(y->masks[g]->shape) / y->options.batch;
        const float *mask = y->masks[g]->data + count * picture;
        int64_t shut = 0;
        for (int64_t i = 0; i < count; i++)
            shut += mask[i] == 0;
        share += (double)shut / (double)count / gates;
    }
    return y->masks[0] ? share : NAN;
}

static void add_picture(const zn_yardstick *y, const float *target, int picture, int task, sums *s)
{
    const int64_t floats = picture_floats(&y->options);
    s->psnr[task] += picture_psnr(y->output, target, picture, floats);
    s->teacher += y->teacher_latent ? picture_psnr(y->teacher_made, target, picture, floats) : NAN;
    s->decoder +=
        y->teacher_made ? picture_psnr(y->decoded, y->teacher_made->data + floats * picture, picture, floats) : NAN;
    s->pruned += pruned_share(y, picture);
    if (y->latent && y->teacher_latent)
        add_latents(y, picture, s);
}

static zn_measures result(const zn_yardstick *y, const sums *s, const zn_held_out *h)
{
    zn_measures m = zn_no_measures();
    m.psnr = 0;
    m.teacher_psnr = s->teacher / h->count;
    m.decoder_psnr = s->decoder / h->count;
    m.pruned = s->pruned / h->count;
    m.lpips = y->distance ? s->lpips / s->batches : NAN;
    for (int i = 0; i < h->tasks; i++) {
        m.psnr += s->psnr[i] / h->count;
        if (h->tasks > 1)
            m.task_psnr[i] = s->psnr[i] * h->tasks / h->count;
    }
    if (!y->latent || !y->teacher_latent)
        return m;
    double variance = 0; /* summed like the error: over channels and values */
    for (int c = 0; c < zn_channels(y->latent); c++)
        variance += s->square[c] - s->sum[c] * s->sum[c] / s->latents;
    m.latent_error = 100 * s->error / variance;
    return m;
}

zn_measures zn_no_measures(void)
{
    zn_measures m = { .psnr = NAN,
                      .lpips = NAN,
                      .teacher_psnr = NAN,
                      .decoder_psnr = NAN,
                      .latent_error = NAN,
                      .pruned = NAN,
                      .loss = NAN,
                      .accuracy = NAN,
                      .auroc = NAN };
    for (int i = 0; i < ZN_TASKS; i++)
        m.task_psnr[i] = NAN;
    return m;
}

zn_status zn_yardstick_measure(zn_yardstick *y, const zn_held_out *h, zn_measures *out)
{
    *out = zn_no_measures();
    if (!h->count)
        return ZN_OK;
    const int batch = y->options.batch;
    const size_t in = (size_t)zn_shape_count(y->input->shape) / (size_t)batch;
    const size_t floats = (size_t)picture_floats(&y->options);
    const float *inputs = h->inputs ? h->inputs : h->pictures;
    const size_t channels = y->latent ? (size_t)zn_channels(y->latent) : 1;
    sums s = { .sum = zn_calloc(2 * channels, sizeof *s.sum) };
    if (!s.sum)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for an evaluation");
    s.square = s.sum + channels;
    zn_status status = ZN_OK;
    /* backwards, so that the first pictures are there to be shown in the end */
    for (int first = (h->count - 1) / batch * batch; first >= 0 && status == ZN_OK; first -= batch) {
        for (int i = 0; i < batch; i++) {
            const size_t from = (size_t)((first + i) % h->count);
            memcpy(y->input->data + in * (size_t)i, inputs + in * from, sizeof(float) * in);
            if (y->target)
                memcpy(y->target->data + floats * (size_t)i, h->pictures + floats * from, sizeof(float) * floats);
        }
        status = zn_exec_run(y->exec);
        if (y->distance && status == ZN_OK) {
            s.lpips += (double)y->distance->data[0];
            s.batches++;
        }
        for (int i = 0; i < batch && first + i < h->count && status == ZN_OK; i++)
            add_picture(y, h->pictures + floats * (size_t)(first + i), i, (first + i) % h->tasks, &s);
    }
    *out = result(y, &s, h);
    zn_free(s.sum);
    return status;
}
