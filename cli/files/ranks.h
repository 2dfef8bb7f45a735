/* Commands that run on several processes: `mpirun -np N zenith ...`. */
#ifndef ZN_CLI_RANKS_H
#define ZN_CLI_RANKS_H

#include "options/options.h"

#include <zenith/ranks.h>

/* Joins the other processes, if there are any. From then on only rank 0 prints. Returns 0, or an exit status after
 * reporting an error. The caller closes *out, even after a failure. */
int ranks_join(zn_ranks **out);
/* Waits for all ranks and returns 0 if none has failed so far, else this rank's status or, after reporting the failure
 * of another one, EXIT_FAILURE. The wait ensures that no rank sees the files that another one writes. */
int ranks_agree(zn_ranks *ranks, int status);
/* Joins the other processes, if there are any, and runs the command. Only rank 0 prints. */
int on_ranks(const options *o, int (*run)(const options *o, zn_ranks *ranks));

#endif
