/* Networks with random numbers for parameters and inputs, the same in every run, for tests of models. */
#ifndef ZN_TESTS_SETTING_H
#define ZN_TESTS_SETTING_H

#include "graph/exec.h"
#include "ops/ops.h"

typedef struct setting {
    zn_graph *graph;
    zn_exec *exec;
    zn_pool *pool;
    zn_node *x, *y;
} setting;

void setting_free(setting *s);

/* How many numbers the parameters have, and adds how many parameters there are. Frees the graph. */
int64_t setting_parameters(zn_graph *g, int *tensors);

/* Numbers for parameters that have none yet; ZN_ENOMEM. */
zn_status setting_fill(zn_graph *g);
/* Ready to run, with numbers for inputs that have none yet. */
zn_status setting_start(setting *s, int threads, zn_node *const *outputs, int count, bool training);

/* With graph and y: gradients of all parameters, along a random direction, are those of differences by `step`. Frees
 * the setting. */
void setting_check_gradients(setting *s, float step);

#endif
