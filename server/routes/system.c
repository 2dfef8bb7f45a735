/* /healthz and /metrics. */
#include "server/models.h"
#include "server/routes/routes.h"
#include "ui/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void sv_get_health(const sv_request *r, sv_answer *a)
{
    const int stopping = sv_jobs_closed(sv_server_of(r)->jobs);
    json j = { 0 };
    json_open(&j, NULL, '{');
    json_text(&j, "status", stopping ? "stopping" : "ok");
    json_text(&j, "version", zn_version());
    json_text(&j, "instance", sv_server_of(r)->instance);
    json_close(&j, '}');
    sv_answer_json(a, stopping ? 503 : 200, &j);
}

/* ---- Prometheus' text format ---- */

typedef struct page {
    char text[8192];
    size_t length;
} page;

__attribute__((format(printf, 2, 3))) static void put(page *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(p->text + p->length, sizeof p->text - p->length, format, args);
    va_end(args);
    p->length += (size_t)n < sizeof p->text - p->length ? (size_t)n : 0;
}

static void head(page *p, const char *name, const char *type, const char *help)
{
    put(p, "# HELP zenith_%s %s\n# TYPE zenith_%s %s\n", name, help, name, type);
}

static void value(page *p, const char *name, const char *type, const char *help, double v)
{
    head(p, name, type, help);
    put(p, "zenith_%s %.17g\n", name, v);
}

static double resident_bytes(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%*d %ld", &pages) != 1)
        pages = 0;
    if (f)
        fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void jobs_metrics(page *p, sv_server *s)
{
    const sv_totals t = sv_jobs_totals(s->jobs);
    head(p, "jobs_total", "counter", "Jobs that ended, by state.");
    for (int i = SV_DONE; i <= SV_CANCELLED; i++)
        put(p, "zenith_jobs_total{state=\"%s\"} %lld\n", sv_state_names[i], (long long)t.ended[i]);
    value(p, "jobs_refused_total", "counter", "Jobs that did not fit into the queue.", (double)t.refused);
    value(p, "jobs_seconds_total", "counter", "Time that jobs were running.", t.seconds);
    value(p, "jobs_queued", "gauge", "Jobs that wait.", t.waiting);
    value(p, "jobs_running", "gauge", "Jobs that run.", t.running);
    value(p, "jobs_kept", "gauge", "Ended jobs whose results are kept.", t.kept);
}

void sv_get_metrics(const sv_request *r, sv_answer *a)
{
    sv_server *s = sv_server_of(r);
    page p = { .length = 0 };
    double budget, loaded;
    int count;
    jobs_metrics(&p, s);
    head(&p, "requests_total", "counter", "Requests, by the first digit of the status.");
    for (int i = 1; i < 6; i++)
        put(&p, "zenith_requests_total{status=\"%dxx\"} %lld\n", i, (long long)s->requests[i]);
    value(&p, "received_bytes_total", "counter", "Bytes of request bodies.", (double)s->received);
    value(&p, "connections", "gauge", "Open connections.", sv_http_connections(s->http));
    sv_models_memory(s->models, &budget, &loaded, &count);
    value(&p, "models_loaded", "gauge", "Models in memory.", count);
    value(&p, "models_bytes", "gauge", "Memory of loaded models, estimated.", loaded);
    value(&p, "models_budget_bytes", "gauge", "Memory that loaded models may take.", budget);
    value(&p, "resident_bytes", "gauge", "Resident memory of the process.", resident_bytes());
    value(&p, "uptime_seconds", "gauge", "Time since the start.", sv_now() - s->started);
    char *text = must_alloc(NULL, p.length);
    memcpy(text, p.text, p.length);
    *a = (sv_answer){ .status = 200, .type = "text/plain; version=0.0.4", .bytes = text, .size = p.length };
}
