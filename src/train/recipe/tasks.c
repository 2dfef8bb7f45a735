/* The table of tasks, in the order of zn_recipe_task. */
#include "train/recipe/tasks.h"

#include "models/arch.h"

static const zn_train_task tasks[] = {
    [ZN_RECIPE_AUTOENCODE] = { .name = "autoencode",
                               .goal = ZN_GOAL_AUTOENCODER,
                               .needs = ZN_ENCODES | ZN_DECODES,
                               .inputs = ZN_INPUTS_IMAGES,
                               .takes = ZN_TAKES_LOSSES | ZN_TAKES_KL },
    [ZN_RECIPE_RESTORE] = { .name = "restore",
                            .goal = ZN_GOAL_AUTOENCODER,
                            .needs = ZN_RESTORES,
                            .inputs = ZN_INPUTS_DEGRADED,
                            .takes = ZN_TAKES_LOSSES },
    [ZN_RECIPE_DIFFUSE] = { .name = "diffuse",
                            .goal = ZN_GOAL_DIFFUSION,
                            .needs = ZN_SAMPLES,
                            .inputs = ZN_INPUTS_IMAGES,
                            .takes = ZN_TAKES_DROPOUT },
    [ZN_RECIPE_GENERATE] = { .name = "generate",
                             .goal = ZN_GOAL_GENERATOR,
                             .needs = ZN_GENERATES,
                             .inputs = ZN_INPUTS_CAPTIONED,
                             .takes = ZN_TAKES_CAPTIONS },
    [ZN_RECIPE_IMAGINE] = { .name = "imagine",
                            .goal = ZN_GOAL_LATENT_NET,
                            .needs = ZN_SAMPLES,
                            .inputs = ZN_INPUTS_CONDITIONS,
                            .part = ZN_LATENT_NET },
    [ZN_RECIPE_CLASSIFY] = { .name = "classify",
                             .goal = ZN_GOAL_CLASSIFIER,
                             .needs = ZN_EDITS,
                             .inputs = ZN_INPUTS_LABELLED,
                             .part = ZN_CLASSIFIER,
                             .takes = ZN_TAKES_LABELS },
};

const zn_train_task *zn_train_task_of(const zn_recipe *r) { return &tasks[r->task]; }

const zn_train_task *zn_train_task_for(unsigned abilities)
{
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if ((abilities & tasks[i].needs) == tasks[i].needs)
            return &tasks[i];
    return NULL;
}
