/* A small JSON writer that builds the text in memory.
 *
 *     json j = { 0 };
 *     json_open(&j, NULL, '{');
 *     json_text(&j, "model", "taesd");
 *     json_open(&j, "files", '[');
 *     json_integer(&j, NULL, 3);          // key NULL inside an array
 *     json_close(&j, ']');
 *     json_close(&j, '}');
 *     json_print(&j);                     // to stdout, with a newline; frees the text */
#ifndef ZN_CLI_JSON_H
#define ZN_CLI_JSON_H

#include <stddef.h>
#include <stdint.h>

typedef struct json {
    char *text;
    size_t length, capacity;
    int comma; /* the next member needs a comma */
} json;

void json_open(json *j, const char *key, char bracket);
void json_close(json *j, char bracket);
void json_text(json *j, const char *key, const char *value); /* bytes that are not UTF-8 become U+FFFD */
void json_integer(json *j, const char *key, int64_t value);
void json_unsigned(json *j, const char *key, uint64_t value);
void json_real(json *j, const char *key, double value); /* null if not finite */
void json_bool(json *j, const char *key, int value);
void json_null(json *j, const char *key);
void json_raw(json *j, const char *text, size_t length); /* a value that is already JSON */
void json_print(json *j);

#endif
