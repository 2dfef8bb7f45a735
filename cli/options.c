/* The option table and its parser: long options with a space or '=', short ones alone, clustered or with their value
 * attached, "--" before names that start with a dash. */
#include "options.h"

#include "commands.h"
#include "report.h"
#include "standard.h"
#include "values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(options, member)
enum {
    CODEC = CMD_ENCODE | CMD_DECODE | CMD_RECONSTRUCT,
    RUNS = CODEC | CMD_RESTORE,
    EDITS = CMD_EDIT | CMD_INTERPOLATE,
    DIFFUSES = EDITS | CMD_SAMPLE,
    PICTURES = CMD_DECODE | CMD_RECONSTRUCT | CMD_RESTORE | DIFFUSES,
    READS_PICTURES = CMD_ENCODE | CMD_RECONSTRUCT | CMD_COMPARE | CMD_RESTORE | EDITS,
    TRAINS = CMD_TRAIN | CMD_DISTILL
};

/* clang-format off */
const option option_table[] = {
    { "output", 'o', "PATH", "file or folder to write; without it, a new file beside the input", "a path",
      CMD_ENCODE | CMD_DECODE, 0, value_text, AT(output) },
    { "output", 'o', "PATH", "picture to write, or folder for several; without it, nothing is written", "a path",
      CMD_RECONSTRUCT, 0, value_text, AT(output) },
    { "output", 'o', "PATH", "one picture with all results side by side, or a folder/ for a picture of each", "a path",
      CMD_EDIT | CMD_SAMPLE, 0, value_text, AT(output) },
    { "output", 'o', "PATH", "one picture with all frames side by side, a folder/ for a picture of each, or a film", "a path",
      CMD_INTERPOLATE, 0, value_text, AT(output) },
    { "classifier", 0, "FILE", "weights of the classifier, where those of the model have none", "a path",
      CMD_EDIT, 0, value_text, AT(classifier) },
    { "latent", 0, "FILE", "weights of the latent net, where those of the model have none", "a path",
      CMD_SAMPLE, 0, value_text, AT(latent) },
    { "attribute", 0, "NAME", "what to change: one of --list, or its number", "a name or a number",
      CMD_EDIT, 0, value_text, AT(attribute) },
    { "amount", 0, "A[,A...]", "how far, such as 0.3 or -0.3,0,0.3; several give a strip (0.3)", "numbers, parted by commas",
      CMD_EDIT, 0, value_text, AT(amount) },
    { "list", 0, NULL, "the attributes that the classifier knows; of IN, how likely it shows them", NULL,
      CMD_EDIT, 0, NULL, AT(list) },
    { "frames", 0, "N", "how many pictures, the two ends among them (10)", "a number from 2 to 10000",
      CMD_INTERPOLATE, 0, value_frames, AT(frames) },
    { "count", 0, "N", "how many pictures (1)", "a number from 1 to 10000",
      CMD_SAMPLE, 0, value_count, AT(count) },
    { "steps", 0, "N", "of a diffusion autoencoder, from noise to picture (20)", "a number from 2 to 1000",
      CMD_RECONSTRUCT, 0, value_steps, AT(steps) },
    { "steps", 0, "N", "from noise to picture (20)", "a number from 2 to 1000",
      CMD_INTERPOLATE | CMD_SAMPLE, 0, value_steps, AT(steps) },
    { "steps", 0, "N", "from noise to picture (100)", "a number from 2 to 1000",
      CMD_EDIT, 0, value_steps, AT(steps) },
    { "encode-steps", 0, "N", "of a diffusion autoencoder, from picture to noise (250)", "a number from 2 to 1000",
      CMD_RECONSTRUCT | EDITS, 0, value_steps, AT(encode_steps) },
    { "latent-steps", 0, "N", "of the latent net (200)", "a number from 2 to 1000",
      CMD_SAMPLE, 0, value_steps, AT(latent_steps) },
    { "random-noise", 0, NULL, "of a diffusion autoencoder: noise of --seed, not the picture's own", NULL,
      CMD_RECONSTRUCT | EDITS, 0, NULL, AT(random_noise) },
    { "force", 'f', NULL, "without -o: replace files that are there already", NULL,
      CMD_ENCODE | CMD_DECODE, 0, NULL, AT(force) },
    { "output", 'o', "DIR", "folder of the run", "a path",
      TRAINS, 0, value_text, AT(output) },
    { "output", 'o', "PATH", "build: the data set; show: the picture of the sheet", "a path",
      CMD_DATASET, 0, value_text, AT(output) },
    { "size", 0, "N", "build: side of the stored pictures (256); show: of a square (160)", "a number from 8 to 4096",
      CMD_DATASET, 0, value_side, AT(side) },
    { "crops", 0, "N", "build: squares at random from each photo (one, the middle)", "a number from 1 to 10000",
      CMD_DATASET, 0, value_count, AT(crops) },
    { "count", 0, "N", "show: how many pictures, chosen by --seed (24)", "a number from 1 to 10000",
      CMD_DATASET, 0, value_count, AT(count) },
    { "heldout", 0, "N", "info: percent of the pictures held out from training (2)", "a number from 1 to 99",
      CMD_DATASET, 0, value_percent, AT(heldout) },
    { "format", 0, "EXT", "build: store pictures as jpg, png or webp (jpg)", "an extension",
      CMD_DATASET, 0, value_text, AT(format) },
    { "teacher", 0, "NAME", "weights to learn from: name, file or folder", "a name or a path",
      CMD_DISTILL, 0, value_text, AT(teacher) },
    { "student", 0, "NAME", "zenith-r, zenith-r-wide, taesd-half or a .yaml file", "a name or a path",
      CMD_DISTILL, 0, value_text, AT(student) },
    { "output", 'o', "PATH", "file or folder to write", "a path",
      CMD_RESTORE, 0, value_text, AT(output) },
    { "task", 0, "TASK", "what is wrong: denoise, impulse, deblur or auto (auto)", "auto, denoise, impulse or deblur",
      CMD_RESTORE, 0, value_task, AT(task) },
    { "reference", 0, "PATH", "the picture as it should be, or a folder of them: adds PSNR and SSIM", "a path",
      CMD_RESTORE, 0, value_text, AT(reference) },
    { "output", 'o', "FILE", "scores of each picture, as .csv or .json", "a path",
      CMD_EVAL, 0, value_text, AT(output) },
    { "data", 'd', "PATH", "pictures to judge by: a folder, or an .lmdb data set", "a path",
      CMD_EVAL, 0, value_text, AT(data) },
    { "task", 0, "TASK", "what a restorer is told and tried on: denoise, impulse, deblur or auto (auto: all)",
      "denoise, impulse, deblur or auto",
      CMD_EVAL, 0, value_task, AT(task) },
    { "damage", 0, "KIND", "only this: gaussian:25, salt:5, random:5, blur:1.5 or box:5", "a kind of damage",
      CMD_EVAL, 0, value_text, AT(damage) },
    { "nlm", 0, NULL, "compare with non-local means too, which takes long", NULL,
      CMD_EVAL, 0, NULL, AT(nlm) },
    { "heldout", 0, "N", "only the pictures that training with held_out N leaves alone (all)", "a number from 1 to 99",
      CMD_EVAL, 0, value_percent, AT(heldout) },
    { "gates", 0, NULL, "what block gates prune, and the time of each layer", NULL,
      CMD_EVAL, 0, NULL, AT(gates) },
    { "data", 'd', "PATH", "pictures to train on: a folder, or an .lmdb data set", "a path",
      TRAINS, 0, value_text, AT(data) },
    { "steps", 0, "N", "how many (the recipe's)", "a number from 1 to 1000000000",
      TRAINS, 0, value_steps, AT(steps) },
    { "precision", 'p', "TYPE", "of the convolutions: f32 or bf16; weights stay f32 (the recipe's)", "f32 or bf16",
      CMD_TRAIN, 0, value_learning, AT(learning) },
    { "seed", 0, "N", "of start values, order and crops (the recipe's)", "a whole number up to 9000000000000000",
      TRAINS, 0, value_run_seed, AT(run_seed) },
    { "from", 0, "NAME", "weights to train further: name, file or folder (fresh ones)", "a name or a path",
      TRAINS, 0, value_text, AT(from) },
    { "labels", 0, "FILE", "attributes of the pictures, for a classifier (labels.csv beside them)", "a path",
      CMD_TRAIN, 0, value_text, AT(labels) },
    { "resume", 0, NULL, "go on from the run's last checkpoint", NULL,
      TRAINS, 0, NULL, AT(resume) },
    { "clip", 0, NULL, "the pictures are the frames of one clip, for a video autoencoder", NULL,
      CMD_ENCODE, 0, NULL, AT(clip) },
    { "format", 0, "EXT", "safetensors or png, where -o does not name a file (safetensors)", "an extension",
      CMD_ENCODE, 0, value_text, AT(format) },
    { "format", 0, "EXT", "png, jpg or webp, where -o does not name a file (png)", "an extension",
      CMD_DECODE | CMD_RECONSTRUCT | CMD_RESTORE | DIFFUSES, 0, value_text, AT(format) },
    { "quality", 0, "N", "of JPEG and lossy WebP, 1 to 100 (92; in data sets 95)", "a number from 1 to 100",
      PICTURES | CMD_DATASET, 0, value_quality, AT(quality) },
    { "lossless", 0, NULL, "write WebP without loss", NULL,
      PICTURES | CMD_DATASET, 0, NULL, AT(lossless) },
    { "bits", 0, "8|16", "bits of a sample in the picture written; 16 for PNG only (8)", "8 or 16",
      CMD_DECODE, 0, value_bits, AT(bits) },
    { "rate", 0, "N", "pictures a second of a film that is written (24)", "a number from 1 to 1000",
      CMD_DECODE | CMD_INTERPOLATE, 0, value_rate, AT(rate) },
    { "background", 0, "RRGGBB", "colour under transparent pixels (000000)", "six hexadecimal digits",
      READS_PICTURES, 0, value_background, AT(background) },
    { "compare", 0, NULL, "write original | reconstruction | difference", NULL,
      CMD_RECONSTRUCT, 0, NULL, AT(compare) },
    { "compare", 0, NULL, "write input | restored | difference", NULL,
      CMD_RESTORE, 0, NULL, AT(compare) },
    { "dtype", 0, "TYPE", "store numbers as f32, f16 or bf16 (as they are)", "f32, f16 or bf16",
      CMD_CONVERT, 0, value_dtype, AT(dtype) },
    { "part", 0, "PART", "encode or decode (decode)", "encode or decode",
      CMD_BENCH, 0, value_part, AT(part) },
    { "size", 0, "WxH", "image size, 512 or 640x480 (512)", "a size such as 512 or 640x480",
      CMD_INFO | CMD_BENCH, 0, value_size, AT(size) },
    { "runs", 0, "N", "timed runs (7)", "a number from 1 to 100000",
      CMD_BENCH, 0, value_runs, AT(runs) },
    { "profile", 0, NULL, "a row for each layer: time, GFLOP/s, bytes, share, part of the roofline", NULL,
      CMD_BENCH, 0, NULL, AT(profile) },
    { "device", 0, "NAME", "what computes: cpu or cuda (cpu)", "cpu or cuda",
      RUNS | CMD_BENCH, 0, value_device, AT(device) },
    { "model", 'm', "NAME", "weights: name, file, folder, or random:ARCHITECTURE", "a name or a path",
      RUNS | DIFFUSES | CMD_BENCH | CMD_EVAL, COMMON, value_text, AT(model) },
    { "threads", 't', "N", "threads (one for each CPU)", "a number from 0 to 1024",
      RUNS | DIFFUSES | CMD_BENCH | CMD_EVAL | TRAINS | CMD_DATASET, HARMLESS, value_threads, AT(threads) },
    { "precision", 'p', "TYPE", "of the multiplications: f32, bf16 or f16 (f32)", "f32, bf16 or f16",
      RUNS | DIFFUSES | CMD_BENCH | CMD_EVAL, COMMON, value_precision, AT(precision) },
    { "tile", 0, "N", "side of a tile in pixels, auto or off (auto)", "auto, off or a number of pixels",
      RUNS | CMD_BENCH | CMD_EVAL, HARMLESS, value_tile, AT(tile) },
    { "memory", 0, "SIZE", "budget for activations, such as 1G (half of what is free)", "a size such as 512M or 1G",
      RUNS | CMD_BENCH | CMD_EVAL, HARMLESS, value_memory, AT(memory) },
    { "seed", 0, "N", "of random weights, input, noise and choices (0)", "a whole number",
      RUNS | DIFFUSES | CMD_BENCH | CMD_EVAL | CMD_INFO | CMD_DATASET, COMMON, value_seed, AT(seed) },
    { "show", 0, NULL, "draw the picture in the terminal", NULL,
      RUNS | DIFFUSES | CMD_COMPARE | CMD_INFO | CMD_DATASET, COMMON, NULL, AT(show) },
    { "json", 0, NULL, "print one JSON object and nothing else", NULL,
      CMD_ALL, HARMLESS, NULL, AT(json) },
    { "quiet", 'q', NULL, "no progress bar, remarks or lines about single files", NULL,
      CMD_ALL, HARMLESS, NULL, AT(quiet) },
    { "verbose", 'v', NULL, "say more on stderr: model, plan, times", NULL,
      CMD_ALL, HARMLESS, NULL, AT(verbose) },
    { "version", 'V', NULL, "print the version", NULL,
      CMD_ALL, HARMLESS, NULL, AT(version) },
    { "help", 'h', NULL, "print this help", NULL,
      CMD_ALL, HARMLESS, NULL, AT(help) },
};
/* clang-format on */
const int option_count = sizeof option_table / sizeof *option_table;

void options_help(unsigned commands, int common_only)
{
    for (int i = 0; i < option_count; i++) {
        const option *t = &option_table[i];
        if (!(t->commands & commands) || (common_only && !t->common))
            continue;
        char left[64];
        snprintf(left, sizeof left, "%c%c%c --%s%s%s", t->letter ? '-' : ' ', t->letter ? t->letter : ' ',
                 t->letter ? ',' : ' ', t->name, t->value ? " " : "", t->value ? t->value : "");
        say("  %-24s %s\n", left, t->help);
    }
}

static int accepts(const option *t, const command *c) { return t->common == HARMLESS || (t->commands & c->bit); }

static const option *find_long(const command *c, const char *name, size_t length)
{
    for (int i = 0; i < option_count; i++)
        if (accepts(&option_table[i], c) && strlen(option_table[i].name) == length &&
            !memcmp(option_table[i].name, name, length))
            return &option_table[i];
    return NULL;
}

static const option *find_short(const command *c, char letter)
{
    for (int i = 0; i < option_count; i++)
        if (accepts(&option_table[i], c) && option_table[i].letter == letter)
            return &option_table[i];
    return NULL;
}

static int unknown_long(const command *c, const char *name, size_t length)
{
    const char *names[sizeof option_table / sizeof *option_table];
    int count = 0;
    for (int i = 0; i < option_count; i++) {
        const option *t = &option_table[i];
        if (t->common && strlen(t->name) == length && !memcmp(t->name, name, length))
            return usage_error(c->name, "--%s does nothing here", t->name);
        if (accepts(t, c))
            names[count++] = t->name;
    }
    char *word = must_print("%.*s", (int)length, name);
    const char *near = nearest_word(word, names, count);
    const int status = near ? usage_error(c->name, "unknown option '--%s', did you mean '--%s'?", word, near)
                            : usage_error(c->name, "unknown option '--%s'", word);
    free(word);
    return status;
}

/* Stores one option; value is NULL when none was attached, *taken tells that the next word was used. */
static int store(options *o, const option *t, const char *value, const char *next, int *taken)
{
    void *field = (char *)o + t->field;
    *taken = 0;
    if (!t->parse) {
        *(int *)field = 1;
        return 0;
    }
    if (!value) {
        if (!next)
            return usage_error(o->command->name, "--%s needs %s", t->name, t->wants);
        value = next;
        *taken = 1;
    }
    if (!t->parse(value, field))
        return usage_error(o->command->name, "--%s needs %s, not '%s'", t->name, t->wants, value);
    return 0;
}

static int parse_long(options *o, const char *word, const char *next, int *taken)
{
    const char *name = word + 2, *equals = strchr(name, '=');
    const size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const option *t = find_long(o->command, name, length);
    if (!t)
        return unknown_long(o->command, name, length);
    if (equals && !t->parse)
        return usage_error(o->command->name, "--%s takes no value", t->name);
    return store(o, t, equals ? equals + 1 : NULL, next, taken);
}

/* "-v", "-vq", "-oOUT", "-o OUT" */
static int parse_short(options *o, const char *word, const char *next, int *taken)
{
    *taken = 0;
    for (const char *c = word + 1; *c; c++) {
        const option *t = find_short(o->command, *c);
        if (!t)
            return usage_error(o->command->name, "unknown option '-%c'", *c);
        const int last = !t->parse ? 0 : 1;
        const int status = store(o, t, last && c[1] ? c + 1 : NULL, next, taken);
        if (status || last)
            return status;
    }
    return 0;
}

static int check_files(const options *o)
{
    const command *c = o->command;
    if (o->help || o->version)
        return 0;
    if (o->file_count < c->least)
        return usage_error(c->name, "needs %s: zenith %s %s", c->least == 1 ? "a file" : "two files", c->name,
                           c->arguments);
    if (c->most >= 0 && o->file_count > c->most)
        return usage_error(c->name, "does not know what to do with '%s'", o->files[c->most]);
    return 0;
}

int options_parse(options *o, const command *c, int argc, char **argv)
{
    *o = (options){ .command = c, .dtype = -1, .run_seed = -1, .part = ZN_DECODER };
    o->files = must_alloc(NULL, ((size_t)argc + 1) * sizeof *o->files);
    int only_files = 0, status = 0;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
        int taken = 0;
        if (only_files || word[0] != '-' || !word[1])
            o->files[o->file_count++] = word;
        else if (!strcmp(word, "--"))
            only_files = 1;
        else if (word[1] == '-')
            status = parse_long(o, word, next, &taken);
        else
            status = parse_short(o, word, next, &taken);
        if (status)
            return status;
        i += taken;
    }
    status = check_files(o);
    for (int i = 0; i < o->file_count && !status && !o->help && !o->version; i++)
        if (!strcmp(o->files[i], "-") && !(o->files[i] = standard_input()))
            status = EXIT_FAILURE;
    return status;
}
