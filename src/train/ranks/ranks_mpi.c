/* Ranks over MPI, whose library is opened when there are several (mpi_library.h).
 *
 * Sums go in pieces: every rank collects its share of a piece from all others, adds in the fixed order, and all gather
 * the results. That moves as little as a ring does, and unlike MPI_Allreduce the order of additions depends neither on
 * the library nor on where a value lies. */
#include "train/ranks/ranks.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/memory.h"
#include "base/threads.h"
#include "train/ranks/mpi_library.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PIECE = 1 << 18 }; /* floats: the cache holds a piece and its parts */

struct zn_ranks {
    MPI_Comm comm;
    int rank, count, threads;
    bool ours;                      /* we began MPI, so we end it */
    float *parts;                   /* what all ranks have of this rank's share, consecutively */
    int *counts, *starts;           /* [count]: shares of a piece */
    int *part_counts, *part_starts; /* [count]: in `parts` */
};

static zn_status check(int code, const char *what)
{
    if (code == MPI_SUCCESS)
        return ZN_OK;
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    zn_mpi.Error_string(code, text, &length);
    return ZN_FAIL(ZN_EIO, "MPI cannot %s: %.*s", what, length, text);
}

/* ---- joining ---- */

/* Processes bound to CPUs of their own use those; processes that share CPUs divide them. Memory is divided always. */
static zn_status divide_machine(zn_ranks *r)
{
    MPI_Comm machine;
    const int mine = zn_cpu_count(), own[2] = { mine, 1 }; /* CPUs and processes */
    int sum[2] = { mine, 1 };
    ZN_TRY(
        check(zn_mpi.Comm_split_type(r->comm, MPI_COMM_TYPE_SHARED, 0, zn_mpi.INFO_NULL, &machine), "find neighbours"));
    const zn_status status = check(zn_mpi.Allreduce(own, sum, 2, zn_mpi.INT, zn_mpi.SUM, machine), "count CPUs");
    zn_mpi.Comm_free(&machine);
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    r->threads = online > 0 && sum[0] > online ? (int)(mine * online / sum[0]) : mine;
    r->threads = r->threads > 0 ? r->threads : 1;
    zn_memory_share_among(sum[1]);
    return status;
}

static zn_status join(zn_ranks *r)
{
    int begun = 0, ended = 0, level;
    zn_mpi.Initialized(&begun);
    zn_mpi.Finalized(&ended);
    if (ended)
        return ZN_FAIL(ZN_EINVALID, "this process has left MPI and cannot join again");
    if (!begun) {
        ZN_TRY(check(zn_mpi.Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level), "start"));
        r->ours = true;
    }
    ZN_TRY(check(zn_mpi.Comm_dup(zn_mpi.COMM_WORLD, &r->comm), "set up"));
    zn_mpi.Comm_set_errhandler(r->comm, zn_mpi.ERRORS_RETURN);
    zn_mpi.Comm_rank(r->comm, &r->rank);
    zn_mpi.Comm_size(r->comm, &r->count);
    const size_t n = (size_t)r->count;
    ZN_TRY(zn_alloc_for("sums over ranks", sizeof(int) * n * 4, (void **)&r->counts));
    r->starts = r->counts + n;
    r->part_counts = r->starts + n;
    r->part_starts = r->part_counts + n;
    ZN_TRY(zn_alloc_for("sums over ranks", sizeof(float) * (PIECE + n), (void **)&r->parts));
    return divide_machine(r);
}

zn_status zn_ranks_open(zn_ranks **out)
{
    *out = NULL;
    const int started = zn_ranks_started();
    if (started == 1)
        return ZN_OK;
    if (zn_mpi_open() != ZN_OK) {
        char why[512];
        snprintf(why, sizeof why, "%s", zn_error_text());
        return ZN_FAIL(ZN_EUNSUPPORTED, "this is one of %d processes, which MPI cannot join: %s", started, why);
    }
    zn_ranks *r = zn_calloc(1, sizeof *r);
    if (!r)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for ranks");
    r->comm = zn_mpi.COMM_NULL;
    const zn_status status = join(r);
    if (status != ZN_OK) {
        zn_ranks_close(r);
        return status;
    }
    *out = r;
    return ZN_OK;
}

void zn_ranks_close(zn_ranks *r)
{
    if (!r)
        return;
    if (r->comm != zn_mpi.COMM_NULL)
        zn_mpi.Comm_free(&r->comm);
    if (r->ours)
        zn_mpi.Finalize();
    zn_memory_share_among(1);
    zn_free(r->counts);
    zn_free(r->parts);
    zn_free(r);
}

int zn_ranks_rank(const zn_ranks *r) { return r ? r->rank : 0; }
int zn_ranks_count(const zn_ranks *r) { return r ? r->count : 1; }
int zn_ranks_threads(const zn_ranks *r) { return r ? r->threads : zn_cpu_count(); }

/* ---- sums ---- */

static void add(float *to, const float *from, int count)
{
    for (int i = 0; i < count; i++)
        to[i] += from[i];
}

/* values[count], count <= PIECE. Rank k adds up [starts[k], starts[k] + counts[k]) of it. */
static zn_status sum_piece(zn_ranks *r, float *values, int count)
{
    const int n = r->count;
    for (int k = 0; k < n; k++) {
        r->starts[k] = (int)((int64_t)count * k / n);
        r->counts[k] = (int)((int64_t)count * (k + 1) / n) - r->starts[k];
    }
    const int share = r->counts[r->rank];
    for (int k = 0; k < n; k++) {
        r->part_counts[k] = share;
        r->part_starts[k] = share * k;
    }
    ZN_TRY(check(zn_mpi.Alltoallv(values, r->counts, r->starts, zn_mpi.FLOAT, r->parts, r->part_counts, r->part_starts,
                                  zn_mpi.FLOAT, r->comm),
                 "exchange gradients"));
    for (int step = 1; step < n; step *= 2)
        for (int k = 0; k + step < n; k += 2 * step)
            add(r->parts + r->part_starts[k], r->parts + r->part_starts[k + step], share);
    return check(zn_mpi.Allgatherv(r->parts, share, zn_mpi.FLOAT, values, r->counts, r->starts, zn_mpi.FLOAT, r->comm),
                 "gather gradients");
}

zn_status zn_ranks_sum(zn_ranks *r, float *values, int64_t count)
{
    for (int64_t at = 0; r && at < count; at += PIECE)
        ZN_TRY(sum_piece(r, values + at, (int)(count - at < PIECE ? count - at : PIECE)));
    return ZN_OK;
}

/* ---- the rest ---- */

zn_status zn_ranks_share(zn_ranks *r, void *bytes, size_t size)
{
    char *p = bytes;
    for (size_t at = 0; r && at < size; at += PIECE)
        ZN_TRY(check(zn_mpi.Bcast(p + at, (int)(size - at < PIECE ? size - at : PIECE), zn_mpi.BYTE, 0, r->comm),
                     "send what rank 0 has"));
    return ZN_OK;
}

/* One rank's bytes to rank 0, a piece at a time: counts of MPI are ints. */
static zn_status bring(zn_ranks *r, int from, const char *bytes, size_t size, char *to)
{
    if (from == 0 && r->rank == 0)
        memcpy(to, bytes, size);
    for (size_t at = 0; from > 0 && at < size; at += PIECE) {
        const int n = (int)(size - at < PIECE ? size - at : PIECE);
        if (r->rank == from)
            ZN_TRY(check(zn_mpi.Send(bytes + at, n, zn_mpi.BYTE, 0, 0, r->comm), "reach rank 0"));
        else if (r->rank == 0)
            ZN_TRY(
                check(zn_mpi.Recv(to + at, n, zn_mpi.BYTE, from, 0, r->comm, MPI_STATUS_IGNORE), "hear from a rank"));
    }
    return ZN_OK;
}

zn_status zn_ranks_gather(zn_ranks *r, const void *bytes, size_t size, void **all, size_t *sizes)
{
    size_t total = 0, at = 0;
    *all = NULL;
    if (!r) {
        *sizes = size;
        ZN_TRY(zn_alloc_for("results", size, all));
        memcpy(*all, bytes, size);
        return ZN_OK;
    }
    for (int k = 0; k < r->count; k++) {
        sizes[k] = size;
        ZN_TRY(check(zn_mpi.Bcast(&sizes[k], (int)sizeof *sizes, zn_mpi.BYTE, k, r->comm), "count results"));
        total += sizes[k];
    }
    ZN_TRY(zn_ranks_agree(r, r->rank == 0 ? zn_alloc_for("results", total, all) : ZN_OK));
    for (int k = 0; k < r->count; at += sizes[k++])
        ZN_TRY(bring(r, k, bytes, sizes[k], *all ? (char *)*all + at : NULL));
    return ZN_OK;
}

zn_status zn_ranks_agree(zn_ranks *r, zn_status status)
{
    if (!r)
        return status;
    struct {
        int code;
        char text[1024];
    } failure = { .code = (int)status };
    const int vote = status == ZN_OK ? r->count : r->rank;
    int first;
    if (status != ZN_OK)
        snprintf(failure.text, sizeof failure.text, "%s", zn_error_text());
    ZN_TRY(check(zn_mpi.Allreduce(&vote, &first, 1, zn_mpi.INT, zn_mpi.MIN, r->comm), "reach all ranks"));
    if (first == r->count)
        return ZN_OK;
    ZN_TRY(check(zn_mpi.Bcast(&failure, (int)sizeof failure, zn_mpi.BYTE, first, r->comm), "reach all ranks"));
    return ZN_FAIL((zn_status)failure.code, "%s", failure.text);
}

zn_status zn_ranks_any(zn_ranks *r, bool *value)
{
    if (!r)
        return ZN_OK;
    const int mine = *value;
    int any = 0;
    ZN_TRY(check(zn_mpi.Allreduce(&mine, &any, 1, zn_mpi.INT, zn_mpi.MAX, r->comm), "reach all ranks"));
    *value = any != 0;
    return ZN_OK;
}
