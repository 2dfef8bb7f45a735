/* Video autoencoders in files: whichever names these have, the same network is found in them, with the same numbers. */
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/file.h"
#include "model_file.h"
#include "video_models.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>
#include <zenith/codec.h>
#include <zenith/latent.h>
#include <zenith/video.h>

/* ---- small models and their files ---- */

typedef struct way {
    zn_wan_naming naming;
    bool flat;
    const char *without; /* parameters that begin so are left out */
} way;

/* As a file keeps it: under other names, with the newest frame's taps alone, or a part of it. */
static void write_file(const char *path, zn_model *m, const way *w)
{
    zn_model_parameter *own = m->parameters, *stored = zn_calloc((size_t)m->count, sizeof *stored);
    const int count = m->count;
    char *names = zn_calloc((size_t)count, 256);
    m->count = 0;
    for (int i = 0; i < count; i++) {
        zn_model_parameter p = own[i];
        if ((w->without && strncmp(p.name, w->without, strlen(w->without)) == 0) ||
            (w->flat && strstr(p.name, "time_conv")))
            continue;
        if (w->flat && p.shape.rank == 5 && p.shape.dim[0] == 3) {
            p.data += 2 * zn_shape_count(p.shape) / 3;
            p.shape = ZN_SHAPE(p.shape.dim[1], p.shape.dim[2], p.shape.dim[3], p.shape.dim[4]);
            p.layout = ZN_LAYOUT_CONV;
        }
        zn_wan_file_name(&w->naming, zn_form_of(&m->config), p.name, names + 256 * i, 256);
        p.name = names + 256 * i;
        stored[m->count++] = p;
    }
    size_t size;
    m->parameters = stored;
    uint8_t *bytes = model_bytes(m, &size);
    assert_int_equal(zn_file_write(path, bytes, size), ZN_OK);
    zn_free(bytes);
    zn_free(names);
    zn_free(stored);
    m->parameters = own;
    m->count = count;
}

/* The latent of a picture, and the picture of that. */
static void round_trip(const zn_model *m, zn_latent **z, zn_image **back)
{
    zn_codec *c;
    zn_image *im = small_picture(21, 14, 0);
    assert_int_equal(zn_codec_new(m, &(zn_options){ .threads = 1 }, &c), ZN_OK);
    assert_int_equal(zn_encode(c, im, z), ZN_OK);
    assert_int_equal(zn_decode(c, *z, back), ZN_OK);
    zn_image_free(im);
    zn_codec_free(c);
}

static void check_same(const zn_model *a, const zn_model *b)
{
    zn_latent *z[2];
    zn_image *im[2];
    round_trip(a, &z[0], &im[0]);
    round_trip(b, &z[1], &im[1]);
    assert_int_equal(z[0]->width, z[1]->width);
    assert_memory_equal(z[0]->data, z[1]->data, sizeof(float) * (size_t)(z[0]->width * z[0]->height * z[0]->channels));
    assert_memory_equal(im[0]->pixels, im[1]->pixels, (size_t)(3 * im[0]->width * im[0]->height));
    for (int i = 0; i < 2; i++) {
        zn_latent_free(z[i]);
        zn_image_free(im[i]);
    }
}

static char folder[] = "/tmp/zenith-video.XXXXXX", path[64];

static void wan_is_found_under_all_its_names(void **state)
{
    (void)state;
    static const way ways[] = {
        { .naming = { .prefix = "" } },
        { .naming = { .prefix = "first_stage_model." } },
        { .naming = { .diffusers = true, .prefix = "" } },
        { .naming = { .diffusers = true, .prefix = "vae." } },
        { .naming = { .prefix = "" }, .flat = true },
        { .naming = { .diffusers = true, .prefix = "" }, .flat = true },
    };
    for (int which = 0; which < 2; which++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            zn_model *made = small_wan(which), *found;
            write_file(path, made, &ways[i]);
            if (zn_model_open(path, &found) != ZN_OK)
                fail_msg("%zu: %s", i, zn_error_text());
            const zn_model_info *info = zn_model_info_of(found);
            assert_string_equal(info->architecture, which ? "wan22-vae-custom" : "wan21-vae-custom");
            assert_int_equal(info->latent_channels, 3);
            assert_int_equal(info->downscale, which ? 16 : 8);
            assert_int_equal(info->clip_frames, ways[i].flat ? 0 : 4);
            assert_true(info->has_encoder && info->has_decoder);
            if (!ways[i].flat)
                assert_int_equal(info->parameters, made->info.parameters);
            check_same(made, found);
            zn_model_free(made);
            zn_model_free(found);
        }
}

static void parts_may_be_alone(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++)
        for (int part = 0; part < 2; part++) {
            const way w = { .naming = { .diffusers = true }, .without = part ? "encoder." : "decoder." };
            zn_model *made = small_wan(which), *found;
            write_file(path, made, &w);
            assert_int_equal(zn_model_open(path, &found), ZN_OK);
            assert_int_equal(found->info.has_encoder, !part);
            assert_int_equal(found->info.has_decoder, part);
            const zn_wan_form *a = zn_form_of(&found->config), *b = zn_form_of(&made->config);
            assert_int_equal(a->levels, 4);
            assert_int_equal(a->blocks, b->blocks);
            zn_model_free(made);
            zn_model_free(found);
        }
}

static void what_lacks_a_layer_is_refused(void **state)
{
    (void)state;
    static const char *const layers[] = { "encoder.downsamples.0", "decoder.upsamples.4", "conv2.weight" };
    static const zn_status wanted[] = { ZN_EFORMAT, ZN_ENOTFOUND, ZN_ENOTFOUND };
    for (int i = 0; i < 3; i++) {
        const way w = { .without = layers[i] };
        zn_model *made = small_wan(0), *found;
        write_file(path, made, &w);
        assert_int_equal(zn_model_open(path, &found), wanted[i]);
        assert_non_null(strstr(zn_error_text(), path));
        zn_model_free(made);
    }
}

/* ---- TAEHV ---- */

static void taehv_is_found(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        way w = { .without = i < 2 ? NULL : i == 2 ? "encoder" : "decoder" };
        zn_model *made = small_taehv(1 + (i & 1)), *found;
        snprintf(w.naming.prefix, sizeof w.naming.prefix, "%s", i ? "tae." : "");
        write_file(path, made, &w);
        if (zn_model_open(path, &found) != ZN_OK)
            fail_msg("%s", zn_error_text());
        assert_string_equal(found->info.architecture, "taehv-custom");
        assert_int_equal(found->info.downscale, i & 1 ? 16 : 8);
        assert_int_equal(found->info.clip_frames, 4);
        assert_int_equal(found->info.has_encoder, i != 2);
        assert_int_equal(found->info.has_decoder, i != 3);
        if (i < 2)
            check_same(made, found);
        zn_model_free(made);
        zn_model_free(found);
    }
}

static zn_image *decoded(const zn_model *m, const zn_latent *z)
{
    zn_codec *c;
    zn_image *image;
    assert_int_equal(zn_codec_new(m, &(zn_options){ .threads = 1 }, &c), ZN_OK);
    assert_int_equal(zn_decode(c, z, &image), ZN_OK);
    zn_codec_free(c);
    return image;
}

/* The same tensors under the name of LightX2V's networks, which know latents before normalisation: what they encode is
 * what the others do once that is made up for, and so it is with what they decode. */
static void lighttae_is_known_by_its_name(void **state)
{
    (void)state;
    char light[96];
    zn_model *made = whole_taehv(), *plain, *found;
    zn_latent *z[2];
    zn_image *back[2];
    write_file(path, made, &(way){ .naming = { .prefix = "" } });
    snprintf(light, sizeof light, "%s/lighttaew2_1.safetensors", folder);
    assert_int_equal(zn_model_open(path, &plain), ZN_OK);
    assert_int_equal(rename(path, light), 0);
    assert_int_equal(zn_model_open(light, &found), ZN_OK);
    assert_string_equal(plain->info.architecture, "taew2_1");
    assert_string_equal(found->info.architecture, "lighttaew2_1");
    assert_string_equal(zn_model_family(&found->info), "wan2.1");
    round_trip(plain, &z[0], &back[0]);
    round_trip(found, &z[1], &back[1]);
    const int64_t count = (int64_t)z[0]->width * z[0]->height * z[0]->channels;
    z[0]->raw = 1;
    assert_int_equal(zn_latent_rescale(z[0], "wan2.1", 0), ZN_OK);
    for (int64_t i = 0; i < count; i++)
        assert_float_equal(z[1]->data[i], z[0]->data[i], 1e-5);
    zn_image *image = decoded(found, z[1]);
    assert_int_equal(zn_latent_rescale(z[1], "wan2.1", 1), ZN_OK);
    z[1]->raw = 0;
    zn_image *raw = decoded(plain, z[1]);
    for (int i = 0; i < 3 * raw->width * raw->height; i++)
        assert_true(abs(((uint8_t *)raw->pixels)[i] - ((uint8_t *)image->pixels)[i]) <= 1);
    for (int i = 0; i < 2; i++) {
        zn_latent_free(z[i]);
        zn_image_free(back[i]);
    }
    zn_image_free(image);
    zn_image_free(raw);
    unlink(light);
    zn_model_free(made);
    zn_model_free(plain);
    zn_model_free(found);
}

/* ---- the published networks: names and shapes alone, in a file whose data are a hole ---- */

/* Adds a tensor to the header of a .safetensors file, whose data begin at *at. */
static size_t describe_tensor(char *header, size_t used, const char *name, const char *type, zn_shape s, size_t each,
                              size_t *at)
{
    used += (size_t)sprintf(header + used, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", used ? "," : "{", name, type);
    for (int d = 0; d < s.rank; d++)
        used += (size_t)sprintf(header + used, "%s%lld", d ? "," : "", (long long)s.dim[d]);
    used += (size_t)sprintf(header + used, "],\"data_offsets\":[%zu,", *at);
    *at += each * (size_t)zn_shape_count(s);
    return used + (size_t)sprintf(header + used, "%zu]}", *at);
}

static FILE *begin_file(const char *header, size_t used)
{
    FILE *f = fopen(path, "wb");
    for (int i = 0; i < 8; i++)
        fputc((int)((used + 1) >> 8 * i & 255), f);
    fwrite(header, 1, used, f);
    fputc('}', f);
    return f;
}

static void write_hole(const zn_arch *own, const zn_config *known, const zn_wan_naming *naming)
{
    zn_graph *g[2];
    char *header = zn_calloc(1, 1 << 17), name[256];
    size_t at = 0, used = describe_tensor(header, 0, "dynamic_feature_projection_heads.0", "F32", ZN_SHAPE(3), 4, &at);
    for (int part = 0; part < 2; part++) {
        g[part] = zn_graph_new();
        zn_node *x = zn_graph_input(g[part], "x", part ? ZN_SHAPE(1, 2, 2, known->latent) : ZN_SHAPE(1, 32, 32, 3));
        (part ? own->decode : own->encode)((zn_scope){ g[part], own->scope[part] }, x, known);
        assert_int_equal(zn_graph_status(g[part]), ZN_OK);
        for (int i = 0; i < zn_graph_count(g[part]); i++) {
            const zn_node *n = zn_graph_at(g[part], i);
            if (n->op != &zn_op_parameter || n->data)
                continue;
            zn_wan_file_name(naming, &(zn_wan_form){ .staged = known->latent == 48, .blocks = 2 }, n->name, name,
                             sizeof name);
            used = describe_tensor(header, used, name, "F8_E4M3", zn_weight_file_shape(n->shape, n->layout), 1, &at);
        }
        zn_graph_free(g[part]);
    }
    fclose(begin_file(header, used));
    assert_int_equal(truncate(path, (off_t)(8 + used + 1 + at)), 0);
    zn_free(header);
}

/* What the tensors of the file are taken for. */
static void recognise_file(zn_config *k, zn_naming naming[ZN_PARTS])
{
    zn_weights *w;
    bool is_it = false;
    assert_int_equal(zn_weights_open(path, &w), ZN_OK);
    for (int a = 0; zn_archs[a] && !is_it; a++)
        assert_int_equal(zn_archs[a]->recognise(w, k, naming, &is_it), ZN_OK);
    assert_true(is_it);
    zn_weights_close(w);
}

static void published_networks_are_known_by_name(void **state)
{
    (void)state;
    static const char *const names[] = { "wan21-vae", "wan22-vae", "taew2_1", "taew2_2", "taew2_2_super" };
    for (int i = 0; i < 7; i++) {
        const char *name = names[i < 5 ? i : i - 5];
        const zn_config *known;
        zn_config k = { 0 };
        zn_naming naming[ZN_PARTS];
        const zn_arch *own = zn_arch_find(name, &known);
        write_hole(own, known, &(zn_wan_naming){ .diffusers = i >= 5 });
        recognise_file(&k, naming);
        assert_string_equal(k.name, name);
        assert_true(naming[0].present && naming[1].present);
        assert_int_equal(k.frames, 4);
        const zn_wan_form *form = zn_form_of(&k);
        if (i < 2)
            assert_true(form->mean[0] != 0 && form->deviation[0] != 1);
    }
}

/* LightVAE: Wan 2.1 with a quarter of the channels; Wan 2.2 with a narrow decoder under diffusers' names. Latents are
 * those of the published networks, and so are their means. */
static void pruned_networks_are_known_by_their_widths(void **state)
{
    (void)state;
    for (int staged = 0; staged < 2; staged++) {
        const zn_config *known;
        const zn_arch *own = zn_arch_find(staged ? "wan22-vae" : "wan21-vae", &known);
        zn_config pruned = *known, k = { 0 };
        zn_naming naming[ZN_PARTS];
        zn_wan_form *form = zn_form_own(&pruned, sizeof *form);
        *form = staged ? zn_wan22 : zn_wan21;
        form->width = staged ? 160 : 24;
        form->back_width = staged ? 64 : 24;
        write_hole(own, &pruned, &(zn_wan_naming){ .diffusers = staged });
        recognise_file(&k, naming);
        const zn_wan_form *found = zn_form_of(&k);
        assert_string_equal(k.name, staged ? "wan22-vae-custom" : "wan21-vae-custom");
        assert_true(naming[0].present && naming[1].present);
        assert_int_equal(found->width, form->width);
        assert_int_equal(found->back_width, form->back_width);
        assert_true(found->mean[0] == form->mean[0] && found->deviation[0] == form->deviation[0]);
    }
}

/* ---- 8 bits ---- */

/* Fills the model with numbers that FP8 has, times a scale, and writes these; names: of the scales. */
static void write_scaled(zn_model *m, const char *names)
{
    const float scale = 0.375f;
    char *header = zn_calloc(1, 1 << 17), name[256];
    uint8_t *data = zn_calloc((size_t)m->info.parameters + 1024, sizeof(float));
    size_t used = 0, at = 0;
    for (int i = 0; i < m->count; i++) {
        zn_model_parameter *p = &m->parameters[i];
        const zn_shape s = zn_weight_file_shape(p->shape, p->layout);
        const int64_t count = zn_shape_count(s);
        const bool small = p->layout == ZN_LAYOUT_CONV || p->shape.rank == 5;
        zn_weight codes = { .name = p->name, .dtype = ZN_F8_E4M3, .rank = s.rank, .data = data + at };
        memcpy(codes.shape, s.dim, sizeof codes.shape);
        if (!small)
            memcpy(data + at, p->data, sizeof(float) * (size_t)count);
        for (int64_t n = 0; n < count && small; n++)
            data[at + (size_t)n] = (uint8_t)(16 + n * 37 % 24 + (n % 3 ? 128 : 0));
        if (small)
            assert_int_equal(zn_weight_import(&codes, p->shape, p->layout, p->data), ZN_OK);
        used = describe_tensor(header, used, p->name, small ? "F8_E4M3" : "F32", s, small ? 1 : sizeof(float), &at);
        if (!small)
            continue;
        for (int64_t n = 0; n < count; n++)
            p->data[n] *= scale;
        snprintf(name, sizeof name, "%.*s.%s", (int)(strlen(p->name) - strlen(".weight")), p->name, names);
        memcpy(data + at, &scale, sizeof scale);
        used = describe_tensor(header, used, name, "F32", ZN_SHAPE(1), sizeof scale, &at);
    }
    FILE *f = begin_file(header, used);
    fwrite(data, 1, at, f);
    fclose(f);
    zn_free(data);
    zn_free(header);
}

static void scales_of_8_bits_are_applied(void **state)
{
    (void)state;
    static const char *const names[] = { "weight_scale", "scale_weight" };
    for (int i = 0; i < 2; i++) {
        zn_model *made = i ? small_taehv(1) : small_wan(0), *found;
        write_scaled(made, names[i]);
        if (zn_model_open(path, &found) != ZN_OK)
            fail_msg("%s", zn_error_text());
        check_same(made, found);
        zn_model_free(made);
        zn_model_free(found);
    }
}

/* What zn_weights_save writes in 8 bits is read as it is written in 32 bits again. */
static void files_of_8_bits(void **state)
{
    (void)state;
    zn_model *made = wider_wan(1, 32), *narrow, *wide;
    zn_weights *w;
    write_file(path, made, &(way){ .naming = { .diffusers = true, .prefix = "" } });
    for (int i = 0; i < 2; i++) {
        assert_int_equal(zn_weights_open(path, &w), ZN_OK);
        assert_int_equal(zn_weights_save(w, path, 1, i ? ZN_F32 : ZN_I8), ZN_OK);
        zn_weights_close(w);
        if (zn_model_open(path, i ? &wide : &narrow) != ZN_OK)
            fail_msg("%s", zn_error_text());
    }
    check_same(narrow, wide);
    double error = 0, sum = 0;
    for (int i = 0; i < made->count; i++)
        for (int64_t n = 0; n < zn_shape_count(made->parameters[i].shape); n++) {
            const double x = made->parameters[i].data[n], d = (double)narrow->parameters[i].data[n] - x;
            error += d * d;
            sum += x * x;
        }
    assert_true(error > 0 && error < 1e-4 * sum);
    zn_model_free(made);
    zn_model_free(narrow);
    zn_model_free(wide);
}

static zn_status count_image(void *user, const zn_image *picture)
{
    *(int *)user += picture->width > 0;
    return ZN_OK;
}

/* Encodes a clip, and decodes it. Returns the bytes of packed weights. */
static size_t encode_clip(const zn_model *m, zn_precision precision, zn_latent **z)
{
    zn_context *c;
    zn_video *v;
    *z = NULL;
    assert_int_equal(zn_context_new(1, &c), ZN_OK);
    assert_int_equal(zn_video_new(m, &(zn_options){ .context = c, .precision = precision }, &v), ZN_OK);
    for (int i = 0; i < 5; i++) {
        zn_image *im = small_picture(32, 16, i);
        if (zn_video_encode(v, im, z) != ZN_OK)
            fail_msg("%s", zn_error_text());
        zn_image_free(im);
    }
    assert_int_equal(zn_video_encode_end(v, z), ZN_OK);
    int images = 0;
    if (zn_video_decode(v, *z, 8, count_image, &images) != ZN_OK)
        fail_msg("%s", zn_error_text());
    assert_int_equal(images, 5);
    const size_t packed = zn_context_packed_bytes(c);
    zn_video_free(v);
    zn_context_free(c);
    return packed;
}

/* Nothing is left of the large weights, but results are the same, of images and of clips. Weights of 8 bits stay so in
 * memory where a kernel packs them as they are: in bf16, and in f32 those of attention, unless the kernel splits
 * numbers into three of bf16. */
static void released_weights_are_read_again(void **state)
{
    (void)state;
    const bool splits = zn_cpu_flags() & ZN_CPU_BF16, narrow = zn_cpu_flags() & (ZN_CPU_BF16 | ZN_CPU_AMX_BF16);
    for (int i = 0; i < 6; i++) {
        const bool coded = i < 4;
        const zn_precision precision = i < 2 ? ZN_PRECISION_BF16 : ZN_PRECISION_F32;
        zn_model *made = wider_wan(i % 2, 32), *found;
        if (coded)
            write_scaled(made, "weight_scale");
        else
            write_file(path, made, &(way){ .naming = { .diffusers = true, .prefix = "" } });
        assert_int_equal(zn_model_open(path, &found), ZN_OK);
        const size_t before = zn_model_bytes(found);
        assert_int_equal(zn_model_release(found), ZN_OK);
        const size_t after = zn_model_bytes(found);
        assert_true(after < before / 3);
        if (i % 2) { /* never in memory at all */
            zn_model_free(found);
            assert_int_equal(zn_model_find_released(path, &found), ZN_OK);
            assert_int_equal(zn_model_bytes(found), after);
        }
        check_same(made, found);
        zn_latent *z[2];
        const size_t plain = encode_clip(made, precision, &z[0]), kept = encode_clip(found, precision, &z[1]);
        if (!coded)
            assert_int_equal(kept, plain);
        else if (precision == ZN_PRECISION_F32 ? !splits : narrow)
            assert_true(kept < plain);
        else
            assert_true(kept <= plain);
        assert_int_equal(z[1]->frames, 2);
        assert_memory_equal(z[0]->data, z[1]->data,
                            sizeof(float) * (size_t)(2 * z[0]->width * z[0]->height * z[0]->channels));
        for (int k = 0; k < 2; k++)
            zn_latent_free(z[k]);
        zn_model_free(made);
        zn_model_free(found);
    }
}

/* Networks of the published size have layers that small ones do not have: released weights too are enough for them. */
static void published_tiny_networks_run_when_released(void **state)
{
    (void)state;
    static const char *const names[] = { "taew2_1", "taew2_2", "taew2_2_super" };
    for (int i = 0; i < 3; i++) {
        const zn_config *known;
        const zn_arch *own = zn_arch_find(names[i], &known);
        zn_model *found;
        zn_latent *z;
        write_hole(own, known, &(zn_wan_naming){ 0 });
        assert_int_equal(zn_model_open(path, &found), ZN_OK);
        assert_int_equal(zn_model_release(found), ZN_OK);
        encode_clip(found, ZN_PRECISION_F32, &z);
        zn_latent_free(z);
        zn_model_free(found);
    }
}

static size_t peak_bytes(void)
{
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    return (size_t)use.ru_maxrss << 10;
}

/* 2.7 GiB in 32 bits: opening reads none of the large ones, and finds what reading them finds. */
static void large_weights_are_not_read_when_opened(void **state)
{
    (void)state;
    const zn_config *known;
    const zn_arch *own = zn_arch_find("wan22-vae", &known);
    zn_model *found;
    write_hole(own, known, &(zn_wan_naming){ 0 });
    const size_t before = peak_bytes();
    assert_int_equal(zn_model_find_released(path, &found), ZN_OK);
    assert_true(peak_bytes() - before < (size_t)64 << 20);
    assert_true(zn_model_bytes(found) < (size_t)16 << 20);
    assert_int_equal(zn_model_info_of(found)->parameters, 704688668);
    assert_true(zn_model_info_of(found)->has_encoder && zn_model_info_of(found)->has_decoder);
    zn_model_free(found);
}

/* ---- failing memory ---- */

static void failing_memory_is_an_error(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++) {
        zn_model *made = which ? small_taehv(2) : small_wan(1), *found;
        write_file(path, made, &(way){ .naming = { .diffusers = !which } });
        zn_model_free(made);
        for (int released = 0; released < 2; released++) {
            zn_status (*const open)(const char *, zn_model **) = released ? zn_model_find_released : zn_model_open;
            const int64_t before = zn_alloc_calls();
            assert_int_equal(open(path, &found), ZN_OK);
            zn_model_free(found);
            const int64_t calls = zn_alloc_calls() - before;
            for (int64_t nth = 1; nth <= calls; nth++) {
                zn_alloc_fail_at(nth);
                const zn_status status = open(path, &found);
                zn_alloc_fail_at(0);
                assert_int_equal(status, ZN_ENOMEM);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wan_is_found_under_all_its_names),
        cmocka_unit_test(parts_may_be_alone),
        cmocka_unit_test(what_lacks_a_layer_is_refused),
        cmocka_unit_test(taehv_is_found),
        cmocka_unit_test(lighttae_is_known_by_its_name),
        cmocka_unit_test(published_networks_are_known_by_name),
        cmocka_unit_test(failing_memory_is_an_error),
        cmocka_unit_test(pruned_networks_are_known_by_their_widths),
        cmocka_unit_test(scales_of_8_bits_are_applied),
        cmocka_unit_test(files_of_8_bits),
        cmocka_unit_test(released_weights_are_read_again),
        cmocka_unit_test(published_tiny_networks_run_when_released),
        cmocka_unit_test(large_weights_are_not_read_when_opened),
    };
    if (!mkdtemp(folder))
        return 1;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    rmdir(folder);
    return failed;
}
