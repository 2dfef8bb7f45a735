#include "video_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const zn_wan_form forms[2] = {
    { .width = 4, .levels = 4, .mult = { 1, 2, 2, 2 }, .blocks = 1, .time = { false, true, true }, .latent = 3 },
    { .staged = true,
      .width = 4,
      .levels = 4,
      .mult = { 1, 2, 2, 2 },
      .blocks = 2,
      .time = { false, true, true },
      .latent = 3 },
};

zn_model *small_wan(int which) { return wider_wan(which, forms[which].width); }

static zn_model *random_model(const zn_arch *arch, const zn_config *k)
{
    zn_model *m;
    assert_int_equal(zn_model_new(arch, k, &m), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_ENCODER, 1), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_DECODER, 1), ZN_OK);
    return m;
}

zn_model *wider_wan(int which, int width)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find(which ? "wan22-vae" : "wan21-vae", &known);
    zn_config k = *known;
    zn_wan_form *form = zn_form_own(&k, sizeof *form);
    *form = forms[which];
    form->width = width;
    form->back_width = which ? 2 * width : width;
    k.latent = 3;
    k.downscale = which ? 16 : 8;
    for (int i = 0; i < 3; i++)
        form->deviation[i] = 1;
    return random_model(arch, &k);
}

zn_model *quarter_wan(void)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find("wan21-vae", &known);
    zn_config k = *known;
    zn_wan_form *form = zn_form_own(&k, sizeof *form);
    *form = zn_wan21;
    form->width /= 4;
    form->back_width /= 4;
    return random_model(arch, &k);
}

zn_model *small_taehv(int patch)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find(patch == 2 ? "taew2_2" : "taew2_1", &known);
    zn_config k = *known;
    *(zn_taehv_form *)zn_form_own(&k, sizeof(zn_taehv_form)) =
        (zn_taehv_form){ .patch = patch, .latent = 5, .width = 8, .back_width = { 12, 8, 6, 4 } };
    k.latent = 5;
    return random_model(arch, &k);
}

zn_model *whole_taehv(void)
{
    const zn_config *known;
    const zn_arch *arch = zn_arch_find("taew2_1", &known);
    return random_model(arch, known);
}

zn_model *small_video(int which) { return which < 2 ? small_wan(which) : small_taehv(which - 1); }

zn_image *small_picture(int width, int height, int number)
{
    zn_image *im;
    assert_int_equal(zn_image_new(width, height, 8, &im), ZN_OK);
    for (int i = 0; i < 3 * width * height; i++)
        ((uint8_t *)im->pixels)[i] = (uint8_t)((i + 5 * number) * 37 % 251);
    return im;
}
