/* The selective scan (S6): for each sequence and channel a recurrence over `states` numbers,
 *
 *     delta = softplus(dt[t] + bias)          a[i] = exp(-delta exp(a_log[i]))
 *     h[i] = a[i] h[i] + delta u[t] b[t][i]   y[t] = sum over i of c[t][i] h[i] + d u[t]
 *
 * Channels go in blocks of ZN_SCAN_BLOCK, tokens in chunks of ZN_SCAN_CHUNK. h is kept only where a chunk begins; the
 * gradient computes it again from there. Where there are too few blocks for many threads, chunks run apart: each from
 * zero for its end (zn_k_scan_ends), the ends joined in order (zn_k_scan_join), then each from its true beginning.
 * Which form is taken depends on the sizes alone. */
#ifndef ZN_KERNELS_SCAN_H
#define ZN_KERNELS_SCAN_H

#include "base/threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A block is a line of the cache. The gradient takes ZN_SCAN_GROUP blocks at once, since each such group sums its own
 * d b and d c; fewer blocks than ZN_SCAN_FEW are too few. */
enum { ZN_SCAN_BLOCK = 16, ZN_SCAN_CHUNK = 64, ZN_SCAN_GROUP = 4, ZN_SCAN_FEW = 16 };

/* Maps are [sequences][length][channels]; a cell is [states][ZN_SCAN_BLOCK] floats, channels beyond the last 0. */
typedef struct zn_scan_args {
    const float *u, *dt;           /* maps */
    const float *b, *c;            /* [sequences][length][states] */
    const float *a_log, *d, *bias; /* [channels][states], [channels], [channels] */
    const float *first;            /* h before the first token, [sequences][channels][states], or NULL: 0 */
    float *y;                      /* map */
    float *marks;                  /* cells [sequences][chunks + 1][blocks]: h before each chunk, and after the last */
    float *decay;                  /* apart: cells [sequences][chunks][blocks], the product of a over each chunk */
    float *ends; /* apart: such cells; h after each chunk from 0. Gradient: what goes back out of its beginning from 0,
                    then, joined, what comes back into its end */
    int64_t sequences, length;
    int channels, states;
    bool apart;
    /* Gradient. */
    const float *dy;   /* map */
    float *du, *ddt;   /* maps */
    float *dfirst;     /* [sequences][channels][states], or NULL */
    float *partial;    /* [runs][zn_scan_parameters], see zn_scan_runs: d a_log, d d, d bias */
    float *partial_bc; /* [groups][2][sequences][length][states]: d b, d c from a group of blocks */
} zn_scan_args;

static inline int64_t zn_scan_blocks(const zn_scan_args *a)
{
    return (a->channels + ZN_SCAN_BLOCK - 1) / ZN_SCAN_BLOCK;
}
static inline int64_t zn_scan_groups(const zn_scan_args *a)
{
    return (zn_scan_blocks(a) + ZN_SCAN_GROUP - 1) / ZN_SCAN_GROUP;
}
static inline int64_t zn_scan_chunks(const zn_scan_args *a) { return (a->length + ZN_SCAN_CHUNK - 1) / ZN_SCAN_CHUNK; }
static inline int64_t zn_scan_cell(const zn_scan_args *a) { return (int64_t)a->states * ZN_SCAN_BLOCK; }
static inline bool zn_scan_is_apart(const zn_scan_args *a)
{
    return a->sequences * zn_scan_blocks(a) < ZN_SCAN_FEW && zn_scan_chunks(a) > 1;
}
/* Floats of a sum of parameter gradients, and how many sums there are. */
static inline int64_t zn_scan_parameters(const zn_scan_args *a) { return (int64_t)a->channels * (a->states + 2); }
static inline int64_t zn_scan_runs(const zn_scan_args *a) { return a->sequences * (a->apart ? zn_scan_chunks(a) : 1); }

/* What a unit of a kernel works on: the block (gradient: the group of blocks) is the inner index, then the chunk. */
typedef struct zn_scan_part {
    int64_t sequence, block, chunk, end; /* chunks [chunk,end) */
    int64_t run;                         /* sequence and chunk, or sequence alone */
} zn_scan_part;
static inline zn_scan_part zn_scan_part_of(const zn_scan_args *a, int64_t unit, int64_t blocks)
{
    const int64_t chunks = zn_scan_chunks(a), run = unit / blocks;
    if (!a->apart)
        return (zn_scan_part){ run, unit % blocks, 0, chunks, run };
    return (zn_scan_part){ run / chunks, unit % blocks, run % chunks, run % chunks + 1, run };
}
/* Places of a block's cells: in marks, and in decay or ends. */
static inline int64_t zn_scan_mark(const zn_scan_args *a, int64_t sequence, int64_t chunk, int64_t block)
{
    return ((sequence * (zn_scan_chunks(a) + 1) + chunk) * zn_scan_blocks(a) + block) * zn_scan_cell(a);
}
static inline int64_t zn_scan_inner(const zn_scan_args *a, int64_t sequence, int64_t chunk, int64_t block)
{
    return ((sequence * zn_scan_chunks(a) + chunk) * zn_scan_blocks(a) + block) * zn_scan_cell(a);
}

/* Bytes that each thread needs. */
size_t zn_scan_scratch(const zn_scan_args *a);
size_t zn_scan_grad_scratch(const zn_scan_args *a);

/* Units: zn_scan_runs * blocks. Writes y; together also the marks, apart it reads them. */
void zn_k_scan(const void *scan_args, zn_range units);
/* Apart, the same units: decay and ends. */
void zn_k_scan_ends(const void *scan_args, zn_range units);
void zn_k_scan_grad_ends(const void *scan_args, zn_range units);
/* Apart, units are sequences * blocks: makes marks of the ends; joins those of the gradient, writes dfirst. */
void zn_k_scan_join(const void *scan_args, zn_range units);
void zn_k_scan_grad_join(const void *scan_args, zn_range units);
/* Units: zn_scan_runs * groups. Reads the marks, apart also the ends; writes du, ddt, both partial sums, and together
 * dfirst. */
void zn_k_scan_grad(const void *scan_args, zn_range units);

#endif
