/* One job before it is queued: its folder, files and options; and its end. Nobody else knows the job yet, so nothing
 * here is locked. */
#include "server/jobs.h"

#include "base/fail.h"
#include "base/file.h"
#include "server/server.h"
#include "ui/report.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- folders ---- */

void sv_folder_remove(const char *path)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) {
            char *file = must_print("%s/%s", path, entry->d_name);
            unlink(file);
            free(file);
        }
    if (folder)
        closedir(folder);
    rmdir(path);
}

/* ---- life of a job ---- */

static void file_free(sv_file *f)
{
    free(f->path);
    free(f->name);
}

void sv_job_free(sv_job *job)
{
    sv_folder_remove(job->folder);
    free(job->folder);
    free(job->model);
    free(job->prompt);
    for (int i = 0; i < job->text_count; i++)
        free(job->texts[i]);
    free(job->texts);
    free(job->given.text);
    for (int i = 0; i < job->file_count; i++)
        file_free(&job->files[i]);
    file_free(&job->mask);
    file_free(&job->reference);
    free(job->preview);
    for (int i = 0; i < job->result_count; i++) {
        free(job->results[i].path);
        free(job->results[i].name);
    }
    free(job->results);
    free(job->facts.text);
    for (int i = 0; i < job->remark_count; i++)
        free(job->remarks[i]);
    free(job->error);
    free(job->watchers);
    free(job);
}

/* 0: no randomness, or no folder. */
static int name_job(sv_job *job)
{
    unsigned char bytes[12];
    char *end = job->id + snprintf(job->id, sizeof job->id, "%s-", job->server->instance);
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        end += sprintf(end, "%02x", bytes[i]);
    job->folder = must_print("%s/%s", job->server->spool, job->id);
    return mkdir(job->folder, 0700) == 0;
}

sv_job *sv_job_new(sv_jobs *jobs, const sv_task *task, const char *client)
{
    sv_server *server = sv_jobs_server(jobs);
    sv_job *job = must_alloc(NULL, sizeof *job);
    memset(job, 0, sizeof *job);
    job->server = server;
    job->jobs = jobs;
    job->task = task;
    job->references = 1;
    job->share = 1;
    job->form = "latent";
    job->o.dtype = job->o.run_seed = -1;
    job->o.quiet = 1;
    job->o.device = server->settings->device;
    job->o.threads = server->settings->threads;
    snprintf(job->client, sizeof job->client, "%s", client);
    if (name_job(job))
        return job;
    zn_fail(ZN_EIO, "cannot create a folder for a job in %s: %s", job->server->spool, strerror(errno));
    sv_job_release(job);
    return NULL;
}

const char *sv_job_text(sv_job *job, const char *text)
{
    job->texts = must_alloc(job->texts, (size_t)(job->text_count + 1) * sizeof *job->texts);
    return job->texts[job->text_count++] = must_copy(text);
}

zn_status sv_job_add_file(sv_job *job, sv_field *field, sv_file *slot)
{
    ZN_TRY(sv_field_decode(field));
    if (!slot && job->file_count == SV_MOST_FILES)
        return ZN_FAIL(ZN_ELIMIT, "a job takes at most %d files", SV_MOST_FILES);
    if (slot && slot->path)
        return ZN_FAIL(ZN_EINVALID, "%s is given twice", field->name);
    /* The extension tells the library what a video is; the rest of the name is ours. */
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const char *dot = field->filename ? strrchr(field->filename, '.') : NULL;
    const int plain = dot && strlen(dot) < 13 && dot[1] && strspn(dot + 1, letters) == strlen(dot + 1);
    const char *kind = slot == &job->mask ? "mask" : slot ? "reference" : "in";
    char *path = must_print("%s/%s-%d%s", job->folder, kind, job->file_count, plain ? dot : "");
    const zn_status status = zn_file_write(path, field->bytes, field->size);
    sv_file *file = slot ? slot : &job->files[job->file_count];
    file->path = path;
    file->name = must_copy(field->filename && field->filename[0] ? field->filename : field->name);
    job->file_count += !slot;
    return status;
}

/* ---- options ---- */

static int is_word_of(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = list; n && (at = strstr(at, word)) != NULL; at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == 0 || at[n] == ' '))
            return 1;
    return 0;
}

static const option *option_of(const sv_job *job, const char *name)
{
    for (int i = 0; i < option_count; i++)
        if ((option_table[i].commands & job->task->command) && !strcmp(option_table[i].name, name) &&
            is_word_of(job->task->options, name))
            return &option_table[i];
    return NULL;
}

static zn_status set_flag(sv_job *job, const option *t, const char *value)
{
    const int yes = !strcmp(value, "true") || !strcmp(value, "1");
    if (!yes && strcmp(value, "false") && strcmp(value, "0"))
        return ZN_FAIL(ZN_EINVALID, "%s must be true or false, not '%.60s'", t->name, value);
    *(int *)((char *)&job->o + t->field) = yes;
    return ZN_OK;
}

/* Options that the program does not have. */
static int set_own_option(sv_job *job, const char *name, const char *value, zn_status *status)
{
    *status = ZN_OK;
    if (!strcmp(name, "preview") && job->task->command == CMD_GENERATE) {
        job->previews = strcmp(value, "false") && strcmp(value, "0");
    } else if (!strcmp(name, "to") && !strcmp(job->task->name, "clip")) {
        static const char *const forms[] = { "latent", "video", "frames" };
        job->form = NULL;
        for (int i = 0; i < 3; i++)
            job->form = strcmp(value, forms[i]) ? job->form : forms[i];
        if (!job->form)
            *status = ZN_FAIL(ZN_EINVALID, "to must be latent, video or frames, not '%.60s'", value);
    } else {
        return 0;
    }
    return 1;
}

static zn_status set_option(sv_job *job, const char *given, const char *value)
{
    char name[40];
    zn_status status;
    snprintf(name, sizeof name, "%s", given);
    for (char *c = name; *c; c++)
        *c = *c == '_' ? '-' : *c;
    if (set_own_option(job, name, value, &status))
        return status;
    const option *t = option_of(job, name);
    if (!t)
        return ZN_FAIL(ZN_EINVALID, "the task %s has no option '%.60s'", job->task->name, given);
    if (!t->value)
        return set_flag(job, t, value);
    if (!t->parse(sv_job_text(job, value), (char *)&job->o + t->field))
        return ZN_FAIL(ZN_EINVALID, "%s must be %s, not '%.60s'", name, t->wants, value);
    return ZN_OK;
}

zn_status sv_job_set_option(sv_job *job, const char *name, const char *value)
{
    ZN_TRY(set_option(job, name, value));
    json_text(&job->given, name, value);
    return ZN_OK;
}

static zn_status take_field(sv_job *job, sv_field *f)
{
    if (!f->option && (!strcmp(f->name, "files") || !strcmp(f->name, "file") || f->binary)) {
        sv_file *slot = !strcmp(f->name, "mask") ? &job->mask : !strcmp(f->name, "reference") ? &job->reference : NULL;
        return sv_job_add_file(job, f, slot);
    }
    if (strlen(f->bytes) != f->size)
        return ZN_FAIL(ZN_EINVALID, "%.60s: not a text", f->name);
    if (f->option)
        return sv_job_set_option(job, f->name, f->bytes);
    if (!strcmp(f->name, "mask"))
        return sv_job_add_file(job, f, &job->mask);
    if (!strcmp(f->name, "reference"))
        return sv_job_add_file(job, f, &job->reference);
    if (!strcmp(f->name, "task"))
        return ZN_OK;
    if (!strcmp(f->name, "model") || !strcmp(f->name, "prompt")) {
        char **field = f->name[0] == 'm' ? &job->model : &job->prompt;
        free(*field);
        *field = f->bytes[0] || f->name[0] == 'p' ? must_copy(f->bytes) : NULL;
        return ZN_OK;
    }
    return sv_job_set_option(job, f->name, f->bytes);
}

zn_status sv_job_fill(sv_job *job, const sv_form *form)
{
    for (int i = 0; i < form->count; i++)
        ZN_TRY(take_field(job, &form->fields[i]));
    return ZN_OK;
}
