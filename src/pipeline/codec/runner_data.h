/* The insides of a runner, shared by runner.c and runner_plan.c only. */
#ifndef ZN_RUNNER_DATA_H
#define ZN_RUNNER_DATA_H

#include "pipeline/codec/runner.h"
#include "pipeline/codec/stage.h"

struct zn_runner {
    zn_runner_options options;
    zn_graph *whole; /* the network at full size, for analysis (and execution when nothing is cut) */
    zn_shape input_shape, output_shape;
    size_t budget;
    zn_stage stages[ZN_MAX_SEGMENTS];
    int count;
    float *input;                      /* whole input map when the first stage is tiled */
    double flops, total, done, window; /* window: of the one that is running */
    double coarse;                     /* of total: below fp32 */
    char plan[1024];
    zn_runner_row *rows;
    int row_count;
    size_t row_room;
};

/* Cuts r->whole into stages that fit the budget, counts their operations and describes them. input, output: of
 * r->whole. */
ZN_MUST_USE zn_status zn_runner_plan_stages(zn_runner *r, zn_node *input, zn_node *output);

#endif
