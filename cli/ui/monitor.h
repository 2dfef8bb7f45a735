/* What a training run shows while it runs: on a terminal a bar with stage, loss, quality, speed, time left and a small
 * curve of the loss; in a log file a line every few seconds.
 *
 *     monitor m;
 *     zn_train_options t = { ..., .run = monitor_begin(&m, o, ranks) };
 *     zn_status status = zn_train(&t, &r);
 *     if (monitor_end(&m, status, r.steps - r.first))
 *         return EXIT_FAILURE; */
#ifndef ZN_CLI_MONITOR_H
#define ZN_CLI_MONITOR_H

#include "ui/facts.h"
#include "ui/options.h"
#include "ui/progress.h"

#include <zenith/train.h>

enum { MONITOR_CURVE = 16 };

typedef struct monitor {
    progress bar;
    int ranks;
    double logged,
        log_every; /* time of the last line for a log file, and the interval; ms. An interval of 0: no lines */
    double sums[MONITOR_CURVE]; /* of the loss's logarithm over `span` steps each; the last one may be unfinished */
    int count, span, in_last;
    int stage; /* that the curve is of */
    const options *o;
    zn_options compute;
} monitor;

/* What every command line of a run must have; EXIT_USAGE and a sentence if it has not, else 0. */
int monitor_usage(const options *o);

/* --print: the recipe as zn_train_recipe or zn_distill_recipe wrote it, which is freed. Returns the exit status. */
int print_recipe(zn_status status, char *yaml);

/* A run as the command line asks for it, with a bar, a line for each image that cannot be read, and an end at Ctrl-C.
 */
zn_run_options monitor_begin(monitor *m, const options *o, zn_ranks *ranks);

/* The end of a run after `steps` steps: the sentence if it failed; how to go on after Ctrl-C or where the disk was
 * full, say; that there was nothing left to do. Returns the exit status. */
int monitor_end(const monitor *m, zn_status status, int64_t steps);

/* What is said of every run, first and last. */
void fact_run(facts *f, const options *o, int64_t steps, int64_t skipped, double loss);
void fact_model(facts *f, const options *o, double seconds);

#endif
