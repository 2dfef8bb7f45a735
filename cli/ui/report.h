/* Output of the program: results on stdout, everything else on stderr. */
#ifndef ZN_CLI_REPORT_H
#define ZN_CLI_REPORT_H

#include "options/options.h"

/* Print results. report_finish reports the first failed write. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
void say_bytes(const void *bytes, size_t size);
/* Writes what is buffered. Returns 0 if a write has failed so far, which report_finish reports. */
int say_flush(void);

/* Prints a remark on stderr, unless --quiet. */
__attribute__((format(printf, 2, 3))) void note(const options *o, const char *format, ...);

/* Prints "zenith: ..." on stderr and stores the text for report_error. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);
/* Report an error of a file; the name is not repeated if the text contains it. complain_about uses the library's last
 * error. */
void complain_of(const char *file, const char *why);
void complain_about(const char *file);
/* Text of the last error or usage error, without "zenith: "; "" if there was none. */
const char *report_error(void);
/* Replaces that text after several failures that were reported one by one. */
__attribute__((format(printf, 1, 2))) void summarize_errors(const char *format, ...);

/* Prints "zenith COMMAND: ..." and where to find help; returns EXIT_USAGE. command NULL: the program itself. */
__attribute__((format(printf, 2, 3))) int usage_error(const char *command, const char *format, ...);

/* Disables all output of this process: another process of the same run prints. */
void report_silence(void);
int report_is_silent(void);

/* Output of this process, for another process to print. */
typedef struct captured {
    char *out, *err; /* bytes for stdout and stderr; the caller frees them */
    size_t out_size, err_size;
} captured;
/* After report_capture, output is stored instead of printed, even in a silenced process. report_captured ends this and
 * returns the stored output. */
void report_capture(void);
captured report_captured(void);
/* Prints the output that another process captured. */
void report_replay(const captured *c);

/* Flushes stdout. Returns status, or EXIT_FAILURE if a write failed. A closed pipe is not reported. */
int report_finish(int status);

double now_ms(void); /* monotonic */

/* Like malloc and realloc, but exit with an error message when out of memory. */
void *must_alloc(void *old, size_t bytes);
char *must_copy(const char *text);
/* printf to newly allocated memory, for example for "folder/name.extension". */
__attribute__((format(printf, 1, 2))) char *must_print(const char *format, ...);

#endif
