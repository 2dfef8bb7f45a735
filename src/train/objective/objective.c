/* The objective's graph: inputs, terms and their weighted sum; and the goal without a teacher. */
#include "train/objective/objective.h"

#include "base/fail.h"

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

zn_node *zn_part_of(const zn_model *m, zn_part part, const char *prefix, zn_node *x)
{
    const char *own = m->arch->scope[part];
    char name[64];
    snprintf(name, sizeof name, "%s%s", prefix, own);
    if (!own[0] && name[0]) /* scopes bring their own dot */
        name[strlen(name) - 1] = 0;
    const zn_scope s = zn_at((zn_scope){ x->graph, "" }, "%s", name);
    zn_node *(*const build)(zn_scope, zn_node *, const zn_config *) =
        part == ZN_ENCODER ? m->arch->encode : m->arch->decode;
    return build ? build(s, x, &m->config)
                 : zn_graph_poison(x->graph, ZN_EUNSUPPORTED, "a diffusion autoencoder does not learn by this recipe");
}

/* Latents as the mean of a normal distribution whose log variance, in [-8,0], is learned beside them; the decoder sees
 * a sample. Only training knows of it: the model in use takes the mean. */
static zn_node *sample(zn_objective *o, zn_node *mean, double weight)
{
    zn_node *v = zn_soft_clamp(zn_conv1x1_no_bias((zn_scope){ o->graph, "posterior" }, mean, zn_channels(mean)), 4);
    v = zn_sub(v, zn_scale(zn_ones_like(v), 4));
    o->noise = zn_graph_input(o->graph, "noise", mean->shape);
    zn_objective_add(o, "kl", zn_kl_gaussian(mean, v), (zn_ramp){ .to = weight });
    return zn_add(mean, zn_multiply(zn_exp(zn_scale(v, 0.5f)), o->noise));
}

/* A restorer's whole network stands in the place of the encoder. */
static zn_status add_autoencoder(zn_objective *o, const zn_objective_options *k)
{
    o->output = zn_learning_encoder(o, k);
    if (!(k->model->arch->can & ZN_RESTORES)) {
        zn_node *z = k->recipe->kl > 0 ? sample(o, o->output, k->recipe->kl) : o->output;
        o->output = zn_part_of(k->model, ZN_DECODER, "", z);
    }
    o->learns[ZN_ENCODER] = o->learns[ZN_DECODER] = true;
    zn_graph_name_layer(o->graph, "loss");
    zn_add_picture_terms(o, k->recipe, o->output, o->target);
    return ZN_OK;
}

/* Images at steps of their own; the encoder learns what helps the decoder to tell the noise. */
static zn_status add_diffusion(zn_objective *o, const zn_objective_options *k)
{
    if (!(k->model->arch->can & ZN_SAMPLES))
        return ZN_FAIL(ZN_EINVALID, "%s is not a diffusion autoencoder", k->model->config.name);
    ZN_TRY(zn_diffusion_new("linear", ZN_SPACING_ALL, 0, &o->diffusion));
    o->noising = zn_noising_of(k->model, o->input, true);
    o->noise = o->noising.noise;
    o->learns[ZN_ENCODER] = o->learns[ZN_DECODER] = true;
    zn_graph_name_layer(o->graph, "loss");
    zn_objective_add(o, "noise", zn_mean_square_error(o->noising.predicted, o->noise), (zn_ramp){ .to = 1 });
    return ZN_OK;
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
    zn_shape in = ZN_SHAPE(k->batch, size, size, inputs), out = ZN_SHAPE(k->batch, size, size, 3);
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
    add_inputs(o, k);
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
    zn_model_free(o->lpips);
    *o = (zn_objective){ 0 };
}
