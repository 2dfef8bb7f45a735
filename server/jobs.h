/* Jobs: work that a request asked for, from the queue to its results. Workers run them, watchers see what happens.
 *
 *     sv_job *job = sv_job_new(jobs, task, client);              // then fill in prompt, inputs and options
 *     status = sv_job_submit(job);                               // queued; or ZN_ELIMIT, and the job is gone
 *     sv_job_watch(job, exchange); ... sv_job_unwatch(job, exchange);
 *
 * A job has its own folder for inputs and results; names of clients are never used as paths. */
#ifndef ZN_SERVER_JOBS_H
#define ZN_SERVER_JOBS_H

#include "options/options.h"
#include "server/form.h"
#include "server/http.h"
#include "ui/json.h"

#include <stdatomic.h>

enum { SV_MOST_FILES = 256, SV_MOST_RESULTS = 4096, SV_MOST_WATCHERS = 2048 };

typedef struct sv_jobs sv_jobs;
typedef struct sv_job sv_job;
struct sv_server;

/* A kind of work. `run` calls the library; it fails as the library does. */
typedef struct sv_task {
    const char *name;
    unsigned command;    /* CMD_...: whose options it takes */
    const char *options; /* those of them that may be set, separated by spaces */
    int least, most;     /* files */
    int needs_model;     /* has no default */
    zn_status (*run)(sv_job *job);
} sv_task;

extern const sv_task *const sv_tasks[]; /* ends with NULL */
const sv_task *sv_task_find(const char *name);

typedef enum sv_state { SV_WAITING, SV_RUNNING, SV_DONE, SV_FAILED, SV_CANCELLED } sv_state;
extern const char *const sv_state_names[];

typedef struct sv_file {
    char *path; /* in the job's folder */
    char *name; /* as the client calls it */
} sv_file;

typedef struct sv_result {
    char *path, *name;
    const char *type;
    size_t bytes;
    int width, height; /* of an image */
} sv_result;

struct sv_job {
    /* Fixed once it is queued. */
    char id[64];
    struct sv_server *server;
    sv_jobs *jobs;
    const sv_task *task;
    char client[128];
    char *folder;
    char *model; /* as asked for; NULL: the default */
    char *prompt;
    options o;
    char **texts; /* that o points to */
    int text_count;
    json given; /* the options that were set, as members of an object */
    sv_file files[SV_MOST_FILES], mask, reference;
    int file_count;
    int previews;     /* asked for */
    const char *form; /* of clip: "latent", "video" or "frames" */
    int alpha_mask;   /* of generate: what is transparent in the mask changes, not what is white */

    /* Guarded by the lock of the jobs. */
    sv_state state;
    zn_status status;
    double created, started, finished; /* seconds since 1970; 0: not yet */
    double began;                      /* ms, of a clock that nobody sets: when it was started */
    double fraction, base, share;      /* share: of the whole, of what is being computed, which begins at base */
    int step, steps, image, images;
    char stage[32];
    char *preview; /* JPEG */
    size_t preview_size;
    int preview_number;
    sv_result *results;
    int result_count;
    json facts;    /* members of an object */
    uint64_t seed; /* of generate: of the first image */
    int tokens;    /* of its prompt */
    int used_steps;
    double used_guidance; /* its settings, those of the model included */
    char *remarks[16];
    int remark_count;
    char *error;
    int fetched;
    unsigned version; /* changes whenever something did */
    int references;
    sv_exchange **watchers;
    int watcher_count, watcher_capacity;
    double told;          /* ms: when watchers were last woken for progress */
    atomic_int cancelled; /* asked for */
    atomic_int skipped;   /* of generate: asked for, of the image that is being made */
    sv_job *next;         /* newest first */
};

/* ---- all jobs ---- */

sv_jobs *sv_jobs_start(struct sv_server *server, char why[256]);
struct sv_server *sv_jobs_server(const sv_jobs *jobs);
/* Takes no more jobs. */
void sv_jobs_close(sv_jobs *jobs);
int sv_jobs_closed(sv_jobs *jobs);
/* True while jobs wait or run, or results of jobs that ended after the close were not fetched. */
int sv_jobs_busy(sv_jobs *jobs);
/* Ends what waits and tells what runs to end, so that clients who wait get their answers. */
void sv_jobs_cancel(sv_jobs *jobs);
int sv_jobs_running(sv_jobs *jobs); /* those that are worked on, cancelled ones too */
void sv_jobs_stop(sv_jobs *jobs);   /* cancels what is left and ends the workers */
/* Forgets jobs that ended long ago. */
void sv_jobs_expire(sv_jobs *jobs);
void sv_jobs_lock(sv_jobs *jobs);
void sv_jobs_unlock(sv_jobs *jobs);
/* The newest; locked by the caller, who may follow next. */
sv_job *sv_jobs_first(sv_jobs *jobs);
/* The job with a reference for the caller (sv_job_release); NULL: there is none. */
sv_job *sv_job_find(sv_jobs *jobs, const char *id);
/* The job that has been running longest, of this client or, with NULL, of anyone, with a reference; NULL: none. */
sv_job *sv_job_running(sv_jobs *jobs, const char *client);

typedef struct sv_totals {
    int64_t ended[5]; /* by state */
    int64_t refused;
    double seconds; /* spent running */
    int waiting, running, kept;
} sv_totals;
sv_totals sv_jobs_totals(sv_jobs *jobs);

/* ---- one job ---- */

/* With a reference for the caller; NULL after a failure. */
sv_job *sv_job_new(sv_jobs *jobs, const sv_task *task, const char *client);
/* Takes model, prompt, files and options from a form. */
ZN_MUST_USE zn_status sv_job_fill(sv_job *job, const sv_form *form);
ZN_MUST_USE zn_status sv_job_add_file(sv_job *job, sv_field *field, sv_file *slot); /* slot NULL: the next of files */
ZN_MUST_USE zn_status sv_job_set_option(sv_job *job, const char *name, const char *value);
/* Keeps a copy of a text as long as the job. */
const char *sv_job_text(sv_job *job, const char *text);
ZN_MUST_USE zn_status sv_job_submit(sv_job *job);
/* Runs a job that was not submitted to its end, on this thread. */
void sv_job_run(sv_job *job);
/* It runs from now on; also again, after a worker on another machine was lost. */
void sv_job_begin(sv_job *job);
void sv_job_cancel(sv_job *job);
/* Ends the image that is being made and goes on with the next one; cancels what makes no images one after the other,
 * or runs on another machine. */
void sv_job_skip(sv_job *job);
void sv_job_release(sv_job *job);
/* Deletes a job that nobody refers to, with its files; not under the lock. */
void sv_job_free(sv_job *job);
/* Deletes a folder and the files in it. */
void sv_folder_remove(const char *path);
/* Takes a job that has ended off the list, with its results. */
void sv_job_forget(sv_job *job);

void sv_job_watch(sv_job *job, sv_exchange *e);
void sv_job_unwatch(sv_job *job, sv_exchange *e);
/* These: locked by the caller. */
int sv_job_ended(const sv_job *job);
/* How many jobs leave the queue before this one; -1: it does not wait. */
int sv_job_position(const sv_job *job);
/* Something has changed: wakes the watchers. */
void sv_job_tell(sv_job *job);
/* How long it has been running; 0 while it waits. */
double sv_job_seconds(const sv_job *job);
void sv_job_json(json *j, const char *key, const sv_job *job);
void sv_job_progress_json(json *j, const char *key, const sv_job *job);
/* Its remarks, as the list "remarks". */
void sv_job_remarks_json(json *j, const sv_job *job);

/* The library's sentence with the client's names of files in place of the server's paths; freed by the caller. */
char *sv_job_sentence(const sv_job *job, const char *text);

/* ---- for tasks, on a worker ---- */

/* What follows is this part of the whole: from `base`, `share` long. */
void sv_job_stage(sv_job *job, const char *stage, double base, double share);
/* Which image is being made, of how many; images 0: of one. */
void sv_job_image(sv_job *job, int image, int images);
/* A zn_progress_fn for handles: user is the job. */
int sv_job_tick(void *user, double fraction);
/* Also the steps of a sampler. */
int sv_job_step(sv_job *job, int step, int steps, double fraction);
void sv_job_preview(sv_job *job, const zn_image *image);
/* The bytes of a JPEG, which the job takes. */
void sv_job_set_preview(sv_job *job, char *bytes, size_t size);
__attribute__((format(printf, 2, 3))) void sv_job_remark(sv_job *job, const char *format, ...);
/* Path for a new result, which the job owns; the client sees NAME.extension. */
const char *sv_job_new_result(sv_job *job, const char *name, const char *extension);
/* The result whose path was given last is complete. width 0: not an image. */
ZN_MUST_USE zn_status sv_job_keep_result(sv_job *job, int width, int height);
/* Name of input i without its extension; "image" where it has none. The caller frees it. */
char *sv_job_stem(const sv_job *job, int i);
ZN_MUST_USE zn_status sv_job_read_image(sv_job *job, const sv_file *file, int ignore_alpha, zn_image **out);

#endif
