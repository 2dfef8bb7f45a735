/* Answers of common kinds. */
#ifndef ZN_SERVER_ANSWER_H
#define ZN_SERVER_ANSWER_H

#include "server/http.h"
#include "ui/json.h"

#include <zenith/status.h>

/* Takes the text of j. */
void sv_answer_json(sv_answer *a, int status, json *j);
/* bytes are constant data of the program. */
void sv_answer_constant(sv_answer *a, const char *type, const void *bytes, size_t size);
/* The file's bytes; 404 if it cannot be opened. */
void sv_answer_file(sv_answer *a, const char *type, const char *path);
/* {"error":{"message","type","param","code"}}: the shape of OpenAI's, used everywhere. */
__attribute__((format(printf, 3, 4))) void sv_answer_error(sv_answer *a, int status, const char *format, ...);
void sv_error_json(json *j, int status, const char *message);
/* The HTTP status for a failure of the library. */
int sv_status_of(zn_status status);
void sv_answer_header(sv_answer *a, const char *name, const char *value);

#endif
