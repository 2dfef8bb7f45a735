/* Diffusion autoencoders as models: sizes of the presets, and files. */
#include "../io/weights_make.h"
#include "base/alloc.h"
#include "diffae_net.h"
#include "model_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
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
        { "diffae-compact", 8075203, 2135552, 1495104, 292, 68, 36 }, /* ours: small enough to come with the program */
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

/* ---- files ---- */

/* The model through a file; names: what stands before the copies. */
static zn_status through_file(const zn_model *m, const char *folder, zn_model **out)
{
    char path[512];
    size_t size;
    uint8_t *content = model_bytes(m, &size);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(content, 1, size, f), size);
    fclose(f);
    zn_free(content);
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
    zn_model *m = small_diffae(true), *back;
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

/* A checkpoint as Lightning writes it: every parameter twice, as trained and averaged, statistics beside the two; here
 * the trained copy is another. */
static zn_model *doubled(const zn_model *m, zn_arena *arena)
{
    zn_model *both = zn_arena_alloc(arena, sizeof *both);
    *both = *m;
    both->parameters = zn_arena_alloc(arena, sizeof *both->parameters * (size_t)(2 * m->count));
    both->count = 0;
    for (int i = 0; i < m->count; i++) {
        const zn_model_parameter *p = &m->parameters[i];
        const bool outside = p->role == ZN_ROLE_CONSTANT || p->part == ZN_CLASSIFIER;
        const size_t count = (size_t)zn_shape_count(p->shape);
        for (int copy = 0; copy < (outside ? 1 : 2); copy++) {
            zn_model_parameter *to = &both->parameters[both->count++];
            *to = *p;
            to->name = zn_arena_format(arena, "state_dict.%s%s",
                                       outside ? ""
                                       : copy  ? "ema_model."
                                               : "model.",
                                       p->name);
            to->data = zn_arena_alloc(arena, sizeof(float) * (count + 1));
            for (size_t k = 0; k < count; k++)
                to->data[k] = p->data[k] + (outside || copy ? 0 : 1);
        }
    }
    return both;
}

static void averaged_weights_of_a_checkpoint_are_used(void **state)
{
    (void)state;
    zn_arena arena = { 0 };
    zn_model *m = small_diffae(true), *back;
    assert_int_equal(through_file(doubled(m, &arena), folder, &back), ZN_OK);
    assert_true(back->info.diffuses && back->info.has_latent_net && back->info.has_classifier);
    assert_int_equal(back->count, m->count);
    for (int i = 0; i < m->count; i++) {
        const zn_model_parameter *p = zn_model_parameter_find(back, m->parameters[i].name);
        assert_non_null(p);
        assert_memory_equal(p->data, m->parameters[i].data, sizeof(float) * (size_t)zn_shape_count(p->shape));
    }
    zn_model_free(back);
    zn_model_free(m);
    zn_arena_free(&arena);
}

/* Without one of the averaged weights, the trained ones are not taken for them. */
static void incomplete_averages_are_refused(void **state)
{
    (void)state;
    zn_arena arena = { 0 };
    zn_model *m = small_diffae(true), *back;
    zn_model *both = doubled(m, &arena);
    int lost = 0;
    while (lost < both->count &&
           strcmp(both->parameters[lost].name, "state_dict.ema_model.input_blocks.1.0.in_layers.2.weight"))
        lost++;
    assert_true(lost < both->count);
    both->parameters[lost] = both->parameters[--both->count];
    assert_int_equal(through_file(both, folder, &back), ZN_EFORMAT);
    assert_non_null(strstr(zn_error_text(), "averaged weights (state_dict.ema_model.*)"));
    zn_model_free(m);
    zn_arena_free(&arena);
}

/* ---- the original's own files ---- */

/* The tensors of a file as a checkpoint of Lightning: a zip archive with a pickle that has a step, the tensors in
 * `state_dict` and something else that nobody needs. */
static bytes lightning(const zn_weights *w)
{
    const int count = (int)zn_weights_count(w);
    const size_t skip = strlen("state_dict.");
    bytes pickle = { 0 };
    zip_item *items = calloc((size_t)count + 1, sizeof *items);
    char(*keys)[2][32] = calloc((size_t)count, sizeof *keys);
    bytes_put(&pickle, "\x80\x02}", 3);
    pickle_text(&pickle, "global_step");
    pickle_int(&pickle, 1563562);
    bytes_put(&pickle, "s", 1);
    pickle_text(&pickle, "state_dict");
    bytes_put(&pickle, "}(", 2);
    for (int i = 0; i < count; i++) {
        const zn_weight *t = zn_weights_at(w, i);
        snprintf(keys[i][0], sizeof keys[i][0], "%d", i);
        snprintf(keys[i][1], sizeof keys[i][1], "last/data/%d", i);
        tensor_call call = { .key = keys[i][0], .elements = (int64_t)(t->bytes / sizeof(float)), .rank = t->rank };
        for (int k = t->rank - 1; k >= 0; k--) {
            call.shape[k] = t->shape[k];
            call.stride[k] = k == t->rank - 1 ? 1 : call.stride[k + 1] * t->shape[k + 1];
        }
        assert_int_equal(t->dtype, ZN_F32);
        pickle_text(&pickle, t->name + skip);
        pickle_tensor(&pickle, &call);
        items[i + 1] = (zip_item){ keys[i][1], .data = t->data, .size = t->bytes };
    }
    bytes_put(&pickle, "us", 2);
    pickle_text(&pickle, "native_amp_scaling_state");
    bytes_put(&pickle, "Ns.", 3);
    items[0] = (zip_item){ "last/data.pkl", .data = pickle.data, .size = pickle.size };
    const bytes zip = make_zip(items, count + 1, ZIP64_NEVER);
    bytes_free(&pickle);
    free(items);
    free(keys);
    return zip;
}

static void write_bytes(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

/* last.ckpt as Lightning writes it, of a whole model and of a plain one: the averaged weights are used. */
static void checkpoints_of_lightning_are_read(void **state)
{
    (void)state;
    for (int conditional = 0; conditional < 2; conditional++) {
        zn_arena arena = { 0 };
        zn_model *m = small_diffae(conditional), *back;
        zn_weights *w;
        size_t size;
        char path[512];
        uint8_t *file = model_bytes(doubled(m, &arena), &size);
        assert_int_equal(zn_weights_open_memory(file, size, "twice", &w), ZN_OK);
        bytes zip = lightning(w);
        snprintf(path, sizeof path, "%s/last.ckpt", folder);
        write_bytes(path, zip.data, zip.size);
        assert_int_equal(zn_model_open(path, &back), ZN_OK);
        assert_string_equal(back->info.architecture, conditional ? "diffae-custom" : "ddim-custom");
        assert_int_equal(back->count, m->count);
        for (int i = 0; i < m->count; i++) {
            const zn_model_parameter *p = zn_model_parameter_find(back, m->parameters[i].name);
            assert_non_null(p);
            assert_memory_equal(p->data, m->parameters[i].data, sizeof(float) * (size_t)zn_shape_count(p->shape));
        }
        remove(path);
        zn_model_free(back);
        zn_model_free(m);
        zn_weights_close(w);
        zn_free(file);
        bytes_free(&zip);
        zn_arena_free(&arena);
    }
}

/* latent.pkl beside last.ckpt, as the original writes it: the statistics become the model's. */
static void statistics_beside_a_checkpoint_are_read(void **state)
{
    (void)state;
    enum { WIDTH = 16, BYTES = WIDTH * sizeof(float) };
    float numbers[2][WIDTH];
    bytes pickle = { 0 };
    char checkpoint[512], conditions[512];
    size_t size;
    for (int i = 0; i < 2 * WIDTH; i++)
        numbers[i / WIDTH][i % WIDTH] = 0.5f * (float)i + 1;
    bytes_put(&pickle, "\x80\x02}", 3);
    for (int i = 0; i < 2; i++) {
        pickle_text(&pickle, i ? "conds_std" : "conds_mean");
        pickle_tensor(
            &pickle,
            &(tensor_call){ .key = i ? "1" : "0", .elements = WIDTH, .rank = 1, .shape = { WIDTH }, .stride = { 1 } });
        bytes_put(&pickle, "s", 1);
    }
    bytes_put(&pickle, ".", 1);
    const zip_item items[] = { { "latent/data.pkl", .data = pickle.data, .size = pickle.size },
                               { "latent/data/0", .data = numbers[0], .size = BYTES },
                               { "latent/data/1", .data = numbers[1], .size = BYTES } };
    bytes zip = make_zip(items, 3, ZIP64_NEVER);
    zn_model *m = small_diffae(true), *back;
    m->has[ZN_LATENT_NET] = m->has[ZN_CLASSIFIER] = false;
    for (int i = 0; i < m->count; i++) /* the autoencoder alone */
        if (m->parameters[i].part > ZN_DECODER) {
            for (int k = i; k < m->count; k++)
                zn_free(m->parameters[k].data);
            m->count = i;
        }
    uint8_t *file = model_bytes(m, &size);
    snprintf(checkpoint, sizeof checkpoint, "%s/last.ckpt", folder); /* told by its content, not by its name */
    write_bytes(checkpoint, file, size);
    for (int way = 0; way < 2; way++) {
        snprintf(conditions, sizeof conditions, "%s/latent.%s", folder, way ? "ckpt" : "pkl");
        write_bytes(conditions, zip.data, zip.size);
        if (zn_model_open(folder, &back) != ZN_OK)
            fail_msg("%s", zn_error_text());
        assert_memory_equal(zn_model_parameter_find(back, "conds_mean")->data, numbers[0], BYTES);
        assert_memory_equal(zn_model_parameter_find(back, "conds_std")->data, numbers[1], BYTES);
        zn_model_free(back);
        remove(conditions);
    }
    remove(checkpoint);
    bytes_free(&pickle);
    bytes_free(&zip);
    zn_free(file);
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
    uint8_t *content = model_bytes(&some, &size);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(content, 1, size, f), size);
    fclose(f);
    zn_free(content);
    return ZN_OK;
}

static void classifiers_come_by_themselves(void **state)
{
    (void)state;
    char path[512];
    zn_model *m = small_diffae(true), *bare, *alone;
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
    bare->has[ZN_CLASSIFIER] = false;
    char last[512];
    snprintf(last, sizeof last, "%s/last.ckpt", folder); /* the original's folder, told by its content */
    assert_int_equal(rename(path, last), 0);
    assert_int_equal(zn_model_extend(bare, folder), ZN_OK);
    assert_true(bare->info.has_classifier);
    assert_int_equal(rename(last, path), 0);
    assert_int_equal(zn_model_open(path, &alone), ZN_OK);
    assert_int_equal(zn_diffae_new(alone, NULL, &d), ZN_EUNSUPPORTED);
    bare->config.latent = 17;
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
    zn_model *m = small_diffae(false), *back;
    zn_diffae *d;
    assert_int_equal(through_file(m, folder, &back), ZN_OK);
    assert_string_equal(back->info.architecture, "ddim-custom");
    assert_int_equal(zn_diffae_new(back, NULL, &d), ZN_OK);
    assert_int_equal(zn_diffae_width(d), 0);
    zn_diffae_free(d);
    zn_model_free(back);
    zn_model_free(m);
}

/* Without conditions, and with noise added on the way: from the same seed the same image, from another another. */
static void plain_diffusion_models_draw(void **state)
{
    (void)state;
    static const zn_diffae_sampling ways[] = { { .steps = 2 }, { .steps = 3, .ddpm = 1 }, { .steps = 4, .eta = 0.5 } };
    zn_model *m = small_diffae(false);
    zn_diffae *d;
    assert_int_equal(zn_diffae_new(m, NULL, &d), ZN_OK);
    const size_t samples = zn_diffae_noise_size(d, 1);
    float *noise = malloc(samples * sizeof *noise);
    zn_diffae_noise(d, 1, 5, noise);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        zn_diffae_sampling other = ways[i];
        zn_image *a, *b, *c;
        other.seed = 1;
        assert_int_equal(zn_diffae_render_by(d, &ways[i], 1, NULL, noise, &a), ZN_OK);
        assert_int_equal(zn_diffae_render_by(d, &ways[i], 1, NULL, noise, &b), ZN_OK);
        assert_int_equal(zn_diffae_render_by(d, &other, 1, NULL, noise, &c), ZN_OK);
        assert_memory_equal(a->pixels, b->pixels, samples);
        assert_true((memcmp(a->pixels, c->pixels, samples) == 0) == (i == 0));
        zn_image_free(a);
        zn_image_free(b);
        zn_image_free(c);
    }
    zn_image *none;
    assert_int_equal(zn_diffae_render_by(d, &(zn_diffae_sampling){ .steps = 2, .eta = 2 }, 1, NULL, noise, &none),
                     ZN_EINVALID);
    assert_null(none);
    free(noise);
    zn_diffae_free(d);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_have_the_originals_sizes),
        cmocka_unit_test(files_are_recognised),
        cmocka_unit_test(averaged_weights_of_a_checkpoint_are_used),
        cmocka_unit_test(incomplete_averages_are_refused),
        cmocka_unit_test(classifiers_come_by_themselves),
        cmocka_unit_test(plain_diffusion_models_are_told_apart),
        cmocka_unit_test(plain_diffusion_models_draw),
        cmocka_unit_test(checkpoints_of_lightning_are_read),
        cmocka_unit_test(statistics_beside_a_checkpoint_are_read),
        cmocka_unit_test(codecs_are_told_apart),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
