/* Diffusion autoencoders as models: sizes of the presets, files, and what the library promises. */
#include "model_file.h"

#include "base/alloc.h"
#include "io/image/resample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/diffae.h>

/* ---- sizes, without memory for the weights ---- */

static int64_t count_part(const char *preset, zn_part part, int *tensors)
{
    const zn_config *config;
    zn_model *m;
    zn_network n;
    int64_t count = 0;
    const zn_arch *arch = zn_arch_find(preset, &config);
    assert_non_null(arch);
    assert_int_equal(zn_model_new(arch, config, &m), ZN_OK);
    assert_int_equal(zn_model_network(m, part, 1, config->downscale, config->downscale, &n), ZN_OK);
    *tensors = 0;
    for (int i = 0; i < zn_graph_count(n.graph); i++) {
        const zn_node *p = zn_graph_at(n.graph, i);
        if (p->op != &zn_op_parameter || strncmp(p->name, "conds_", 6) == 0)
            continue;
        count += zn_shape_count(p->shape);
        ++*tensors;
    }
    zn_graph_free(n.graph);
    zn_model_free(m);
    return count;
}

static void presets_have_the_originals_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t unet, encoder, latent;
        int unet_tensors, encoder_tensors, latent_tensors;
    } known[] = {
        { "celeba64", 71518723, 19320512, 54109696, 412, 94, 60 },
        { "ffhq128", 103871619, 24673536, 54109696, 502, 106, 60 },
        { "horse128", 103871619, 24673536, 117106176, 502, 106, 120 },
        { "ffhq256", 138341891, 30150400, 54109696, 590, 116, 60 },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int tensors;
        assert_int_equal(count_part(known[i].name, ZN_DECODER, &tensors), known[i].unet);
        assert_int_equal(tensors, known[i].unet_tensors);
        assert_int_equal(count_part(known[i].name, ZN_ENCODER, &tensors), known[i].encoder);
        assert_int_equal(tensors, known[i].encoder_tensors);
        assert_int_equal(count_part(known[i].name, ZN_LATENT_NET, &tensors), known[i].latent);
        assert_int_equal(tensors, known[i].latent_tensors);
    }
}

/* ---- a small one ---- */

static zn_model *small(bool conditional)
{
    const zn_config *preset;
    zn_model *m;
    const zn_arch *arch = zn_arch_find("celeba64", &preset);
    zn_config k = *preset;
    k.diffae = (zn_diffae_form){
        .size = 32,
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
        .classes = 5,
    };
    if (!conditional)
        k.diffae.encoder = (zn_unet){ 0 };
    k.latent = k.diffae.encoder.out;
    k.downscale = conditional ? 4 : 2;
    assert_int_equal(zn_model_new(arch, &k, &m), ZN_OK);
    assert_int_equal(zn_model_random_part(m, ZN_DECODER, 1), ZN_OK);
    for (int part = 0; part < ZN_PARTS && conditional; part++)
        if (part != ZN_DECODER)
            assert_int_equal(zn_model_random_part(m, (zn_part)part, 1), ZN_OK);
    for (int i = 0; i < m->count; i++) /* zeros at the ends of branches would hide what is behind them */
        for (int64_t j = 0; j < zn_shape_count(m->parameters[i].shape); j++)
            m->parameters[i].data[j] += 0.01f * (float)((i * 7 + j * 3) % 11 - 5);
    return m;
}

/* The model through a file; names: what stands before the copies. */
static zn_status through_file(const zn_model *m, const char *folder, zn_model **out)
{
    char path[512];
    size_t size;
    uint8_t *bytes = model_bytes(m, &size);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
    zn_free(bytes);
    const zn_status status = zn_model_open(path, out);
    remove(path);
    return status;
}

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/zenith-diffae.XXXXXX");
    return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state)
{
    (void)state;
    return remove(folder);
}

static void files_are_recognised(void **state)
{
    (void)state;
    zn_model *m = small(true), *back;
    assert_int_equal(through_file(m, folder, &back), ZN_OK);
    assert_string_equal(back->info.architecture, "diffae-custom");
    assert_true(back->info.diffuses && back->info.has_latent_net && back->info.has_classifier);
    assert_false(back->info.has_encoder || back->info.has_decoder); /* no codec */
    assert_int_equal(back->info.image_size, 32);
    assert_int_equal(back->count, m->count);
    for (int i = 0; i < m->count; i++) {
        const zn_model_parameter *p = zn_model_parameter_find(back, m->parameters[i].name);
        assert_non_null(p);
        assert_memory_equal(p->data, m->parameters[i].data, sizeof(float) * (size_t)zn_shape_count(p->shape));
    }
    zn_model_free(back);
    zn_model_free(m);
}

/* A file with some of a model's parts alone. */
static zn_status part_of_file(const zn_model *m, const char *begins, const char *path)
{
    zn_model some = *m;
    zn_model_parameter list[64];
    some.parameters = list;
    some.count = 0;
    for (int i = 0; i < m->count; i++)
        if (strncmp(m->parameters[i].name, begins, strlen(begins)) == 0 ||
            strncmp(m->parameters[i].name, "conds_", 6) == 0)
            list[some.count++] = m->parameters[i];
    size_t size;
    uint8_t *bytes = model_bytes(&some, &size);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
    zn_free(bytes);
    return ZN_OK;
}

static void classifiers_come_by_themselves(void **state)
{
    (void)state;
    char path[512];
    zn_model *m = small(true), *bare, *alone;
    zn_diffae *d;
    snprintf(path, sizeof path, "%s/classifier.safetensors", folder);
    assert_int_equal(part_of_file(m, "classifier.", path), ZN_OK);
    for (int i = 0; i < m->count; i++) /* the autoencoder without what was added to it */
        if (strncmp(m->parameters[i].name, "latent_net.", 11) == 0) {
            for (int k = i; k < m->count; k++)
                zn_free(m->parameters[k].data);
            m->count = i;
        }
    assert_int_equal(through_file(m, folder, &bare), ZN_OK);
    assert_false(bare->info.has_classifier || bare->info.has_latent_net);
    assert_int_equal(zn_model_extend(bare, path), ZN_OK);
    assert_true(bare->info.has_classifier);
    assert_int_equal(zn_model_extend(bare, path), ZN_EFORMAT); /* nothing new */
    assert_int_equal(zn_model_open(path, &alone), ZN_OK);
    assert_int_equal(zn_diffae_new(alone, NULL, &d), ZN_EUNSUPPORTED);
    bare->config.diffae.encoder.out = 17;
    bare->has[ZN_CLASSIFIER] = false;
    assert_int_equal(zn_model_extend(bare, path), ZN_EFORMAT);
    assert_non_null(strstr(zn_error_text(), "16 numbers"));
    remove(path);
    zn_model_free(alone);
    zn_model_free(bare);
    zn_model_free(m);
}

static void plain_diffusion_models_are_told_apart(void **state)
{
    (void)state;
    zn_model *m = small(false), *back;
    zn_diffae *d;
    assert_int_equal(through_file(m, folder, &back), ZN_OK);
    assert_string_equal(back->info.architecture, "ddim-custom");
    assert_int_equal(zn_diffae_new(back, NULL, &d), ZN_EUNSUPPORTED);
    zn_model_free(back);
    zn_model_free(m);
}

static void codecs_are_told_apart(void **state)
{
    (void)state;
    zn_model *m;
    zn_diffae *d;
    assert_int_equal(zn_model_random("taesd", 1, &m), ZN_OK);
    assert_int_equal(zn_diffae_new(m, NULL, &d), ZN_EUNSUPPORTED);
    assert_non_null(strstr(zn_error_text(), "taesd"));
    zn_model_free(m);
}

static zn_image *picture_of(int side)
{
    zn_image *p;
    assert_int_equal(zn_image_new(side, side, 8, &p), ZN_OK);
    for (int i = 0; i < side * side * 3; i++)
        ((uint8_t *)p->pixels)[i] = (uint8_t)(i * 37 % 251);
    return p;
}

/* Everything once, with so many threads; the picture at the end. */
static zn_image *round_trip(const zn_model *m, int threads)
{
    zn_diffae *d;
    zn_image *photo = picture_of(50), *picture, *both[2] = { NULL };
    assert_int_equal(zn_diffae_new(m, &(zn_diffae_options){ .threads = threads }, &d), ZN_OK);
    const int width = zn_diffae_width(d);
    const size_t size = zn_diffae_noise_size(d, 1);
    float *cond = zn_alloc(sizeof(float) * 3 * (size_t)width), *noise = zn_alloc(sizeof(float) * 3 * size);
    assert_int_equal(zn_diffae_fit(d, photo, &picture), ZN_OK);
    assert_int_equal(picture->width, 32);
    assert_int_equal(zn_diffae_encode(d, picture, cond), ZN_OK);
    assert_int_equal(zn_diffae_invert(d, picture, cond, 5, noise), ZN_OK);
    assert_int_equal(zn_diffae_imagine(d, 1, 7, 5, cond + width), ZN_OK);
    zn_diffae_noise(d, 1, 8, noise + size);
    assert_int_equal(zn_diffae_move(d, cond, "Bald", 0.3, cond), ZN_OK); /* row 4 of 5 */
    zn_diffae_between(d, cond, noise, cond + width, noise + size, 0.5, cond + 2 * width, noise + 2 * size);
    assert_int_equal(zn_diffae_render(d, 2, cond + width, noise + size, 5, both), ZN_OK);
    zn_image_free(both[0]);
    zn_image_free(photo);
    zn_image_free(picture);
    zn_free(cond);
    zn_free(noise);
    zn_diffae_free(d);
    return both[1];
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    zn_model *m = small(true);
    zn_image *one = round_trip(m, 1), *three = round_trip(m, 3);
    assert_memory_equal(one->pixels, three->pixels, 32 * 32 * 3);
    zn_image_free(one);
    zn_image_free(three);
    zn_model_free(m);
}

/* Several pictures at once are those one by one. */
static void pictures_do_not_matter_to_each_other(void **state)
{
    (void)state;
    zn_model *m = small(true);
    zn_diffae *d;
    zn_image *both[2], *single;
    assert_int_equal(zn_diffae_new(m, NULL, &d), ZN_OK);
    const int width = zn_diffae_width(d);
    const size_t size = zn_diffae_noise_size(d, 1);
    float *cond = zn_alloc(sizeof(float) * 2 * (size_t)width), *noise = zn_alloc(sizeof(float) * 2 * size);
    assert_int_equal(zn_diffae_imagine(d, 2, 3, 5, cond), ZN_OK);
    zn_diffae_noise(d, 2, 4, noise);
    assert_int_equal(zn_diffae_render(d, 2, cond, noise, 5, both), ZN_OK);
    assert_int_equal(zn_diffae_render(d, 1, cond + width, noise + size, 5, &single), ZN_OK);
    assert_memory_equal(single->pixels, both[1]->pixels, 32 * 32 * 3);
    zn_image_free(single);
    zn_image_free(both[0]);
    zn_image_free(both[1]);
    zn_free(cond);
    zn_free(noise);
    zn_diffae_free(d);
    zn_model_free(m);
}

static int stop(void *user, double fraction)
{
    ++*(int *)user;
    return fraction > 0.5;
}

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    zn_model *m = small(true);
    zn_diffae *d;
    zn_image *wrong = picture_of(40), *out = NULL;
    int calls = 0;
    assert_int_equal(zn_diffae_new(m, &(zn_diffae_options){ .progress = stop, .user = &calls }, &d), ZN_OK);
    float *cond = zn_calloc((size_t)zn_diffae_width(d), sizeof *cond),
          *noise = zn_calloc(zn_diffae_noise_size(d, 1), 4);
    assert_int_equal(zn_diffae_encode(d, wrong, cond), ZN_ESHAPE);
    assert_non_null(strstr(zn_error_text(), "40x40"));
    assert_int_equal(zn_diffae_render(d, 1, cond, noise, 37, &out), ZN_EINVALID);
    assert_non_null(strstr(zn_error_text(), "36 or 38"));
    assert_int_equal(zn_diffae_render(d, 1, cond, noise, 1, &out), ZN_EINVALID);
    assert_int_equal(zn_diffae_render(d, 0, cond, noise, 10, &out), ZN_EINVALID);
    assert_int_equal(zn_diffae_move(d, cond, "Smiling", 1, cond), ZN_ENOTFOUND); /* only five classes */
    assert_int_equal(zn_diffae_move(d, cond, "7", 1, cond), ZN_ENOTFOUND);
    assert_int_equal(zn_diffae_move(d, cond, "4", 1, cond), ZN_OK);
    assert_int_equal(zn_diffae_render(d, 1, cond, noise, 10, &out), ZN_ECANCELLED);
    assert_int_equal(calls, 6);
    assert_null(out);
    zn_free(cond);
    zn_free(noise);
    zn_image_free(wrong);
    zn_diffae_free(d);
    zn_model_free(m);
}

/* ---- scaling ---- */

/* Values of Pillow 13's resize with BILINEAR. */
static void scaling_is_pillows(void **state)
{
    (void)state;
    static const uint8_t two[] = { 98,  103, 140, 148, 119, 111, 126, 103, 134,
                                   135, 125, 105, 122, 154, 114, 132, 125, 130 },
                         larger[] = { 0,   37,  74,  83,  120, 157, 176, 66,  103, 164, 54,  91,  110, 147, 121, 193,
                                      230, 16,  30,  67,  104, 113, 150, 187, 122, 96,  133, 110, 84,  121, 140, 141,
                                      151, 223, 117, 46,  68,  105, 142, 151, 134, 171, 97,  104, 141, 85,  122, 129,
                                      160, 152, 135, 189, 47,  84,  106, 143, 180, 189, 38,  75,  135, 68,  105, 123,
                                      160, 93,  153, 190, 39,  48,  85,  122, 144, 181, 218, 93,  76,  113, 99,  106,
                                      143, 161, 124, 131, 191, 94,  77,  86,  123, 160, 182, 219, 148, 77,  114, 124,
                                      107, 144, 118, 154, 132, 106, 148, 78,  115, 124, 161, 198, 212, 249, 35,  107,
                                      144, 118, 137, 174, 64,  125, 162, 52,  71,  108, 145, 154, 191, 228 };
    zn_image *p = picture_of(5), *out;
    assert_int_equal(zn_image_resample(p, 2, 3, &out), ZN_OK);
    assert_memory_equal(out->pixels, two, sizeof two);
    zn_image_free(out);
    assert_int_equal(zn_image_resample(p, 6, 7, &out), ZN_OK);
    assert_memory_equal(out->pixels, larger, sizeof larger);
    zn_image_free(out);
    assert_int_equal(zn_image_fit(p, 5, &out), ZN_OK);
    assert_memory_equal(out->pixels, p->pixels, 75);
    zn_image_free(out);
    zn_image_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_the_originals_sizes),
        cmocka_unit_test(files_are_recognised),
        cmocka_unit_test(classifiers_come_by_themselves),
        cmocka_unit_test(plain_diffusion_models_are_told_apart),
        cmocka_unit_test(codecs_are_told_apart),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test(pictures_do_not_matter_to_each_other),
        cmocka_unit_test(what_cannot_be_is_said),
        cmocka_unit_test(scaling_is_pillows),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
