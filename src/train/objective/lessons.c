/* What a teacher teaches: its latents, the images its decoder makes, and the activations on the way there.
 *
 * The student's stages are compared with the teacher's at the same resolution; a 1x1 convolution, an adaptor that only
 * training knows of, turns the student's channels into the teacher's. Stages that start as the teacher's need none. */
#include "train/objective/objective.h"

#include "base/fail.h"

/* Huber's distance forgives what the first steps get wrong; then the plain square counts. */
static const double huber_share = 0.2;
static const float huber_knee = 0.3f;
/* The activations' weight falls to this share of what it was. */
static const double features_end = 0.1;

static zn_node *teacher_part(const zn_objective_options *k, zn_part part, zn_node *x)
{
    return zn_part_of(k->teacher, part, ZN_TEACHER, x, zn_objective_clips(k));
}

int zn_stage_outputs(const zn_graph *g, int first, zn_node *out[ZN_MAX_STAGES])
{
    int count = 0;
    for (int i = first; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        const zn_node *sum = n->op == &zn_op_relu ? n->source[0] : n;
        if (sum->op != &zn_op_add || sum->index < first || n->shape.rank != 4)
            continue;
        int at = 0;
        while (at < count && out[at]->shape.dim[1] != n->shape.dim[1])
            at++;
        if (at == ZN_MAX_STAGES)
            continue;
        out[at] = n;
        count = at == count ? count + 1 : count;
    }
    return count;
}

static void add_features(zn_objective *o, const zn_recipe *r, zn_node *const *student, int count,
                         zn_node *const *teacher, int teacher_count)
{
    zn_node *sum = NULL;
    int pairs = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < teacher_count; k++) {
            if (student[i]->shape.dim[1] != teacher[k]->shape.dim[1] ||
                student[i]->shape.dim[0] != teacher[k]->shape.dim[0]) /* several frames of each image */
                continue;
            const zn_scope s = zn_at((zn_scope){ o->graph, "adaptor" }, "%d", pairs++);
            const bool alike =
                r->start == ZN_RECIPE_START_TEACHER && zn_channels(student[i]) == zn_channels(teacher[k]);
            zn_node *own = alike ? student[i] : zn_conv1x1_no_bias(s, student[i], zn_channels(teacher[k]));
            zn_node *distance = zn_mean_absolute_error(own, teacher[k]);
            sum = sum ? zn_add(sum, distance) : distance;
        }
    if (pairs)
        zn_objective_add(o, "features", zn_scale(sum, 1.0f / (float)pairs),
                         (zn_ramp){ r->features, features_end * r->features, 0, r->steps });
}

zn_status zn_add_encoder_lesson(zn_objective *o, const zn_objective_options *k)
{
    const zn_recipe *r = k->recipe;
    const int64_t turn = (int64_t)(huber_share * (double)r->steps);
    zn_node *stages[2][ZN_MAX_STAGES];
    int first = zn_graph_count(o->graph);
    zn_node *z = zn_learning_encoder(o, k);
    const int count = zn_stage_outputs(o->graph, first, stages[0]);
    o->learns[ZN_ENCODER] = true;
    if (!k->teacher->info.has_encoder) { /* learned through the decoder, which says what latents mean */
        o->output = teacher_part(k, ZN_DECODER, z);
        zn_add_picture_terms(o, r, o->output, o->target);
        return ZN_OK;
    }
    first = zn_graph_count(o->graph);
    zn_node *wanted = teacher_part(k, ZN_ENCODER, o->input);
    const int teacher_count = zn_stage_outputs(o->graph, first, stages[1]);
    zn_graph_name_layer(o->graph, "loss");
    zn_objective_add(o, "latent_huber", zn_huber(z, wanted, huber_knee), (zn_ramp){ 1, 0, turn, turn });
    zn_objective_add(o, "latent", zn_mean_square_error(z, wanted), (zn_ramp){ 0, 1, turn, turn });
    if (r->features > 0 &&
        r->start == ZN_RECIPE_START_TEACHER) /* what its layers at the end expect from the new ones */
        add_features(o, r, stages[0], count, stages[1], teacher_count);
    return ZN_OK;
}

/* The student's image of latents with noise on them, which makes it tolerate errors of its encoder. */
static zn_node *decode_disturbed(zn_objective *o, const zn_objective_options *k, zn_node *z)
{
    o->noise = zn_graph_input(o->graph, "noise", z->shape);
    zn_node *disturbed = zn_add(z, zn_scale(o->noise, (float)k->recipe->jitter));
    return zn_part_of(k->model, ZN_DECODER, "", disturbed, zn_objective_clips(k));
}

zn_status zn_add_decoder_lesson(zn_objective *o, const zn_objective_options *k)
{
    zn_node *z = k->teacher->info.has_encoder ? teacher_part(k, ZN_ENCODER, o->input)
                                              : zn_part_of(k->model, ZN_ENCODER, "", o->input, zn_objective_clips(k));
    zn_node *stages[2][ZN_MAX_STAGES];
    int first = zn_graph_count(o->graph);
    zn_node *wanted = teacher_part(k, ZN_DECODER, z);
    const int teacher_count = zn_stage_outputs(o->graph, first, stages[1]);
    first = zn_graph_count(o->graph);
    o->output = decode_disturbed(o, k, z);
    const int count = zn_stage_outputs(o->graph, first, stages[0]);
    o->learns[ZN_DECODER] = true;
    zn_graph_name_layer(o->graph, "loss");
    zn_add_picture_terms(o, k->recipe, o->output, wanted);
    if (k->recipe->features > 0)
        add_features(o, k->recipe, stages[0], count, stages[1], teacher_count);
    return ZN_OK;
}

/* The student's latents of the first images of a part, the teacher's of the others, which zn_distill has checked to be
 * a whole number. */
static zn_node *mixed_latents(const zn_objective_options *k, zn_node *own, zn_node *teachers)
{
    const int batch = k->batch, first = batch - (int)(k->recipe->teacher_latents * batch + 0.5);
    int32_t *from = zn_arena_alloc(zn_graph_arena(own->graph), sizeof *from * (size_t)batch);
    if (!from)
        return zn_graph_poison(own->graph, ZN_ENOMEM, "out of memory while building a graph");
    for (int i = 0; i < batch; i++)
        from[i] = i < first ? i : batch + i;
    return zn_frames((zn_node *[]){ own, teachers }, 2, from, batch);
}

/* Without the teacher's latents as well, the decoder would soon understand those of its own encoder alone. */
zn_status zn_add_joint_lesson(zn_objective *o, const zn_objective_options *k)
{
    const bool has_encoder = k->teacher->info.has_encoder;
    const double mixed = k->recipe->teacher_latents, weight = k->recipe->latent_mse;
    if (mixed > 0 && (!has_encoder || zn_objective_clips(k)))
        return ZN_FAIL(ZN_EINVALID, "distill.teacher_latents needs %s",
                       has_encoder ? "images, not videos" : "a teacher with an encoder");
    zn_node *z = zn_learning_encoder(o, k);
    zn_node *wanted = has_encoder && (mixed > 0 || weight > 0) ? teacher_part(k, ZN_ENCODER, o->input) : NULL;
    zn_node *seen = mixed > 0 ? mixed_latents(k, z, wanted) : z;
    o->output = zn_part_of(k->model, ZN_DECODER, "", seen, zn_objective_clips(k));
    o->learns[ZN_ENCODER] = o->learns[ZN_DECODER] = true;
    zn_graph_name_layer(o->graph, "loss");
    zn_add_picture_terms(o, k->recipe, o->output, o->target);
    if (weight <= 0)
        return ZN_OK;
    if (!has_encoder) { /* still its language */
        zn_objective_add(o, "latent", zn_mean_square_error(teacher_part(k, ZN_DECODER, z), o->target),
                         (zn_ramp){ .to = weight });
        return ZN_OK;
    }
    zn_objective_add(o, "latent", zn_mean_square_error(z, wanted), (zn_ramp){ .to = weight });
    zn_objective_add(o, "decoder",
                     zn_mean_absolute_error(decode_disturbed(o, k, wanted), teacher_part(k, ZN_DECODER, wanted)),
                     (zn_ramp){ .to = 1 });
    return ZN_OK;
}
