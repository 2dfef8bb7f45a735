/* Output of the program, and helpers for every command. stdout gets results only. A failed write to stdout is recorded
 * and becomes the exit status at the end. */
#include "ui/report.h"

#include "files/standard.h"
#include "ui/progress.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LINE = 2048 };

static int write_errno, silent, capturing;
static captured kept;
static char last_error[LINE];

static void remember(int failed)
{
    if (failed && !write_errno)
        write_errno = errno ? errno : EIO;
}

void report_silence(void) { silent = 1; }

int report_is_silent(void) { return silent; }

void report_capture(void) { capturing = 1; }

captured report_captured(void)
{
    const captured c = kept;
    kept = (captured){ 0 };
    capturing = 0;
    return c;
}

static void append(char **to, size_t *length, const void *bytes, size_t size)
{
    *to = must_alloc(*to, *length + size);
    memcpy(*to + *length, bytes, size);
    *length += size;
}

static void to_stdout(const void *bytes, size_t size)
{
    if (capturing) {
        append(&kept.out, &kept.out_size, bytes, size);
    } else if (!silent) {
        progress_erase();
        remember(fwrite(bytes, 1, size, stdout) != size);
    }
}

static void to_stderr(const void *bytes, size_t size)
{
    if (capturing) {
        append(&kept.err, &kept.err_size, bytes, size);
    } else if (!silent) {
        progress_erase();
        remember(fflush(stdout) != 0);
        fwrite(bytes, 1, size, stderr);
    }
}

void report_replay(const captured *c)
{
    to_stderr(c->err, c->err_size);
    to_stdout(c->out, c->out_size);
}

/* Formats a line for stderr. Lines longer than LINE are cut off. */
static void word(char text[LINE], const char *format, va_list args)
{
    vsnprintf(text, LINE, format, args);
    name_kept_files(text, LINE);
}

void say(const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const size_t capacity = 2 * (size_t)vsnprintf(NULL, 0, format, args) + 1;
    va_end(args);
    char *text = must_alloc(NULL, capacity);
    vsnprintf(text, capacity, format, again);
    va_end(again);
    name_kept_files(text, capacity);
    to_stdout(text, strlen(text));
    free(text);
}

void say_bytes(const void *bytes, size_t size) { to_stdout(bytes, size); }

int say_flush(void)
{
    remember(fflush(stdout) != 0);
    return !write_errno;
}

/* Prints "zenith: TEXT" on stderr. */
static void tell(const char *text)
{
    char *line = must_print("zenith: %s\n", text);
    to_stderr(line, strlen(line));
    free(line);
}

void note(const options *o, const char *format, ...)
{
    if (o->quiet)
        return;
    char text[LINE];
    va_list args;
    va_start(args, format);
    word(text, format, args);
    va_end(args);
    tell(text);
}

void complain(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char text[LINE]; /* the last error may be among the arguments */
    word(text, format, args);
    va_end(args);
    memcpy(last_error, text, sizeof text);
    tell(text);
}

/* True if the text names this file, as a word or as the end of a path, or a file in this folder. */
static int names(const char *text, const char *file)
{
    const size_t length = strlen(file);
    for (const char *at = text; length && (at = strstr(at, file)) != NULL; at++)
        if ((at == text || strchr(" '/", at[-1])) && strchr(" ':,;/", at[length]))
            return 1;
    return 0;
}

void complain_of(const char *file, const char *why)
{
    if (names(why, file))
        complain("%s", why);
    else
        complain("%s: %s", file, why);
}

void complain_about(const char *file) { complain_of(file, zn_error_text()); }

const char *report_error(void) { return last_error; }

void summarize_errors(const char *format, ...)
{
    char text[LINE];
    va_list args;
    va_start(args, format);
    word(text, format, args);
    va_end(args);
    memcpy(last_error, text, sizeof text);
}

int usage_error(const char *command, const char *format, ...)
{
    char text[LINE];
    va_list args;
    va_start(args, format);
    word(text, format, args);
    va_end(args);
    memcpy(last_error, text, sizeof text);
    if (silent)
        return EXIT_USAGE;
    fprintf(stderr, "zenith%s%s: %s", command ? " " : "", command ? command : "", text);
    fprintf(stderr, "\ntry 'zenith help%s%s'\n", command ? " " : "", command ? command : "");
    return EXIT_USAGE;
}

int report_finish(int status)
{
    if (say_flush())
        return status;
    if (write_errno != EPIPE)
        complain("standard output: %s", strerror(write_errno));
    return status ? status : EXIT_FAILURE;
}

double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

void *must_alloc(void *old, size_t bytes)
{
    void *block = realloc(old, bytes ? bytes : 1);
    if (!block) {
        complain("out of memory: %zu bytes", bytes);
        exit(EXIT_FAILURE);
    }
    return block;
}

char *must_copy(const char *text) { return must_print("%s", text); }

char *must_print(const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = must_alloc(NULL, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}
