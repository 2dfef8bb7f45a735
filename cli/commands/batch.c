/* Many files, one after the other. Text: a line for each result; JSON: one object with a list. */
#include "commands/batch.h"

#include "commands.h"
#include "ui/report.h"
#include "ui/standard.h"

#include <stdlib.h>
#include <string.h>

/* One file. Returns non-zero if it failed. */
static int run_one(session *s, const batch *b, const job *item, facts *f, double base, double scale)
{
    char summary[512] = "";
    char *label = must_print("%s %s", b->verb, item->input);
    progress_begin(&s->bar, label, base, scale);
    free(label);
    if (f->json) {
        json_open(&f->out, NULL, '{');
        json_text(&f->out, "input", item->input);
    }
    int failed = 1;
    if (item->problem)
        complain("%s: %s", item->input, item->problem);
    else if (b->work(s, item, &f->out, summary, sizeof summary) == ZN_OK)
        failed = 0;
    progress_erase();
    const char *wrote = s->wrote ? s->wrote : item->output;
    if (f->json) {
        if (failed)
            json_text(&f->out, "error", report_error());
        else
            json_text(&f->out, "output", wrote);
        json_close(&f->out, '}');
    } else if (!failed && !strcmp(item->output, STANDARD_OUTPUT)) {
        note(s->o, "%s -> standard output  %s", item->input, summary);
    } else if (!failed && !s->o->quiet) {
        say("%s -> %s  %s\n", item->input, wrote, summary);
    }
    free(s->wrote);
    s->wrote = NULL;
    return failed;
}

int batch_run(const options *o, const batch *b)
{
    job_list list;
    const int status = jobs_make(o, &b->rules, &list);
    if (!status)
        return batch_run_jobs(o, b, &list);
    jobs_free(&list);
    return status;
}

int batch_run_jobs(const options *o, const batch *b, job_list *list)
{
    session s = { .o = o, .own = b->own, .bar.quiet = o->quiet };
    int status = 0;
    if (!b->late)
        status = session_open(&s, o, o->model, b->needs);
    if (!status) {
        facts f;
        facts_begin(&f, o->json);
        int failed = 0;
        if (f.json)
            json_open(&f.out, "files", '[');
        for (int i = 0; i < list->count && !interrupted(); i++)
            failed += run_one(&s, b, &list->items[i], &f, (double)i / list->count, 1.0 / list->count);
        if (f.json) {
            json_close(&f.out, ']');
            json_integer(&f.out, "failed", failed);
            if (s.info)
                json_text(&f.out, "model", s.info->architecture);
        }
        if (b->end)
            b->end(&s, &f);
        facts_end(&f);
        if (failed > 1)
            summarize_errors("%d of %d files failed; the last: %s", failed, list->count, report_error());
        status = failed ? EXIT_FAILURE : 0;
    }
    session_close(&s);
    jobs_free(list);
    return status;
}
