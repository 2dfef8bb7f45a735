/* Progress display of a training run. On a terminal: a bar with stage, loss, quality, speed, time left and a small loss
 * curve. In a log file: a line every few seconds.
 *
 *     monitor m;
 *     zn_train_options t = { ..., .run = monitor_begin(&m, o, ranks) };
 *     zn_status status = zn_train(&t, &r);
 *     return monitor_end(&m, status, r.steps - r.first); */
#ifndef ZN_CLI_MONITOR_H
#define ZN_CLI_MONITOR_H

#include "options/options.h"
#include "ui/facts.h"
#include "ui/progress.h"

#include <zenith/train.h>

enum { MONITOR_CURVE = 16 };

typedef struct monitor {
    progress bar;
    int ranks;
    double logged,
        log_every; /* time of the last log line, and the interval, in ms. An interval of 0 disables log lines */
    double sums[MONITOR_CURVE]; /* sums of log(loss) over `span` steps each; the last one may be incomplete */
    int count, span, in_last;
    int stage; /* the stage that the curve shows */
    const options *o;
    zn_options compute;
} monitor;

/* The options with "--resume RUN" understood: what is a recipe otherwise names the run there, as -o does. */
options monitor_options(const options *o);

/* Checks the options that every run needs, and that its folder can be created. Returns 0, or an exit status after
 * reporting an error. */
int monitor_check(const options *o);

/* --print: prints the recipe that zn_train_recipe or zn_distill_recipe wrote, and frees it. Returns the exit status. */
int print_recipe(const options *o, zn_status status, char *yaml);

/* Options of a run from the command line, with a progress bar, a line for each unreadable image, and a stop on Ctrl-C.
 */
zn_run_options monitor_begin(monitor *m, const options *o, zn_ranks *ranks);

/* Reports the end of a run after `steps` steps: the error if it failed; how to continue after Ctrl-C or, for example,
 * on a full disk; or that nothing was left to do. Returns the exit status. */
int monitor_end(const monitor *m, zn_status status, int64_t steps);

/* The first and the last facts that are reported of every run. */
void fact_run(facts *f, const options *o, int64_t steps, int64_t skipped, double loss);
void fact_model(facts *f, const options *o, double seconds);

#endif
