/* Ranks inside: what the processes of a parallel run say to one another. All ranks make the same calls in the same
 * order; NULL, or a run of one, does nothing.
 *
 *     ZN_TRY(zn_ranks_agree(ranks, read_my_part()));           // all go on, or all fail with one sentence
 *     ZN_TRY(zn_ranks_sum(ranks, gradients, count));
 *
 * ranks_mpi.c or ranks_one.c is compiled: ZENITH_MPI of the build decides. */
#ifndef ZN_TRAIN_RANKS_H
#define ZN_TRAIN_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zenith/ranks.h>

/* values becomes the sum over ranks, the same bits on all of them: neighbours are added first, ((0+1)+(2+3))+(4+5), one
 * without a neighbour waits for the next round. Parts of a batch that one rank adds up in this order give the same bits
 * as parts on ranks. */
ZN_MUST_USE zn_status zn_ranks_sum(zn_ranks *r, float *values, int64_t count);

/* Everyone gets rank 0's bytes. */
ZN_MUST_USE zn_status zn_ranks_share(zn_ranks *r, void *bytes, size_t size);

/* *value becomes true if it is true on any rank. */
ZN_MUST_USE zn_status zn_ranks_any(zn_ranks *r, bool *value);

/* How many processes whoever started this one says there are; 1 when nobody says anything. */
int zn_ranks_started(void);

#endif
