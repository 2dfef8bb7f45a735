/* Finds results that must not be written: over an input, over another result, or over an existing file that -o does not
 * name. Files are identified by device and inode. Sorted lists keep this fast for folders of many thousand files. */
#include "files/files.h"
#include "ui/report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct identity {
    dev_t device;
    ino_t inode;
    const char *path;
} identity;

static int by_identity(const void *a, const void *b)
{
    const identity *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->inode == y->inode ? 0 : x->inode < y->inode ? -1 : 1;
}

static int identify(const char *path, identity *out)
{
    struct stat s;
    if (stat(path, &s))
        return 0;
    *out = (identity){ s.st_dev, s.st_ino, path };
    return 1;
}

/* The inputs that exist, sorted. */
static identity *inputs_of(const job_list *list, size_t *count)
{
    identity *inputs = must_alloc(NULL, (size_t)list->count * sizeof *inputs);
    *count = 0;
    for (int i = 0; i < list->count; i++)
        *count += (size_t)identify(list->items[i].input, &inputs[*count]);
    qsort(inputs, *count, sizeof *inputs, by_identity);
    return inputs;
}

/* Groups equal results, in the order of their inputs. */
static int by_output(const void *a, const void *b)
{
    const job *x = *(job *const *)a, *y = *(job *const *)b;
    const int order = strcmp(x->output, y->output);
    return order ? order : x < y ? -1 : x > y;
}

static void find_duplicates(job_list *list)
{
    job **jobs = must_alloc(NULL, (size_t)list->count * sizeof *jobs);
    size_t count = 0;
    for (int i = 0; i < list->count; i++)
        if (!list->items[i].problem)
            jobs[count++] = &list->items[i];
    qsort(jobs, count, sizeof *jobs, by_output);
    const job *first = NULL;
    for (size_t i = 0; i < count; i++) {
        if (first && !strcmp(first->output, jobs[i]->output))
            jobs[i]->problem = must_print("its result %s is also the result of %s; write one of them elsewhere",
                                          jobs[i]->output, first->input);
        else
            first = jobs[i];
    }
    free(jobs);
}

void jobs_find_conflicts(const options *o, job_list *list)
{
    size_t count;
    identity *inputs = inputs_of(list, &count);
    for (int i = 0; i < list->count; i++) {
        job *j = &list->items[i];
        identity existing;
        if (j->problem || !identify(j->output, &existing))
            continue;
        const identity *input = bsearch(&existing, inputs, count, sizeof *inputs, by_identity);
        if (input)
            j->problem = must_print("its result would replace the input %s", input->path);
        else if (!o->output && !o->force)
            j->problem = must_print("%s already exists; name the result with -o or use --force", j->output);
    }
    free(inputs);
    find_duplicates(list);
}
