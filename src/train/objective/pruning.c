/* Block gates that learn: their form while they do, and the price of what they leave open. */
#include "train/objective/objective.h"

/* Noise lets gates try the other state; in use there is none, so the second half of a run is to be without. */
static const double noise_share = 0.5;

static const zn_prune_mode modes[] = { [ZN_RECIPE_GATES_AS_USUAL] = ZN_PRUNE_STE,
                                       [ZN_RECIPE_GATES_STRAIGHT] = ZN_PRUNE_STE,
                                       [ZN_RECIPE_GATES_SOFT] = ZN_PRUNE_SOFT,
                                       [ZN_RECIPE_GATES_HARD] = ZN_PRUNE_HARD };

/* Masks have a value for each block of the encoder's channels, at its resolution. */
static void add_noise(zn_objective *o, const zn_objective_options *k, zn_prune_run *run)
{
    const zn_config *c = &k->model->config;
    const int64_t side = k->recipe->size / c->downscale;
    const zn_shape shape = ZN_SHAPE(k->batch, side, side, 256 * c->width / ZN_GATE_BLOCK);
    for (int i = 0; i < c->gates; i++)
        o->gate_noise[i] = run->noise[i] = zn_graph_input(o->graph, "noise of a gate", shape);
    run->temperature = 1;
    o->temperature =
        (zn_ramp){ .from = k->recipe->gate_temperature, .end = (int64_t)(noise_share * (double)k->recipe->steps) };
}

zn_node *zn_learning_encoder(zn_objective *o, const zn_objective_options *k)
{
    const zn_arch *arch = k->model->arch;
    const zn_recipe *r = k->recipe;
    if (!k->model->config.gates)
        return zn_part_of(k->model, ZN_ENCODER, "", o->input, zn_objective_clips(k));
    zn_prune_run run = { .mode = modes[r->gates] };
    if (run.mode == ZN_PRUNE_SOFT && r->gate_temperature > 0)
        add_noise(o, k, &run);
    const zn_scope s = zn_at((zn_scope){ o->graph, "" }, "%s", arch->scope[ZN_ENCODER]);
    zn_node *z = arch->encode_gated(s, o->input, &k->model->config, &run), *open = NULL;
    for (int i = 0; i < k->model->config.gates; i++)
        open = open ? zn_add(open, zn_mean(run.mask[i])) : zn_mean(run.mask[i]);
    zn_objective_add(o, "gates", open, (zn_ramp){ .to = run.mode == ZN_PRUNE_HARD ? 0 : r->gate_penalty });
    return z;
}
