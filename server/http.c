/* HTTP by libmicrohttpd. One thread polls all connections; a second one looks at parked connections, which
 * libmicrohttpd does not poll, so that a dropped one ends its exchange within POLL_MS. */
#include "server/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef POLLRDHUP
#define POLLRDHUP 0x2000 /* Linux; its header wants _GNU_SOURCE */
#endif

/* BODIES: full-size bodies in memory at a time; DRAINED: times the largest body that are read to be dropped. */
enum { POLL_MS = 100, STREAM_BLOCK = 16384, IDLE_SECONDS = 60, BODIES = 8, DRAINED = 16 };

struct sv_exchange {
    sv_http *http;
    struct MHD_Connection *connection;
    sv_request request;
    sv_answer answer;
    char *body;
    size_t capacity;
    int refused, too_large, no_room, sent, released;
    int fd;
    /* Guarded by http->lock. */
    int parked, signalled, gone;
    sv_exchange *previous, *next; /* of the parked ones */
};

struct sv_http {
    sv_http_settings settings;
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock;
    sv_exchange *parked;
    int parked_count;
    pthread_t watcher;
    atomic_int stopping, connections, exchanges;
    atomic_size_t body_bytes;
};

/* ---- parking ---- */

static void unpark_locked(sv_exchange *e)
{
    sv_http *h = e->http;
    if (e->previous)
        e->previous->next = e->next;
    else
        h->parked = e->next;
    if (e->next)
        e->next->previous = e->previous;
    e->previous = e->next = NULL;
    e->parked = 0;
    h->parked_count--;
    MHD_resume_connection(e->connection);
}

void sv_http_wake(sv_exchange *e)
{
    pthread_mutex_lock(&e->http->lock);
    e->signalled = 1;
    if (e->parked)
        unpark_locked(e);
    pthread_mutex_unlock(&e->http->lock);
}

/* To be called before looking for news, so that a later wake is not missed. Returns non-zero if the client is gone. */
static int expect_news(sv_exchange *e)
{
    pthread_mutex_lock(&e->http->lock);
    e->signalled = 0;
    const int gone = e->gone || e->http->stopping;
    pthread_mutex_unlock(&e->http->lock);
    return gone;
}

/* Parks the connection unless there were news since expect_news. */
static int park(sv_exchange *e)
{
    sv_http *h = e->http;
    pthread_mutex_lock(&h->lock);
    const int parks = !e->signalled && !e->gone && !h->stopping;
    if (parks) {
        MHD_suspend_connection(e->connection);
        e->parked = 1;
        e->next = h->parked;
        if (h->parked)
            h->parked->previous = e;
        h->parked = e;
        h->parked_count++;
    }
    pthread_mutex_unlock(&h->lock);
    return parks;
}

/* Streams may then send something, lest a proxy thinks that they are dead. */
static void wake_all(sv_http *h)
{
    pthread_mutex_lock(&h->lock);
    while (h->parked) {
        h->parked->signalled = 1;
        unpark_locked(h->parked);
    }
    pthread_mutex_unlock(&h->lock);
}

/* Looks at the sockets of parked connections; `all`: ends them all. */
static void end_dropped(sv_http *h, struct pollfd *fds, sv_exchange **at, int most, int all)
{
    int count = 0;
    pthread_mutex_lock(&h->lock);
    for (sv_exchange *e = h->parked; e && count < most; e = e->next, count++) {
        at[count] = e;
        fds[count] = (struct pollfd){ .fd = e->fd, .events = POLLRDHUP };
    }
    if (!all && poll(fds, (nfds_t)count, 0) <= 0)
        count = 0;
    for (int i = 0; i < count; i++)
        if (all || (fds[i].revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL))) {
            at[i]->gone = 1;
            unpark_locked(at[i]);
        }
    pthread_mutex_unlock(&h->lock);
}

static void *watch(void *user)
{
    sv_http *h = user;
    const int most = h->settings.most_connections;
    struct pollfd *fds = malloc((size_t)most * sizeof *fds);
    sv_exchange **at = malloc((size_t)most * sizeof *at);
    for (int round = 1; !h->stopping && fds && at; round++) {
        poll(NULL, 0, POLL_MS);
        end_dropped(h, fds, at, most, 0);
        if (round % (SV_BEAT_MS / POLL_MS) == 0)
            wake_all(h);
    }
    if (fds && at)
        end_dropped(h, fds, at, most, 1);
    free(fds);
    free(at);
    return NULL;
}

/* ---- requests ---- */

const char *sv_header(const sv_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->exchange->connection, MHD_HEADER_KIND, name);
}

const char *sv_query(const sv_request *r, const char *name)
{
    return MHD_lookup_connection_value(r->exchange->connection, MHD_GET_ARGUMENT_KIND, name);
}

static void name_client(sv_exchange *e)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(e->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    snprintf(e->request.address, sizeof e->request.address, "unknown");
    if (info && info->client_addr)
        getnameinfo(info->client_addr,
                    info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in),
                    e->request.address, sizeof e->request.address, NULL, 0, NI_NUMERICHOST);
    info = MHD_get_connection_info(e->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    e->fd = info ? info->connect_fd : -1;
}

static sv_exchange *exchange_new(sv_http *h, struct MHD_Connection *c, const char *url, const char *method)
{
    sv_exchange *e = calloc(1, sizeof *e);
    char *path = e ? strdup(url) : NULL, *verb = path ? strdup(method) : NULL;
    if (!verb) {
        free(path);
        free(e);
        return NULL;
    }
    e->http = h;
    e->connection = c;
    e->request = (sv_request){ .method = verb, .path = path, .body = "", .user = h->settings.user, .exchange = e };
    name_client(e);
    h->exchanges++;
    return e;
}

static void release(sv_exchange *e)
{
    if (!e->released && e->answer.release)
        e->answer.release(e->answer.self);
    e->released = 1;
}

static void free_body(sv_exchange *e)
{
    e->http->body_bytes -= e->capacity;
    free(e->body);
    e->body = NULL;
    e->capacity = 0;
    e->request.body = "";
}

/* What no response took, as the client left before. */
static void free_answer(sv_answer *a)
{
    if (!a->lasting)
        free(a->bytes);
    if (a->fd)
        close(a->fd);
    a->bytes = NULL;
    a->fd = 0;
}

/* libmicrohttpd calls this at the end of every request, whatever happened to it. */
static void completed(void *user, struct MHD_Connection *c, void **own, enum MHD_RequestTerminationCode code)
{
    (void)c, (void)code;
    sv_http *h = user;
    sv_exchange *e = *own;
    if (!e)
        return;
    release(e);
    free_body(e);
    free_answer(&e->answer);
    if (h->settings.finished)
        h->settings.finished(h->settings.user, e->answer.status, e->request.size);
    free((char *)e->request.method);
    free((char *)e->request.path);
    free(e);
    *own = NULL;
    h->exchanges--;
}

static int grow(sv_exchange *e, size_t need)
{
    sv_http *h = e->http;
    size_t capacity = e->capacity ? e->capacity : 4096;
    while (capacity < need)
        capacity *= 2;
    const size_t more = capacity - e->capacity;
    if (h->body_bytes + more > BODIES * (h->settings.most_bytes + 1024))
        return 0;
    char *body = realloc(e->body, capacity);
    if (!body)
        return 0;
    h->body_bytes += more;
    e->body = body;
    e->capacity = capacity;
    return 1;
}

/* Keeps a piece of the body. What is too large is read and dropped, so that the client sees the answer. */
static void receive(sv_exchange *e, const char *bytes, size_t size)
{
    sv_request *r = &e->request;
    if (e->refused || e->too_large || e->no_room)
        return;
    e->too_large = r->size + size > e->http->settings.most_bytes;
    e->no_room = !e->too_large && r->size + size + 1 > e->capacity && !grow(e, r->size + size + 1);
    if (e->too_large || e->no_room) {
        free_body(e);
        return;
    }
    memcpy(e->body + r->size, bytes, size);
    r->size += size;
    e->body[r->size] = 0;
    r->body = e->body;
}

/* The size that the client announces. */
static unsigned long long announced(const sv_exchange *e)
{
    const char *length = sv_header(&e->request, "Content-Length");
    return length ? strtoull(length, NULL, 10) : 0;
}

/* ---- answers ---- */

static ssize_t pull(void *user, uint64_t at, char *bytes, size_t most)
{
    (void)at;
    sv_exchange *e = user;
    for (;;) {
        if (expect_news(e))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        const long n = e->answer.pull(e->answer.self, bytes, most);
        if (n > 0)
            return n;
        if (n < 0)
            return MHD_CONTENT_READER_END_OF_STREAM;
        if (park(e))
            return 0;
    }
}

/* Takes the bytes or the file of the answer. */
static struct MHD_Response *response_of(sv_exchange *e)
{
    sv_answer *a = &e->answer;
    struct stat st;
    if (a->pull)
        return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, pull, e, NULL);
    struct MHD_Response *response;
    if (a->fd && !fstat(a->fd, &st)) {
        response = MHD_create_response_from_fd64((uint64_t)st.st_size, a->fd);
        a->fd = response ? 0 : a->fd;
        return response;
    }
    response = MHD_create_response_from_buffer(
        a->size, a->bytes ? a->bytes : "", a->lasting || !a->bytes ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_FREE);
    a->bytes = response ? NULL : a->bytes;
    return response;
}

static enum MHD_Result send_answer(sv_exchange *e)
{
    sv_answer *a = &e->answer;
    if (!a->status)
        a->status = MHD_HTTP_INTERNAL_SERVER_ERROR;
    struct MHD_Response *response = response_of(e);
    if (!response)
        return MHD_NO;
    if (a->type)
        MHD_add_response_header(response, "Content-Type", a->type);
    for (int i = 0; i < a->header_count; i++)
        MHD_add_response_header(response, a->headers[i].name, a->headers[i].value);
    const enum MHD_Result done = MHD_queue_response(e->connection, (unsigned)a->status, response);
    MHD_destroy_response(response);
    return done;
}

/* Sends the answer as soon as it is known; until then the connection is parked. */
static enum MHD_Result answer_when_ready(sv_exchange *e)
{
    for (;;) {
        if (expect_news(e))
            return MHD_NO;
        if (e->answer.ready(e->answer.self, &e->answer)) {
            if (!e->answer.pull)
                release(e);
            return send_answer(e);
        }
        if (park(e))
            return MHD_YES;
    }
}

static void too_large(sv_answer *a)
{
    static const char text[] = "{\"error\":{\"message\":\"the request is larger than the server accepts\",\"type\":"
                               "\"limit_error\",\"param\":null,\"code\":\"too_large\"}}";
    *a = (sv_answer){
        .status = 413, .type = "application/json", .bytes = (char *)text, .size = sizeof text - 1, .lasting = 1
    };
}

/* Bodies of other requests that arrive at the same time take all the memory that there is for them. */
static void no_room(sv_answer *a)
{
    static const char text[] =
        "{\"error\":{\"message\":\"the server receives too many large requests at once; try again "
        "later\",\"type\":\"server_error\",\"param\":null,\"code\":\"overloaded\"}}";
    *a = (sv_answer){
        .status = 503, .type = "application/json", .bytes = (char *)text, .size = sizeof text - 1, .lasting = 1
    };
    a->headers[a->header_count].name = "Retry-After";
    snprintf(a->headers[a->header_count++].value, sizeof a->headers[0].value, "5");
}

/* A refusal is sent after the body, which is dropped: a client that still sends would not see it. A body that is too
 * large for that is not waited for. */
static enum MHD_Result begin(sv_exchange *e)
{
    const sv_http *h = e->http;
    const unsigned long long size = announced(e);
    e->too_large = size > h->settings.most_bytes;
    if (h->settings.refuse && h->settings.refuse(&e->request, &e->answer))
        e->refused = 1;
    if (size <= DRAINED * (unsigned long long)h->settings.most_bytes)
        return MHD_YES;
    if (!e->refused)
        too_large(&e->answer);
    e->sent = 1;
    return send_answer(e);
}

static enum MHD_Result access_handler(void *user, struct MHD_Connection *c, const char *url, const char *method,
                                      const char *version, const char *upload, size_t *upload_size, void **own)
{
    (void)version;
    sv_http *h = user;
    sv_exchange *e = *own;
    if (!e) {
        e = *own = exchange_new(h, c, url, method);
        return e ? begin(e) : MHD_NO;
    }
    if (*upload_size) {
        receive(e, upload, *upload_size);
        *upload_size = 0;
        return MHD_YES;
    }
    if (e->sent)
        return MHD_YES;
    if (e->refused)
        return send_answer(e);
    if (e->answer.ready)
        return answer_when_ready(e);
    if (e->too_large)
        too_large(&e->answer);
    else if (e->no_room)
        no_room(&e->answer);
    else
        h->settings.handle(&e->request, &e->answer);
    free_body(e); /* an answer may take as long as a job, and needs the memory no more */
    return e->answer.ready ? answer_when_ready(e) : send_answer(e);
}

static void connected(void *user, struct MHD_Connection *c, void **own, enum MHD_ConnectionNotificationCode code)
{
    (void)c, (void)own;
    ((sv_http *)user)->connections += code == MHD_CONNECTION_NOTIFY_STARTED ? 1 : -1;
}

/* ---- the server ---- */

static int listening_socket(const sv_http_settings *s, char why[256])
{
    char port[16];
    snprintf(port, sizeof port, "%d", s->port);
    const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
    struct addrinfo *found = NULL;
    const int failed = getaddrinfo(s->address, port, &hints, &found);
    if (failed) {
        snprintf(why, 256, "cannot listen on %s: %s", s->address, gai_strerror(failed));
        return -1;
    }
    const int fd = socket(found->ai_family, SOCK_STREAM, 0), yes = 1;
    int good = fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) &&
               !bind(fd, found->ai_addr, found->ai_addrlen) && !listen(fd, 1024);
    freeaddrinfo(found);
    if (good)
        return fd;
    snprintf(why, 256, "cannot listen on %s, port %d: %s%s", s->address, s->port, strerror(errno),
             errno == EADDRINUSE ? "; give another port with --listen" : "");
    if (fd >= 0)
        close(fd);
    return -1;
}

sv_http *sv_http_start(const sv_http_settings *settings, char why[256])
{
    const int fd = listening_socket(settings, why);
    sv_http *h = fd >= 0 ? calloc(1, sizeof *h) : NULL;
    if (!h) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    h->settings = *settings;
    pthread_mutex_init(&h->lock, NULL);
    h->daemon = MHD_start_daemon(MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD | MHD_ALLOW_SUSPEND_RESUME, 0, NULL,
                                 NULL, access_handler, h, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED,
                                 completed, h, MHD_OPTION_NOTIFY_CONNECTION, connected, h, MHD_OPTION_CONNECTION_LIMIT,
                                 (unsigned)settings->most_connections, MHD_OPTION_CONNECTION_TIMEOUT,
                                 (unsigned)IDLE_SECONDS, MHD_OPTION_END);
    if (!h->daemon || pthread_create(&h->watcher, NULL, watch, h)) {
        snprintf(why, 256, "cannot start the HTTP server: %s", strerror(errno));
        if (h->daemon)
            MHD_stop_daemon(h->daemon);
        else
            close(fd);
        pthread_mutex_destroy(&h->lock);
        free(h);
        return NULL;
    }
    return h;
}

int sv_http_port(const sv_http *http)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_LISTEN_FD);
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    if (!info || getsockname(info->listen_fd, (struct sockaddr *)&address, &length))
        return 0;
    return ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                               : ((struct sockaddr_in *)&address)->sin_port);
}

void sv_http_stop(sv_http *h)
{
    if (!h)
        return;
    h->stopping = 1;
    pthread_join(h->watcher, NULL);
    MHD_stop_daemon(h->daemon);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

int sv_http_connections(sv_http *http) { return http->connections; }
int sv_http_busy(sv_http *http) { return http->exchanges; }
