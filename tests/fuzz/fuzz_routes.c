/* Every route, with any method, path, header and body; jobs are parsed and filled but not run. The input is
 * "METHOD PATH\nHeader: value\n...\n\nBODY". libmicrohttpd is left out: its part is the few functions below. */
#include "server/embedded.h"
#include "server/models.h"
#include "server/runs.h"
#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- the connection ---- */

enum { HEADERS = 8 };
static struct {
    char name[40], value[200];
} headers[HEADERS];
static int header_count;

const char *sv_header(const sv_request *r, const char *name)
{
    (void)r;
    for (int i = 0; i < header_count; i++)
        if (!strcasecmp(headers[i].name, name))
            return headers[i].value;
    return NULL;
}

const char *sv_query(const sv_request *r, const char *name) { return sv_header(r, name); }
void sv_http_wake(sv_exchange *e) { (void)e; }
int sv_http_connections(sv_http *http)
{
    (void)http;
    return 0;
}

/* The page is not what is tested. */
const sv_embedded sv_embedded_files[] = { { "/openapi.json", (const unsigned char *)"{}", 2 }, { 0 } };

/* ---- the server ---- */

static sv_server server;

static void remove_spool(void) { rmdir(server.spool); }

static sv_server *start(void)
{
    static serve_settings settings = { .address = "127.0.0.1",
                                       .workers = 1,
                                       .queue = 1,
                                       .per_client = 1,
                                       .keep_minutes = 1,
                                       .most_bytes = 1 << 20,
                                       .most_pixels = 1 << 20,
                                       .connections = 10,
                                       .runs = "/nonexistent" };
    char why[256];
    if (server.settings)
        return &server;
    setenv("ZENITH_MODELS", "/nonexistent", 1);
    server.settings = &settings;
    strcpy(server.instance, "fuzz");
    strcpy(server.spool, "/tmp/zenith-fuzz-XXXXXX");
    if (!mkdtemp(server.spool) || atexit(remove_spool))
        abort();
    server.models = sv_models_start(&server);
    server.runs = sv_runs_start(&server);
    server.jobs = sv_jobs_start(&server, why);
    sv_jobs_close(server.jobs); /* jobs are refused when they are complete */
    return &server;
}

/* ---- requests ---- */

static char *next_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');
    *at = end ? end + 1 : line + strlen(line);
    if (end)
        *end = 0;
    return line;
}

static void take_headers(char **at)
{
    header_count = 0;
    for (char *line; *(line = next_line(at));) {
        char *colon = strchr(line, ':');
        if (!colon || header_count == HEADERS)
            continue;
        *colon = 0;
        snprintf(headers[header_count].name, sizeof headers[0].name, "%s", line);
        snprintf(headers[header_count++].value, sizeof headers[0].value, "%s", colon + 1 + (colon[1] == ' '));
    }
}

static void drain(sv_answer *a)
{
    char bytes[512];
    for (int i = 0; a->pull && i < 100 && a->pull(a->self, bytes, sizeof bytes) > 0; i++)
        ;
    if (a->release)
        a->release(a->self);
    if (a->fd)
        close(a->fd);
    if (!a->lasting)
        free(a->bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *at = text;
    memcpy(text, data, size);
    text[size] = 0;
    char *method = next_line(&at), *path = strchr(method, ' ');
    if (path) {
        *path++ = 0;
        take_headers(&at);
        sv_request r = {
            .method = method, .path = path, .body = at, .size = size - (size_t)(at - text), .user = start()
        };
        sv_answer a = { 0 };
        if (!sv_guard(&r, &a))
            sv_route_request(&r, &a);
        if (!a.status)
            abort();
        drain(&a);
    }
    free(text);
    return 0;
}
