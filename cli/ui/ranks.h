/* Commands that several processes share: `mpirun -np N zenith ...`. */
#ifndef ZN_CLI_RANKS_H
#define ZN_CLI_RANKS_H

#include "ui/options.h"

#include <zenith/ranks.h>

/* Joins the other processes, if there are any; from now on only rank 0 says anything. *out must be closed, also after a
 * failure, which is an exit status, its reason said. */
int ranks_join(zn_ranks **out);
/* Joins the other processes, if there are any, and runs the command; only rank 0 says anything. */
int on_ranks(const options *o, int (*run)(const options *o, zn_ranks *ranks));

#endif
