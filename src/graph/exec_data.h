/* Shared by exec.c and exec_report.c. */
#ifndef ZN_EXEC_DATA_H
#define ZN_EXEC_DATA_H

#include "graph/exec.h"
#include "graph/mirror.h"
#include "graph/needs.h"
#include "graph/plan.h"
#include "graph/turns.h"

struct zn_exec {
    zn_exec_options options;
    zn_prepare prepare;
    zn_plan plan;
    int first; /* first step of a run: constants are computed once, unless parameters change */
    zn_node **outputs;
    bool *arrived; /* by output: its values are in host memory */
    int output_count;
    zn_needs needs;       /* totals over all steps */
    size_t *refreshed_at; /* by step: offset in the refreshed memory of its group */
    int *group_end;       /* by step: end of the group that begins here; 0 if none does */
    size_t refreshed_bytes;
    char *block;         /* activations, refreshed data, shared scratch, then the scratch of each thread */
    char *prepared;      /* what zn_op.prepare wrote, for all nodes */
    size_t *prepared_at; /* by step */
    const void **packed; /* by step: packed weights, either shared or in own_packed */
    char *own_packed;
    zn_fetched fetched;      /* while steps are prepared */
    zn_mirror mirror;        /* copies of this memory on the device; empty without a device */
    zn_turns turns;          /* weights that take turns on the device; empty if all fit */
    zn_recording *recording; /* of a run's launches; NULL: there is none yet */
    int plain_runs;          /* runs without a recording so far */
    double *ms;              /* time by step, when profiling */
    double total_flops;
};

/* Whether the CPU runs a step. */
static inline bool zn_exec_on_host(const zn_exec *e, int step)
{
    return zn_runs_on_host(e->plan.steps[step], &e->prepare);
}

#endif
