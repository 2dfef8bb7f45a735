/* Options of the program: one table for all commands. The parser and the help text use this table. The shell
 * completions and the OPTIONS section of the manual page are generated from it (scripts/generate.sh). */
#ifndef ZN_CLI_OPTIONS_H
#define ZN_CLI_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <zenith/zenith.h>

enum {
    CMD_ENCODE = 1 << 0,
    CMD_DECODE = 1 << 1,
    CMD_RECONSTRUCT = 1 << 2,
    CMD_COMPARE = 1 << 3,
    CMD_INFO = 1 << 4,
    CMD_CONVERT = 1 << 5,
    CMD_MODELS = 1 << 6,
    CMD_BENCH = 1 << 7,
    CMD_TRAIN = 1 << 8,
    CMD_DATASET = 1 << 9,
    CMD_DISTILL = 1 << 10,
    CMD_RESTORE = 1 << 11,
    CMD_EVAL = 1 << 12,
    CMD_EDIT = 1 << 13,
    CMD_INTERPOLATE = 1 << 14,
    CMD_SAMPLE = 1 << 15,
    CMD_GENERATE = 1 << 16,
    CMD_SERVE = 1 << 17,
    CMD_UPSCALE = 1 << 18,
    CMD_PULL = 1 << 19,
    CMD_ALL = (1 << 20) - 1
};

enum { EXIT_USAGE = 2, MOST_SETTINGS = 64, MOST_LORAS = 16, MOST_LISTED = 32 };

/* Values of dtype that are no zn_dtype: codes of MLX files. */
enum { DTYPE_MLX4 = 1004, DTYPE_MLX8 = 1008 };

/* Options of many commands. HARMLESS options do not affect results, so commands that ignore them accept them. */
enum { COMMON = 1, HARMLESS };

struct command;

/* The parsed command line. Zero means "not given", except for dtype, run_seed, keep and grace (-1). */
typedef struct options {
    const struct command *command;
    const char **files;
    int file_count;
    const char *output, *model, *format, *data, *nearest, *reference, *teacher, *student, *from, *labels, *captions,
        *damage;
    const char *classifier, *latent, *attribute, *amount, *device, *scaling;
    const char *transformer, *text_encoder, *vae, *tokenizer;
    const char *negative, *prompts, *image, *mask, *preview, *calibrate; /* negative, preview and calibrate
                                                                          * may be "" */
    const char *token, *sha256;
    const char *noise_seed, *guidance, *shift, *strength, *eta; /* valid numbers; NULL: not given */
    const char *loras[MOST_LORAS + 1];                          /* all --lora values; ends with NULL */
    const char *settings[MOST_SETTINGS + 1];                    /* all --set values; ends with NULL */
    int threads, tile, runs, quality, bits, clips;
    int side, crops, count, heldout, frames, edits, most;
    int precision, part, dtype, task; /* zn_precision, zn_part, zn_dtype, zn_task */
    int lpips;                        /* zn_lpips */
    int scale;                        /* of upscale: 2 or 4; of reconstruct: 1 to 16 */
    int points;                       /* of sample */
    double share;                     /* of reconstruct and generate: above 0, up to 1 */
    double rate;                      /* frames per second */
    int size[2];                      /* width, height */
    uint8_t background[3];
    size_t memory;
    uint64_t seed;
    int64_t run_seed; /* replaces the seed of a recipe */
    int64_t steps, encode_steps, latent_steps;
    int json, quiet, verbose, show, compare, profile, lossless, force, resume, gates, nlm, fid, clip, batch, packed,
        on_clips, help, version, fast;
    int random_noise, imagine, ddpm, list, names, strip, print, blend;
    /* serve */
    const char *listen, *api_key, *models, *runs_folder, *instance, *queue_server;
    const char *cors[MOST_LISTED + 1], *hosts[MOST_LISTED + 1], *folders[MOST_LISTED + 1]; /* each ends with NULL */
    int queue, workers, per_client, keep, grace, job_time, connections, insecure, worker;
    size_t body;
    int pixels; /* millions */
} options;

typedef struct option {
    const char *name;
    char letter;       /* 0: no short form */
    const char *value; /* name of the value in the help; NULL for a flag; "[=FILE]": may be left out */
    const char *help;  /* wrapped when printed */
    const char *wants; /* description of valid values, for error messages and completions: words before the first
                          description are literal values ("auto, off or a number"); "a path" is completed with files, "a
                          name or a path" with models and files */
    unsigned commands; /* commands that use it; listed in their help */
    int common;        /* COMMON or HARMLESS: listed in the help of the program */
    int (*parse)(const char *text, void *field); /* returns 0 if text is not valid; NULL for a flag */
    size_t field;                                /* offset in options */
} option;

/* True if the option may be given without its value, which is then "". */
static inline int value_is_optional(const option *t) { return t->value && t->value[0] == '['; }

extern const option option_table[];
extern const int option_count;

/* Fills o from the words after the command. A file "-" becomes a path to the buffered standard input. Returns 0, or an
 * exit status after reporting an error. The caller frees o->files. */
int options_parse(options *o, const struct command *command, int argc, char **argv);

/* True if results keep the metadata of their input. A comparison image does not, because it is not the photo. */
int keeps_metadata(const options *o);

/* Prints the options of these commands, one line each. */
void options_help(unsigned commands, int common_only);

/* The word of the list nearest to `word` if it is similar enough to suggest, else NULL. */
const char *nearest_word(const char *word, const char *const *list, int count);

/* The same for a list of the library, where name_of gives the name at an index, or NULL at the end. */
const char *nearest_name(const char *word, const char *(*name_of)(int index, const char **description));

#endif
