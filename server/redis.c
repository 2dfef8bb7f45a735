/* Redis through hiredis. */
#include "server/redis.h"

#include "base/fail.h"
#include "ui/report.h"

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { PORT = 6379, PATIENCE_SECONDS = 10 };

struct sv_redis {
    redisContext *context; /* NULL: not connected */
    char *host, *user, *password;
    char *name; /* for messages, without the password */
    int port, database;
    char answer[32]; /* how the last error of the server begins; empty: it was another failure, or none */
};

/* ---- addresses ---- */

static zn_status wrong(const char *url)
{
    return ZN_FAIL(ZN_EINVALID, "'%.100s' is not an address of Redis such as redis://127.0.0.1:6379/0", url);
}

/* A number that ends at `stop`; -1: it is none, or too large. */
static int number_until(const char *text, const char *stop, int most)
{
    char *end;
    const long value = strtol(text, &end, 10);
    return text < stop && end == stop && *text >= '0' && *text <= '9' && value <= most ? (int)value : -1;
}

/* "[[USER]:PASSWORD@]" at the beginning of *at, which moves after it. */
static void take_password(sv_redis *r, const char **at, const char *sign)
{
    if (!sign)
        return;
    const char *colon = memchr(*at, ':', (size_t)(sign - *at));
    const char *password = colon ? colon + 1 : *at;
    if (colon && colon > *at)
        r->user = must_print("%.*s", (int)(colon - *at), *at);
    r->password = must_print("%.*s", (int)(sign - password), password);
    *at = sign + 1;
}

static zn_status parse(sv_redis *r, const char *url)
{
    static const char scheme[] = "redis://";
    if (strncmp(url, scheme, sizeof scheme - 1) != 0)
        return wrong(url);
    const char *at = url + sizeof scheme - 1, *last = at + strlen(at), *sign = strrchr(at, '@');
    const char *slash = strchr(sign ? sign : at, '/'), *stop = slash ? slash : last;
    take_password(r, &at, sign);
    if (stop + 1 < last)
        r->database = number_until(stop + 1, last, 1 << 20);
    const char *colon = NULL;
    for (const char *c = at; c < stop; c++)
        colon = *c == ':' ? c : colon;
    if (*at == '[' && colon && colon[-1] != ']')
        colon = NULL; /* part of an IPv6 address */
    if (colon)
        r->port = number_until(colon + 1, stop, 65535);
    const char *host_end = colon ? colon : stop;
    const int brackets = at < host_end && *at == '[' && host_end[-1] == ']';
    r->host = must_print("%.*s", (int)(host_end - at) - 2 * brackets, at + brackets);
    return r->port > 0 && r->database >= 0 && r->host[0] ? ZN_OK : wrong(url);
}

const char *sv_redis_name(const sv_redis *r) { return r->name; }

sv_redis *sv_redis_new(const char *url)
{
    sv_redis *r = must_alloc(NULL, sizeof *r);
    *r = (sv_redis){ .port = PORT };
    const zn_status status = parse(r, url);
    r->name = must_print("%s:%d/%d", r->host ? r->host : "", r->port, r->database);
    if (status == ZN_OK)
        return r;
    sv_redis_free(r);
    return NULL;
}

/* ---- the connection ---- */

static void disconnect(sv_redis *r)
{
    if (r->context)
        redisFree(r->context);
    r->context = NULL;
}

void sv_redis_free(sv_redis *r)
{
    if (!r)
        return;
    disconnect(r);
    free(r->host);
    free(r->name);
    free(r->user);
    free(r->password);
    free(r);
}

static zn_status fail(sv_redis *r, const char *why)
{
    const zn_status status = ZN_FAIL(ZN_EIO, "the queue server %s does not answer: %.200s", r->name, why);
    disconnect(r);
    return status;
}

/* NULL after a failure. Takes the reply of an error. */
static redisReply *checked(sv_redis *r, redisReply *reply)
{
    r->answer[0] = 0;
    if (!reply) {
        (void)fail(r, r->context && r->context->err ? r->context->errstr : "out of memory");
        return NULL;
    }
    if (reply->type != REDIS_REPLY_ERROR)
        return reply;
    snprintf(r->answer, sizeof r->answer, "%.31s", reply->str);
    (void)ZN_FAIL(ZN_EIO, "the queue server %s says: %.200s", r->name, reply->str);
    freeReplyObject(reply);
    return NULL;
}

static zn_status order(sv_redis *r, redisReply *reply)
{
    reply = checked(r, reply);
    if (!reply)
        return ZN_EIO;
    freeReplyObject(reply);
    return ZN_OK;
}

static zn_status greet(sv_redis *r)
{
    redisContext *c = r->context;
    if (r->user)
        ZN_TRY(order(r, redisCommand(c, "AUTH %s %s", r->user, r->password)));
    else if (r->password)
        ZN_TRY(order(r, redisCommand(c, "AUTH %s", r->password)));
    return r->database ? order(r, redisCommand(c, "SELECT %d", r->database)) : ZN_OK;
}

static zn_status connect_to(sv_redis *r)
{
    const struct timeval patience = { .tv_sec = PATIENCE_SECONDS };
    if (r->context && !r->context->err)
        return ZN_OK;
    disconnect(r);
    r->answer[0] = 0;
    r->context = redisConnectWithTimeout(r->host, r->port, patience);
    if (!r->context || r->context->err)
        return fail(r, r->context ? r->context->errstr : "out of memory");
    redisSetTimeout(r->context, patience);
    const zn_status status = greet(r);
    if (status != ZN_OK)
        disconnect(r);
    return status;
}

static redisReply *ask(sv_redis *r, const char *format, va_list args)
{
    return connect_to(r) == ZN_OK ? checked(r, redisvCommand(r->context, format, args)) : NULL;
}

sv_reply *sv_redis_ask(sv_redis *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = ask(r, format, args);
    va_end(args);
    return (sv_reply *)reply;
}

zn_status sv_redis_do(sv_redis *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    redisReply *reply = ask(r, format, args);
    va_end(args);
    if (!reply)
        return ZN_EIO;
    freeReplyObject(reply);
    return ZN_OK;
}

int sv_redis_answered(const sv_redis *r, const char *word) { return !strncmp(r->answer, word, strlen(word)); }

int sv_redis_refused(const sv_redis *r) { return r->answer[0] && !sv_redis_answered(r, "LOADING"); }

/* ---- replies ---- */

static const redisReply *own(const sv_reply *reply) { return (const redisReply *)reply; }

sv_reply_kind sv_reply_is(const sv_reply *reply)
{
    switch (reply ? own(reply)->type : REDIS_REPLY_NIL) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        return SV_REPLY_TEXT;
    case REDIS_REPLY_INTEGER:
        return SV_REPLY_NUMBER;
    case REDIS_REPLY_ARRAY:
        return SV_REPLY_LIST;
    default:
        return SV_REPLY_NIL;
    }
}

const char *sv_reply_text(const sv_reply *reply, size_t *size)
{
    const int is_text = sv_reply_is(reply) == SV_REPLY_TEXT;
    if (size)
        *size = is_text ? own(reply)->len : 0;
    return is_text ? own(reply)->str : NULL;
}

long long sv_reply_number(const sv_reply *reply)
{
    return sv_reply_is(reply) == SV_REPLY_NUMBER ? own(reply)->integer : 0;
}

int sv_reply_count(const sv_reply *reply)
{
    return sv_reply_is(reply) == SV_REPLY_LIST ? (int)own(reply)->elements : 0;
}

const sv_reply *sv_reply_at(const sv_reply *reply, int i)
{
    return i >= 0 && i < sv_reply_count(reply) ? (const sv_reply *)own(reply)->element[i] : NULL;
}

const sv_reply *sv_reply_value(const sv_reply *list, const char *name)
{
    for (int i = 0; i + 1 < sv_reply_count(list); i += 2) {
        const char *key = sv_reply_text(sv_reply_at(list, i), NULL);
        if (key && !strcmp(key, name))
            return sv_reply_at(list, i + 1);
    }
    return NULL;
}

void sv_reply_free(sv_reply *reply)
{
    if (reply)
        freeReplyObject(reply);
}
