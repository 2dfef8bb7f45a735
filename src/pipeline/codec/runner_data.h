/* The insides of a runner, shared by runner.c and runner_plan.c only. */
#ifndef ZN_RUNNER_DATA_H
#define ZN_RUNNER_DATA_H

#include "pipeline/codec/runner.h"
#include "pipeline/codec/stage.h"

struct zn_runner {
    zn_runner_options options;
    zn_graph *whole; /* the network at full size, for analysis (and execution when nothing is cut) */
    zn_shape input_shape, output_shape;
    zn_node *input_node, *output_node; /* of whole */
    size_t budget;                     /* without what the caller holds */
    size_t needed;                     /* by the stage that needs most */
    size_t packed;                     /* weights of the whole network; part of it if there is a cache */
    zn_stage stages[ZN_MAX_SEGMENTS];
    int count;
    float *input, *output;             /* whole maps, unless the runner streams or the whole network runs at once */
    double flops, total, done, window; /* window: of the one that is running */
    double coarse;                     /* of total: below fp32 */
    char plan[4096];
    zn_runner_rows rows;
};

/* Cuts r->whole into stages that fit the budget, or take least (r->needed), counts their operations and describes them.
 */
ZN_MUST_USE zn_status zn_runner_plan_stages(zn_runner *r);

#endif
