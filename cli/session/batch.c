/* Processes many files one after the other. Text output: a line for each result; JSON: one object with a list. */
#include "session/batch.h"

#include "files/share.h"
#include "files/standard.h"
#include "ui/report.h"

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
    if (!failed && item->output && !strcmp(item->output, STANDARD_OUTPUT))
        failed = !say_flush(); /* whose error is reported at the end */
    progress_erase();
    const char *wrote = s->wrote ? s->wrote : item->output;
    if (s->o->json) {
        if (failed)
            json_text(object, "error", report_error());
        else if (wrote)
            json_text(object, "output", wrote);
        else
            json_null(object, "output");
        json_close(object, '}');
    } else if (!failed && !wrote) {
        say("%s  %s\n", item->input, summary);
    } else if (!failed && !strcmp(item->output, STANDARD_OUTPUT)) {
        note(s->o, "%s -> standard output  %s", item->input, summary);
    } else if (!failed && !s->o->quiet) {
        say("%s -> %s  %s\n", item->input, wrote, summary);
    }
    free(s->wrote);
    s->wrote = NULL;
    return failed;
}

/* ---- all files, on all ranks ---- */

typedef struct share_of_files {
    session *s;
    const batch *b;
    const job_list *list;
} share_of_files;

static int run_file(void *self, int i, json *object)
{
    const share_of_files *w = self;
    return run_one(w->s, w->b, &w->list->items[i], object, (double)i / w->list->count, 1.0 / w->list->count);
}

/* On rank 0, `own` of the batch becomes the sum over all ranks. Returns 0, or 1 after reporting a failure. */
static int add_own(const batch *b, zn_ranks *ranks)
{
    const int count = zn_ranks_count(ranks);
    if (!b->add || count == 1)
        return 0;
    size_t *sizes = must_alloc(NULL, sizeof *sizes * (size_t)count);
    void *all = NULL;
    const int failed = zn_ranks_gather(ranks, b->own, b->own_size, &all, sizes) != ZN_OK;
    if (failed)
        complain("%s", zn_error_text());
    for (int k = 1; k < count && all; k++)
        b->add(b->own, (char *)all + (size_t)k * b->own_size);
    zn_memory_free(all);
    free(sizes);
    return failed;
}

static int run_files(session *s, const batch *b, const job_list *list, zn_ranks *ranks)
{
    facts f;
    facts_begin(&f, s->o->json);
    if (f.json)
        json_open(&f.out, "files", '[');
    const shared_work work = { .count = list->count, .run = run_file, .self = &(share_of_files){ s, b, list } };
    int failed = share(ranks, &work, &f);
    failed += add_own(b, ranks);
    if (f.json) {
        json_close(&f.out, ']');
        json_integer(&f.out, "failed", failed);
        if (s->info)
            fact_model_name(&f, s->info);
        session_precision_facts(s, &f.out);
    }
    if (b->end)
        b->end(s, &f);
    facts_end(&f);
    if (failed > 1)
        summarize_errors("%d of %d files failed; the last: %s", failed, list->count, report_error());
    return failed ? EXIT_FAILURE : 0;
}

static int run_jobs(const options *o, const batch *b, const job_list *list, zn_ranks *ranks)
{
    options mine = *o;
    if (!mine.threads && zn_ranks_count(ranks) > 1)
        mine.threads = zn_ranks_threads(ranks);
    session s = { .o = &mine, .own = b->own, .bar.quiet = o->quiet };
    int status = ranks_agree(ranks, b->late ? 0 : session_open(&s, &mine, o->model, b->needs));
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
    status = ranks_agree(ranks, jobs_make(o, &b->rules, &list));
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
