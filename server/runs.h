/* Training runs: folders below --runs. One run trains at a time, on its own thread; the others are what their folders
 * say. */
#ifndef ZN_SERVER_RUNS_H
#define ZN_SERVER_RUNS_H

#include "server/server.h"

sv_runs *sv_runs_start(sv_server *server);
/* Takes no more runs, and stops the one that trains: its state is saved. */
void sv_runs_close(sv_runs *runs);
int sv_runs_busy(sv_runs *runs);
void sv_runs_stop(sv_runs *runs);

typedef struct sv_run_request {
    const char *name, *recipe, *from;
    char *data;          /* a path */
    int sent;            /* data are images that came with the request */
    int64_t steps, seed; /* steps 0, seed -1: the recipe's */
    int precision;       /* zn_precision */
    const char *settings[MOST_SETTINGS + 1];
} sv_run_request;

/* ZN_ELIMIT: a run trains, so that no other can begin. */
ZN_MUST_USE zn_status sv_run_check(sv_runs *runs);
/* ZN_ELIMIT: another run trains. Copies what it needs. Images that were sent (server/sent.h) are decoded first. */
ZN_MUST_USE zn_status sv_run_begin(sv_runs *runs, const sv_run_request *request);
/* 0: the images of a run that was begun are still being decoded; watchers are woken at the end. Otherwise non-zero; if
 * an image cannot be read, there is no run, and `why`, which the caller frees, is a sentence about it. */
int sv_run_begun(sv_runs *runs, const char *name, zn_status *status, char **why);
ZN_MUST_USE zn_status sv_run_resume(sv_runs *runs, const char *name);
/* ZN_ENOTFOUND: it does not train. */
ZN_MUST_USE zn_status sv_run_halt(sv_runs *runs, const char *name);

/* A name that can be a folder's: letters, digits, - and _. */
int sv_run_name_good(const char *name);
/* Path of the run, or of a file in it; the caller frees it. NULL: there is no such run. */
char *sv_run_path(sv_runs *runs, const char *name, const char *file);
/* Changes with the progress of the run that trains. */
unsigned sv_runs_version(sv_runs *runs);
/* True if it trains now. */
int sv_run_json(sv_runs *runs, const char *name, json *j);
void sv_runs_visit(sv_runs *runs, void (*visit)(void *user, const char *name), void *user);
/* Wakes the exchange at each step of any run. */
void sv_runs_watch(sv_runs *runs, sv_exchange *e);
void sv_runs_unwatch(sv_runs *runs, sv_exchange *e);

#endif
