/* Networks with random parameters and inputs, the same in every run, for tests of models. */
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

/* Returns the number of elements of all parameters and adds the number of parameters to *tensors. Frees the graph. */
int64_t setting_parameters(zn_graph *g, int *tensors);

/* Sets random values for parameters without values. May fail with ZN_ENOMEM. */
zn_status setting_fill(zn_graph *g);
/* Prepares a run, with random values for inputs without values. */
zn_status setting_start(setting *s, int threads, zn_node *const *outputs, int count, bool training);

/* Needs graph and y. Compares the gradients of all parameters along a random direction with finite differences of
 * `step`. Frees the setting. */
void setting_check_gradients(setting *s, float step);

#endif
