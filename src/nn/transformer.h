/* Transformer layers on tokens [N,1,L,C]. Matrices keep the format of the file (op zn_matrix), so networks with
 * billions of parameters need no memory beyond the mapped file. */
#ifndef ZN_TRANSFORMER_H
#define ZN_TRANSFORMER_H

#include "nn/nn.h"
#include "nn/rope.h"

zn_node *zn_matrix_layer(zn_scope s, zn_node *x, int out);
zn_node *zn_matrix_no_bias(zn_scope s, zn_node *x, int out);

zn_node *zn_rms_norm_layer(zn_scope s, zn_node *x, float eps);
/* Normalises each head separately, all with the same weights. */
zn_node *zn_rms_norm_heads(zn_scope s, zn_node *x, int heads, float eps);

/* down(silu(gate x) * up x), without biases. */
typedef struct zn_swiglu_scopes {
    zn_scope gate, up, down;
} zn_swiglu_scopes;
zn_node *zn_swiglu(const zn_swiglu_scopes *s, zn_node *x, int inner);

/* An input with its own memory, zeroed, which lives as long as the graph. Returns poison when out of memory. */
zn_node *zn_fixed(zn_graph *g, const char *name, zn_shape shape);

/* Tables for zn_rope: [1,1,tokens,pairs] each. */
typedef struct zn_rope_tables {
    zn_node *cosines, *sines;
} zn_rope_tables;
/* position: [tokens][axes]; NULL leaves the tables zeroed. */
zn_rope_tables zn_rope_fixed(zn_graph *g, const char *name, const zn_rope_axes *axes, const int32_t *position,
                             int64_t tokens);

/* Selects tokens of a sequence [1,1,L,C]: token i is token from[i] of the concatenation of a and b (b may be NULL). */
zn_node *zn_take_tokens(zn_node *a, zn_node *b, const int32_t *from, int count);
/* All tokens of sequences [N,1,..,C], at most ZN_MAX_SOURCES of them, one after the other in each sample. */
zn_node *zn_join_tokens(zn_node *const *x, int count);
/* Tokens [first,first+count) of each sample. */
zn_node *zn_slice_tokens(zn_node *x, int first, int count);

#endif
