/* Ranks of a build without MPI: there is one. */
#include "train/ranks/ranks.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/threads.h"

#include <string.h>

struct zn_ranks {
    int unused;
};

zn_status zn_ranks_open(zn_ranks **out)
{
    *out = NULL;
    const int started = zn_ranks_started();
    if (started > 1)
        return ZN_FAIL(ZN_EUNSUPPORTED, "this is one of %d processes, but this build has no MPI to join them", started);
    return ZN_OK;
}

void zn_ranks_close(zn_ranks *r) { (void)r; }

int zn_ranks_rank(const zn_ranks *r)
{
    (void)r;
    return 0;
}

int zn_ranks_count(const zn_ranks *r)
{
    (void)r;
    return 1;
}

int zn_ranks_threads(const zn_ranks *r)
{
    (void)r;
    return zn_cpu_count();
}

zn_status zn_ranks_sum(zn_ranks *r, float *values, int64_t count)
{
    (void)r;
    (void)values;
    (void)count;
    return ZN_OK;
}

zn_status zn_ranks_share(zn_ranks *r, void *bytes, size_t size)
{
    (void)r;
    (void)bytes;
    (void)size;
    return ZN_OK;
}

zn_status zn_ranks_gather(zn_ranks *r, const void *bytes, size_t size, void **all, size_t *sizes)
{
    (void)r;
    *sizes = size;
    ZN_TRY(zn_alloc_for("results", size, all));
    memcpy(*all, bytes, size);
    return ZN_OK;
}

zn_status zn_ranks_agree(zn_ranks *r, zn_status status)
{
    (void)r;
    return status;
}

zn_status zn_ranks_any(zn_ranks *r, bool *value)
{
    (void)r;
    (void)value;
    return ZN_OK;
}
