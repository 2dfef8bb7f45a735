/* zenith serve: starts the parts, waits for a signal, and stops them in order. */
#include "server/serve.h"

#include "server/models.h"
#include "server/remote.h"
#include "server/runs.h"
#include "server/server.h"
#include "ui/report.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SENDING_SECONDS = 2 }; /* for answers to slow clients at the end */

static volatile sig_atomic_t stop;

static void on_signal(int number) { stop = number; }

static void finished(void *user, int status, size_t received)
{
    sv_server *s = user;
    if (status >= 100 && status < 600)
        s->requests[status / 100]++;
    s->received += (long long)received;
}

/* ---- start ---- */

static int is_loopback(const char *address)
{
    return !strncmp(address, "127.", 4) || !strcmp(address, "::1") || !strcmp(address, "localhost");
}

static int fail(const char *why)
{
    complain("%s", why);
    return 0;
}

static int make_spool(sv_server *s)
{
    const char *base = getenv("TMPDIR");
    snprintf(s->spool, sizeof s->spool, "%s/zenith-serve-XXXXXX", base && *base ? base : "/tmp");
    if (mkdtemp(s->spool))
        return 1;
    complain("cannot create a folder for jobs in %s: %s", base && *base ? base : "/tmp", strerror(errno));
    s->spool[0] = 0;
    return 0;
}

static void name_instance(sv_server *s)
{
    unsigned number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        number = (unsigned)getpid();
    if (s->settings->instance)
        snprintf(s->instance, sizeof s->instance, "%s", s->settings->instance);
    else
        snprintf(s->instance, sizeof s->instance, "%06x", number & 0xffffff);
}

/* A driver's share may be more than a small budget. */
static int enough_memory(sv_server *s)
{
    const serve_settings *o = s->settings;
    const size_t overhead = o->memory ? zn_context_overhead(s->context, o->device) : 0, mib = 1 << 20;
    const size_t least = overhead / mib + 128;
    if (!overhead || o->memory >= least * mib)
        return 1;
    complain("--memory needs at least %zuM on this GPU, whose driver takes about %zu MiB of it", least, overhead / mib);
    return 0;
}

static int start(sv_server *s)
{
    const serve_settings *o = s->settings;
    char why[256] = "";
    name_instance(s);
    if (!make_spool(s))
        return 0;
    if (zn_context_new(o->threads, &s->context) != ZN_OK)
        return fail(zn_error_text());
    if (!enough_memory(s))
        return 0;
    s->models = sv_models_start(s);
    if (o->queue_server && !o->worker && !(s->remote = sv_remote_open(o->queue_server)))
        return fail(zn_error_text());
    s->jobs = sv_jobs_start(s, why);
    if (!s->jobs)
        return fail(why);
    if (o->worker) {
        s->worker = sv_worker_start(s);
        return s->worker ? 1 : fail(zn_error_text());
    }
    s->runs = sv_runs_start(s);
    const sv_http_settings http = { .address = o->address,
                                    .port = o->port,
                                    .most_bytes = o->most_bytes,
                                    .most_connections = o->connections,
                                    .refuse = sv_guard,
                                    .handle = sv_route_request,
                                    .finished = finished,
                                    .user = s };
    s->http = sv_http_start(&http, why);
    return s->http ? 1 : fail(why);
}

/* ---- stop ---- */

static void pause_ms(long ms)
{
    const struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    nanosleep(&t, NULL);
}

static int is_busy(sv_server *s)
{
    return s->worker ? sv_worker_busy(s->worker) : sv_jobs_busy(s->jobs) || sv_runs_busy(s->runs);
}

/* Runs save their state; jobs may end, and their results be fetched, until the time is up. A second signal ends the
 * wait. */
static void wind_down(sv_server *s)
{
    const double until = sv_now() + s->settings->grace_seconds;
    stop = 0;
    sv_jobs_close(s->jobs);
    if (s->worker)
        sv_worker_close(s->worker);
    else
        sv_runs_close(s->runs);
    if (is_busy(s) && isatty(STDERR_FILENO))
        note(&(options){ .quiet = s->settings->quiet }, "jobs may end within %d s; Ctrl-C again cancels them",
             s->settings->grace_seconds);
    while (!stop && sv_now() < until && is_busy(s))
        pause_ms(20);
}

static void end(sv_server *s)
{
    sv_worker_stop(s->worker); /* gives back what it runs, which is in no queue of this process */
    if (s->jobs)
        sv_jobs_cancel(s->jobs);
    while (s->jobs && sv_jobs_running(s->jobs)) /* a step, or a model that is opened, may take long */
        pause_ms(5);
    const double until = sv_now() + SENDING_SECONDS;
    while (s->http && sv_http_busy(s->http) &&
           sv_now() < until) /* answers that are ready, and those of cancelled jobs */
        pause_ms(5);
    sv_http_stop(s->http);
    if (s->jobs)
        sv_jobs_stop(s->jobs);
    sv_remote_close(s->remote);
    sv_runs_stop(s->runs);
    sv_models_stop(s->models);
    zn_context_free(s->context);
    if (s->spool[0])
        rmdir(s->spool);
}

static void announce(const sv_server *s)
{
    const char *address = s->settings->address;
    const int v6 = strchr(address, ':') != NULL;
    if (s->worker)
        say("zenith serve: a worker of %s\n", sv_worker_queue(s->worker));
    else
        say("zenith serve: http://%s%s%s:%d/\n", v6 ? "[" : "", address, v6 ? "]" : "", sv_http_port(s->http));
    say_flush();
}

int serve(const serve_settings *settings)
{
    sv_server s = { .settings = settings, .started = sv_now() };
    if (!settings->worker && !settings->key && !settings->insecure && !is_loopback(settings->address))
        return usage_error("serve",
                           "anyone who reaches %s could use the server; give --api-key, or --insecure if that is meant",
                           settings->address);
    const struct sigaction action = { .sa_handler = on_signal };
    stop = 0;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    const int started = start(&s);
    if (started) {
        announce(&s);
        while (!stop) {
            pause_ms(500);
            sv_jobs_expire(s.jobs);
        }
        wind_down(&s);
    }
    end(&s);
    return started ? 0 : EXIT_FAILURE;
}
