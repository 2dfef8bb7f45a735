/* What the program prints: results on stdout, everything else on stderr. */
#ifndef ZN_CLI_REPORT_H
#define ZN_CLI_REPORT_H

#include "ui/options.h"

/* Results. The first failed write is remembered for report_finish. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
void say_bytes(const void *bytes, size_t size);

/* A remark on stderr, unless --quiet. */
__attribute__((format(printf, 2, 3))) void note(const options *o, const char *format, ...);

/* "zenith: ..." on stderr; kept for report_error. */
__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);
/* A complaint about a file, whose name is not repeated if the sentence has it; and one with the library's last error.
 */
void complain_of(const char *file, const char *why);
void complain_about(const char *file);
/* Text of the last complaint or usage error, without "zenith: "; "" if there was none. */
const char *report_error(void);
/* Replaces that text after several failures that have been reported one by one. */
__attribute__((format(printf, 1, 2))) void summarize_errors(const char *format, ...);

/* "zenith COMMAND: ..." and where to look; returns EXIT_USAGE. command NULL: the program as a whole. */
__attribute__((format(printf, 2, 3))) int usage_error(const char *command, const char *format, ...);

/* Print nothing from now on: another process of the same run does. */
void report_silence(void);

/* What would have been printed, for another process to print. */
typedef struct captured {
    char *out, *err; /* bytes for stdout and stderr; to be freed */
    size_t out_size, err_size;
} captured;
/* From report_capture on, nothing is printed, not even by a silent process, but kept; until report_captured, which
 * gives it away. */
void report_capture(void);
captured report_captured(void);
/* Prints what another process has captured. */
void report_replay(const captured *c);

/* Flushes stdout; returns status, or EXIT_FAILURE if something could not be written. A closed pipe is not announced. */
int report_finish(int status);

double now_ms(void); /* monotonic */

/* As malloc and realloc, but the program reports that it is out of memory and exits. */
void *must_alloc(void *old, size_t bytes);
char *must_copy(const char *text);
/* "folder/name.extension" and the like: joins printf pieces into fresh memory. */
__attribute__((format(printf, 1, 2))) char *must_print(const char *format, ...);

#endif
