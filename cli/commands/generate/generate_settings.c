/* zenith generate, before any work: what the options, a generated image and files of prompts ask for. */
#include "commands/generate/generate.h"

#include "commands.h"
#include "files/files.h"
#include "files/standard.h"
#include "ui/report.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char usual_model[] = "z-image-turbo";
static const double usual_strength = 0.6;

const char *generate_input(const char *name) { return strcmp(name, "-") ? keep_pipe(name) : standard_input(); }

static const char *shown(const char *name) { return strcmp(name, "-") ? name : "standard input"; }

/* The content of a small text file, or NULL after reporting an error. */
static char *read_text(const char *name)
{
    const char *path = generate_input(name);
    FILE *file = path ? fopen(path, "rb") : NULL;
    if (path && !file)
        complain("cannot open %s: %s", path, strerror(errno));
    if (!file)
        return NULL;
    enum { PIECE = 1 << 16 };
    char *text = must_alloc(NULL, PIECE + 1);
    size_t size = 0, n;
    while ((n = fread(text + size, 1, PIECE, file)) > 0)
        text = must_alloc(text, (size += n) + PIECE + 1);
    text[size] = 0;
    const int failed = ferror(file);
    fclose(file);
    if (!failed && strlen(text) == size)
        return text;
    complain("%s: %s", path, failed ? strerror(errno) : "not a text");
    free(text);
    return NULL;
}

static int check_loras(const options *o)
{
    for (int i = 0; o->loras[i]; i++) {
        double strength;
        char *path;
        const int valid = split_lora(o->loras[i], &path, &strength);
        free(path);
        if (!valid)
            return usage_error(o->command->name, "--lora %s: '%s' is not a number such as 0.8", o->loras[i],
                               strrchr(o->loras[i], ':') + 1);
    }
    return 0;
}

/* ---- settings ---- */

/* 32 bits: other programs draw as many. */
static uint64_t random_seed(void)
{
    uint32_t seed = (uint32_t)time(NULL) * 2654435761u ^ (uint32_t)getpid();
    FILE *source = fopen("/dev/urandom", "rb");
    if (source && fread(&seed, sizeof seed, 1, source) != 1)
        seed ^= (uint32_t)clock();
    if (source)
        fclose(source);
    return seed;
}

static void override_files(const options *o, parameters *p)
{
    const struct {
        const char *given;
        char **field;
    } files[] = { { o->model, &p->model }, { o->transformer, &p->transformer }, { o->text_encoder, &p->text_encoder },
                  { o->vae, &p->vae },     { o->tokenizer, &p->tokenizer },     { o->image, &p->image },
                  { o->mask, &p->mask },   { o->negative, &p->negative } };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (files[i].given)
            parameters_set(files[i].field, files[i].given);
    char usual[4096];
    if (!p->model && !p->transformer)
        parameters_set(&p->model, zn_generator_default(usual, sizeof usual) == ZN_OK ? usual : usual_model);
    for (int i = 0; o->loras[0] && p->loras[i]; i++)
        parameters_set(&p->loras[i], NULL);
    for (int i = 0; o->loras[i]; i++)
        parameters_add_lora(p, o->loras[i]);
}

static void override_numbers(const options *o, parameters *p)
{
    if (o->size[0]) {
        p->width = o->size[0];
        p->height = o->size[1];
    } else if (o->image) {
        p->width = p->height = 0; /* another image has its own size */
    }
    if (o->steps)
        p->steps = (int)o->steps;
    if (o->guidance)
        parameters_set_guidance(p, strtod(o->guidance, NULL));
    if (o->shift)
        p->shift = strtod(o->shift, NULL);
    if (o->strength)
        p->strength = strtod(o->strength, NULL);
    if (o->precision)
        p->precision = o->precision;
    if (o->tile)
        p->encoder_tile = p->decoder_tile = o->tile;
    if (o->noise_seed)
        p->seed = strtoull(o->noise_seed, NULL, 10);
    else if (!p->has_seed)
        p->seed = random_seed();
    p->strength = p->strength > 0 ? p->strength : usual_strength;
}

/* Standard input has one content. */
static int check_standard_input(const options *o)
{
    const struct {
        const char *name, *value;
    } inputs[] = { { "the prompt", o->file_count ? o->files[0] : NULL },
                   { "--prompts", o->prompts },
                   { "--image", o->image },
                   { "--mask", o->mask },
                   { "--from", o->from } };
    const char *first = NULL;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        if (!inputs[i].value || strcmp(inputs[i].value, "-"))
            continue;
        if (first)
            return usage_error(o->command->name, "%s and %s cannot both be standard input", first, inputs[i].name);
        first = inputs[i].name;
    }
    return 0;
}

static void explain_seed(const options *o, const parameters *p)
{
    const uint64_t lower = p->seed & UINT32_MAX;
    if (o->noise_seed && p->seed != lower)
        note(o, "seed %llu gives the image of seed %llu, since only its lower 32 bits count",
             (unsigned long long)p->seed, (unsigned long long)lower);
}

int generate_settings(const options *o, parameters *out)
{
    *out = (parameters){ 0 };
    int status = check_standard_input(o);
    if (!status)
        status = check_loras(o);
    if (!status && o->from)
        status = generate_read_from(o, out);
    if (status)
        return status;
    override_files(o, out);
    override_numbers(o, out);
    if (o->from && (status = generate_check_from(o, out)))
        return status;
    if (out->mask && !out->image)
        return usage_error(o->command->name, "--mask needs --image");
    if (o->strength && !out->image)
        return usage_error(o->command->name, "--strength needs --image");
    explain_seed(o, out);
    return 0;
}

/* ---- prompts ---- */

static void add_prompt(prompt_list *list, char *prompt)
{
    list->items = must_alloc(list->items, sizeof *list->items * ((size_t)list->count + 1));
    list->items[list->count++] = prompt;
}

void prompts_free(prompt_list *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (prompt_list){ 0 };
}

/* Drops white space at the end. */
static void trim(char *text)
{
    for (size_t n = strlen(text); n && isspace((unsigned char)text[n - 1]);)
        text[--n] = 0;
}

static int read_lines(const options *o, prompt_list *out)
{
    char *text = read_text(o->prompts);
    if (!text)
        return EXIT_FAILURE;
    int skipped = 0;
    const size_t mark = strncmp(text, "\xEF\xBB\xBF", 3) ? 0 : 3; /* some editors put it first */
    trim(text);
    for (char *line = text + mark, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        line += strspn(line, " \t\r");
        trim(line);
        if (*line && *line != '#')
            add_prompt(out, must_copy(line));
        else
            skipped++;
    }
    free(text);
    if (!out->count) {
        complain("%s: no prompts in it", shown(o->prompts));
        return EXIT_FAILURE;
    }
    if (skipped)
        note(o, "%s: %d prompt%s; %d empty or comment line%s skipped", shown(o->prompts), out->count,
             out->count == 1 ? "" : "s", skipped, skipped == 1 ? "" : "s");
    return 0;
}

static int read_argument(const char *argument, prompt_list *out)
{
    char *prompt = strcmp(argument, "-") ? must_copy(argument) : read_text("-");
    if (!prompt)
        return EXIT_FAILURE;
    if (!strcmp(argument, "-"))
        trim(prompt);
    add_prompt(out, prompt);
    return 0;
}

/* Better now than after the images of the prompts before. */
static int check_prompts(const options *o, const prompt_list *list)
{
    for (int i = 0; i < list->count; i++) {
        const zn_generation alone = { .size = sizeof alone, .prompt = list->items[i] };
        if (zn_generation_check(&alone) == ZN_OK)
            continue;
        if (o->prompts)
            complain("%s, prompt %d: %s", shown(o->prompts), i + 1, zn_error_text());
        else
            complain("%s", zn_error_text());
        return EXIT_FAILURE;
    }
    return 0;
}

int generate_prompts(const options *o, const parameters *p, prompt_list *out)
{
    *out = (prompt_list){ 0 };
    const char *name = o->command->name;
    if (o->file_count > 1)
        return usage_error(name, "unexpected argument '%s': put the prompt between quotes", o->files[1]);
    if (o->file_count && o->prompts)
        return usage_error(name, "a prompt and --prompts exclude each other");
    if (!o->file_count && !o->prompts && !p->prompt)
        return usage_error(name, "needs a prompt: zenith %s %s", name, o->command->arguments);
    int status = 0;
    if (o->prompts)
        status = read_lines(o, out);
    else if (o->file_count)
        status = read_argument(o->files[0], out);
    else
        add_prompt(out, must_copy(p->prompt));
    if (!status && !out->items[0][0])
        note(o, "the prompt is empty: the image can show anything");
    return status ? status : check_prompts(o, out);
}

/* ---- images ---- */

/* Scales an image to the size of the result. */
static zn_status fit(const options *o, const char *path, const parameters *p, zn_image **image)
{
    zn_image *fitted;
    if (!p->width || ((*image)->width == p->width && (*image)->height == p->height))
        return ZN_OK;
    const zn_status status = zn_image_fit(*image, p->width, p->height, &fitted);
    if (status != ZN_OK)
        return status;
    if (o->image && path == p->image) /* the mask goes with it */
        note(o, "%s: using the centre of %dx%d, scaled to %dx%d", shown(path), (*image)->width, (*image)->height,
             p->width, p->height);
    zn_image_free(*image);
    *image = fitted;
    return ZN_OK;
}

static int read_image_of(const options *o, const char *name, zn_image **out)
{
    const zn_image_read_options reading = { .background = { o->background[0], o->background[1], o->background[2] } };
    const char *path = generate_input(name);
    if (!path)
        return EXIT_FAILURE;
    if (read_image(o, path, &reading, out) == ZN_OK)
        return 0;
    complain_about(path);
    return EXIT_FAILURE;
}

/* Reads both, and scales both to a size that generators can make; they must have one size. */
static int read_images(const options *o, parameters *p, zn_image **image, zn_image **mask)
{
    int status = p->image ? read_image_of(o, p->image, image) : 0;
    if (!status && p->mask)
        status = read_image_of(o, p->mask, mask);
    if (status || !*image)
        return status;
    if (*mask && ((*mask)->width != (*image)->width || (*mask)->height != (*image)->height)) {
        complain("%s: the mask is %dx%d, but %s is %dx%d; both must have one size", shown(p->mask), (*mask)->width,
                 (*mask)->height, shown(p->image), (*image)->width, (*image)->height);
        return EXIT_FAILURE;
    }
    parameters_fit_size(p, *image);
    if (fit(o, p->image, p, image) == ZN_OK && (!*mask || fit(o, p->mask, p, mask) == ZN_OK))
        return 0;
    complain_about(p->image);
    return EXIT_FAILURE;
}

/* Names the sizes below and above, or the one above where there is none below. */
static int complain_of_size(const options *o)
{
    char text[2][32]; /* of the smaller, the larger */
    const int square = o->size[0] == o->size[1];
    for (int larger = 0; larger < 2; larger++) {
        int side[2];
        for (int i = 0; i < 2; i++) {
            side[i] = (o->size[i] + larger * (IMAGE_GRAIN - 1)) / IMAGE_GRAIN * IMAGE_GRAIN;
            side[i] = side[i] ? side[i] : IMAGE_GRAIN;
        }
        snprintf(text[larger], sizeof text[larger], square ? "%d" : "%dx%d", side[0], side[1]);
    }
    const int one = !strcmp(text[0], text[1]);
    return usage_error(o->command->name, "--size needs multiples of %d: use %s%s%s", IMAGE_GRAIN, text[0],
                       one ? "" : " or ", one ? "" : text[1]);
}

/* Whether the results can be stored in their format. */
static int check_size(const options *o, const parameters *p)
{
    char *path = generate_path(o, 0, 1);
    const int good =
        !path || !p->width ||
        zn_image_check(strcmp(path, STANDARD_OUTPUT) ? path : generate_kind(o), p->width, p->height, 8) == ZN_OK;
    free(path);
    return good ? 0 : usage_error(o->command->name, "%s", zn_error_text());
}

int generate_images(const options *o, parameters *p, zn_image **image, zn_image **mask)
{
    *image = *mask = NULL;
    /* The size first: an image is not scaled to one that is refused. */
    if (o->size[0] && (o->size[0] % IMAGE_GRAIN || o->size[1] % IMAGE_GRAIN))
        return complain_of_size(o);
    const zn_generation plain = { .size = sizeof plain,
                                  .width = p->width,
                                  .height = p->height,
                                  .steps = p->steps,
                                  .negative = p->negative,
                                  .encoder_tile = p->encoder_tile,
                                  .decoder_tile = p->decoder_tile };
    if (zn_generation_check(&plain) != ZN_OK)
        return usage_error(o->command->name, "%s", zn_error_text());
    int status = read_images(o, p, image, mask);
    if (!status)
        status = check_size(o, p);
    if (status)
        return status;
    zn_generation whole = plain;
    whole.image = *image;
    whole.mask = *mask;
    if (zn_generation_check(&whole) == ZN_OK)
        return 0;
    complain("%s", zn_error_text());
    return EXIT_FAILURE;
}

/* ---- results ---- */

static const char *extension(const options *o) { return o->format ? o->format : "png"; }

const char *generate_kind(const options *o)
{
    return !o->format || !strcmp(o->format, "png") ? "-.png" : !strcmp(o->format, "webp") ? "-.webp" : "-.jpg";
}

static int ends_with_slash(const char *path) { return *path && path[strlen(path) - 1] == '/'; }
static int to_folder(const char *path) { return is_folder(path) || ends_with_slash(path); }

char *generate_path(const options *o, int i, int count)
{
    const char *path = o->output;
    if (!path)
        return NULL;
    if (!strcmp(path, "-"))
        return must_copy(STANDARD_OUTPUT);
    if (to_folder(path))
        return must_print("%s%s%04d.%s", path, ends_with_slash(path) ? "" : "/", i + 1, extension(o));
    if (count == 1)
        return must_copy(path);
    const int stem = (int)(strrchr(path, '.') - path);
    return must_print("%.*s-%d%s", stem, path, i + 1, path + stem);
}

/* Reports an error if a result would replace an input. */
static int replaces(const options *o, const parameters *p, int count)
{
    const char *const inputs[] = { p->image, p->mask, o->from, o->prompts };
    for (int i = 0; i < count; i++) {
        char *path = generate_path(o, i, count);
        const char *same = NULL;
        for (size_t k = 0; k < sizeof inputs / sizeof *inputs && path && !same; k++)
            same = inputs[k] && same_file(path, inputs[k]) ? inputs[k] : NULL;
        free(path);
        if (same)
            return usage_error(o->command->name, "the result would replace the input '%s'", same);
    }
    return 0;
}

static int check_preview(const options *o)
{
    if (!o->preview)
        return 0;
    if (!*o->preview && o->output && !strcmp(o->output, "-"))
        return usage_error(o->command->name, "--preview draws on standard output, which -o - uses; give it a file: "
                                             "--preview=step.png");
    if (!*o->preview && !isatty(STDOUT_FILENO))
        note(o, "--preview draws only in a terminal; --preview=step.png writes a file");
    if (*o->preview && !zn_image_can_write(o->preview))
        return usage_error(o->command->name, "cannot write '%s': its name must end in .png, .jpg or .webp", o->preview);
    if (*o->preview && o->output && !strcmp(o->preview, o->output))
        return usage_error(o->command->name, "--preview and -o both name '%s'", o->output);
    return *o->preview ? lacks_folder(o->preview) : 0;
}

int generate_check_output(const options *o, const parameters *p, int count)
{
    const char *name = o->command->name, *path = o->output;
    const int standard = path && !strcmp(path, "-");
    const char *why = standard ? standard_output_problem(o->json, o->show) : NULL;
    char *sample = must_print("x.%s", extension(o));
    const int known = zn_image_can_write(sample);
    free(sample);
    if (!path && !o->show)
        return usage_error(name, "-o is needed: an image, or a folder for several");
    if (why)
        return usage_error(name, "cannot write to standard output: %s", why);
    if (standard && count > 1)
        return usage_error(name, "cannot write %d images to standard output; give a folder", count);
    if (!known)
        return usage_error(name, "cannot write '%s' files, only .png, .jpg or .webp", extension(o));
    if (path && !standard && !to_folder(path) && !zn_image_can_write(path))
        return usage_error(name, "cannot write '%s': its name must end in .png, .jpg or .webp, or in / for a folder",
                           path);
    if (path && !standard && (to_folder(path) ? lacks_folders(path) : lacks_folder(path)))
        return EXIT_FAILURE;
    const int status = check_preview(o);
    return status ? status : replaces(o, p, count);
}
