/* What a training run shows while it goes on: a bar with stage, loss, quality and speed, the time left, and a small
 * curve of the loss.
 *
 *     monitor m = { .bar.quiet = o->quiet };
 *     zn_train_options t = { ..., .progress = monitor_tick, .stop = monitor_stop, .user = &m }; */
#ifndef ZN_CLI_MONITOR_H
#define ZN_CLI_MONITOR_H

#include "facts.h"
#include "options.h"
#include "progress.h"

#include <zenith/train.h>

enum { MONITOR_CURVE = 16 };

typedef struct monitor {
    progress bar;
    double sums[MONITOR_CURVE]; /* of the loss's logarithm over `span` steps each; the last one may be unfinished */
    int count, span, in_last;
    int stage; /* that the curve is of */
} monitor;

/* A progress function of zn_train and zn_distill; non-zero after Ctrl-C. */
int monitor_tick(void *user, const zn_train_progress *p);

/* A stop function of the same: non-zero after Ctrl-C. */
int monitor_stop(void *user);

/* A skipped function of the same: one line for each picture. */
void monitor_skipped(void *user, const char *name, const char *why);

/* The end of a run that did not succeed: the sentence, and how to go on after Ctrl-C. Returns the exit status. */
int monitor_failed(const options *o, const char *command, zn_status status);

/* What a run is for: where its model lies. */
void fact_model(facts *f, const options *o);

/* The curve so far, at most MONITOR_CURVE characters: blocks where the locale has them, else digits. */
enum { MONITOR_TEXT = MONITOR_CURVE * 3 + 1 };
void monitor_curve(const monitor *m, char text[MONITOR_TEXT]);

#endif
