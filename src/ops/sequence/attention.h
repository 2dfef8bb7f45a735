/* Shared by the two attention ops: memory and precision, on the CPU and on a GPU. */
#ifndef ZN_OPS_ATTENTION_H
#define ZN_OPS_ATTENTION_H

#include "graph/graph.h"
#include "kernels/attention.h"

zn_needs zn_attention_needs(const zn_attention_args *a, const zn_prepare *p);
zn_needs zn_attention_grad_needs(const zn_attention_args *a, int64_t samples, const zn_prepare *p);

/* For zn_op.prepare and .math: a GPU multiplies in the graph's precision, but in bf16 if that is int8; a CPU in bf16 if
 * it has matrix instructions for it and the precision allows it, else in fp32. int8 allows it where weights are
 * quantised: with those of bf16 it would cost the result more than their format does. */
void zn_attention_prepare(const zn_node *n, const zn_prepare *p, void *prepared);
zn_precision zn_attention_math(const zn_node *n, const zn_prepare *p);
static inline zn_precision zn_attention_prepared(const zn_launch_context *c)
{
    return *(const zn_precision *)c->prepared;
}

#endif
