/* Standard input is kept in a file without a name: commands look at their inputs more than once, and a pipe can be
 * read only once. */
#include "ui/standard.h"

#include "ui/report.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char kept_path[32]; /* of that file; "" as long as there is none */

/* All that a stream gives, in a file without a name; NULL after saying what is wrong. */
static FILE *keep(FILE *from, const char *name)
{
    FILE *kept = tmpfile();
    char buffer[1 << 16];
    size_t n = 0;
    while (kept && (n = fread(buffer, 1, sizeof buffer, from)) > 0)
        if (fwrite(buffer, 1, n, kept) != n)
            break;
    if (kept && !n && !ferror(from) && !fflush(kept))
        return kept;
    complain("cannot keep %s: %s", name, strerror(errno));
    if (kept)
        fclose(kept);
    return NULL;
}

const char *standard_input(void)
{
    if (kept_path[0])
        return kept_path;
    FILE *kept = keep(stdin, "standard input");
    if (kept) /* it stays open as long as the program runs */
        snprintf(kept_path, sizeof kept_path, "/dev/fd/%d", fileno(kept));
    return kept ? kept_path : NULL;
}

int keep_pipe(const char *path)
{
    struct stat s;
    int fd = -1, length = 0;
    if ((sscanf(path, "/dev/fd/%d%n", &fd, &length) < 1 && sscanf(path, "/proc/self/fd/%d%n", &fd, &length) < 1) ||
        path[length] || fd < 0 || fstat(fd, &s) || !S_ISFIFO(s.st_mode))
        return 0;
    FILE *from = fdopen(dup(fd), "rb"), *kept = from ? keep(from, path) : NULL;
    const int failed = !kept || dup2(fileno(kept), fd) < 0;
    if (failed && (!from || kept))
        complain("cannot keep %s: %s", path, strerror(errno));
    if (from)
        fclose(from);
    if (kept)
        fclose(kept);
    return failed;
}

int is_standard_input(const char *other) { return kept_path[0] && !strcmp(kept_path, other); }

void name_standard_input(char *text, size_t size)
{
    static const char name[] = "standard input";
    const size_t old = strlen(kept_path), new = sizeof name - 1;
    for (char *at = text; old && (at = strstr(at, kept_path)) != NULL;) {
        const size_t rest = strlen(at + old);
        if (isdigit((unsigned char)at[old]) || (size_t)(at - text) + new + rest >= size) {
            at += old; /* another file, or no room */
            continue;
        }
        memmove(at + new, at + old, rest + 1);
        memcpy(at, name, new);
        at += new;
    }
}

const char *standard_output_problem(int json, int show)
{
    if (json || show)
        return "--json and --show have it for themselves";
    return isatty(STDOUT_FILENO) ? "it is a terminal" : NULL;
}

zn_status write_picture(const char *path, const char *kind, const zn_image *image,
                        const zn_image_write_options *writing)
{
    if (strcmp(path, STANDARD_OUTPUT))
        return zn_image_write(path, image, writing);
    const char *extension = strrchr(kind, '.') + 1;
    void *bytes;
    size_t size;
    const zn_status status =
        zn_image_write_memory(strcmp(extension, "jpg") ? extension : "jpeg", image, writing, &bytes, &size);
    if (status == ZN_OK)
        say_bytes(bytes, size);
    zn_memory_free(bytes);
    return status;
}
