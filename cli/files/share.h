/* Work divided among the processes of `mpirun -np N zenith ...`: process k does every N-th item from k on, and rank 0
 * prints the output of all, in order, as one process would. */
#ifndef ZN_CLI_SHARE_H
#define ZN_CLI_SHARE_H

#include "files/ranks.h"
#include "ui/facts.h"

typedef struct shared_work {
    int count; /* items */
    /* Does item i and prints what it has to say; with JSON output, writes one value to object. Returns non-zero after
     * reporting a failure. */
    int (*run)(void *self, int i, json *object);
    void *self;
    int stops; /* non-zero: a process that fails does no more items */
    /* Whether item i is made and only has to be written, which is done after a failure and after Ctrl-C too; NULL: no.
     */
    int (*ready)(void *self, int i);
} shared_work;

/* Does all items, until Ctrl-C; on rank 0, adds their JSON values to f. Returns the number of failures on rank 0; other
 * ranks do not know it. */
int share(zn_ranks *ranks, const shared_work *w, facts *f);

#endif
