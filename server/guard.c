/* Who may ask: the name under which the server was reached, the web page that asks, and the key.
 *
 * A page of another origin could send requests from a visitor's browser, or, by DNS rebinding, pretend to be this
 * server: browsers then send the page's own name as Host. Addresses cannot be rebound. */
#include "server/server.h"

#include "server/base64.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int is_listed(const char *const *list, const char *name)
{
    for (int i = 0; list[i]; i++)
        if (!strcasecmp(list[i], name) || !strcmp(list[i], "*"))
            return 1;
    return 0;
}

/* Copies the name of "name:port" or "[address]:port". */
static void host_name(const char *host, char name[256])
{
    const char *end = host[0] == '[' ? strchr(host, ']') : strchr(host, ':');
    const size_t begin = host[0] == '[';
    snprintf(name, 256, "%.*s", (int)(end ? (size_t)(end - host) - begin : strlen(host + begin)), host + begin);
}

static int host_allowed(const sv_server *s, const char *host)
{
    char name[256];
    struct in6_addr any;
    if (!host)
        return 0;
    host_name(host, name);
    return !strcasecmp(name, "localhost") || inet_pton(AF_INET, name, &any) == 1 ||
           inet_pton(AF_INET6, name, &any) == 1 || is_listed(s->settings->hosts, name);
}

/* The page's own origin is http or https at the Host it was loaded from. */
static int is_own_origin(const char *origin, const char *host)
{
    const char *at = strstr(origin, "://");
    return at && host && !strcasecmp(at + 3, host) && (!strncmp(origin, "http:", 5) || !strncmp(origin, "https:", 6));
}

static int origin_allowed(const sv_server *s, const sv_request *r)
{
    const char *origin = sv_header(r, "Origin"), *site = sv_header(r, "Sec-Fetch-Site"),
               *mode = sv_header(r, "Sec-Fetch-Mode");
    if (origin)
        return is_own_origin(origin, sv_header(r, "Host")) || is_listed(s->settings->origins, origin);
    if (!site || !strcmp(site, "same-origin") || !strcmp(site, "none"))
        return 1;
    /* A link to the page is fine; images, forms and scripts of other pages are not. */
    return (mode && !strcmp(mode, "navigate") && !strcmp(r->method, "GET")) || is_listed(s->settings->origins, "*");
}

/* Takes the same time wherever they differ. */
static int same_key(const char *key, const char *given, size_t size)
{
    const size_t n = strlen(key);
    unsigned different = n != size;
    for (size_t i = 0; i < size; i++)
        different |= (unsigned char)given[i] ^ (unsigned char)key[n ? i % n : 0];
    return !different;
}

/* Basic NAME:KEY, as clients of A1111 send it. */
static int has_basic_key(const char *key, const char *text)
{
    char pair[512];
    if (strlen(text) >= sizeof pair)
        return 0;
    strcpy(pair, text);
    const long long size = sv_base64_decode(pair, strlen(pair));
    const char *colon = size > 0 ? memchr(pair, ':', (size_t)size) : NULL;
    return colon && same_key(key, colon + 1, (size_t)(pair + size - colon - 1));
}

static int has_cookie(const char *key, const char *cookies)
{
    static const char name[] = "zenith_key=";
    for (const char *at = cookies; (at = strstr(at, name)) != NULL; at++)
        if ((at == cookies || at[-1] == ' ' || at[-1] == ';') &&
            same_key(key, at + sizeof name - 1, strcspn(at + sizeof name - 1, "; ")))
            return 1;
    return 0;
}

static int has_key(const char *key, const sv_request *r)
{
    const char *authorization = sv_header(r, "Authorization"), *plain = sv_header(r, "X-API-Key"),
               *cookies = sv_header(r, "Cookie");
    if (authorization && !strncasecmp(authorization, "Bearer ", 7))
        return same_key(key, authorization + 7, strlen(authorization + 7));
    if (authorization && !strncasecmp(authorization, "Basic ", 6))
        return has_basic_key(key, authorization + 6);
    if (plain)
        return same_key(key, plain, strlen(plain));
    return cookies && has_cookie(key, cookies);
}

/* The page itself has no secrets and asks for the key; a balancer asks for the health. */
static int needs_key(const sv_request *r)
{
    return !strncmp(r->path, "/api/", 5) || !strncmp(r->path, "/v1/", 4) || !strncmp(r->path, "/sdapi/", 7) ||
           !strcmp(r->path, "/metrics");
}

int sv_guard(const sv_request *r, sv_answer *a)
{
    const sv_server *s = sv_server_of(r);
    const char *host = sv_header(r, "Host"), *key = s->settings->key;
    if (!host_allowed(s, host))
        sv_answer_error(a, 403, "the host '%.100s' is not allowed; zenith serve --host names it", host ? host : "");
    else if (!origin_allowed(s, r))
        sv_answer_error(a, 403, "a page of another origin may not use this server; zenith serve --cors allows it");
    else if (strcmp(r->method, "OPTIONS") && key && needs_key(r) && !has_key(key, r)) {
        sv_answer_error(a, 401, "the API key is missing or wrong");
        sv_answer_header(a, "WWW-Authenticate", "Bearer");
    } else
        return 0;
    sv_guard_headers(r, a);
    return 1;
}

void sv_guard_headers(const sv_request *r, sv_answer *a)
{
    const sv_server *s = sv_server_of(r);
    const char *origin = sv_header(r, "Origin");
    sv_answer_header(a, "X-Content-Type-Options", "nosniff");
    if (!origin || !is_listed(s->settings->origins, origin))
        return;
    sv_answer_header(a, "Access-Control-Allow-Origin", origin);
    sv_answer_header(a, "Vary", "Origin");
}

void sv_client_of(const sv_request *r, char client[128])
{
    const char *name = sv_header(r, "X-Zenith-Client");
    snprintf(client, 128, "%s %.60s", r->address, name ? name : "");
}
