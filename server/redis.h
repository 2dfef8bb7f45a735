/* A connection to Redis. The only file that knows hiredis is redis.c; a build without it has remote_none.c instead of
 * this file and its users.
 *
 *     sv_redis *r = sv_redis_new("redis://127.0.0.1:6379/0");    // NULL: a wrong address
 *     sv_reply *reply = sv_redis_ask(r, "XADD %s * id %b", key, id, (size_t)n);
 *     ...
 *     sv_reply_free(reply);
 *     sv_redis_free(r);
 *
 * Failures return NULL with one sentence in zn_error_text. A broken connection is made again by the next call. For one
 * thread at a time. */
#ifndef ZN_SERVER_REDIS_H
#define ZN_SERVER_REDIS_H

#include <stddef.h>
#include <zenith/status.h>

typedef struct sv_redis sv_redis;
typedef struct sv_reply sv_reply; /* belongs to redis.c */

/* redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]. Does not connect yet. */
sv_redis *sv_redis_new(const char *url);
void sv_redis_free(sv_redis *r);
/* HOST:PORT/DATABASE */
const char *sv_redis_name(const sv_redis *r);
/* The format of hiredis: words separated by spaces, %s a text, %b bytes and their size_t. Errors of the server are
 * failures too. A reply that is nil is not: its kind is SV_REPLY_NIL. */
sv_reply *sv_redis_ask(sv_redis *r, const char *format, ...);
/* The same, where only success matters. */
ZN_MUST_USE zn_status sv_redis_do(sv_redis *r, const char *format, ...);
/* Non-zero if the last failure was an answer of the server that begins with this word, such as NOGROUP. */
int sv_redis_answered(const sv_redis *r, const char *word);
/* Non-zero if it was an answer that trying again does not change. */
int sv_redis_refused(const sv_redis *r);

typedef enum sv_reply_kind { SV_REPLY_NIL, SV_REPLY_TEXT, SV_REPLY_NUMBER, SV_REPLY_LIST } sv_reply_kind;
/* All of these take NULL for nil. */
sv_reply_kind sv_reply_is(const sv_reply *reply);
/* NUL-terminated; NULL unless it is a text. */
const char *sv_reply_text(const sv_reply *reply, size_t *size); /* size may be NULL */
long long sv_reply_number(const sv_reply *reply);               /* 0 unless it is a number */
int sv_reply_count(const sv_reply *reply);                      /* 0 unless it is a list */
const sv_reply *sv_reply_at(const sv_reply *reply, int i);      /* NULL: there is none */
/* The value after this name in a list of names and values; NULL: there is none. */
const sv_reply *sv_reply_value(const sv_reply *list, const char *name);
void sv_reply_free(sv_reply *reply);

#endif
