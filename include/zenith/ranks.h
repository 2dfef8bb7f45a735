/* Work shared by several processes, as `mpirun -np N program` starts them.
 *
 *     zn_ranks *ranks;
 *     zn_ranks_open(&ranks);                                   // alone unless started by mpirun
 *     zn_train_options o = { ..., .run.ranks = ranks };
 *     zn_train(&o, &result);                                   // the same call in every process
 *     if (zn_ranks_rank(ranks) == 0)
 *         print(&result);
 *     zn_ranks_close(ranks);                                   // every process, also after a failure
 *
 * A function that takes ranks must be called by all of them; it fails in all of them, with the sentence of the one that
 * failed. A process joins at most once in its life. */
#ifndef ZN_RANKS_PUBLIC_H
#define ZN_RANKS_PUBLIC_H

#include <zenith/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_ranks zn_ranks;

/* ZN_EUNSUPPORTED: one of several processes, but the library was built without MPI. */
ZN_API ZN_MUST_USE zn_status zn_ranks_open(zn_ranks **out);
ZN_API void zn_ranks_close(zn_ranks *ranks);

/* This process, counted from 0, and how many there are. NULL is alone: 0 and 1. */
ZN_API int zn_ranks_rank(const zn_ranks *ranks);
ZN_API int zn_ranks_count(const zn_ranks *ranks);

/* ZN_OK if that is everyone's status; otherwise, on all ranks, status and sentence (zn_error_text) of the first rank
 * that failed. With ZN_OK it is a barrier. */
ZN_API ZN_MUST_USE zn_status zn_ranks_agree(zn_ranks *ranks, zn_status status);

#ifdef __cplusplus
}
#endif
#endif
