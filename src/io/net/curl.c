/* Transfers by libcurl, which is opened at the first one. */
#include "base/fail.h"
#include "io/net/transfer.h"

#define CURL_DISABLE_TYPECHECK /* its macros would call the functions by their names */
#include <ctype.h>
#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#undef curl_easy_setopt
#undef curl_easy_getinfo

#define LIBRARY "libcurl.so.4"

/* ---- the library ---- */

#define CALLS(CALL)                                                                                                    \
    CALL(curl_global_init)                                                                                             \
    CALL(curl_easy_init)                                                                                               \
    CALL(curl_easy_setopt)                                                                                             \
    CALL(curl_easy_perform) CALL(curl_easy_getinfo) CALL(curl_easy_cleanup) CALL(curl_easy_strerror)
#define POINTER(name) __typeof__(name) *name;
static struct {
    CALLS(POINTER)
} curl;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *missing; /* NULL: all is there */

static void open_library(void)
{
    static const struct {
        const char *name;
        void *pointer;
    } calls[] = {
#define ENTRY(name) { #name, &curl.name },
        CALLS(ENTRY)
    };
    void *handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL); /* stays open until the program ends */
    missing = handle ? NULL : LIBRARY;
    for (size_t i = 0; handle && !missing && i < sizeof calls / sizeof *calls; i++) {
        void *function = dlsym(handle, calls[i].name);
        if (!function)
            missing = calls[i].name;
        else
            memcpy(calls[i].pointer, &function, sizeof function); /* C has no cast from data to functions */
    }
    if (!missing && curl.curl_global_init(CURL_GLOBAL_DEFAULT))
        missing = "a working " LIBRARY;
}

/* ---- what a server sends ---- */

typedef struct request {
    zn_transfer *t;
    CURL *handle;
    bool begun; /* the first bytes of the body were seen */
} request;

/* Value of a header line if it has this name, else NULL. */
static const char *header_value(const char *line, size_t size, const char *name)
{
    const size_t n = strlen(name);
    if (size <= n || strncasecmp(line, name, n) || line[n] != ':')
        return NULL;
    for (line += n + 1; *line == ' ' || *line == '"'; line++)
        continue;
    return line;
}

/* The line ends with CR LF, and is not a string. */
static size_t take_header(char *line, size_t one, size_t size, void *user)
{
    zn_transfer *t = ((request *)user)->t;
    char text[512];
    const size_t n = size < sizeof text - 1 ? size : sizeof text - 1;
    memcpy(text, line, n);
    text[n] = 0;
    const char *range = header_value(text, n, "Content-Range"), *slash = range ? strchr(range, '/') : NULL;
    if (slash && isdigit((unsigned char)slash[1]))
        t->total = strtoll(slash + 1, NULL, 10);
    /* huggingface.co states the hash of a large file where it redirects to it. */
    const char *hash = header_value(text, n, "X-Linked-ETag");
    if (hash && strspn(hash, "0123456789abcdef") == 64) {
        memcpy(t->sha256, hash, 64);
        t->sha256[64] = 0;
    }
    return one * size;
}

/* At the first bytes: does the server continue the file, or send it from its start? */
static bool begin_body(request *r)
{
    zn_transfer *t = r->t;
    r->begun = true;
    curl.curl_easy_getinfo(r->handle, CURLINFO_RESPONSE_CODE, &t->code);
    if (t->code != 200 || !t->offset)
        return true;
    t->offset = 0;
    if (fflush(t->file) == 0 && ftruncate(fileno(t->file), 0) == 0 && fseek(t->file, 0, SEEK_SET) == 0)
        return true;
    t->write_error = errno;
    return false;
}

static size_t take_body(char *bytes, size_t one, size_t size, void *user)
{
    request *r = user;
    if (!r->begun && !begin_body(r))
        return 0;
    if (r->t->code >= 300) /* the page of an error */
        return one * size;
    errno = 0;
    if (fwrite(bytes, one, size, r->t->file) == size)
        return one * size;
    r->t->write_error = errno ? errno : EIO;
    return 0;
}

static int report(void *user, curl_off_t total, curl_off_t now, curl_off_t up_total, curl_off_t up_now)
{
    (void)up_total, (void)up_now;
    const zn_transfer *t = ((request *)user)->t;
    const double all = (double)(total + t->offset);
    return t->progress && t->progress(t->user, all > 0 ? (double)(now + t->offset) / all : 0);
}

/* ---- a request ---- */

static void set_options(request *r, char *problem, char *range)
{
    CURL *h = r->handle;
    const zn_transfer *t = r->t;
    const char *protocols = strncasecmp(t->url, "https:", 6) == 0 ? "https" : "http,https";
    curl.curl_easy_setopt(h, CURLOPT_URL, t->url);
    curl.curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, protocols);
    curl.curl_easy_setopt(h, CURLOPT_REDIR_PROTOCOLS_STR, protocols);
    curl.curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, 1L);
    curl.curl_easy_setopt(h, CURLOPT_MAXREDIRS, 10L);
    curl.curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    curl.curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT, 30L);
    curl.curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl.curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, 60L);
    curl.curl_easy_setopt(h, CURLOPT_USERAGENT, "zenith");
    curl.curl_easy_setopt(h, CURLOPT_ERRORBUFFER, problem);
    curl.curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, take_header);
    curl.curl_easy_setopt(h, CURLOPT_HEADERDATA, r);
    curl.curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take_body);
    curl.curl_easy_setopt(h, CURLOPT_WRITEDATA, r);
    curl.curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L);
    curl.curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, report);
    curl.curl_easy_setopt(h, CURLOPT_XFERINFODATA, r);
    if (t->offset) { /* not CURLOPT_RESUME_FROM, which fails where the server sends everything */
        snprintf(range, 32, "%lld-", (long long)t->offset);
        curl.curl_easy_setopt(h, CURLOPT_RANGE, range);
    }
    if (t->token) { /* libcurl does not send it to another host */
        curl.curl_easy_setopt(h, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        curl.curl_easy_setopt(h, CURLOPT_XOAUTH2_BEARER, t->token);
    }
}

/* Failures that another try may not have. */
static bool may_pass(CURLcode code)
{
    return code == CURLE_PARTIAL_FILE || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR ||
           code == CURLE_GOT_NOTHING || code == CURLE_OPERATION_TIMEDOUT || code == CURLE_HTTP2_STREAM;
}

zn_status zn_transfer_run(zn_transfer *t)
{
    pthread_once(&once, open_library);
    if (missing)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: fetching files needs %s, which was not found; install libcurl4", t->url,
                       missing);
    char problem[CURL_ERROR_SIZE] = "", range[32];
    request r = { .t = t, .handle = curl.curl_easy_init() };
    if (!r.handle)
        return ZN_FAIL(ZN_ENOMEM, "%s: out of memory for a transfer", t->url);
    t->code = 0;
    t->total = -1;
    t->write_error = 0;
    t->sha256[0] = 0;
    set_options(&r, problem, range);
    const CURLcode code = curl.curl_easy_perform(r.handle);
    curl.curl_easy_getinfo(r.handle, CURLINFO_RESPONSE_CODE, &t->code);
    curl_off_t length = -1;
    curl.curl_easy_getinfo(r.handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (t->code == 200 && length >= 0)
        t->total = length;
    curl.curl_easy_cleanup(r.handle);
    t->broken = may_pass(code);
    snprintf(t->why, sizeof t->why, "%s", problem[0] ? problem : curl.curl_easy_strerror(code));
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return ZN_FAIL(ZN_ECANCELLED, "%s: cancelled; the next pull continues it", t->url);
    return code == CURLE_OK ? ZN_OK : ZN_FAIL(ZN_EIO, "%s: %s", t->url, t->why);
}
