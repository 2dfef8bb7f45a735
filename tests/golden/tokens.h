/* Graphs on sequences of tokens from golden files: inputs, results and gradients, whichever way the file keeps them. */
#ifndef ZN_GOLDEN_TOKENS_H
#define ZN_GOLDEN_TOKENS_H

#include "golden.h"

/* How a file keeps what is [N,1,L,C] here (ROWS: [1,1,N,C]); PLAIN: as it is. */
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

/* [samples][rows][columns] to [samples][columns][rows]. */
void bench_turn(const float *from, int64_t samples, int64_t rows, int64_t columns, float *to);

/* in.NAME as an input with its values; of sequences all tokens, or [begin,end). */
zn_node *bench_input(bench *b, const char *name, form f);
zn_node *bench_part(bench *b, const char *name, form f, int64_t begin, int64_t end);

/* Nodes compared with out.NAME, and such whose gradients are compared with out.grad.NAME. */
void bench_output(bench *b, zn_node *n, const char *name, form f);
void bench_want(bench *b, zn_node *n, const char *name, form f);
void bench_want_parameters(bench *b); /* those that there are now, by their own names */

/* Runs the graph; with `of`, gradients of sum(of * seed) too. Keeps the results until bench_free. */
zn_status bench_run(bench *b, zn_node *of, zn_node *seed);

#endif
