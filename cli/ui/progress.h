/* The progress bar and Ctrl-C.
 *
 *     progress p = { .quiet = o->quiet };
 *     progress_begin(&p, "encode photo.png", 0.0, 0.5);   // this step is the first half of the work
 *     ... the library calls progress_tick(&p, fraction) ...
 *     progress_erase(); */
#ifndef ZN_CLI_PROGRESS_H
#define ZN_CLI_PROGRESS_H

#include <stddef.h>

enum { PROGRESS_LABEL = 192 };

typedef struct progress {
    int quiet;
    double started;     /* start of all the work, ms; 0 before the first step */
    double drawn;       /* last time the bar was drawn */
    double base, scale; /* position of this step in all the work */
    double line_ms;     /* where stderr is not a terminal, a line at most this often; 0: none */
    double left_ms;     /* time left, if known better than from the fraction; 0: not known */
    int skipped;        /* images that could not be used */
    int remarks;        /* on videos with faults */
    char label[PROGRESS_LABEL];
} progress;

/* Starts a step that covers [base, base + scale] of all the work. */
void progress_begin(progress *p, const char *label, double base, double scale);
/* A zn_progress_fn: draws at most ten times a second, starting after one second. Returns non-zero after Ctrl-C. */
int progress_tick(void *user, double fraction);
/* A zn_skipped_fn: prints one line per image, and stops after the first twenty. */
void progress_skipped(void *user, const char *name, const char *why);
/* A film_remark_fn: prints a remark on a video that is used in spite of its faults, and stops after the first twenty.
 */
void progress_remark(void *user, const char *text);
/* Erases the bar if it is visible. */
void progress_erase(void);

/* Time between lines where there is no terminal: $ZENITH_LOG_SECONDS, or a few seconds. 0: no lines. */
double progress_line_ms(void);

/* "12s", "3m05s", "4h07m" */
void duration_text(double ms, char *text, size_t size);

/* After this call, Ctrl-C, SIGTERM and a closed terminal request a stop. A second signal ends the program at once. */
void interrupt_catch(void);
/* The signal that requested the stop, or 0. */
int interrupted(void);

#endif
