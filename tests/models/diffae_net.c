/* The small diffusion autoencoder. */
#include "diffae_net.h"
#include "../stir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

zn_model *small_diffae(bool conditional)
{
    const zn_config *preset;
    zn_model *m;
    const zn_arch *arch = zn_arch_find("celeba64", &preset);
    zn_config k = *preset;
    zn_diffae_form *form = zn_form_own(&k, sizeof *form);
    *form = (zn_diffae_form){
        .embed = 24,
        .unet = { .width = 8,
                  .levels = 2,
                  .blocks = 1,
                  .mult = { 1, 2 },
                  .attention = { false, true },
                  .heads = 1,
                  .out = 3 },
        .encoder = { .width = 8,
                     .levels = 3,
                     .blocks = 1,
                     .mult = { 1, 1, 2 },
                     .attention = { false, true },
                     .heads = 1,
                     .out = 16 },
        .latent = { .channels = 16, .hidden = 32, .layers = 3, .time = 12 },
    };
    k.size = 32;
    k.classes = 5;
    if (!conditional)
        form->encoder = (zn_unet){ 0 };
    k.latent = form->encoder.out;
    k.downscale = conditional ? 4 : 2;
    assert_int_equal(zn_model_new(arch, &k, &m), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_DECODER, 1), ZN_OK);
    for (int part = 0; part < ZN_PARTS && conditional; part++)
        if (part != ZN_DECODER)
            assert_int_equal(zn_model_random_part(m, (zn_part)part, 1), ZN_OK);
    stir(m, 0.01f);
    return m;
}
