/* Pictures that cannot be read: whichever rank comes across one, rank 0 tells it, once. */
#include "base/alloc.h"
#include "base/fail.h"
#include "train/run/run.h"

enum { FOUND = 1, TOLD = 2 }; /* by this rank; on rank 0 */

zn_status zn_run_prepare_skips(zn_run *r)
{
    r->skips.marks = zn_calloc((size_t)zn_dataset_count(r->set) + 1, 1);
    return r->skips.marks ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a list of pictures");
}

static void note(void *user, int64_t picture, const char *why)
{
    zn_run_skips *s = user;
    if (s->marks[picture] & FOUND)
        return;
    s->marks[picture] |= FOUND;
    zn_parcel_put(&s->untold, &picture, sizeof picture);
    zn_parcel_put_text(&s->untold, why);
}

zn_skip zn_run_skip(zn_run *r) { return (zn_skip){ note, &r->skips }; }

zn_status zn_run_tell_skips(zn_run *r)
{
    zn_run_skips *s = &r->skips;
    bool any = s->untold.size > 0 || s->untold.failed;
    ZN_TRY(zn_ranks_any(r->options.ranks, &any));
    if (!any)
        return ZN_OK;
    ZN_TRY(zn_parcel_gather(&s->untold, r->options.ranks));
    for (int64_t picture; zn_parcel_take(&s->untold, &picture, sizeof picture);) {
        size_t size;
        const char *why = zn_parcel_take_bytes(&s->untold, &size);
        if (!why || s->marks[picture] & TOLD)
            continue;
        s->marks[picture] |= TOLD;
        s->count++;
        if (r->options.skipped)
            r->options.skipped(r->options.user, zn_dataset_name(r->set, picture), why);
    }
    zn_parcel_free(&s->untold);
    return ZN_OK;
}

void zn_run_free_skips(zn_run *r)
{
    zn_parcel_free(&r->skips.untold);
    zn_free(r->skips.marks);
}
