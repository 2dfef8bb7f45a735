/* Images from a prompt: Z-Image-Turbo, from the files that its publishers and the usual tools distribute, or the small
 * zenith-mini that comes with the program.
 *
 *     zn_generator *g;
 *     zn_generator_open(&(zn_generator_files){ .model = "z-image-turbo" }, NULL, &g);
 *     zn_generation a = { .size = sizeof a, .prompt = "a red fox in the snow", .seed = 1 };
 *     zn_image *image;
 *     zn_generate(g, &a, &image);
 *     zn_image_write("fox.png", image, NULL);
 *
 * The text encoder, the transformer and the autoencoder are used one after another: on the CPU each is opened when it
 * is needed and released afterwards, and its weights stay mapped. On a GPU they stay there as long as they fit. Calls
 * on one handle take turns. Results do not depend on the number of threads.
 *
 * Structs with `size` grow in later versions: set it to their sizeof. */
#ifndef ZN_GENERATE_H
#define ZN_GENERATE_H

#include <stdint.h>
#include <zenith/image.h>
#include <zenith/options.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_generator zn_generator;

/* Where the networks are. Everything that is NULL is looked for in `model`: a folder in the layout of diffusers or of
 * ComfyUI, a folder with the files themselves, a file of the transformer, or a name that zn_model_find would search
 * for. If neither `model` nor `transformer` is given, it is the one of zn_generator_default. Strings are not retained.
 */
typedef struct zn_generator_files {
    size_t size;              /* sizeof, see zn_options */
    const char *model;        /* may be NULL */
    const char *transformer;  /* .safetensors (or the folder or index.json of its shards), or .gguf */
    const char *text_encoder; /* the same, of Qwen3-4B */
    const char *vae;
    const char *tokenizer; /* tokenizer.json, a folder, or a .gguf file with a vocabulary */
    const char *preview;   /* TAEF1, for previews; NULL: if it is beside the others, that one */
    const char *cache;     /* folder for the features of prompts; NULL: the user's cache folder; "": none */
} zn_generator_files;

/* A part of a model, for lists. Strings are valid during the call. */
typedef struct zn_generator_part_info {
    size_t size;
    const char *name;   /* "transformer", "text encoder", "autoencoder", "tokenizer" or "preview network" */
    const char *path;   /* a file, an index.json, or the folder of a tokenizer; NULL: there is none */
    const char *format; /* "safetensors", "gguf", "pytorch" or "json" */
    const char *dtype;  /* of most of its bytes: "BF16", "Q4_K", "MLX"; "" for tokenizers */
    double bytes;
    int files;    /* 2 or more: shards */
    int optional; /* non-zero: images can be generated without it */
} zn_generator_part_info;
typedef void (*zn_generator_part_fn)(void *user, const zn_generator_part_info *part);

/* Visits the parts that zn_generator_open would use, missing ones included. Then fails as zn_generator_open would if
 * parts are missing or do not belong together. */
ZN_API ZN_MUST_USE zn_status zn_generator_parts(const zn_generator_files *files, zn_generator_part_fn visit,
                                                void *user);

/* Visits the folders that hold a transformer, among those in which zn_model_find searches. */
typedef void (*zn_generator_folder_fn)(void *user, const char *folder);
ZN_API ZN_MUST_USE zn_status zn_generators_visit(zn_generator_folder_fn visit, void *user);

/* Stores the model to use if none is named, for zn_generator_files.model, in name[size]: "z-image-turbo" if it is
 * found, else the first that zn_generators_visit finds with all its parts, which is the bundled "zenith-mini" unless
 * there are others. ZN_ENOTFOUND if there is none. */
ZN_API ZN_MUST_USE zn_status zn_generator_default(char *name, size_t size);

/* What "_generate" in a model's model_index.json says about it: {"description": "...", "examples": ["a prompt"],
 * "subjects": ["portrait"]}; "" and 0 for what is not there. Reads only that file. */
typedef struct zn_generator_about {
    size_t size;           /* sizeof, see zn_options */
    int width, height;     /* for which it was trained; 0: not stated */
    char description[512]; /* what it can draw */
    char examples[1024];   /* prompts that suit it, one on each line */
    char subjects[512];    /* a prompt that suits it contains at least one of these words, one on each line */
} zn_generator_about;
ZN_API ZN_MUST_USE zn_status zn_generator_describe(const zn_generator_files *files, zn_generator_about *out);

/* Finds the files, and checks that each holds the network it should; the message about a missing one names published
 * files that hold it. Of the options context, threads, precision (default: int8, on a GPU bf16), device and memory are
 * used. */
ZN_API ZN_MUST_USE zn_status zn_generator_open(const zn_generator_files *files, const zn_options *options,
                                               zn_generator **out);
ZN_API void zn_generator_free(zn_generator *g);

/* Visits the LoRAs: files loras/NAME.safetensors in the folders in which zn_model_find searches, in that order. A name
 * may come more than once; the first is used. */
typedef void (*zn_lora_visit_fn)(void *user, const char *name, const char *path);
ZN_API ZN_MUST_USE zn_status zn_loras_visit(zn_lora_visit_fn visit, void *user);

/* Adds a LoRA to the transformer: W + strength (alpha / rank) B A, applied at run time. Several may be added. It is an
 * error if nothing in the file fits. path: a file, or a name that zn_loras_visit finds. */
ZN_API ZN_MUST_USE zn_status zn_generator_add_lora(zn_generator *g, const char *path, double strength);
/* For LoRA number `index` (from 0): how many layers its file has matrices for, and how many of them the transformer
 * has. */
ZN_API void zn_generator_lora_layers(const zn_generator *g, int index, int *layers, int *fitting);

typedef enum zn_generation_stage {
    ZN_STAGE_TEXT,   /* the prompt's features */
    ZN_STAGE_ENCODE, /* the image to start from */
    ZN_STAGE_STEPS,
    ZN_STAGE_DECODE
} zn_generation_stage;

/* What a progress callback receives. */
typedef struct zn_generation_progress {
    size_t size;
    zn_generation_stage stage;
    double fraction; /* of the whole generation, 0 to 1 */
    int step, steps; /* finished steps of the sampler */
    /* After a step, if previews were asked for: the image as it looks now, as large as it will be, made by a small
     * decoder of the model's own, by TAEF1 or, without these, enlarged from an eighth of the size; else NULL. On a
     * device it is made during the next step, so it comes after that, and there is none of the last step. Borrowed. */
    zn_image *preview;
} zn_generation_progress;
typedef int (*zn_generation_fn)(void *user, const zn_generation_progress *progress); /* non-zero: cancel */

#define ZN_GUIDANCE_NONE (-1.0)

/* One image. Zero means the default in every field: that of the model (zn_generator_defaults) or else the one named
 * here. */
typedef struct zn_generation {
    size_t size;           /* sizeof, see zn_options */
    const char *prompt;    /* UTF-8; NULL is the empty prompt */
    const char *negative;  /* used with guidance; NULL: empty */
    int width, height;     /* multiples of 16; 0: 1024, or those of `image` */
    int steps;             /* evaluations of the network; 0: 8 */
    uint64_t seed;         /* noise as torch.Generator("cpu").manual_seed(seed) draws it, low 32 bits */
    double guidance;       /* 0: the model's own, which is none for Turbo; ZN_GUIDANCE_NONE: none */
    double shift;          /* of the schedule; 0: 3 */
    const zn_image *image; /* to start from; NULL: noise */
    double strength;       /* how much of it changes, 0 to 1; 0: 0.6 */
    const zn_image *mask;  /* of the same size as image: only what is white changes; NULL: all */
    int preview;           /* non-zero: progress receives an image after each step */
    zn_generation_fn progress;
    void *user;
    /* Tiles in which the autoencoder works, as sides in pixels, multiples of 8, at least 64; ZN_TILE_OFF: the whole
     * image at once; 0: the whole image if memory allows, else tiles. Tiles change colours a little. */
    int encoder_tile, decoder_tile;
} zn_generation;

/* Fails with one sentence if the request cannot be carried out: sizes that are not multiples of 16 (it names the
 * nearest two), a mask of another size, steps or strength out of range. zn_generate checks the same. */
ZN_API ZN_MUST_USE zn_status zn_generation_check(const zn_generation *request);

ZN_API ZN_MUST_USE zn_status zn_generate(zn_generator *g, const zn_generation *request, zn_image **out);

enum { ZN_BATCH_MOST = 64 };

/* Several images, at most ZN_BATCH_MOST, whose steps the transformer takes together where their prompts fill up to the
 * same number of tokens: less time for each on a GPU, most for small images, and memory for the maps of all. If that
 * exceeds the budget, fewer at a time. On a GPU an image may differ from the one of zn_generate by rounding. Width,
 * height, steps, guidance, shift, strength, tiles and whether there is an image must be the same in all requests;
 * progress, user and preview are those of the first, and previews show the first of the images that take steps, whose
 * step begins again at 0 when those do not all take steps together. out: room for `count` images; NULL is written for
 * those that are not made, and those that were finished before a failure or an end by progress are there all the same.
 */
ZN_API ZN_MUST_USE zn_status zn_generate_batch(zn_generator *g, const zn_generation *const *requests, int count,
                                               zn_image **out);

/* The values of settings that a request leaves 0: those of "_generate" in the model's model_index.json, for example
 * {"width": 128, "height": 128, "steps": 20, "guidance": 2, "shift": 1.5}, or the usual ones. */
typedef struct zn_generation_defaults {
    size_t size; /* sizeof, see zn_options */
    int width, height, steps;
    double guidance; /* 0: none */
    double shift;
    int own_size; /* non-zero: the model was trained for this size, and others look worse */
} zn_generation_defaults;
ZN_API void zn_generator_defaults(const zn_generator *g, zn_generation_defaults *out);

/* Measures which layers of the transformer need more precision than FP8. Takes the steps that zn_generate would take
 * for the request, and at each step evaluates the network again with one layer after the other in FP8. Writes the
 * relative error of a step for each layer, and the list of the worst ones, to a file. A generator with ZN_PRECISION_FP8
 * keeps those in bf16 if it finds the file beside the transformer's weights, named like these with .fp8.json appended.
 * Not possible with guidance or an image to start from. */
typedef struct zn_calibration {
    size_t size;      /* sizeof, see zn_options */
    const char *file; /* NULL: beside the weights */
    double keep;      /* share of the layers that stay in bf16, up to 1; 0: 0.1 */
    /* Called for each layer after the file is written, the worst first; may be NULL. */
    void (*visit)(void *user, const char *layer, double error, int kept);
    void *user;
} zn_calibration;
ZN_API ZN_MUST_USE zn_status zn_generator_calibrate(zn_generator *g, const zn_generation *request,
                                                    const zn_calibration *calibration);

/* Facts about the last zn_generate, for reports; in a progress callback, those of the stages before. */
typedef struct zn_generation_report {
    size_t size;
    int tokens;                                 /* of the prompt, with the template */
    int tokens_cut;                             /* dropped after the first 512 */
    int text_cached;                            /* non-zero: the features came from the cache */
    double text_s, encode_s, steps_s, decode_s; /* seconds */
    double peak_bytes;                          /* planned memory of the largest stage, without mapped weights */
    int decoder_tiles;                          /* 1: decoded whole; more: in tiles, slightly other colours */
    int encoder_tiles;                          /* the same for the image to start from; 0: there was none */
    int encoder_tile, decoder_tile;             /* what zn_generation needs for the same result; ZN_TILE_OFF: whole */
    double sent_bytes; /* copied to the GPU for all images of the call, in the report of the first; weights that are
                        * still there are not */
    int together; /* images that took their steps with this one, itself counted; the seconds are its share of theirs */
} zn_generation_report;
ZN_API void zn_generator_report(const zn_generator *g, zn_generation_report *out);
/* The same for image i of the last zn_generate_batch. Zeros if there is no such image. */
ZN_API void zn_generator_report_of(const zn_generator *g, int i, zn_generation_report *out);

/* The plan of memory and precision for a request, as lines of text for people; valid until the next call on g. */
ZN_API ZN_MUST_USE zn_status zn_generator_plan(zn_generator *g, const zn_generation *request, const char **text);

#ifdef __cplusplus
}
#endif
#endif
