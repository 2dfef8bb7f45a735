/* zenith generate: images from prompts. Each image is written as soon as it is finished, with its prompt and settings,
 * and has its own seed, so it does not depend on the number of images. */
#include "commands/generate.h"

#include "commands.h"
#include "ui/compute.h"
#include "ui/facts.h"
#include "ui/files.h"
#include "ui/report.h"
#include "ui/show.h"
#include "ui/standard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct work {
    const options *o;
    parameters p; /* of the current image */
    prompt_list prompts;
    zn_image *image, *mask;
    zn_generator *generator;
    progress bar;
    int current, count; /* images */
    int told_preview;
    int told_cut; /* for the current image */
    facts f;
} work;

/* ---- progress ---- */

static void show_preview(work *w, const zn_image *preview)
{
    progress_erase();
    if (!*w->o->preview) {
        show_image(w->o, preview);
    } else if (zn_image_write(w->o->preview, preview, NULL) != ZN_OK && !w->told_preview) {
        w->told_preview = 1;
        note(w->o, "%s", zn_error_text());
    }
}

/* As soon as it is known, not after minutes of work. */
static void tell_cut(work *w)
{
    zn_generation_report r = { .size = sizeof r };
    zn_generator_report(w->generator, &r);
    w->told_cut = 1;
    if (r.tokens_cut > 0)
        note(w->o, "the prompt has %d tokens: the last %d are not used", r.tokens + r.tokens_cut, r.tokens_cut);
}

static int tick(void *user, const zn_generation_progress *p)
{
    work *w = user;
    if (p->stage > ZN_STAGE_TEXT && !w->told_cut)
        tell_cut(w);
    const int step = p->step < p->steps ? p->step + 1 : p->steps;
    char label[96], which[48] = "";
    if (w->count > 1)
        snprintf(which, sizeof which, "image %d of %d, ", w->current + 1, w->count);
    if (p->stage == ZN_STAGE_STEPS)
        snprintf(label, sizeof label, "%sstep %d of %d", which, step, p->steps);
    else
        snprintf(label, sizeof label, "%s%s", which,
                 p->stage == ZN_STAGE_TEXT     ? "prompt"
                 : p->stage == ZN_STAGE_ENCODE ? "image"
                                               : "decode");
    progress_begin(&w->bar, label, (double)w->current / w->count, 1.0 / w->count);
    if (p->preview && w->o->preview)
        show_preview(w, p->preview);
    return progress_tick(&w->bar, p->fraction);
}

/* ---- the model ---- */

/* "FILE:0.8": the strength after the last colon, unless the whole is the name of a file. */
static int add_lora(work *w, const char *text)
{
    const char *colon = strrchr(text, ':');
    char *end = NULL, *path = NULL;
    double strength = colon && !file_exists(text) ? strtod(colon + 1, &end) : 1;
    if (end && end != colon + 1 && !*end)
        path = must_print("%.*s", (int)(colon - text), text);
    else
        path = must_copy(text), strength = 1;
    const int failed = zn_generator_add_lora(w->generator, path, strength) != ZN_OK;
    if (failed)
        complain_about(path);
    free(path);
    return failed ? EXIT_FAILURE : 0;
}

static int open_model(work *w)
{
    const parameters *p = &w->p;
    const zn_generator_files files = { .size = sizeof files,
                                       .model = p->model,
                                       .transformer = p->transformer,
                                       .text_encoder = p->text_encoder,
                                       .vae = p->vae,
                                       .tokenizer = p->tokenizer };
    options mine = *w->o;
    mine.precision = p->precision;
    const zn_options compute = compute_options(&mine, NULL);
    const zn_status opened = zn_generator_open(&files, &compute, &w->generator);
    if (opened != ZN_OK) {
        const int nothing_named = opened == ZN_ENOTFOUND && !w->o->model && !w->o->from && !p->transformer;
        complain("%s%s", zn_error_text(), nothing_named ? "; docs/generate.md lists the files to download" : "");
        return EXIT_FAILURE;
    }
    int status = 0;
    for (int i = 0; p->loras[i] && !status; i++)
        status = add_lora(w, p->loras[i]);
    return status;
}

/* With -v: how memory is used, and in what precision. */
static void explain(const work *w)
{
    const char *line = "";
    const int width = w->p.width ? w->p.width : w->image ? w->image->width : 0;
    const int height = w->p.height ? w->p.height : w->image ? w->image->height : 0;
    if (w->o->verbose && zn_generator_plan(w->generator, width, height, &line) != ZN_OK)
        note(w->o, "%s", zn_error_text());
    while (*line) {
        const int length = (int)strcspn(line, "\n");
        note(w->o, "%.*s", length, line);
        line += length + (line[length] == '\n');
    }
}

/* ---- one image ---- */

static void report_json(work *w, const char *path, const zn_generation_report *r)
{
    json *j = &w->f.out;
    json_open(j, NULL, '{');
    if (path)
        json_text(j, "output", path);
    else
        json_null(j, "output");
    json_text(j, "prompt", w->p.prompt);
    json_unsigned(j, "seed", w->p.seed);
    json_integer(j, "width", w->p.width);
    json_integer(j, "height", w->p.height);
    json_integer(j, "steps", w->p.steps);
    json_integer(j, "tokens", r->tokens);
    json_integer(j, "tokens_cut", r->tokens_cut);
    json_bool(j, "cached", r->text_cached);
    json_real(j, "text_ms", 1000 * r->text_s);
    json_real(j, "encode_ms", 1000 * r->encode_s);
    json_real(j, "steps_ms", 1000 * r->steps_s);
    json_real(j, "decode_ms", 1000 * r->decode_s);
    json_real(j, "peak_bytes", r->peak_bytes);
    json_integer(j, "decoder_tiles", r->decoder_tiles);
    json_close(j, '}');
}

static void report(work *w, const char *path, double ms)
{
    zn_generation_report r = { .size = sizeof r };
    zn_generator_report(w->generator, &r);
    if (r.decoder_tiles > 1)
        note(w->o, "decoded in %d tiles to keep within the memory: colours may differ a little from a whole image",
             r.decoder_tiles);
    if (w->o->json) {
        report_json(w, path, &r);
        return;
    }
    const int standard = path && !strcmp(path, STANDARD_OUTPUT);
    char *line = must_print("%s  seed %llu, %dx%d, %d step%s, %d tokens%s, %.1f s",
                            standard ? "standard output"
                            : path   ? path
                                     : "shown",
                            (unsigned long long)w->p.seed, w->p.width, w->p.height, w->p.steps,
                            w->p.steps == 1 ? "" : "s", r.tokens, r.text_cached ? " (cached)" : "", ms / 1000);
    if (standard)
        note(w->o, "%s", line);
    else if (!w->o->quiet)
        say("%s\n", line);
    if (w->o->verbose)
        note(w->o, "prompt %.2f s, image %.2f s, steps %.2f s, decode %.2f s", r.text_s, r.encode_s, r.steps_s,
             r.decode_s);
    free(line);
}

static zn_status write_result(work *w, const char *path, const zn_image *image)
{
    const options *o = w->o;
    zn_image_metadata m = { .parameters = o->strip ? NULL : parameters_text(&w->p) };
    const zn_image_write_options writing = { .quality = o->quality, .lossless = o->lossless, .metadata = &m };
    const char *kind = path && !strcmp(path, STANDARD_OUTPUT) ? generate_kind(o) : path;
    const zn_status status = path ? write_image(path, kind, image, &writing) : ZN_OK;
    free(m.parameters);
    if (status == ZN_OK && o->show)
        show_image(o, image);
    return status;
}

static zn_status make(work *w, zn_image **out)
{
    const zn_generation request = { .size = sizeof request,
                                    .prompt = w->p.prompt,
                                    .negative = w->p.negative,
                                    .width = w->p.width,
                                    .height = w->p.height,
                                    .steps = w->p.steps,
                                    .seed = w->p.seed,
                                    .guidance = w->p.guidance,
                                    .shift = w->p.shift,
                                    .image = w->image,
                                    .strength = w->p.strength,
                                    .mask = w->mask,
                                    .preview = w->o->preview != NULL,
                                    .progress = tick,
                                    .user = w };
    return zn_generate(w->generator, &request, out);
}

/* Makes, writes and reports image i. */
static int make_one(work *w, int i)
{
    const double start = now_ms();
    zn_image *image = NULL;
    char *path = generate_path(w->o, i, w->count);
    w->current = i;
    w->told_cut = 0;
    w->p.seed += i > 0;
    parameters_set(&w->p.prompt, w->prompts.items[i / (w->count / w->prompts.count)]);
    const int failed = make(w, &image) != ZN_OK;
    progress_erase();
    int status = 0;
    if (failed) {
        complain_about(path ? path : w->o->command->name);
        status = EXIT_FAILURE;
    } else {
        w->p.width = image->width;
        w->p.height = image->height;
        if (write_result(w, path, image) != ZN_OK) {
            complain_about(path);
            status = EXIT_FAILURE;
        } else {
            report(w, path, now_ms() - start);
        }
    }
    zn_image_free(image);
    free(path);
    return status;
}

/* ---- all of them ---- */

static int make_folder(const options *o)
{
    if (!o->output || o->output[strlen(o->output) - 1] != '/' || !mkdir(o->output, 0777) || errno == EEXIST)
        return 0;
    complain("cannot create the folder %s: %s", o->output, strerror(errno));
    return EXIT_FAILURE;
}

static int make_all(work *w)
{
    int status = make_folder(w->o);
    facts_begin(&w->f, w->o->json);
    if (w->f.json) {
        json_text(&w->f.out, "model", w->p.model ? w->p.model : w->p.transformer);
        json_open(&w->f.out, "images", '[');
    }
    for (int i = 0; i < w->count && !status && !interrupted(); i++)
        status = make_one(w, i);
    if (w->f.json)
        json_close(&w->f.out, ']');
    facts_end(&w->f);
    return status;
}

static int prepare(work *w)
{
    const options *o = w->o;
    int status = generate_settings(o, &w->p);
    if (!status)
        status = generate_prompts(o, &w->p, &w->prompts);
    if (status)
        return status;
    w->count = w->prompts.count * (o->count ? o->count : 1);
    status = generate_check_output(o, &w->p, w->count);
    if (!status)
        status = generate_images(o, &w->p, &w->image, &w->mask);
    interrupt_catch();
    return status ? status : open_model(w);
}

int generate_run(const options *o)
{
    work w = { .o = o, .bar = { .quiet = o->quiet, .line_ms = progress_line_ms() } };
    int status = prepare(&w);
    if (!status) {
        explain(&w);
        status = make_all(&w);
    }
    progress_erase();
    zn_generator_free(w.generator);
    zn_image_free(w.image);
    zn_image_free(w.mask);
    prompts_free(&w.prompts);
    parameters_free(&w.p);
    return status;
}
