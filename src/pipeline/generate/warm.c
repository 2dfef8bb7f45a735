/* Networks that stay on a device between images, as long as the budget has room for all of them. On the CPU none stays:
 * its weights are mapped files. */
#include "pipeline/generate/generate.h"

void zn_generator_forget(zn_generator *g, zn_generator_part part)
{
    if (part == ZN_GENERATOR_TEXT) {
        zn_text_encoder_free(g->text);
        g->text = NULL;
    } else if (part == ZN_GENERATOR_TRANSFORMER) {
        zn_transformer_free(g->transformer);
        g->transformer = NULL;
    } else if (part == ZN_GENERATOR_VAE) {
        for (int i = 0; i < ZN_PARTS; i++) {
            zn_autoencoder_free(g->vae[i]);
            g->vae[i] = NULL;
        }
    }
    g->held[part] = 0;
}

void zn_generator_forget_all(zn_generator *g)
{
    for (int part = 0; part < ZN_GENERATOR_PARTS; part++)
        zn_generator_forget(g, part);
}

size_t zn_generator_held_by_others(const zn_generator *g, zn_generator_part part)
{
    size_t bytes = 0;
    for (int i = 0; i < ZN_GENERATOR_PARTS; i++)
        bytes += i == (int)part ? 0 : g->held[i];
    return bytes;
}

void zn_generator_make_room(zn_generator *g, zn_generator_part part, size_t bytes)
{
    static const zn_generator_part before[ZN_GENERATOR_PARTS][2] = {
        [ZN_GENERATOR_TEXT] = { ZN_GENERATOR_VAE, ZN_GENERATOR_TRANSFORMER },
        [ZN_GENERATOR_TRANSFORMER] = { ZN_GENERATOR_TEXT, ZN_GENERATOR_VAE },
        [ZN_GENERATOR_VAE] = { ZN_GENERATOR_TEXT, ZN_GENERATOR_TRANSFORMER },
    };
    if (!g->compute.device)
        return;
    const size_t budget = zn_generator_budget(g);
    for (int i = 0; i < 2 && zn_generator_held_by_others(g, part) + bytes > budget; i++)
        zn_generator_forget(g, before[part][i]);
    g->held[part] = bytes;
}

void zn_generator_free_others(zn_generator *g, zn_generator_part part)
{
    for (int i = 0; i < ZN_GENERATOR_PARTS; i++)
        if (i != (int)part)
            zn_generator_forget(g, i);
}

void zn_generator_end_stage(zn_generator *g, zn_generator_part part, zn_status status)
{
    if (!g->compute.device || (status != ZN_OK && status != ZN_ECANCELLED))
        zn_generator_forget(g, part);
}
