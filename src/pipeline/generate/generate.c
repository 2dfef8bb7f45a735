/* The public promise of generators: the handle, and what it says about itself. */
#include "pipeline/generate/cache.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "models/qwen3/qwen3.h"
#include "pipeline/generate/preview.h"

#include <stdio.h>
#include <string.h>

static zn_status check_transformer(const zn_part_files *f)
{
    zn_zimage_form form;
    zn_zimage_naming naming;
    return zn_zimage_recognise(f->files, f->count, f->config.root, &form, &naming);
}

static zn_status check_text(const zn_part_files *f)
{
    zn_qwen3_form form;
    zn_qwen3_naming naming;
    ZN_TRY(zn_qwen3_recognise(f->files, f->count, f->config.root, &form, &naming));
    return form.layers > 1 ? ZN_OK : ZN_FAIL(ZN_EFORMAT, "a language model of one block has no state before its last");
}

static zn_status check_vae(const zn_part_files *f)
{
    int channels;
    return zn_generator_check_vae(f, &channels);
}

/* Opens a part, and asks whether it is the network that it should be. */
static zn_status check_part(const char *path, zn_generator_part part, char identity[65])
{
    static zn_status (*const check[])(const zn_part_files *) = {
        [ZN_GENERATOR_TRANSFORMER] = check_transformer, [ZN_GENERATOR_TEXT] = check_text, [ZN_GENERATOR_VAE] = check_vae
    };
    zn_part_files files;
    ZN_TRY(zn_part_open(path, part, &files));
    const zn_status status = check[part](&files);
    memcpy(identity, files.identity, sizeof files.identity);
    zn_part_close(&files);
    return status == ZN_OK ? ZN_OK : zn_fail_in_file(status, path);
}

/* Size of the first version: `cache` was its last field. */
static zn_status read_files(const zn_generator_files *given, zn_generator_files *out)
{
    const size_t least = offsetof(zn_generator_files, cache) + sizeof(char *);
    const size_t size = given->size ? given->size : least;
    *out = (zn_generator_files){ 0 };
    if (size < least)
        return ZN_FAIL(ZN_EINVALID, "files of %zu bytes: size is at least %zu, sizeof(zn_generator_files)", size,
                       least);
    memcpy(out, given, size < sizeof *out ? size : sizeof *out);
    out->size = sizeof *out;
    return ZN_OK;
}

static zn_status start(zn_generator *g, const zn_generator_files *given, const zn_options *options)
{
    zn_generator_files files;
    ZN_TRY(read_files(given, &files));
    ZN_TRY(zn_compute_begin(options, &g->compute));
    if (g->compute.device)
        snprintf(g->device, sizeof g->device, "%s", options->device);
    if (!g->compute.options.precision)
        g->compute.options.precision = g->compute.device ? ZN_PRECISION_BF16 : ZN_PRECISION_INT8;
    g->fp8 = g->compute.options.precision == ZN_PRECISION_FP8;
    g->compute.math = g->fp8 ? ZN_PRECISION_BF16 : zn_precision_or_f32(g->compute.options.precision);
    ZN_TRY(zn_generator_paths_find(&files, &g->paths));
    ZN_TRY(zn_generation_defaults_find(g->paths.part[ZN_GENERATOR_TRANSFORMER], &g->defaults, &g->lower_case));
    if (g->fp8)
        ZN_TRY(zn_fp8_layers_open(g->paths.part[ZN_GENERATOR_TRANSFORMER], &g->fp8_layers));
    for (int part = ZN_GENERATOR_TRANSFORMER; part <= ZN_GENERATOR_VAE; part++)
        ZN_TRY(check_part(g->paths.part[part], part, g->identity[part]));
    if (!files.cache)
        zn_cache_folder(g->cache, sizeof g->cache);
    else
        snprintf(g->cache, sizeof g->cache, "%s", files.cache);
    return ZN_OK;
}

zn_status zn_generator_open(const zn_generator_files *files, const zn_options *options, zn_generator **out)
{
    *out = NULL;
    zn_generator *g = zn_calloc(1, sizeof *g);
    if (!g)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a generator");
    pthread_mutex_init(&g->lock, NULL);
    const zn_status status = start(g, files, options);
    if (status != ZN_OK)
        zn_generator_free(g);
    else
        *out = g;
    return status;
}

void zn_generator_free(zn_generator *g)
{
    if (!g)
        return;
    zn_generator_forget_all(g);
    zn_preview_free(g->preview);
    zn_tokenizer_free(g->tokenizer);
    zn_generator_close_loras(g);
    zn_fp8_layers_close(&g->fp8_layers);
    zn_compute_end(&g->compute);
    pthread_mutex_destroy(&g->lock);
    zn_free(g);
}

/* What one graph, one schedule and one estimate of memory are for. */
static bool are_alike(const zn_generation *a, const zn_generation *b)
{
    return a->width == b->width && a->height == b->height && a->steps == b->steps && a->guidance == b->guidance &&
           a->shift == b->shift && !a->image == !b->image && (!a->image || a->strength == b->strength) &&
           a->encoder_tile == b->encoder_tile && a->decoder_tile == b->decoder_tile;
}

static zn_status read_requests(const zn_generator *g, const zn_generation *const *given, int count, zn_generation *out)
{
    for (int i = 0; i < count; i++) {
        ZN_TRY(zn_generation_read(given[i], &g->defaults, &out[i]));
        if (!are_alike(&out[0], &out[i]))
            return ZN_FAIL(ZN_EINVALID,
                           "image %d of a batch has another size, steps, guidance, shift, strength or tiles than the "
                           "first, or only one of them starts from an image",
                           i + 1);
    }
    return ZN_OK;
}

zn_status zn_generate_batch(zn_generator *g, const zn_generation *const *requests, int count, zn_image **out)
{
    zn_generation *all;
    for (int i = 0; i < count; i++)
        out[i] = NULL;
    if (count < 1 || count > ZN_BATCH_MOST)
        return ZN_FAIL(ZN_EINVALID, "a batch of %d images: 1 to %d are possible", count, ZN_BATCH_MOST);
    ZN_TRY(zn_alloc_for("requests", sizeof *all * (size_t)count, (void **)&all));
    zn_status status = read_requests(g, requests, count, all);
    if (status == ZN_OK) {
        pthread_mutex_lock(&g->lock);
        status = zn_generator_run(g, all, count, out);
        pthread_mutex_unlock(&g->lock);
    }
    zn_free(all);
    return status;
}

zn_status zn_generate(zn_generator *g, const zn_generation *request, zn_image **out)
{
    return zn_generate_batch(g, &request, 1, out);
}

/* Fields that a caller of an older version does not have are 0. */
static zn_status read_calibration(const zn_calibration *given, zn_calibration *out)
{
    *out = (zn_calibration){ 0 };
    if (given)
        memcpy(out, given, given->size && given->size < sizeof *out ? given->size : sizeof *out);
    if (!(out->keep >= 0) || out->keep > 1)
        return ZN_FAIL(ZN_EINVALID, "a share of %g layers: it is from 0 to 1", out->keep);
    return ZN_OK;
}

zn_status zn_generator_calibrate(zn_generator *g, const zn_generation *request, const zn_calibration *calibration)
{
    zn_generation r;
    zn_calibration c;
    zn_generation_defaults plain = g->defaults;
    plain.guidance = 0;
    ZN_TRY(zn_generation_read(request, &plain, &r));
    ZN_TRY(read_calibration(calibration, &c));
    if (r.guidance > 0 || r.image)
        return ZN_FAIL(ZN_EINVALID, "calibration takes neither guidance nor an image to start from");
    pthread_mutex_lock(&g->lock);
    zn_generator_forget(g, ZN_GENERATOR_TRANSFORMER);
    g->calibrating = true;
    const zn_status status = zn_generator_measure(g, &r, &c);
    zn_generator_forget(g, ZN_GENERATOR_TRANSFORMER);
    g->calibrating = false;
    pthread_mutex_unlock(&g->lock);
    return status;
}

static void copy_report(const zn_generation_report *r, zn_generation_report *out)
{
    const size_t size = out->size ? out->size : sizeof *out;
    memcpy(out, r, size < sizeof *out ? size : sizeof *out);
    out->size = size;
}

void zn_generator_report(const zn_generator *g, zn_generation_report *out) { copy_report(&g->report, out); }

void zn_generator_report_of(const zn_generator *g, int i, zn_generation_report *out)
{
    copy_report(i >= 0 && i < g->report_count ? &g->reports[i] : &(zn_generation_report){ 0 }, out);
}

void zn_generator_defaults(const zn_generator *g, zn_generation_defaults *out)
{
    const size_t size = out->size ? out->size : sizeof *out;
    memcpy(out, &g->defaults, size < sizeof *out ? size : sizeof *out);
    out->size = size;
}
