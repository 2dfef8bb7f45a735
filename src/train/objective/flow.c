/* Flow matching: latents of images, mixed with noise, and the way from the noise to the image that a network tells,
 * knowing the caption (diffusion/flow.h). */
#include "diffusion/flow.h"

#include "base/fail.h"
#include "base/rng.h"
#include "train/objective/objective.h"

#include <math.h>

zn_status zn_add_flow_lesson(zn_objective *o, const zn_objective_options *k)
{
    const zn_zimage_mini_form *form = zn_form_of(&k->model->config);
    if (!(k->model->arch->can & ZN_GENERATES))
        return ZN_FAIL(ZN_EINVALID, "%s does not make images from prompts", k->model->config.name);
    zn_node *latent = o->input;
    const zn_shape table = ZN_SHAPE(1, 1, k->batch, zn_channels(latent));
    zn_flow_noising *n = &o->flow;
    o->noise = zn_graph_input(o->graph, "noise", latent->shape);
    *n = (zn_flow_noising){ .form = &form->dit,
                            .shift = k->recipe->shift,
                            .time = zn_graph_input(o->graph, "time", ZN_SHAPE(1, 1, k->batch, ZN_ZIMAGE_TIME)),
                            .signal = zn_graph_input(o->graph, "signal", table),
                            .rest = zn_graph_input(o->graph, "rest", table) };
    zn_node *noisy = zn_add(zn_modulate(latent, n->signal, NULL), zn_modulate(o->noise, n->rest, NULL));
    zn_node *told = zn_zimage_mini_velocity(o->graph, noisy, n->time, o->target, form);
    o->learns[ZN_ENCODER] = o->learns[ZN_DECODER] = true;
    zn_graph_name_layer(o->graph, "loss");
    zn_objective_add(o, "flow", zn_mean_square_error(told, zn_sub(latent, o->noise)), (zn_ramp){ .to = 1 });
    return ZN_OK;
}

void zn_flow_draw(const zn_flow_noising *n, int image, uint64_t seed)
{
    const int channels = zn_channels(n->signal);
    zn_rng rng = zn_rng_new(seed);
    const double even = 1 / (1 + exp(-(double)zn_rng_normal(&rng)));
    const float sigma = (float)(n->shift * even / (1 + (n->shift - 1) * even));
    zn_zimage_time(n->form, zn_flow_time(sigma), n->time->data + (int64_t)image * ZN_ZIMAGE_TIME);
    for (int c = 0; c < channels; c++) {
        n->signal->data[image * channels + c] = -sigma;
        n->rest->data[image * channels + c] = sigma - 1;
    }
}
