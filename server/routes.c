/* The routes of the server, and how a request finds its own. */
#include "server/routes/routes.h"

#include "server/routes/a1111.h"
#include "server/routes/openai.h"
#include "server/routes/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const sv_route routes[] = {
    { "POST", "/api/jobs", sv_post_job },
    { "GET", "/api/jobs", sv_get_jobs },
    { "GET", "/api/jobs/*", sv_get_job },
    { "DELETE", "/api/jobs/*", sv_delete_job },
    { "GET", "/api/jobs/*/events", sv_get_events },
    { "GET", "/api/jobs/*/preview", sv_get_preview },
    { "GET", "/api/jobs/*/result", sv_get_result },
    { "GET", "/api/jobs/*/result/*", sv_get_result },
    { "GET", "/api/models", sv_get_models },
    { "GET", "/api/models/*/attributes", sv_get_attributes },
    { "GET", "/api/recipes", sv_get_recipes },
    { "GET", "/api/data", sv_get_data },
    { "GET", "/api/runs", sv_get_runs },
    { "POST", "/api/runs", sv_post_run },
    { "GET", "/api/runs/*", sv_get_run },
    { "GET", "/api/runs/*/metrics", sv_get_run_metrics },
    { "GET", "/api/runs/*/events", sv_get_run_events },
    { "GET", "/api/runs/*/samples/*", sv_get_run_sample },
    { "POST", "/api/runs/*/stop", sv_stop_run },
    { "POST", "/api/runs/*/resume", sv_resume_run },
    { "GET", "/v1/models", sv_openai_models },
    { "POST", "/v1/images/generations", sv_openai_generate },
    { "POST", "/v1/images/edits", sv_openai_edit },
    { "POST", "/sdapi/v1/txt2img", sv_a1111_generate },
    { "POST", "/sdapi/v1/img2img", sv_a1111_generate },
    { "POST", "/sdapi/v1/extra-single-image", sv_a1111_extra },
    { "POST", "/sdapi/v1/png-info", sv_a1111_png_info },
    { "GET", "/sdapi/v1/progress", sv_a1111_progress },
    { "POST", "/sdapi/v1/interrupt", sv_a1111_interrupt },
    { "POST", "/sdapi/v1/skip", sv_a1111_skip },
    { "GET", "/sdapi/v1/options", sv_a1111_options },
    { "POST", "/sdapi/v1/options", sv_a1111_set_options },
    { "GET", "/sdapi/v1/sd-models", sv_a1111_models },
    { "GET", "/sdapi/v1/sd-vae", sv_a1111_empty },
    { "GET", "/sdapi/v1/samplers", sv_a1111_samplers },
    { "GET", "/sdapi/v1/schedulers", sv_a1111_schedulers },
    { "GET", "/sdapi/v1/upscalers", sv_a1111_upscalers },
    { "GET", "/sdapi/v1/latent-upscale-modes", sv_a1111_empty },
    { "GET", "/sdapi/v1/loras", sv_a1111_loras },
    { "POST", "/sdapi/v1/refresh-checkpoints", sv_a1111_nothing },
    { "POST", "/sdapi/v1/refresh-vae", sv_a1111_nothing },
    { "POST", "/sdapi/v1/refresh-loras", sv_a1111_nothing },
    { "GET", "/healthz", sv_get_health },
    { "GET", "/metrics", sv_get_metrics },
    { "GET", "/openapi.json", sv_get_openapi },
};
enum { ROUTES = sizeof routes / sizeof *routes };

/* What the stars stand for goes into copy, which r's arguments point to. */
static int matches(const char *pattern, char *copy, sv_request *r)
{
    int stars = 0;
    for (; *pattern == '*' || *pattern == *copy; pattern++, copy++) {
        if (*pattern == '*') {
            r->argument[stars++] = copy;
            const size_t length = strcspn(copy, "/");
            if (!length)
                return 0;
            copy += length;
            if (pattern[1] != *copy)
                return 0;
            if (!*copy)
                return 1;
            *copy = 0;
            pattern++; /* the slash that was there */
            continue;
        }
        if (!*pattern)
            return 1;
    }
    return 0;
}

static void preflight(const sv_request *r, sv_answer *a)
{
    a->status = 204;
    if (!sv_header(r, "Origin"))
        return;
    sv_answer_header(a, "Access-Control-Allow-Methods", "GET, POST, DELETE");
    sv_answer_header(a, "Access-Control-Allow-Headers", "Authorization, Content-Type, X-API-Key, X-Zenith-Client");
    sv_answer_header(a, "Access-Control-Max-Age", "600");
}

static void no_route(const sv_request *r, sv_answer *a, const char *allowed)
{
    if (*allowed) {
        sv_answer_error(a, 405, "%s does not take %.10s", r->path, r->method);
        sv_answer_header(a, "Allow", allowed);
    } else if (!strcmp(r->method, "GET") || !strcmp(r->method, "HEAD")) {
        sv_get_page(r, a);
    } else {
        sv_answer_error(a, 404, "there is nothing at %.200s; /openapi.json describes the API", r->path);
    }
}

static void route(const sv_request *r, sv_answer *a)
{
    char path[512], allowed[64] = "";
    const char *method = strcmp(r->method, "HEAD") ? r->method : "GET";
    if (strlen(r->path) >= sizeof path) {
        sv_answer_error(a, 414, "the path is too long");
        return;
    }
    for (int i = 0; i < ROUTES; i++) {
        sv_request own = *r;
        strcpy(path, r->path);
        if (!matches(routes[i].pattern, path, &own))
            continue;
        if (!strcmp(routes[i].method, method)) {
            routes[i].handle(&own, a);
            return;
        }
        const size_t n = strlen(allowed);
        snprintf(allowed + n, sizeof allowed - n, "%s%s", n ? ", " : "", routes[i].method);
    }
    no_route(r, a, allowed);
}

void sv_route_request(const sv_request *r, sv_answer *a)
{
    if (!strcmp(r->method, "OPTIONS"))
        preflight(r, a);
    else
        route(r, a);
    sv_guard_headers(r, a);
}
