/* The plan of bands: made by bands_plan.c, followed by bands.c. */
#ifndef ZN_BANDS_DATA_H
#define ZN_BANDS_DATA_H

#include "pipeline/codec/bands.h"

typedef struct span {
    int64_t begin, end;
} span;

/* One node in one band, in rows of the whole map. */
typedef struct step {
    span made;    /* rows that are computed */
    span read;    /* rows of the first source that this takes */
    span window;  /* rows that the op writes: those made, and wrong ones around them */
    span held;    /* rows that the node's buffer has memory for */
    int64_t kept; /* rows [kept, made.begin) come from the band before */
    int64_t keep; /* rows [keep, made.end) are kept for the next band */
} step;

struct zn_bands {
    zn_graph *graph;
    zn_node *input, *output;
    zn_prepare prepare;
    int nodes, count, now; /* now: the band that is running */
    int64_t rows, lag;     /* of output for each band, and that it follows the input by */
    step *steps;           /* [count][nodes] */
    size_t step_capacity, flops_capacity;
    bool *live;        /* maps that lead to the output; this and what follows by index of the node */
    int64_t *height;   /* of the whole map */
    int *last;         /* index of the last node that reads it */
    bool *saves;       /* its rows take no more memory than those that it is the last to read */
    int64_t *block;    /* side of the squares that its kernel computes */
    int64_t *phase;    /* row where the first of them begins */
    size_t *window_at; /* byte of `memory` where the node's buffer begins */
    size_t *tail_at;   /* and where the rows that it keeps do */
    size_t windows, tails;
    double *flops; /* by band */
    char *memory;
    zn_exec_bands hooks;
};

static inline int64_t count_of(span s) { return s.end - s.begin; }
static inline int64_t round_up(int64_t n, int64_t to) { return n > 0 ? (n + to - 1) / to * to : -(-n / to * to); }
static inline step *step_of(const zn_bands *b, int band, const zn_node *n)
{
    return &b->steps[band * b->nodes + n->index];
}
static inline bool is_live(const zn_bands *b, const zn_node *n) { return b->live[n->index]; }
static inline size_t row_bytes(const zn_node *n)
{
    return zn_type_size(n->type) * (size_t)(n->shape.dim[0] * n->shape.dim[2] * n->shape.dim[3]);
}

/* Fills in steps, lag and offsets. *possible: see zn_bands_new. */
ZN_MUST_USE zn_status zn_bands_plan(zn_bands *b, bool *possible);

/* Gives n and its sources the shapes of their windows. check: false where the op would make other rows of them. */
bool zn_bands_show_window(const zn_bands *b, zn_node *n, const step *st, bool check);
/* Gives all nodes their whole heights again. */
void zn_bands_restore_heights(zn_bands *b);

#endif
