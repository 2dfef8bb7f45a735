/* Scaling of latents, and files with several latents. */
#include "session/latents.h"

#include "files/encoded.h"
#include "files/standard.h"
#include "ui/report.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- scale ---- */

static int wants_raw(const options *o) { return o->scaling && !strncmp(o->scaling, "raw", 3); }

/* The family of --scaling raw:FAMILY, or else that of the model; NULL if unknown. */
static const char *family_of(const session *s)
{
    const char *given = s->o->scaling ? strchr(s->o->scaling, ':') : NULL;
    return given ? given + 1 : zn_model_family(s->info);
}

/* By the statistics of --vae. */
static zn_status normalise(const session *s, zn_latent *latent, int raw)
{
    zn_latent_statistics statistics;
    const zn_status status = zn_latent_statistics_read(s->o->vae, &statistics);
    return status == ZN_OK ? zn_latent_normalise(latent, &statistics, raw) : status;
}

static int rescale(const session *s, const char *path, zn_latent *latent, int raw)
{
    const char *family = family_of(s);
    if (!family) {
        complain("%s: how raw latents of the model %s are scaled is not known; name a family, as in --scaling raw:sd",
                 path, s->info->architecture);
        return 1;
    }
    const int measured = s->o->vae && !strcmp(family, "flux2");
    if ((measured ? normalise(s, latent, raw) : zn_latent_rescale(latent, family, raw)) != ZN_OK) {
        complain_about(path);
        return 1;
    }
    if (s->o->verbose)
        note(s->o, "%s: raw latents of family %s", path, family);
    return 0;
}

static int pack(const char *path, zn_latent *latent, int packed)
{
    if (zn_latent_pack(latent, packed) == ZN_OK)
        return 0;
    complain_about(path);
    return 1;
}

int scale_after_reading(const session *s, const char *path, zn_latent *latent)
{
    if (s->o->scaling)
        latent->raw = wants_raw(s->o);
    if (latent->raw && rescale(s, path, latent, 0))
        return 1;
    return zn_codec_unpacks(s->info, latent) ? pack(path, latent, 0) : 0;
}

int scale_for_writing(const session *s, const char *path, zn_latent *latent)
{
    const char *family = family_of(s);
    const int comfy = has_extension(path, "latent"), flux2 = family && !strcmp(family, "flux2");
    const int packed = s->o->packed || (comfy && flux2); /* ComfyUI's VAE packs and normalises FLUX.2's latents */
    const int raw = s->o->scaling ? wants_raw(s->o) : comfy && !packed;
    if (comfy && packed && raw) {
        complain("%s: ComfyUI's files hold normalised latents of FLUX.2; leave out --scaling %s", path, s->o->scaling);
        return 1;
    }
    if (packed && pack(path, latent, 1))
        return 1;
    if (comfy && !packed && !raw) {
        complain("%s: ComfyUI's files hold raw latents; leave out --scaling %s", path, s->o->scaling);
        return 1;
    }
    return raw ? rescale(s, path, latent, 1) : 0;
}

/* ---- files ---- */

zn_status write_latents(const job *item, const zn_latent *const *latents, int count)
{
    char *format = must_copy(strrchr(item->kind, '.') + 1);
    for (char *c = format; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    const zn_status status = zn_latent_write_as(item->output, format, latents, count);
    free(format);
    return status;
}

/* A pipe or standard output, whose name does not tell the format. */
static int is_stream(const options *o)
{
    return o->output && (!strcmp(o->output, "-") || (o->format && is_pipe(o->output)));
}

static int check_format(const options *o, const char *kind)
{
    char *sample = must_print("x.%s", o->format ? o->format : "safetensors");
    const int good = has_extension(sample, TENSOR_FILES);
    free(sample);
    return good ? 0 : usage_error("encode", "cannot write %s as '%s', only as " TENSOR_FILE_NAMES, kind, o->format);
}

/* ---- one file for all inputs ---- */

char *single_result(const options *o, const char *kind)
{
    if (check_format(o, kind))
        return NULL;
    const char *why = o->output && !strcmp(o->output, "-") ? standard_output_problem(o->json, o->show) : NULL;
    size_t length = strlen(o->files[0]);
    int wrong = 0;
    if (why)
        wrong = usage_error("encode", "cannot write to standard output: %s", why);
    else if (o->output && !strcmp(o->output, "-"))
        return must_copy(STANDARD_OUTPUT);
    else if (o->output && (has_extension(o->output, TENSOR_FILES) || is_stream(o)) && !is_folder(o->output))
        return must_copy(o->output);
    else if (o->output)
        wrong =
            usage_error("encode", "cannot write '%s': the name of %s must end in " TENSOR_FILE_NAMES, o->output, kind);
    else if (o->file_count > 1 || !is_folder(o->files[0]))
        wrong = usage_error("encode", "%s that is not a folder of images needs a name: -o", kind);
    if (wrong)
        return NULL;
    while (length > 1 && o->files[0][length - 1] == '/')
        length--;
    return must_print("%.*s.%s", (int)length, o->files[0], o->format ? o->format : "safetensors");
}

int run_single(const options *o, const batch *b, char *output,
               zn_status (*work)(session *s, const job *item, json *j, char *summary, size_t size))
{
    batch own = *b;
    own.work = work;
    if (!is_stream(o) && lacks_folder(output)) {
        free(output);
        return EXIT_FAILURE;
    }
    job_list list = { .items = must_alloc(NULL, sizeof *list.items), .count = 1, .capacity = 1 };
    list.items[0] = (job){ .input = must_copy(o->files[0]), .output = output };
    list.items[0].kind = is_stream(o) ? must_print("-.%s", o->format ? o->format : "safetensors") : must_copy(output);
    if (!o->output && !o->force && file_exists(output))
        list.items[0].problem = must_print("%s already exists; name the result with -o or use --force", output);
    return batch_run_jobs(o, &own, &list);
}

/* ---- encode --batch ---- */

static zn_status encode_one(session *s, const job *item, const char *kind, zn_latent **latent)
{
    const options *o = s->o;
    const zn_image_read_options reading = { .background = { o->background[0], o->background[1], o->background[2] } };
    zn_image *image = NULL;
    if (item->problem) {
        complain_of(item->input, item->problem);
        return ZN_EINVALID;
    }
    zn_status status = read_image(o, item->input, &reading, &image);
    if (status == ZN_OK)
        status = zn_encode(s->codec, image, latent);
    zn_image_free(image);
    if (status != ZN_OK)
        complain_about(item->input);
    else if (scale_for_writing(s, kind, *latent))
        status = ZN_EINVALID;
    return status;
}

static zn_status encode_all(session *s, const job_list *list, const job *result, zn_latent **latents)
{
    const double base = s->bar.base, scale = s->bar.scale;
    zn_status status = ZN_OK;
    for (int i = 0; i < list->count && status == ZN_OK; i++) {
        char *label = must_print("encode %s", list->items[i].input);
        progress_begin(&s->bar, label, base + scale * i / list->count, scale / list->count);
        free(label);
        status = encode_one(s, &list->items[i], result->kind, &latents[i]);
    }
    if (status == ZN_OK && (status = write_latents(result, (const zn_latent *const *)latents, list->count)) != ZN_OK)
        complain_about(result->output);
    return status;
}

static zn_status batch_work(session *s, const job *item, json *j, char *summary, size_t size)
{
    const job_rules rules = { .what = "images", .takes = is_image_file };
    job_list list;
    jobs_expand(s->o, &rules, &list);
    zn_latent **latents = must_alloc(NULL, (size_t)list.count * sizeof *latents);
    memset(latents, 0, (size_t)list.count * sizeof *latents);
    const double start = now_ms();
    const zn_status status = encode_all(s, &list, item, latents);
    const double ms = now_ms() - start;
    if (status == ZN_OK) {
        const zn_latent *z = latents[0];
        if (s->o->json) {
            json_integer(j, "images", list.count);
            json_encoded(j, z, ms);
        }
        snprintf(summary, size, "%d images of %dx%d -> %d latents of %dx%dx%d  %.1f ms", list.count, z->image_width,
                 z->image_height, list.count, z->width, z->height, z->channels, ms);
    }
    for (int i = 0; i < list.count; i++)
        zn_latent_free(latents[i]);
    free(latents);
    jobs_free(&list);
    return status;
}

int encode_batch_run(const options *o, const batch *b)
{
    char *output = single_result(o, "a batch");
    return output ? run_single(o, b, output, batch_work) : EXIT_USAGE;
}
