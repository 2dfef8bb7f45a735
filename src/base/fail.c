/* Per-thread error text. */
#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char text[1024] = "no error";

zn_status zn_fail(zn_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (char *c = text; *c; c++) /* names from files may contain any byte: keep the message on one printable line */
        if ((unsigned char)*c < 32 || *c == 127)
            *c = '?';
    return code;
}

zn_status zn_fail_in_file(zn_status code, const char *path)
{
    char sentence[sizeof text];
    memcpy(sentence, text, sizeof text);
    return strstr(sentence, path) ? code : zn_fail(code, "%s: %s", path, sentence);
}

const char *zn_error_text(void) { return text; }
