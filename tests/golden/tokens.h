/* Graphs on token sequences from golden files: inputs, results and gradients in any layout of the file. */
#ifndef ZN_GOLDEN_TOKENS_H
#define ZN_GOLDEN_TOKENS_H

#include "golden.h"

/* Layout in the file of tensors that are [N,1,L,C] here (ROWS: [1,1,N,C]). PLAIN: the same layout. */
typedef enum form { PLAIN, TOKENS, TURNED, ROWS } form;

enum { ITEMS = 64 };
typedef struct item {
    zn_node *node;
    const char *name;
    form form;
} item;

typedef struct bench {
    golden *g;
    zn_graph *graph;
    zn_exec *exec;
    item outputs[ITEMS], wrt[ITEMS];
    int output_count, wrt_count;
} bench;

zn_status bench_new(bench *b, golden *g);
void bench_free(bench *b);

/* Transposes [samples][rows][columns] to [samples][columns][rows]. */
void bench_turn(const float *from, int64_t samples, int64_t rows, int64_t columns, float *to);

/* Adds in.NAME as an input with its values: all tokens of a sequence, or tokens [begin,end). */
zn_node *bench_input(bench *b, const char *name, form f);
zn_node *bench_part(bench *b, const char *name, form f, int64_t begin, int64_t end);

/* Nodes to compare with out.NAME, and nodes whose gradients are compared with out.grad.NAME. */
void bench_output(bench *b, zn_node *n, const char *name, form f);
void bench_want(bench *b, zn_node *n, const char *name, form f);
void bench_want_parameters(bench *b); /* all current parameters, by their own names */

/* Runs the graph. With `of`, also computes the gradients of sum(of * seed). Results stay valid until bench_free. */
zn_status bench_run(bench *b, zn_node *of, zn_node *seed);

#endif
