/* The commands of the program: each has a file of its own and a line in the table in main.c. */
#ifndef ZN_CLI_COMMANDS_H
#define ZN_CLI_COMMANDS_H

#include "ui/options.h"

typedef struct command {
    const char *name;
    const char *arguments;        /* of the usage line */
    const char *summary;          /* for `zenith help`, one line where possible */
    const char *details;          /* a paragraph for `zenith help COMMAND`, wrapped when it is printed */
    unsigned bit;                 /* CMD_... */
    int least, most;              /* files it takes; most -1: any number */
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
int train_run(const options *o);
int dataset_run(const options *o);
int dataset_info(const options *o, const char *path); /* also for zenith info */
int eval_run(const options *o);
int distill_run(const options *o);
int edit_run(const options *o);
int interpolate_run(const options *o);
int sample_run(const options *o);

#endif
