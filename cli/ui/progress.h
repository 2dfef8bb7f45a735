/* The progress bar and Ctrl-C.
 *
 *     progress p = { .quiet = o->quiet };
 *     progress_begin(&p, "encode photo.png", 0.0, 0.5);   // this step is the first half of the whole
 *     ... the library calls progress_tick(&p, fraction) ...
 *     progress_erase(); */
#ifndef ZN_CLI_PROGRESS_H
#define ZN_CLI_PROGRESS_H

#include <stddef.h>

enum { PROGRESS_LABEL = 192 };

typedef struct progress {
    int quiet;
    double started;     /* of the whole, ms; 0 before the first step */
    double drawn;       /* last time the bar was drawn */
    double base, scale; /* where this step lies in the whole */
    double left_ms;     /* time left, where it is known better than from the fraction; 0: it is not */
    int skipped;        /* images that could not be used */
    char label[PROGRESS_LABEL];
} progress;

/* Starts a step that covers [base, base + scale] of the whole. */
void progress_begin(progress *p, const char *label, double base, double scale);
/* A zn_progress_fn: draws at most ten times a second, from one second on; non-zero after Ctrl-C. */
int progress_tick(void *user, double fraction);
/* A zn_skipped_fn: one line for each image, and silence after the first twenty. */
void progress_skipped(void *user, const char *name, const char *why);
/* Takes the bar off the screen if it is there. */
void progress_erase(void);

/* "12s", "3m05s", "4h07m" */
void duration_text(double ms, char *text, size_t size);

/* From now on Ctrl-C, a polite kill and a closed terminal ask the work to stop; a second one ends the program at once.
 */
void interrupt_catch(void);
/* The signal that asked to stop, or 0. */
int interrupted(void);

#endif
