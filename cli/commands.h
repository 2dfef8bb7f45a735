/* The commands of the program. Each has its own file and a line in the table in main.c. */
#ifndef ZN_CLI_COMMANDS_H
#define ZN_CLI_COMMANDS_H

#include "options/options.h"

typedef struct command {
    const char *name;
    const char *arguments;        /* for the usage line */
    const char *summary;          /* for `zenith help`, one line if possible */
    const char *details;          /* a paragraph for `zenith help COMMAND`, wrapped when printed */
    unsigned bit;                 /* CMD_... */
    int least, most;              /* minimum and maximum number of files; most -1: no limit */
    int (*run)(const options *o); /* returns the exit status */
} command;

extern const command command_table[];
extern const int command_count;

int encode_run(const options *o);
int decode_run(const options *o);
int reconstruct_run(const options *o);
int compare_run(const options *o);
int info_run(const options *o);
int convert_run(const options *o);
int models_run(const options *o);
int bench_run(const options *o);
int restore_run(const options *o);
int upscale_run(const options *o);
int train_run(const options *o);
int dataset_run(const options *o);
int dataset_info(const options *o, const char *path); /* also used by zenith info */
int eval_run(const options *o);
int distill_run(const options *o);
int edit_run(const options *o);
int interpolate_run(const options *o);
int sample_run(const options *o);
int generate_run(const options *o);
int serve_run(const options *o);
int pull_run(const options *o);

#endif
