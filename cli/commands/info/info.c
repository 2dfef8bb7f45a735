/* zenith info: describes a file. Images, videos, latents, weights (with their network and its cost) and folders of
 * weights are recognised by content. */
#include "commands/info/info.h"
#include "commands.h"
#include "files/files.h"
#include "files/generator.h"
#include "session/session.h"
#include "ui/facts.h"
#include "ui/report.h"
#include "ui/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *path)
{
    complain_about(path);
    return EXIT_FAILURE;
}

/* Range and mean of the values in all latents of a file. */
typedef struct range {
    double low, high, sum;
    int64_t count;
} range;

static void add_latent(range *r, const zn_latent *z)
{
    const int64_t n = (int64_t)z->width * z->height * z->channels * (z->frames > 1 ? z->frames : 1);
    for (int64_t i = 0; i < n; i++) {
        r->low = r->count + i == 0 || z->data[i] < r->low ? z->data[i] : r->low;
        r->high = r->count + i == 0 || z->data[i] > r->high ? z->data[i] : r->high;
        r->sum += z->data[i];
    }
    r->count += n;
}

/* A number that not every format of latents records; 0: this file does not. */
static void fact_recorded(facts *f, const char *key, int value)
{
    if (value)
        fact_integer(f, key, value);
    else if (f->json)
        fact_real(f, key, NAN, 0, "");
    else
        fact_text(f, key, "unknown");
}

/* z: the first of `batch` latents in the file. */
static int latent_info(const options *o, const char *path, const zn_latent *z, int64_t batch)
{
    range r = { 0 };
    add_latent(&r, z);
    for (int64_t i = 1; i < batch; i++) {
        zn_latent *more;
        if (zn_latent_read_at(path, i, &more, NULL) != ZN_OK)
            return fail(path);
        add_latent(&r, more);
        zn_latent_free(more);
    }
    facts f;
    facts_begin(&f, o->json);
    file_facts(&f, path, "latent");
    fact_text(&f, "model", z->model[0] ? z->model : "unknown");
    if (batch > 1)
        fact_integer(&f, "batch", batch);
    fact_integer(&f, "width", z->width);
    fact_integer(&f, "height", z->height);
    fact_integer(&f, "channels", z->channels);
    if (z->frames > 1) {
        fact_integer(&f, "frames", z->frames);
        fact_integer(&f, "image_frames", z->image_frames);
    }
    fact_recorded(&f, "image_width", z->image_width);
    fact_recorded(&f, "image_height", z->image_height);
    fact_recorded(&f, "downscale", z->downscale);
    if (z->grey)
        fact_bool(&f, "grey", 1);
    if (z->raw)
        fact_text(&f, "scaling", "raw");
    fact_real(&f, "minimum", r.low, 4, "");
    fact_real(&f, "maximum", r.high, 4, "");
    fact_real(&f, "mean", r.sum / (double)r.count, 4, "");
    facts_end(&f);
    if (o->show)
        show_latent(o, z);
    return 0;
}

/* Density on paper, and the text that programs store in images they generate: prompt and settings, in several lines. */
static void metadata_facts(facts *f, const char *path)
{
    zn_image_metadata m;
    const zn_status status = zn_image_read_metadata(path, &m);
    for (char *c = m.parameters; c && *c && !f->json; c++)
        if (((unsigned char)*c < 32 && *c != '\n') || *c == 127)
            *c = '?'; /* a file must not control the terminal */
    if (status == ZN_OK && m.dpi_x > 0)
        fact_integer(f, "dpi", lround(m.dpi_x));
    if (status == ZN_OK && m.parameters)
        fact_text(f, "parameters", m.parameters);
    zn_image_metadata_free(&m);
}

static int image_info(const options *o, const char *path, const zn_image_kind *kind)
{
    zn_image *image = NULL;
    if (zn_image_read(path, NULL, &image) != ZN_OK)
        return fail(path);
    facts f;
    facts_begin(&f, o->json);
    file_facts(&f, path, "image");
    fact_text(&f, "format", kind->format);
    fact_integer(&f, "width", image->width);
    fact_integer(&f, "height", image->height);
    fact_integer(&f, "bits", kind->bits ? kind->bits : image->bits);
    if (kind->frames > 1)
        fact_integer(&f, strcmp(kind->format, "tiff") ? "frames" : "pages", kind->frames);
    if (image->grey)
        fact_bool(&f, "grey", 1);
    if (has_transparency(path))
        fact_bool(&f, "transparent", 1);
    metadata_facts(&f, path);
    facts_end(&f);
    if (o->show)
        show_image(o, image);
    zn_image_free(image);
    return 0;
}

static int film_info(const options *o, const char *path)
{
    zn_film_info film;
    if (zn_film_describe(path, &film) != ZN_OK)
        return fail(path);
    facts f;
    facts_begin(&f, o->json);
    file_facts(&f, path, "video");
    fact_text(&f, "codec", film.codec);
    fact_integer(&f, "width", film.width);
    fact_integer(&f, "height", film.height);
    fact_integer(&f, "frames", film.frames);
    fact_real(&f, "rate", film.rate, 3, " frames/s");
    fact_integer(&f, "bits", film.bits);
    if (film.rotation)
        fact_integer(&f, "rotation", film.rotation);
    fact_integer(&f, "audio_streams", film.audio);
    facts_end(&f);
    return 0;
}

static int model_info(const options *o, const char *path, zn_model *model)
{
    facts f;
    facts_begin(&f, o->json);
    file_facts(&f, path, "model");
    fact_text(&f, "weights", zn_model_info_of(model)->path);
    model_facts(&f, model, o);
    facts_end(&f);
    zn_model_free(model);
    return 0;
}

/* True if a safetensors file may be a latent: its metadata says so, it has one tensor, or it has a "latent_tensor". */
static int is_latent(const zn_weights *weights)
{
    const char *format = zn_weights_metadata(weights, "format");
    return (format && !strcmp(format, "zenith-latent")) || zn_weights_count(weights) == 1 ||
           zn_weights_find(weights, "latent_tensor");
}

/* Reports why a file cannot be opened as weights. If its extension is not that of weights, lists the formats that info
 * supports. */
static int fail_weights(const char *path, zn_status status)
{
    if (status != ZN_EFORMAT || has_extension(path, "safetensors gguf latent pth pt ckpt bin"))
        return fail(path);
    complain("%s: neither an image (PNG, JPEG, WebP, HEIC, AVIF, TIFF, GIF, BMP) nor a latent, weights (.safetensors, "
             ".gguf, PyTorch) or a data set (.lmdb)",
             path);
    return EXIT_FAILURE;
}

/* Describes weights, or a latent in a tensor file. */
static int tensors_info(const options *o, const char *path)
{
    zn_weights *weights = NULL;
    zn_latent *latent = NULL;
    int64_t batch = 1;
    int status = 0;
    const zn_status opened = zn_weights_open(path, &weights);
    if (opened != ZN_OK)
        status = fail_weights(path, opened);
    else if (is_latent(weights) && zn_latent_read_at(path, 0, &latent, &batch) == ZN_OK)
        status = latent_info(o, path, latent, batch);
    else
        weights_info(o, path, weights);
    zn_weights_close(weights);
    zn_latent_free(latent);
    return status;
}

static int file_info(const options *o, const char *path)
{
    zn_latent *latent = NULL;
    int64_t batch = 1;
    int status = 0;
    zn_image_kind kind = { 0 };
    if (zn_image_probe(path, &kind) == ZN_OK && kind.format) {
        /* Any RGBA image could be a latent. Only one that records its image size is treated as one. */
        if (zn_latent_read(path, &latent) == ZN_OK && latent->image_width > 0)
            latent_info(o, path, latent, 1);
        else
            status = image_info(o, path, &kind);
    } else if (has_extension(path, "npy")) {
        const zn_status read = zn_latent_read_at(path, 0, &latent, &batch);
        status = read == ZN_OK ? latent_info(o, path, latent, batch) : fail(path);
    } else {
        status = tensors_info(o, path);
    }
    zn_latent_free(latent);
    return status;
}

static int folder_info(const options *o, const char *path)
{
    zn_model *model = NULL;
    const zn_status status = zn_model_find_released(path, &model);
    if (status == ZN_OK)
        return model_info(o, path, model);
    if (status != ZN_ENOTFOUND)
        return fail(path);
    complain("%s; 'zenith dataset info' describes a folder of images", zn_error_text());
    return EXIT_FAILURE;
}

static int info_of(const options *o, const char *path)
{
    zn_model *model = NULL;
    if (has_extension(path, "lmdb"))
        return dataset_info(o, path);
    if (is_folder(path) && is_generator(path, 1))
        return generator_info(o, path);
    if (is_folder(path))
        return folder_info(o, path);
    if (!file_exists(path) && !strpbrk(path, "/.") && is_generator(path, 0))
        return generator_info(o, path);
    if (!file_exists(path) && !strpbrk(path, "/."))
        return model_open(o, path, &model) ? EXIT_FAILURE : model_info(o, path, model);
    if (!file_exists(path) && strchr(path, '/') &&
        zn_model_find_released(path, &model) == ZN_OK) /* a name as printed by zenith models: folder/name */
        return model_info(o, path, model);
    return is_video_file(path) ? film_info(o, path) : file_info(o, path);
}

static void list_failure(const char *path)
{
    facts f;
    facts_begin(&f, 1);
    fact_text(&f, "file", path);
    fact_text(&f, "error", report_error());
    facts_end(&f);
}

/* Several files: text with an empty line between them, or a JSON list with the error of each file that failed. */
static int info_of_all(const options *o)
{
    int failed = 0;
    if (o->json)
        facts_list_begin("files");
    for (int i = 0; i < o->file_count; i++) {
        if (i && !o->json)
            say("\n");
        if (!info_of(o, o->files[i]))
            continue;
        failed++;
        if (o->json)
            list_failure(o->files[i]);
    }
    if (o->json)
        facts_list_end();
    if (failed > 1)
        summarize_errors("%d of %d files failed; the last: %s", failed, o->file_count, report_error());
    return failed ? EXIT_FAILURE : 0;
}

int info_run(const options *o) { return o->file_count > 1 ? info_of_all(o) : info_of(o, o->files[0]); }
