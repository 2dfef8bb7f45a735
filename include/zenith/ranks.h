/* Work shared by several processes, as `mpirun -np N program` starts them.
 *
 *     zn_ranks *ranks;
 *     zn_ranks_open(&ranks);                                   // one process unless started by mpirun
 *     zn_train_options o = { ..., .run.ranks = ranks };
 *     zn_train(&o, &result);                                   // the same call in every process
 *     if (zn_ranks_rank(ranks) == 0)
 *         print(&result);
 *     zn_ranks_close(ranks);                                   // every process, also after a failure
 *
 * A function that takes ranks must be called by all of them; if it fails on one, it fails on all, with the same
 * message. A process can open ranks only once. */
#ifndef ZN_RANKS_PUBLIC_H
#define ZN_RANKS_PUBLIC_H

#include <stddef.h>
#include <zenith/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_ranks zn_ranks;

/* ZN_EUNSUPPORTED: started as one of several processes, but the library was built without MPI. */
ZN_API ZN_MUST_USE zn_status zn_ranks_open(zn_ranks **out);
ZN_API void zn_ranks_close(zn_ranks *ranks);

/* The number of this process, from 0, and the number of processes. NULL means one process: 0 and 1. */
ZN_API int zn_ranks_rank(const zn_ranks *ranks);
ZN_API int zn_ranks_count(const zn_ranks *ranks);

/* ZN_OK if all ranks pass ZN_OK; otherwise, on all ranks, the status and message (zn_error_text) of the first rank that
 * failed. Also a barrier. */
ZN_API ZN_MUST_USE zn_status zn_ranks_agree(zn_ranks *ranks, zn_status status);

/* Number of threads for this process, so that all processes of its machine together use each CPU once. */
ZN_API int zn_ranks_threads(const zn_ranks *ranks);

/* Collects the bytes of all ranks on rank 0: *all has them in the order of the ranks (free it with zn_memory_free), and
 * sizes[zn_ranks_count] the size of each. The other ranks get NULL. */
ZN_API ZN_MUST_USE zn_status zn_ranks_gather(zn_ranks *ranks, const void *bytes, size_t size, void **all,
                                             size_t *sizes);

#ifdef __cplusplus
}
#endif
#endif
