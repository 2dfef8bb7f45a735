/* A case of check-ops: an op with small inputs. The ops of its gradient need no separate case. */
#ifndef ZN_TESTS_OP_CASE_H
#define ZN_TESTS_OP_CASE_H

#include "ops/ops.h"

#include <string.h>

enum { MAX_INPUTS = 8 };

typedef struct op_case {
    const char *op; /* name in ops.def; the graph that `build` makes contains it */
    zn_shape shapes[MAX_INPUTS];
    zn_node *(*build)(zn_node **in);
    bool away_from_zero; /* inputs avoid a kink at 0 */
} op_case;

/* Shapes of inputs. */
#define MAP(...)                                                                                                       \
    {                                                                                                                  \
        .rank = 4, .dim = { __VA_ARGS__ }                                                                              \
    }
#define ROW(n)                                                                                                         \
    {                                                                                                                  \
        .rank = 1, .dim = { n }                                                                                        \
    }
#define ROWS(...)                                                                                                      \
    {                                                                                                                  \
        .rank = 2, .dim = { __VA_ARGS__ }                                                                              \
    }
#define CUBE(...)                                                                                                      \
    {                                                                                                                  \
        .rank = 3, .dim = { __VA_ARGS__ }                                                                              \
    }

/* Graphs with convolutions are also checked after the fusion of their gradients. */
static inline bool op_case_is_fused(const op_case *c) { return !strcmp(c->op, "conv") || !strcmp(c->op, "dense"); }

extern const op_case op_cases[], op_cases_sequence[]; /* the last entry of each has no name */

#endif
