/* The objective's graph: inputs, terms and their weighted sum; and the goal without a teacher. */
#include "train/objective/objective.h"

#include "base/fail.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

double zn_ramp_at(const zn_ramp *r, int64_t step)
{
    if (step < r->begin)
        return r->from;
    if (step >= r->end)
        return r->to;
    return r->from + (r->to - r->from) * (double)(step - r->begin) / (double)(r->end - r->begin);
}

void zn_objective_add(zn_objective *o, const char *name, zn_node *value, zn_ramp weight)
{
    if (o->count == ZN_MAX_TERMS) {
        zn_graph_poison(o->graph, ZN_EINVALID, "too many terms in a loss");
        return;
    }
    char label[64];
    snprintf(label, sizeof label, "weight of %s", name);
    o->terms[o->count++] = (zn_term){ name, value, zn_graph_input(o->graph, label, ZN_SHAPE(1)), weight };
}

zn_status zn_objective_close(zn_objective *o)
{
    zn_graph_name_layer(o->graph, "loss");
    ZN_TRY(zn_graph_status(o->graph));
    if (!o->count)
        return ZN_FAIL(ZN_EINVALID, "the recipe gives no loss a weight");
    for (int i = 0; i < o->count; i++) {
        zn_node *term = zn_multiply_scalar(o->terms[i].value, o->terms[i].weight);
        o->loss = o->loss ? zn_add(o->loss, term) : term;
    }
    return zn_graph_status(o->graph);
}

/* What is built of a model in a graph: a part, or its encoder with log variances. */
typedef struct piece {
    const zn_model *model;
    zn_part part;
    bool moments;
    zn_scope scope;
} piece;

/* Of one video (clip), or of images. */
static zn_node *build_piece(const piece *p, zn_node *x, bool clip)
{
    const zn_arch *arch = p->model->arch;
    const zn_config *config = &p->model->config;
    zn_stream apart = { .apart = (int)x->shape.dim[0] };
    if (p->moments)
        return arch->moments(p->scope, x, config, clip ? NULL : &apart);
    if (clip)
        return arch->clip(p->scope, p->part, x, config, NULL);
    zn_node *(*const build)(zn_scope, zn_node *, const zn_config *) =
        p->part == ZN_ENCODER ? arch->encode : arch->decode;
    return build ? build(p->scope, x, config)
                 : zn_graph_poison(x->graph, ZN_EUNSUPPORTED, "a diffusion autoencoder does not learn by this recipe");
}

/* Each video is a network of its own, with common parameters: nothing of one reaches another. */
static zn_node *build_pieces(const piece *p, zn_node *x, int clips)
{
    if (clips < 2)
        return build_piece(p, x, clips == 1);
    const int each = (int)x->shape.dim[0] / clips;
    zn_node *all = NULL;
    for (int i = 0; i < clips; i++) {
        zn_node *y = build_piece(p, zn_take_frames(x, i * each, 1, each), true);
        all = all ? zn_join_frames(all, y) : y;
    }
    return all;
}

static zn_scope part_scope(const zn_model *m, zn_part part, const char *prefix, zn_graph *g)
{
    const char *own = m->arch->scope[part];
    char name[64];
    snprintf(name, sizeof name, "%s%s", prefix, own);
    if (!own[0] && name[0]) /* scopes bring their own dot */
        name[strlen(name) - 1] = 0;
    zn_graph_set_splits(g, prefix, &m->splits);
    return zn_at((zn_scope){ g, "" }, "%s", name);
}

zn_node *zn_part_of(const zn_model *m, zn_part part, const char *prefix, zn_node *x, int clips)
{
    const piece p = { .model = m, .part = part, .scope = part_scope(m, part, prefix, x->graph) };
    return build_pieces(&p, x, clips);
}

zn_status zn_check_frames(const zn_model *m, int frames)
{
    const zn_config *c = &m->config;
    if (frames && !c->frames)
        return ZN_FAIL(ZN_EINVALID, "%s does not support video: set frames to 0", c->name);
    if (frames && (frames - 1) % c->frames)
        return ZN_FAIL(ZN_EINVALID, "%s learns from videos of 1 + %d n frames, such as %d, not of %d", c->name,
                       c->frames, 1 + frames / c->frames * c->frames, frames);
    return ZN_OK;
}

/* Log variances for a network that has none, in [-8,0], learned from the means. Only training knows of them. */
static zn_node *learned_variance(zn_node *mean)
{
    zn_node *v = zn_soft_clamp(zn_conv1x1_no_bias((zn_scope){ mean->graph, "posterior" }, mean, zn_channels(mean)), 4);
    return zn_sub(v, zn_scale(zn_ones_like(v), 4));
}

/* The encoder's latents as the means of normal distributions, of which the decoder sees a sample. The model in use
 * takes the mean. */
static zn_node *sampled_latents(zn_objective *o, const zn_objective_options *k)
{
    const zn_recipe *r = k->recipe;
    const piece p = { k->model, ZN_ENCODER, true, part_scope(k->model, ZN_ENCODER, "", o->graph) };
    zn_node *mean, *v;
    if (k->model->arch->moments) {
        zn_node *both = build_pieces(&p, o->input, zn_objective_clips(k));
        const int channels = zn_is_poison(both) ? 0 : zn_channels(both) / 2;
        mean = zn_slice_channels(both, 0, channels);
        v = zn_slice_channels(both, channels, channels);
    } else {
        mean = zn_learning_encoder(o, k);
        v = learned_variance(mean);
    }
    o->noise = zn_graph_input(o->graph, "noise", mean->shape);
    zn_objective_add(o, "kl", zn_kl_gaussian(mean, v),
                     (zn_ramp){ .to = r->kl, .end = (int64_t)(r->kl_rise * (double)r->steps) });
    return zn_gaussian(mean, v, o->noise);
}

/* A restorer's whole network is the encoder. */
static zn_status add_autoencoder(zn_objective *o, const zn_objective_options *k)
{
    o->output = k->recipe->kl > 0 ? sampled_latents(o, k) : zn_learning_encoder(o, k);
    if (!(k->model->arch->can & ZN_RESTORES))
        o->output = zn_part_of(k->model, ZN_DECODER, "", o->output, zn_objective_clips(k));
    o->learns[ZN_ENCODER] = o->learns[ZN_DECODER] = true;
    zn_graph_name_layer(o->graph, "loss");
    zn_add_picture_terms(o, k->recipe, o->output, o->target);
    return ZN_OK;
}

/* A field learns from some pixels of the images, which it is asked for others of. */
static zn_noising learning_field(zn_objective *o, const zn_objective_options *k)
{
    const zn_recipe *r = k->recipe;
    const double pixels = (double)r->size * r->size;
    const int64_t known = (int64_t)ceil(pixels * r->points_most), asked = (int64_t)ceil(pixels * r->points_asked);
    return zn_noising_of_points(k->model, o->graph, k->batch, known, asked);
}

/* What the network predicts, against what it should be. */
static zn_status add_diffusion_terms(zn_objective *o, double min_snr)
{
    zn_noising *n = &o->noising;
    zn_node *values = zn_noising_values(n);
    if (values && min_snr > 0)
        return ZN_FAIL(ZN_EINVALID, "min_snr is for networks that predict noise or velocity");
    zn_noising_weigh(n, min_snr);
    zn_graph_name_layer(o->graph, "loss");
    if (n->kind == ZN_FIELD_FEATURES) {
        zn_node *features = zn_slice_channels(n->predicted, 0, zn_channels(n->clean));
        zn_objective_add(o, "features", zn_mean_square_error(features, n->clean), (zn_ramp){ .to = 1 });
    }
    if (values)
        zn_objective_add(o, "colours", zn_mean_square_error(values, n->asked.values), (zn_ramp){ .to = 1 });
    else
        zn_objective_add(o, n->velocity ? "velocity" : "noise", zn_noising_error(n), (zn_ramp){ .to = 1 });
    return ZN_OK;
}

/* Images at steps of their own; the encoder learns what helps the decoder to tell the noise. */
static zn_status add_diffusion(zn_objective *o, const zn_objective_options *k)
{
    if (!(k->model->arch->can & ZN_SAMPLES))
        return ZN_FAIL(ZN_EINVALID, "%s is not a diffusion autoencoder", k->model->config.name);
    ZN_TRY(zn_diffusion_new("linear", ZN_SPACING_ALL, 0, &o->diffusion));
    o->noising =
        k->model->arch->mamba(&k->model->config)->kind ? learning_field(o, k) : zn_noising_of(k->model, o->input, true);
    o->noise = o->noising.noise;
    o->learns[ZN_ENCODER] = o->learns[ZN_DECODER] = true;
    return add_diffusion_terms(o, k->recipe->min_snr);
}

static zn_status add_latent_net(zn_objective *o, const zn_objective_options *k)
{
    ZN_TRY(zn_diffusion_new("const0.008", ZN_SPACING_ALL, 0, &o->diffusion));
    o->noising = zn_noising_of_conditions(k->model, o->input);
    o->noise = o->noising.noise;
    zn_graph_name_layer(o->graph, "loss");
    zn_objective_add(o, "noise", zn_mean_absolute_error(o->noising.predicted, o->noise), (zn_ramp){ .to = 1 });
    return ZN_OK;
}

/* Of a target of 1/2, an attribute that is not known, nothing is learned: its logit counts as 0. */
static zn_node *known_only(zn_node *logits, zn_node *target)
{
    zn_node *sign = zn_sub(zn_scale(target, 2), zn_ones_like(target));
    return zn_multiply(logits, zn_multiply(sign, sign));
}

static zn_status add_classifier(zn_objective *o, const zn_objective_options *k)
{
    const zn_arch *arch = k->model->arch;
    const zn_scope s = { o->graph, arch->scope[ZN_CLASSIFIER] };
    zn_node *logits = arch->network(s, ZN_CLASSIFIER, &o->input, &k->model->config);
    zn_graph_name_layer(o->graph, "loss");
    zn_objective_add(o, "attributes", zn_logistic_loss(known_only(logits, o->target), o->target), (zn_ramp){ .to = 1 });
    return ZN_OK;
}

static const struct {
    zn_status (*build)(zn_objective *o, const zn_objective_options *k);
    bool on_conditions;
    zn_part part; /* that learns from conditions */
} goals[] = {
    [ZN_GOAL_AUTOENCODER] = { .build = add_autoencoder },
    [ZN_GOAL_ENCODER] = { .build = zn_add_encoder_lesson },
    [ZN_GOAL_DECODER] = { .build = zn_add_decoder_lesson },
    [ZN_GOAL_JOINT] = { .build = zn_add_joint_lesson },
    [ZN_GOAL_DIFFUSION] = { .build = add_diffusion },
    [ZN_GOAL_LATENT_NET] = { .build = add_latent_net, .on_conditions = true, .part = ZN_LATENT_NET },
    [ZN_GOAL_GENERATOR] = { .build = zn_add_flow_lesson },
    [ZN_GOAL_CLASSIFIER] = { .build = add_classifier, .on_conditions = true, .part = ZN_CLASSIFIER },
};

bool zn_goal_on_conditions(zn_goal goal) { return goals[goal].on_conditions; }
zn_part zn_goal_part(zn_goal goal) { return goals[goal].part; }
bool zn_goal_on_table(zn_goal goal) { return goal == ZN_GOAL_GENERATOR || zn_goal_on_conditions(goal); }

static void add_inputs(zn_objective *o, const zn_objective_options *k)
{
    const int size = k->recipe->size, inputs = zn_model_inputs(k->model, ZN_ENCODER);
    const zn_config *c = &k->model->config;
    const int images = k->batch * (k->recipe->frames ? k->recipe->frames : 1);
    zn_shape in = ZN_SHAPE(images, size, size, inputs), out = ZN_SHAPE(images, size, size, 3);
    if (zn_goal_on_conditions(k->goal)) {
        in = ZN_SHAPE(1, 1, k->batch, c->latent);
        out = zn_goal_part(k->goal) == ZN_CLASSIFIER ? ZN_SHAPE(1, 1, k->batch, c->classes) : in;
    }
    if (k->goal == ZN_GOAL_GENERATOR) {
        in = ZN_SHAPE(k->batch, size / ZN_ZIMAGE_SCALE, size / ZN_ZIMAGE_SCALE, c->latent);
        out = ZN_SHAPE(k->batch, 1, ZN_ZIMAGE_BLOCK, 1);
    }
    o->input = zn_graph_input(o->graph, "input", in);
    o->target = zn_graph_input(o->graph, "target", out);
}

zn_status zn_objective_build(zn_objective *o, const zn_objective_options *k)
{
    *o = (zn_objective){ .graph = zn_graph_new() };
    if (!o->graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a training graph");
    ZN_TRY(zn_check_frames(k->model, k->recipe->frames));
    if (k->teacher)
        ZN_TRY(zn_check_frames(k->teacher, k->recipe->frames));
    add_inputs(o, k);
    if (k->goal != ZN_GOAL_ENCODER || !k->teacher->info.has_encoder) /* which learns from latents alone */
        ZN_TRY(zn_open_picture_terms(o, k->recipe));
    ZN_TRY(goals[k->goal].build(o, k));
    ZN_TRY(zn_graph_status(o->graph));
    zn_model_bind(k->model, o->graph, "");
    if (k->teacher)
        zn_model_bind(k->teacher, o->graph, ZN_TEACHER);
    return ZN_OK;
}

void zn_objective_free(zn_objective *o)
{
    zn_graph_free(o->graph);
    zn_diffusion_free(o->diffusion);
    zn_model_free(o->lpips[0]);
    zn_model_free(o->lpips[1]);
    *o = (zn_objective){ 0 };
}
