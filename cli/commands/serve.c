/* zenith serve: the options of the server. The server itself is in server/. */
#include "server/serve.h"
#include "commands.h"
#include "files/files.h"
#include "ui/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT = 8188, REMOTE = 16, LEAST_MEMORY = 128 << 20 };

static int given(int value, int usual) { return value ? value : usual; }

/* "ADDRESS:PORT", "ADDRESS", ":PORT" or "[ADDRESS]:PORT". Returns 0 if it is none of them. */
static int parse_listen(const char *text, char address[128], int *port)
{
    const char *colon = strrchr(text, ':'), *bracket = strchr(text, ']');
    char *end = NULL;
    if (colon && (text[0] == '[' ? colon < bracket : strchr(text, ':') != colon))
        colon = NULL; /* part of an IPv6 address */
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    const size_t skip = text[0] == '[' && length > 1 && text[length - 1] == ']';
    const long number = colon ? strtol(colon + 1, &end, 10) : PORT;
    if (!colon && text[0] && strspn(text, "0123456789") == length)
        return 0; /* a port alone, which would be read as an address */
    if (length - 2 * skip >= 128 || (colon && (!colon[1] || *end)) || number < 0 || number > 65535)
        return 0;
    snprintf(address, 128, "%.*s", (int)(length - 2 * skip), text + skip);
    if (!address[0])
        snprintf(address, 128, "127.0.0.1");
    *port = (int)number;
    return 1;
}

/* The library searches $ZENITH_MODELS first. */
static void search_in(const char *folder)
{
    const char *before = getenv("ZENITH_MODELS");
    char *all = before && *before ? must_print("%s:%s", folder, before) : must_copy(folder);
    setenv("ZENITH_MODELS", all, 1);
    free(all);
}

static int is_plain(const char *name)
{
    return strlen(name) < 20 &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.") == strlen(name);
}

static void copy_names(const char *const *from, const char **to)
{
    for (int i = 0; from[i]; i++)
        to[i] = from[i];
}

/* The first of the folders given with --models and --data that does not exist, or NULL. */
static const char *missing_folder(const options *o)
{
    if (o->models && !is_folder(o->models))
        return o->models;
    for (int i = 0; o->folders[i]; i++)
        if (!file_exists(o->folders[i])) /* an .lmdb data set is a file */
            return o->folders[i];
    return NULL;
}

int serve_run(const options *o)
{
    char address[128];
    int port;
    const char *key = o->api_key ? o->api_key : getenv("ZENITH_API_KEY");
    if (!parse_listen(o->listen ? o->listen : "127.0.0.1", address, &port))
        return usage_error("serve", "--listen needs an address such as 127.0.0.1:8188, not '%s'", o->listen);
    if (o->instance && !is_plain(o->instance))
        return usage_error("serve", "--instance needs fewer than 20 letters and digits, not '%s'", o->instance);
    if (o->memory && o->memory < LEAST_MEMORY)
        return usage_error("serve", "--memory needs at least 128M");
    const char *queue = o->queue_server ? o->queue_server : getenv("ZENITH_QUEUE_SERVER");
    queue = queue && *queue ? queue : NULL;
    if (o->worker && !queue)
        return usage_error("serve", "--worker needs --queue-server");
    const char *missing = missing_folder(o);
    if (missing) {
        complain("%s: no such folder", missing);
        return EXIT_FAILURE;
    }
    if (o->models)
        search_in(o->models);
    serve_settings s = { .address = address,
                         .port = port,
                         .key = key && *key ? key : NULL,
                         .insecure = o->insecure,
                         .runs = o->runs_folder ? o->runs_folder : "runs",
                         .instance = o->instance,
                         .device = o->device,
                         .threads = o->threads,
                         .memory = o->memory,
                         .queue_server = queue,
                         .worker = o->worker,
                         .workers = given(o->workers, queue && !o->worker ? REMOTE : 2),
                         .queue = given(o->queue, 64),
                         .per_client = given(o->per_client, 32),
                         .keep_minutes = o->keep >= 0 ? o->keep : 30,
                         .grace_seconds = o->grace >= 0 ? o->grace : 30,
                         .job_seconds = o->job_time,
                         .most_bytes = o->body ? o->body : (size_t)64 << 20,
                         .most_pixels = (int64_t)given(o->pixels, 64) * 1000000,
                         .connections = given(o->connections, 2000),
                         .quiet = o->quiet };
    copy_names(o->cors, s.origins);
    copy_names(o->hosts, s.hosts);
    copy_names(o->folders, s.data);
    return serve(&s);
}
