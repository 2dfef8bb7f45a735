/* Answers of common kinds. */
#include "server/answer.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void sv_answer_json(sv_answer *a, int status, json *j)
{
    a->status = status;
    a->type = "application/json";
    a->bytes = j->text;
    a->size = j->length;
    *j = (json){ 0 };
}

void sv_answer_constant(sv_answer *a, const char *type, const void *bytes, size_t size)
{
    a->status = 200;
    a->type = type;
    a->bytes = (char *)bytes;
    a->size = size;
    a->lasting = 1;
}

void sv_answer_file(sv_answer *a, const char *type, const char *path)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd <= 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        if (fd > 0)
            close(fd);
        sv_answer_error(a, 404, "the file is no longer there");
        return;
    }
    a->status = 200;
    a->type = type;
    a->fd = fd;
}

static const char *kind_of(int status)
{
    switch (status) {
    case 401:
        return "authentication_error";
    case 403:
        return "permission_error";
    case 404:
        return "not_found_error";
    case 413:
    case 429:
        return "limit_error";
    default:
        return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

void sv_error_json(json *j, int status, const char *message)
{
    json_open(j, NULL, '{');
    json_open(j, "error", '{');
    json_text(j, "message", message);
    json_text(j, "type", kind_of(status));
    json_null(j, "param");
    json_null(j, "code");
    json_close(j, '}');
    json_close(j, '}');
}

void sv_answer_error(sv_answer *a, int status, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    json j = { 0 };
    sv_error_json(&j, status, message);
    sv_answer_json(a, status, &j);
    if (status == 429 || status == 503)
        sv_answer_header(a, "Retry-After", "5");
}

int sv_status_of(zn_status status)
{
    switch (status) {
    case ZN_OK:
        return 200;
    case ZN_EFORMAT:
    case ZN_EUNSUPPORTED:
    case ZN_ESHAPE:
    case ZN_EINVALID:
        return 400;
    case ZN_ENOTFOUND:
        return 404;
    case ZN_ELIMIT:
        return 413;
    case ZN_ECANCELLED:
        return 499; /* as nginx says that the client went away */
    default:
        return 500;
    }
}

void sv_answer_header(sv_answer *a, const char *name, const char *value)
{
    if (a->header_count == SV_MOST_HEADERS)
        return;
    a->headers[a->header_count].name = name;
    snprintf(a->headers[a->header_count++].value, sizeof a->headers[0].value, "%s", value);
}
