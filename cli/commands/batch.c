/* Processes many files one after the other. Text output: a line for each result; JSON: one object with a list. */
#include "commands/batch.h"

#include "commands.h"
#include "ui/ranks.h"
#include "ui/report.h"
#include "ui/standard.h"

#include <stdlib.h>
#include <string.h>

/* Processes one file. With JSON output, writes its facts to `object`. Returns non-zero on failure. */
static int run_one(session *s, const batch *b, const job *item, json *object, double base, double scale)
{
    char summary[512] = "";
    char *label = must_print("%s %s", b->verb, item->input);
    progress_begin(&s->bar, label, base, scale);
    free(label);
    if (s->o->json) {
        json_open(object, NULL, '{');
        json_text(object, "input", item->input);
    }
    int failed = 1;
    if (item->problem)
        complain("%s: %s", item->input, item->problem);
    else if (b->work(s, item, object, summary, sizeof summary) == ZN_OK)
        failed = 0;
    progress_erase();
    const char *wrote = s->wrote ? s->wrote : item->output;
    if (s->o->json) {
        if (failed)
            json_text(object, "error", report_error());
        else
            json_text(object, "output", wrote);
        json_close(object, '}');
    } else if (!failed && !strcmp(item->output, STANDARD_OUTPUT)) {
        note(s->o, "%s -> standard output  %s", item->input, summary);
    } else if (!failed && !s->o->quiet) {
        say("%s -> %s  %s\n", item->input, wrote, summary);
    }
    free(s->wrote);
    s->wrote = NULL;
    return failed;
}

static void add_object(facts *f, json *object)
{
    if (f->json)
        json_raw(&f->out, object->text, object->length);
    free(object->text);
    *object = (json){ 0 };
}

/* Processes all files in this process. Returns the number of failures. */
static int run_alone(session *s, const batch *b, const job_list *list, facts *f)
{
    int failed = 0;
    for (int i = 0; i < list->count && !interrupted(); i++) {
        json object = { 0 };
        failed += run_one(s, b, &list->items[i], &object, (double)i / list->count, 1.0 / list->count);
        add_object(f, &object);
    }
    return failed;
}

/* ---- ranks: each of n ranks processes every n-th file, and rank 0 prints the output of all ---- */

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

/* The next item, in place; NULL after the last. */
static void *take(parcel *p, size_t *size)
{
    if (p->at == p->size)
        return NULL;
    memcpy(size, p->bytes + p->at, sizeof *size);
    void *bytes = p->bytes + p->at + sizeof *size;
    p->at += sizeof *size + *size;
    return bytes;
}

/* Processes the files of this rank and collects their output, and the errors of failed files. */
static parcel run_share(session *s, const batch *b, const job_list *list, zn_ranks *ranks)
{
    const int first = zn_ranks_rank(ranks), step = zn_ranks_count(ranks);
    parcel p = { 0 };
    for (int i = first; i < list->count && !interrupted(); i += step) {
        json object = { 0 };
        report_capture();
        const int failed = run_one(s, b, &list->items[i], &object, (double)i / list->count, 1.0 / list->count);
        const captured c = report_captured();
        put(&p, c.out, c.out_size);
        put(&p, c.err, c.err_size);
        put(&p, object.text, object.length);
        put(&p, report_error(), failed ? strlen(report_error()) + 1 : 0);
        free(c.out);
        free(c.err);
        free(object.text);
    }
    return p;
}

/* Reports the next file of a rank. Returns 1 if it failed, 0 if not, -1 if there are no more. */
static int report_next(parcel *p, facts *f)
{
    captured c = { 0 };
    size_t size = 0;
    if (!(c.out = take(p, &c.out_size)))
        return -1;
    c.err = take(p, &c.err_size);
    report_replay(&c);
    const char *text = take(p, &size);
    if (f->json)
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

/* Processes all files on all ranks. On rank 0, `own` of the batch becomes the sum over all ranks. Returns the number of
 * failures on rank 0; other ranks do not know it. */
static int run_on_ranks(session *s, const batch *b, const job_list *list, zn_ranks *ranks, facts *f)
{
    const int count = zn_ranks_count(ranks);
    int failed = 0;
    void *all = NULL, *owns = NULL;
    parcel *parcels = must_alloc(NULL, sizeof *parcels * (size_t)count), mine = run_share(s, b, list, ranks);
    parcel own = { .bytes = b->own, .size = b->own_size };
    if (b->add && gather(ranks, &own, &owns, parcels) != ZN_OK)
        failed = 1;
    for (int k = 1; k < count && owns; k++)
        b->add(b->own, parcels[k].bytes);
    if (gather(ranks, &mine, &all, parcels) != ZN_OK)
        failed = 1;
    if (failed)
        complain("%s", zn_error_text());
    for (int i = 0; i < list->count && all; i++)
        failed += report_next(&parcels[i % count], f) > 0;
    zn_memory_free(all);
    zn_memory_free(owns);
    free(mine.bytes);
    free(parcels);
    return failed;
}

/* ---- all of it ---- */

static int run_files(session *s, const batch *b, const job_list *list, zn_ranks *ranks)
{
    facts f;
    facts_begin(&f, s->o->json);
    if (f.json)
        json_open(&f.out, "files", '[');
    const int failed = zn_ranks_count(ranks) > 1 ? run_on_ranks(s, b, list, ranks, &f) : run_alone(s, b, list, &f);
    if (f.json) {
        json_close(&f.out, ']');
        json_integer(&f.out, "failed", failed);
        if (s->info)
            json_text(&f.out, "model", s->info->architecture);
    }
    if (b->end)
        b->end(s, &f);
    facts_end(&f);
    if (failed > 1)
        summarize_errors("%d of %d files failed; the last: %s", failed, list->count, report_error());
    return failed ? EXIT_FAILURE : 0;
}

/* Waits for all ranks and returns 0 if none has failed so far. The wait ensures that no rank sees the files that
 * another one writes. */
static int agree(zn_ranks *ranks, int status)
{
    if (zn_ranks_agree(ranks, status ? ZN_EINVALID : ZN_OK) == ZN_OK)
        return 0;
    if (!status)
        complain("%s", zn_error_text());
    return status ? status : EXIT_FAILURE;
}

static int run_jobs(const options *o, const batch *b, const job_list *list, zn_ranks *ranks)
{
    options mine = *o;
    if (!mine.threads && zn_ranks_count(ranks) > 1)
        mine.threads = zn_ranks_threads(ranks);
    session s = { .o = &mine, .own = b->own, .bar.quiet = o->quiet };
    int status = agree(ranks, b->late ? 0 : session_open(&s, &mine, o->model, b->needs));
    if (!status)
        status = run_files(&s, b, list, ranks);
    session_close(&s);
    return status;
}

int batch_run(const options *o, const batch *b)
{
    job_list list = { 0 };
    zn_ranks *ranks;
    int status = ranks_join(&ranks);
    if (status)
        return status;
    status = agree(ranks, jobs_make(o, &b->rules, &list));
    if (!status)
        status = run_jobs(o, b, &list, ranks);
    zn_ranks_close(ranks);
    jobs_free(&list);
    return status;
}

int batch_run_jobs(const options *o, const batch *b, job_list *list)
{
    zn_ranks *ranks;
    int status = ranks_join(&ranks);
    if (!status)
        status = run_jobs(o, b, list, ranks);
    zn_ranks_close(ranks);
    jobs_free(list);
    return status;
}
