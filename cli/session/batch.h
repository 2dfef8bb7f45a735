/* Processes many files one after the other, for encode, decode, reconstruct and restore. A file that fails does not
 * stop the rest. Ranks (mpirun) share the files, and rank 0 reports all of them at the end, in order. */
#ifndef ZN_CLI_BATCH_H
#define ZN_CLI_BATCH_H

#include "files/files.h"
#include "session/session.h"
#include "ui/facts.h"

typedef struct batch {
    job_rules rules;
    const char *verb; /* for the progress bar */
    /* Processes one file and adds its facts as members to j (inside an object). On failure, the library's error text or
     * a printed error gives the reason. */
    zn_status (*work)(session *s, const job *item, json *j, char *summary, size_t size);
    /* After the last file: facts about all of them; may be NULL. */
    void (*end)(const session *s, facts *f);
    void *own; /* passed to work and end as s->own */
    /* If work accumulates sums in `own`: its size, and how rank 0 adds the `own` of another rank. */
    size_t own_size;
    void (*add)(void *own, const void *other);
    unsigned needs;
    int late; /* work opens the session itself */
} batch;

int batch_run(const options *o, const batch *b);
/* The same for a given list of jobs, in which `output` is NULL where nothing is written. Frees `list`. */
int batch_run_jobs(const options *o, const batch *b, job_list *list);

#endif
