/* zenith generate: images from prompts. Each image is written as soon as it is finished, with its prompt and settings,
 * and has its own seed, so it depends neither on the number of images nor on that of processes. With --batch, some are
 * made at once. */
#include "commands/generate/generate.h"

#include "commands.h"
#include "commands/generate/preview.h"
#include "files/files.h"
#include "files/generator.h"
#include "files/share.h"
#include "files/standard.h"
#include "options/compute.h"
#include "ui/report.h"
#include "ui/show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const double usual_shift = 3; /* of zn_generation */

/* An image that was made and is not yet written. */
typedef struct made {
    zn_image *image; /* NULL: it is not made */
    zn_generation_report report;
    double ms; /* its share of the batch */
} made;

typedef struct work {
    const options *o;
    parameters p; /* of the current image */
    prompt_list prompts;
    zn_image *image, *mask;
    zn_generator *generator;
    zn_generator_about about;
    progress bar;
    int current, count; /* images */
    int at_once;        /* of them are made now */
    made *made;         /* of each */
    uint64_t seed;      /* of the first */
    zn_ranks *ranks;
    preview_file *preview; /* NULL: none is written */
    int told_cut;          /* for the current image */
    char **remarks;        /* on the settings, for JSON */
    int remark_count;
} work;

/* Prints a remark and keeps it for JSON, which has them with --quiet too. Takes the text over. */
static void remark(work *w, char *text)
{
    note(w->o, "%s", text);
    w->remarks = must_alloc(w->remarks, (size_t)(w->remark_count + 1) * sizeof *w->remarks);
    w->remarks[w->remark_count++] = text;
}

/* ---- progress ---- */

static void show_preview(work *w, const zn_image *preview)
{
    if (w->preview) {
        preview_show(w->preview, preview);
        return;
    }
    progress_erase();
    show_image(w->o, preview);
}

static void note_cut(const work *w, int i, const zn_generation_report *r)
{
    char which[48] = "";
    if (w->at_once > 1)
        snprintf(which, sizeof which, " of image %d", i + 1);
    if (r->tokens_cut > 0)
        note(w->o, "the prompt%s has %d tokens: the last %d are not used", which, r->tokens + r->tokens_cut,
             r->tokens_cut);
}

/* As soon as it is known, not after minutes of work; of a batch, the first prompt. */
static void tell_cut(work *w)
{
    zn_generation_report r = { .size = sizeof r };
    zn_generator_report(w->generator, &r);
    w->told_cut = 1;
    note_cut(w, w->current, &r);
}

/* "image 3 of 8, ", or "images 1 to 4 of 8, "; of several processes, each of which has its own: "4 images of 8, ". */
static void name_images(const work *w, char *out, size_t size)
{
    *out = 0;
    if (w->at_once > 1 && zn_ranks_count(w->ranks) > 1)
        snprintf(out, size, "%d images of %d, ", w->at_once, w->count);
    else if (w->at_once > 1)
        snprintf(out, size, "images %d to %d of %d, ", w->current + 1, w->current + w->at_once, w->count);
    else if (w->count > 1)
        snprintf(out, size, "image %d of %d, ", w->current + 1, w->count);
}

static int tick(void *user, const zn_generation_progress *p)
{
    work *w = user;
    if (p->stage > ZN_STAGE_TEXT && !w->told_cut)
        tell_cut(w);
    const int step = p->step < p->steps ? p->step + 1 : p->steps;
    char label[96], which[48];
    name_images(w, which, sizeof which);
    if (p->stage == ZN_STAGE_STEPS)
        snprintf(label, sizeof label, "%sstep %d of %d", which, step, p->steps);
    else
        snprintf(label, sizeof label, "%s%s", which,
                 p->stage == ZN_STAGE_TEXT     ? "prompt"
                 : p->stage == ZN_STAGE_ENCODE ? "image"
                                               : "decode");
    progress_begin(&w->bar, label, (double)w->current / w->count, (double)w->at_once / w->count);
    if (p->preview && w->o->preview)
        show_preview(w, p->preview);
    return progress_tick(&w->bar, p->fraction);
}

/* ---- the model ---- */

static int add_lora(work *w, int i)
{
    char *path;
    double strength;
    int layers, fitting;
    (void)split_lora(w->p.loras[i], &path, &strength);
    const int failed = zn_generator_add_lora(w->generator, path, strength) != ZN_OK;
    if (failed) {
        complain_about(path);
    } else {
        zn_generator_lora_layers(w->generator, i, &layers, &fitting);
        if (fitting < layers)
            note(w->o, "%s: only %d of its %d layers fit this transformer; the others are not used", path, fitting,
                 layers);
    }
    free(path);
    return failed ? EXIT_FAILURE : 0;
}

static zn_generator_files files_of(const parameters *p)
{
    return (zn_generator_files){ .size = sizeof(zn_generator_files),
                                 .model = p->model,
                                 .transformer = p->transformer,
                                 .text_encoder = p->text_encoder,
                                 .vae = p->vae,
                                 .tokenizer = p->tokenizer };
}

/* What the model says about itself; what is wrong with it is reported when it is opened. */
static void describe_model(work *w)
{
    const zn_generator_files files = files_of(&w->p);
    w->about = (zn_generator_about){ .size = sizeof w->about };
    if (zn_generator_describe(&files, &w->about) == ZN_OK && w->p.image && !w->p.width) {
        w->p.width = w->about.width;
        w->p.height = w->about.height;
    }
}

/* After a failure to open it: a model for other commands gets its own sentence, unless its folder is that of a
 * generator in which something is missing, of which the autoencoder may be there. */
static void complain_of_model(const work *w, zn_status opened)
{
    static const char advice[] = "docs/generate.md lists the files to download";
    static const char pull[] = "'zenith pull z-image-turbo' fetches it, ";
    const parameters *p = &w->p;
    const int nothing_named = opened == ZN_ENOTFOUND && !w->o->model && !w->o->from && !p->transformer;
    char *why = must_copy(zn_error_text());
    const int advise = nothing_named && !strstr(why, advice);
    zn_model *other = NULL;
    if (w->o->model && !p->transformer && !is_generator(w->o->model, is_folder(w->o->model)) &&
        zn_model_find_released(w->o->model, &other) == ZN_OK)
        complain("%s makes no images from prompts; 'zenith models' shows which models generate", w->o->model);
    else
        complain("%s%s%s%s", why, advise ? "; " : "", advise ? pull : "", advise ? advice : "");
    zn_model_free(other);
    free(why);
}

static int open_model(work *w)
{
    const parameters *p = &w->p;
    const zn_generator_files files = files_of(p);
    options mine = *w->o;
    mine.precision = p->precision;
    if (!mine.threads && zn_ranks_count(w->ranks) > 1)
        mine.threads = zn_ranks_threads(w->ranks);
    const zn_options compute = compute_options(&mine, NULL);
    const zn_status opened = zn_generator_open(&files, &compute, &w->generator);
    if (opened != ZN_OK) {
        complain_of_model(w, opened);
        return EXIT_FAILURE;
    }
    int status = 0;
    for (int i = 0; p->loras[i] && !status; i++)
        status = add_lora(w, i);
    return status;
}

/* Of image i. */
static uint64_t seed_of(const work *w, int i) { return w->seed + (uint64_t)i; } /* after the largest seed comes 0 */

static const char *prompt_of(const work *w, int i) { return w->prompts.items[i / (w->count / w->prompts.count)]; }

static zn_generation request_of(work *w)
{
    const int drawn = w->o->preview && (*w->o->preview || isatty(STDOUT_FILENO));
    return (zn_generation){ .size = sizeof(zn_generation),
                            .prompt = w->p.prompt,
                            .negative = w->p.negative,
                            .width = w->p.width,
                            .height = w->p.height,
                            .steps = w->p.steps,
                            .seed = w->p.seed,
                            .guidance = parameters_guidance(&w->p),
                            .shift = w->p.shift,
                            .image = w->image,
                            .strength = w->p.strength,
                            .mask = w->mask,
                            .encoder_tile = w->p.encoder_tile,
                            .decoder_tile = w->p.decoder_tile,
                            .preview = drawn,
                            .progress = tick,
                            .user = w };
}

/* The first prompt that the model does not understand. */
static void explain_prompts(work *w)
{
    const char *name = w->p.model ? w->p.model : "the model";
    char text[512];
    for (int i = 0; i < w->prompts.count; i++) {
        const char *why = parameters_prompt_remark(name, &w->about, w->prompts.items[i], text);
        if (!why)
            continue;
        remark(w, w->prompts.count > 1 ? must_print("prompt %d: %s", i + 1, why) : must_copy(why));
        return;
    }
}

/* Settings of the model, and remarks on the user's own. */
static void complete(work *w)
{
    const int sized = w->p.width || !w->image; /* otherwise as large as the image */
    char text[128];
    parameters_complete(&w->p, w->generator);
    const char *size = parameters_size_remark(w->generator, sized ? w->p.width : w->image->width,
                                              sized ? w->p.height : w->image->height, text);
    if (size)
        remark(w, must_copy(size));
    if (w->o->negative && *w->o->negative && w->p.guidance <= 0)
        remark(w, must_print("--negative has no effect %s --guidance%s%s", w->o->guidance ? "with" : "without",
                             w->o->guidance ? " " : "", w->o->guidance ? w->o->guidance : ""));
    explain_prompts(w);
}

static int on_cpu(const work *w) { return !w->o->device || strcmp(w->o->device, "cpu") == 0; }

/* Of the transformer, as zn_generator_open chooses it. */
static int precision_of(const work *w)
{
    return w->p.precision ? (int)w->p.precision : on_cpu(w) ? ZN_PRECISION_INT8 : ZN_PRECISION_BF16;
}

/* A precision that is not faster here; and with -v how memory is used, and in what precision. */
static void explain(work *w)
{
    if (precision_of(w) == ZN_PRECISION_FP8 && on_cpu(w) && !w->o->calibrate)
        note(w->o, "a CPU has no units for fp8: numbers are rounded to it and multiplied in f32, for comparison; "
                   "-p int8 is faster");
    const char *line = "";
    const zn_generation request = request_of(w);
    if (w->o->verbose && zn_generator_plan(w->generator, &request, &line) != ZN_OK)
        note(w->o, "%s", zn_error_text());
    while (*line) {
        const int length = (int)strcspn(line, "\n");
        note(w->o, "%.*s", length, line);
        line += length + (line[length] == '\n');
    }
}

/* ---- one image ---- */

static void report_json(const work *w, const char *path, const zn_generation_report *r, json *j)
{
    json_open(j, NULL, '{');
    if (path)
        json_text(j, "output", path);
    else
        json_null(j, "output");
    json_text(j, "prompt", w->p.prompt);
    parameters_facts(j, &w->p, r);
    json_real(j, "shift", w->p.shift != 0 ? w->p.shift : usual_shift);
    if (w->image)
        json_real(j, "strength", w->p.strength);
    json_text(j, "precision", zn_precision_name(precision_of(w)));
    json_real(j, "peak_bytes", r->peak_bytes);
    json_integer(j, "decoder_tiles", r->decoder_tiles);
    if (r->encoder_tiles)
        json_integer(j, "encoder_tiles", r->encoder_tiles);
    json_close(j, '}');
}

/* Tiles that the user did not ask for. */
static void explain_tiles(const work *w, const char *done, int tiles, int asked)
{
    if (tiles < 2 || asked)
        return;
    if (w->o->from)
        note(w->o, "%s in %d tiles for lack of memory, unlike %s: colours may differ a little; --memory sets the limit",
             done, tiles, w->o->from);
    else
        note(w->o, "%s in %d tiles to keep within the memory: colours may differ a little from a whole image", done,
             tiles);
}

static double stages_s(const zn_generation_report *r) { return r->text_s + r->encode_s + r->steps_s + r->decode_s; }

/* whole_s: prompt to file. */
static void explain_times(const work *w, const zn_generation_report *r, double whole_s)
{
    note(w->o, "prompt %.3f s, image %.3f s, steps %.3f s, decode %.3f s, file and other %.3f s", r->text_s,
         r->encode_s, r->steps_s, r->decode_s, whole_s - stages_s(r));
    if (r->together > 1)
        note(w->o, "%d images took their steps together; the seconds are the share of one", r->together);
    if (r->sent_bytes > 0)
        note(w->o, "%.1f MiB copied to the GPU", r->sent_bytes / 1048576);
}

static void report(const work *w, const char *path, const zn_generation_report *r, double ms, json *object)
{
    explain_tiles(w, "encoded", r->encoder_tiles, w->p.encoder_tile);
    explain_tiles(w, "decoded", r->decoder_tiles, w->p.decoder_tile);
    if (w->o->json) {
        report_json(w, path, r, object);
        return;
    }
    const int standard = path && !strcmp(path, STANDARD_OUTPUT);
    const int chosen = !w->o->model && !w->o->from && w->p.model && !w->p.transformer; /* by the program */
    char *line = must_print("%s  %s%s%sseed %llu, %dx%d, %d step%s, %d tokens%s, %.1f s",
                            standard ? "standard output"
                            : path   ? path
                                     : "shown",
                            chosen ? "with " : "", chosen ? w->p.model : "", chosen ? ", " : "",
                            (unsigned long long)w->p.seed, w->p.width, w->p.height, w->p.steps,
                            w->p.steps == 1 ? "" : "s", r->tokens, r->text_cached ? " (cached)" : "", ms / 1000);
    if (standard)
        note(w->o, "%s", line);
    else if (!w->o->quiet)
        say("%s\n", line);
    if (w->o->verbose)
        explain_times(w, r, ms / 1000);
    free(line);
}

/* What is stored in the image: the settings, with the tiles as they were. */
static char *text_of(const work *w, const zn_generation_report *r)
{
    parameters p = w->p; /* borrows the strings */
    p.encoder_tile = r->encoder_tile;
    p.decoder_tile = r->decoder_tile;
    return parameters_text(&p);
}

static zn_status write_result(work *w, const char *path, const made *m)
{
    const options *o = w->o;
    zn_image_metadata metadata = { .parameters = o->strip ? NULL : text_of(w, &m->report) };
    const zn_image_write_options writing = {
        .quality = o->quality, .lossless = o->lossless, .threads = o->threads, .metadata = &metadata
    };
    const char *kind = path && !strcmp(path, STANDARD_OUTPUT) ? generate_kind(o) : path;
    const zn_status status = path ? write_image(path, kind, m->image, &writing) : ZN_OK;
    free(metadata.parameters);
    if (status == ZN_OK && o->show)
        show_image(o, m->image);
    return status;
}

/* The library's text names the part or the file that is wrong; the result's name says only where it stopped. */
static void complain_of_failure(const work *w, zn_status status, const char *path)
{
    if (status == ZN_ECANCELLED)
        complain_about(path ? path : w->o->command->name);
    else if (w->at_once > 1)
        complain("%d images from image %d of %d on: %s", w->at_once, w->current + 1, w->count, zn_error_text());
    else if (w->count > 1)
        complain("image %d of %d: %s", w->current + 1, w->count, zn_error_text());
    else
        complain("%s", zn_error_text());
}

/* ---- making them ---- */

/* Numbers of the next images that this process makes, image i first, as many as are made at once. */
static int list_batch(const work *w, int i, int *numbers)
{
    const int most = w->o->batch ? w->o->batch : 1;
    int count = 0;
    for (; i < w->count && count < most; i += zn_ranks_count(w->ranks))
        numbers[count++] = i;
    return count;
}

/* Takes over the images of a batch that took so long, or those that were finished when it ended early. */
static void keep_batch(work *w, const int *numbers, int count, zn_image **images, double ms)
{
    double rest = ms;
    for (int k = 0; k < count; k++) {
        made *m = &w->made[numbers[k]];
        *m = (made){ .image = images[k], .report = { .size = sizeof m->report } };
        zn_generator_report_of(w->generator, k, &m->report);
        rest -= 1000 * stages_s(&m->report);
    }
    for (int k = 0; k < count; k++) {
        made *m = &w->made[numbers[k]];
        m->ms = 1000 * stages_s(&m->report) + rest / count;
        if (k > 0)
            note_cut(w, numbers[k], &m->report);
    }
}

/* Makes image i, and with --batch those that come after it. */
static zn_status make_batch(work *w, int i)
{
    int numbers[ZN_BATCH_MOST];
    zn_generation requests[ZN_BATCH_MOST];
    const zn_generation *list[ZN_BATCH_MOST];
    zn_image *images[ZN_BATCH_MOST];
    const double start = now_ms();
    const int count = list_batch(w, i, numbers);
    w->at_once = count;
    w->told_cut = 0;
    for (int k = 0; k < count; k++) {
        requests[k] = request_of(w);
        requests[k].seed = seed_of(w, numbers[k]);
        requests[k].prompt = prompt_of(w, numbers[k]);
        list[k] = &requests[k];
    }
    const zn_status status = zn_generate_batch(w->generator, list, count, images);
    progress_erase();
    keep_batch(w, numbers, count, images, now_ms() - start);
    return status;
}

static int is_made(void *self, int i) { return ((const work *)self)->made[i].image != NULL; }

/* Makes, if it was not made with one before, writes and reports image i. */
static int make_one(void *self, int i, json *object)
{
    work *w = self;
    made *m = &w->made[i];
    char *path = generate_path(w->o, i, w->count);
    int failed = EXIT_FAILURE;
    w->current = i;
    const zn_status status = m->image ? ZN_OK : make_batch(w, i);
    const double start = now_ms();
    if (!m->image) {
        complain_of_failure(w, status, path);
    } else {
        w->p.seed = seed_of(w, i);
        parameters_set(&w->p.prompt, prompt_of(w, i));
        w->p.width = m->image->width;
        w->p.height = m->image->height;
        if (write_result(w, path, m) != ZN_OK)
            complain_about(path);
        else if (say_flush()) /* or the image on standard output is not whole */
            failed = 0;
    }
    if (!failed)
        report(w, path, &m->report, m->ms + now_ms() - start, object);
    zn_image_free(m->image);
    m->image = NULL;
    free(path);
    return failed;
}

/* ---- measuring instead of an image ---- */

static int calibrate(work *w)
{
    parameters_set(&w->p.prompt, w->prompts.items[0]);
    zn_generation request = request_of(w);
    return generate_calibrate(w->o, w->generator, &request);
}

/* ---- all of them ---- */

/* Creates the folder of the results with all folders above it. */
static int make_folder(const options *o)
{
    const int wanted = o->output && o->output[strlen(o->output) - 1] == '/';
    char *path = must_copy(wanted ? o->output : "");
    int failure = 0;
    for (char *slash = strchr(path + (*path == '/'), '/'); slash && !failure; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        failure = mkdir(path, 0777) && errno != EEXIST ? errno : 0;
        *slash = '/';
    }
    free(path);
    if (!wanted || (!failure && is_folder(o->output)))
        return 0;
    complain("cannot create the folder %s: %s", o->output, strerror(failure ? failure : ENOTDIR));
    return EXIT_FAILURE;
}

static int make_all(work *w)
{
    const shared_work images = { .count = w->count, .run = make_one, .self = w, .stops = 1, .ready = is_made };
    int status = make_folder(w->o);
    facts f;
    w->made = must_alloc(NULL, (size_t)w->count * sizeof *w->made);
    memset(w->made, 0, (size_t)w->count * sizeof *w->made);
    facts_begin(&f, w->o->json);
    if (f.json) {
        json_text(&f.out, "model", w->p.model ? w->p.model : w->p.transformer);
        json_open(&f.out, "remarks", '[');
        for (int i = 0; i < w->remark_count; i++)
            json_text(&f.out, NULL, w->remarks[i]);
        json_close(&f.out, ']');
        json_open(&f.out, "images", '[');
    }
    status = ranks_agree(w->ranks, status);
    w->preview = !status && w->o->preview && *w->o->preview ? preview_open(w->o->preview) : NULL;
    if (!status && share(w->ranks, &images, &f))
        status = EXIT_FAILURE;
    char *why = preview_close(w->preview);
    if (why)
        note(w->o, "%s", why);
    free(why);
    if (f.json)
        json_close(&f.out, ']');
    facts_end(&f);
    return status;
}

/* Several processes cannot share what only one of them gets. */
static int check_processes(const work *w)
{
    const options *o = w->o;
    const char *const inputs[] = { o->file_count ? o->files[0] : NULL, o->prompts, o->image, o->mask, o->from };
    if (zn_ranks_count(w->ranks) == 1)
        return 0;
    if (!o->noise_seed && !w->p.has_seed)
        return usage_error(o->command->name, "needs --seed under mpirun, so that all processes have the same");
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        if (inputs[i] && !strcmp(inputs[i], "-"))
            return usage_error(o->command->name, "cannot read standard input under mpirun; give a file");
    return 0;
}

static int check_calibration(const work *w)
{
    const options *o = w->o;
    return o->output                      ? usage_error(o->command->name, "--calibrate makes no image; leave -o out")
           : o->batch > 1                 ? usage_error(o->command->name, "--calibrate takes no --batch")
           : w->count > 1                 ? usage_error(o->command->name, "--calibrate takes one prompt")
           : zn_ranks_count(w->ranks) > 1 ? usage_error(o->command->name, "--calibrate does not run under mpirun")
                                          : 0;
}

static int prepare(work *w)
{
    const options *o = w->o;
    int status = generate_settings(o, &w->p);
    if (!status)
        status = check_processes(w);
    w->seed = w->p.seed;
    if (!status)
        status = generate_prompts(o, &w->p, &w->prompts);
    if (status)
        return status;
    w->count = w->prompts.count * (o->count ? o->count : 1);
    status = o->calibrate ? check_calibration(w) : generate_check_output(o, &w->p, w->count);
    if (!status)
        describe_model(w);
    if (!status)
        status = generate_images(o, &w->p, &w->image, &w->mask);
    interrupt_catch();
    return status ? status : open_model(w);
}

static int run(const options *o, zn_ranks *ranks)
{
    const int silent = o->quiet || zn_ranks_rank(ranks) > 0;
    work w = { .o = o, .ranks = ranks, .bar = { .quiet = silent, .line_ms = progress_line_ms() } };
    int status = ranks_agree(ranks, prepare(&w));
    if (!status) {
        complete(&w);
        explain(&w);
        status = o->calibrate ? calibrate(&w) : make_all(&w);
    }
    progress_erase();
    zn_generator_free(w.generator);
    free(w.made);
    zn_image_free(w.image);
    zn_image_free(w.mask);
    prompts_free(&w.prompts);
    parameters_free(&w.p);
    for (int i = 0; i < w.remark_count; i++)
        free(w.remarks[i]);
    free(w.remarks);
    return status;
}

int generate_run(const options *o) { return on_ranks(o, run); }
