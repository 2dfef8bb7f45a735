/* The selective scan (S6): for each sequence and channel a recurrence over `states` numbers,
 *
 *     delta = softplus(dt[t] + bias)          a[i] = exp(-delta exp(a_log[i]))
 *     h[i] = a[i] h[i] + delta u[t] b[t][i]   y[t] = sum over i of c[t][i] h[i] + d u[t]
 *
 * Channels are split into blocks of ZN_SCAN_BLOCK, tokens into chunks. h is stored only at the start of each chunk;
 * the gradient recomputes it from there, with the same chunks. If there are too few blocks for many threads, the
 * chunks run independently (`apart`): each chunk first runs from zero to get its end state (zn_k_scan_ends), the end
 * states are joined in order (zn_k_scan_join), then each chunk runs from its true start state. The choice depends
 * only on the sizes and on whether a device runs it. */
#ifndef ZN_KERNELS_SCAN_H
#define ZN_KERNELS_SCAN_H

#include "base/threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A block is one cache line. The gradient processes ZN_SCAN_GROUP blocks at once, because each group has its own
 * sums of d b and d c. Fewer than ZN_SCAN_FEW blocks are too few for many threads. */
enum {
    ZN_SCAN_BLOCK = 16,
    ZN_SCAN_CHUNK = 64, /* tokens */
    ZN_SCAN_GROUP = 4,
    ZN_SCAN_FEW = 16,
    ZN_SCAN_DEVICE_FEW = 1024, /* the same on a device */
    ZN_SCAN_DEVICE_CHUNK = 32, /* of which a multiprocessor can keep four in shared memory */
};

/* Maps are [sequences][length][channels]. A cell is [states][ZN_SCAN_BLOCK] floats; channels past the last are 0. */
typedef struct zn_scan_args {
    const float *u, *dt;           /* maps */
    const float *b, *c;            /* [sequences][length][states] */
    const float *a_log, *d, *bias; /* [channels][states], [channels], [channels] */
    const float *first;            /* h before the first token, [sequences][channels][states]; NULL: zero */
    float *y;                      /* map */
    float *marks;                  /* cells [sequences][blocks]: h after the last token; then
                                    * [sequences][chunks][blocks]: h before each chunk */
    float *decay;                  /* if apart: cells [sequences][chunks][blocks], the product of a over each chunk */
    float *ends; /* if apart: cells like decay; h after each chunk when started from 0. Gradient: the gradient that
                  * leaves the start of the chunk, computed from 0; after the join, the gradient that enters its end */
    int64_t sequences, length;
    int channels, states;
    bool apart;
    bool on_device; /* chunks have ZN_SCAN_DEVICE_CHUNK tokens */
    /* Gradient. */
    const float *dy;   /* map */
    float *du, *ddt;   /* maps */
    float *dfirst;     /* [sequences][channels][states], or NULL */
    float *partial;    /* [runs][zn_scan_parameters], see zn_scan_runs: d a_log, d d, d bias */
    float *partial_bc; /* [groups][2][sequences][length][states]: d b, d c of a group of blocks */
} zn_scan_args;

static inline int64_t zn_scan_blocks(const zn_scan_args *a)
{
    return (a->channels + ZN_SCAN_BLOCK - 1) / ZN_SCAN_BLOCK;
}
static inline int64_t zn_scan_groups(const zn_scan_args *a)
{
    return (zn_scan_blocks(a) + ZN_SCAN_GROUP - 1) / ZN_SCAN_GROUP;
}
static inline int64_t zn_scan_chunk(const zn_scan_args *a)
{
    return a->on_device ? ZN_SCAN_DEVICE_CHUNK : ZN_SCAN_CHUNK;
}
static inline int64_t zn_scan_chunks(const zn_scan_args *a)
{
    return (a->length + zn_scan_chunk(a) - 1) / zn_scan_chunk(a);
}
static inline int64_t zn_scan_cell(const zn_scan_args *a) { return (int64_t)a->states * ZN_SCAN_BLOCK; }
static inline bool zn_scan_is_apart(const zn_scan_args *a)
{
    return a->sequences * zn_scan_blocks(a) < (a->on_device ? ZN_SCAN_DEVICE_FEW : ZN_SCAN_FEW) &&
           zn_scan_chunks(a) > 1;
}
/* Floats of one sum of parameter gradients, and the number of sums. */
static inline int64_t zn_scan_parameters(const zn_scan_args *a) { return (int64_t)a->channels * (a->states + 2); }
static inline int64_t zn_scan_runs(const zn_scan_args *a) { return a->sequences * (a->apart ? zn_scan_chunks(a) : 1); }

/* The work of one unit. The block (gradient: the group of blocks) is the inner index, then the chunk. */
typedef struct zn_scan_part {
    int64_t sequence, block, chunk, end; /* chunks [chunk,end) */
    int64_t run;                         /* index of sequence and chunk, or of the sequence only */
} zn_scan_part;
static inline zn_scan_part zn_scan_part_of(const zn_scan_args *a, int64_t unit, int64_t blocks)
{
    const int64_t chunks = zn_scan_chunks(a), run = unit / blocks;
    if (!a->apart)
        return (zn_scan_part){ run, unit % blocks, 0, chunks, run };
    return (zn_scan_part){ run / chunks, unit % blocks, run % chunks, run % chunks + 1, run };
}
/* Offsets of a block's cell: in marks, and in decay or ends. The mark after the last chunk does not depend on the
 * length of chunks. */
static inline int64_t zn_scan_mark(const zn_scan_args *a, int64_t sequence, int64_t chunk, int64_t block)
{
    const int64_t chunks = zn_scan_chunks(a);
    const int64_t part = chunk == chunks ? sequence : a->sequences + sequence * chunks + chunk;
    return (part * zn_scan_blocks(a) + block) * zn_scan_cell(a);
}
static inline int64_t zn_scan_marks(const zn_scan_args *a)
{
    return a->sequences * (zn_scan_chunks(a) + 1) * zn_scan_blocks(a) * zn_scan_cell(a);
}
static inline int64_t zn_scan_inner(const zn_scan_args *a, int64_t sequence, int64_t chunk, int64_t block)
{
    return ((sequence * zn_scan_chunks(a) + chunk) * zn_scan_blocks(a) + block) * zn_scan_cell(a);
}

/* Bytes of scratch per thread. */
size_t zn_scan_scratch(const zn_scan_args *a);
size_t zn_scan_grad_scratch(const zn_scan_args *a);

/* Units: zn_scan_runs * blocks. Writes y. Also writes the marks, or reads them if apart. */
void zn_k_scan(const void *scan_args, zn_range units);
/* If apart; the same units. Write decay and ends. */
void zn_k_scan_ends(const void *scan_args, zn_range units);
void zn_k_scan_grad_ends(const void *scan_args, zn_range units);
/* If apart; units are sequences * blocks. The first computes the marks from the ends; the second joins the ends of
 * the gradient and writes dfirst. */
void zn_k_scan_join(const void *scan_args, zn_range units);
void zn_k_scan_grad_join(const void *scan_args, zn_range units);
/* Units: zn_scan_runs * groups. Reads the marks, and the ends if apart. Writes du, ddt, both partial sums, and
 * dfirst if not apart. */
void zn_k_scan_grad(const void *scan_args, zn_range units);

#endif
