/* Divides work among processes: each collects the output of its items and sends it to rank 0. */
#include "files/share.h"

#include "ui/progress.h"
#include "ui/report.h"

#include <stdlib.h>
#include <string.h>

static int skips(const shared_work *w, int failed, int i)
{
    return ((failed && w->stops) || interrupted()) && !(w->ready && w->ready(w->self, i));
}

/* Does all items in this process. Returns the number of failures. */
static int run_alone(const shared_work *w, facts *f)
{
    int failed = 0, left = 0;
    for (int i = 0; i < w->count; i++) {
        json object = { 0 };
        if (skips(w, failed, i)) {
            left++;
            continue;
        }
        failed += w->run(w->self, i, &object) != 0;
        if (f->json && object.length)
            json_raw(&f->out, object.text, object.length);
        free(object.text);
    }
    if (left && !failed) /* Ctrl-C between two */
        complain("cancelled");
    return failed + (left && !failed);
}

/* A message to rank 0. */
typedef struct parcel {
    char *bytes;
    size_t size, at; /* at: bytes read so far */
} parcel;

static void put(parcel *p, const void *bytes, size_t size)
{
    p->bytes = must_alloc(p->bytes, p->size + sizeof size + size);
    memcpy(p->bytes + p->size, &size, sizeof size);
    if (size)
        memcpy(p->bytes + p->size + sizeof size, bytes, size);
    p->size += sizeof size + size;
}

/* The next piece, in place; NULL after the last. */
static void *take(parcel *p, size_t *size)
{
    if (p->at == p->size)
        return NULL;
    memcpy(size, p->bytes + p->at, sizeof *size);
    void *bytes = p->bytes + p->at + sizeof *size;
    p->at += sizeof *size + *size;
    return bytes;
}

/* Does the items of this rank and collects their output, and the errors of those that failed. */
static parcel run_share(const shared_work *w, zn_ranks *ranks)
{
    const int first = zn_ranks_rank(ranks), step = zn_ranks_count(ranks);
    int any = 0;
    parcel p = { 0 };
    for (int i = first; i < w->count; i += step) {
        json object = { 0 };
        if (skips(w, any, i))
            continue;
        report_capture();
        const int failed = w->run(w->self, i, &object);
        const captured c = report_captured();
        put(&p, c.out, c.out_size);
        put(&p, c.err, c.err_size);
        put(&p, object.text, object.length);
        put(&p, report_error(), failed ? strlen(report_error()) + 1 : 0);
        any += failed != 0;
        free(c.out);
        free(c.err);
        free(object.text);
    }
    return p;
}

/* Reports the next item of a rank. Returns 1 if it failed, 0 if not, -1 if there are no more. */
static int report_next(parcel *p, facts *f)
{
    captured c = { 0 };
    size_t size = 0;
    if (!(c.out = take(p, &c.out_size)))
        return -1;
    c.err = take(p, &c.err_size);
    report_replay(&c);
    const char *text = take(p, &size);
    if (f->json && size)
        json_raw(&f->out, text, size);
    text = take(p, &size);
    if (size)
        summarize_errors("%s", text);
    return size > 0;
}

/* Sends this rank's parcel to rank 0, which gets one parcel from each rank. */
static zn_status gather(zn_ranks *ranks, parcel *mine, void **all, parcel *parcels)
{
    const int count = zn_ranks_count(ranks);
    size_t *sizes = must_alloc(NULL, sizeof *sizes * (size_t)count), at = 0;
    const zn_status status = zn_ranks_gather(ranks, mine->bytes ? mine->bytes : "", mine->size, all, sizes);
    for (int k = 0; k < count; k++) {
        parcels[k] = (parcel){ .bytes = *all ? (char *)*all + at : NULL, .size = *all ? sizes[k] : 0 };
        at += sizes[k];
    }
    free(sizes);
    return status;
}

int share(zn_ranks *ranks, const shared_work *w, facts *f)
{
    const int count = zn_ranks_count(ranks);
    if (count == 1)
        return run_alone(w, f);
    int failed = 0;
    void *all = NULL;
    parcel *parcels = must_alloc(NULL, sizeof *parcels * (size_t)count), mine = run_share(w, ranks);
    if (gather(ranks, &mine, &all, parcels) != ZN_OK) {
        failed = 1;
        complain("%s", zn_error_text());
    }
    for (int i = 0; i < w->count && all; i++)
        failed += report_next(&parcels[i % count], f) > 0;
    zn_memory_free(all);
    free(mine.bytes);
    free(parcels);
    return failed;
}
