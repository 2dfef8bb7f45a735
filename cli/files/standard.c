/* Buffers standard input and named pipes in unnamed temporary files, because commands read their inputs more than once
 * and a pipe can be read only once. */
#include "files/standard.h"

#include "ui/report.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_KEPT = 64 };
static const char standard_name[] = "standard input";
static struct {
    char path[32];    /* "/dev/fd/N" of a file that stays open until the program ends */
    const char *name; /* the user's name for it */
} kept_files[MOST_KEPT];
static int kept_count;

/* Copies a stream to an unnamed temporary file. Returns NULL after reporting an error. */
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
    complain("cannot buffer %s: %s", name, strerror(errno));
    if (kept)
        fclose(kept);
    return NULL;
}

/* Buffers a stream, once for each name. Returns the path to read it from, or NULL after reporting an error. */
static const char *kept_path(FILE *from, const char *name)
{
    for (int i = 0; i < kept_count; i++)
        if (!strcmp(kept_files[i].name, name))
            return kept_files[i].path;
    if (kept_count == MOST_KEPT) {
        complain("%s: more than %d pipes are read", name, MOST_KEPT);
        return NULL;
    }
    FILE *kept = keep(from, name);
    if (!kept)
        return NULL;
    snprintf(kept_files[kept_count].path, sizeof kept_files->path, "/dev/fd/%d", fileno(kept));
    kept_files[kept_count].name = name;
    return kept_files[kept_count++].path;
}

const char *standard_input(void) { return kept_path(stdin, standard_name); }

/* For a pipe from the shell: replaces descriptor fd by a file with the content of the pipe. */
static int keep_number(int fd, const char *path)
{
    FILE *from = fdopen(dup(fd), "rb"), *kept = from ? keep(from, path) : NULL;
    const int failed = !kept || dup2(fileno(kept), fd) < 0;
    if (failed && (!from || kept))
        complain("cannot buffer %s: %s", path, strerror(errno));
    if (from)
        fclose(from);
    if (kept)
        fclose(kept);
    return failed;
}

const char *keep_pipe(const char *path)
{
    struct stat s;
    int fd = -1, length = 0;
    if (stat(path, &s) || !S_ISFIFO(s.st_mode))
        return path;
    if ((sscanf(path, "/dev/fd/%d%n", &fd, &length) == 1 || sscanf(path, "/proc/self/fd/%d%n", &fd, &length) == 1) &&
        !path[length])
        return keep_number(fd, path) ? NULL : path;
    FILE *from = fopen(path, "rb"); /* waits for a writer */
    if (!from) {
        complain("cannot open %s: %s", path, strerror(errno));
        return NULL;
    }
    const char *kept = kept_path(from, path);
    fclose(from);
    return kept;
}

const char *name_of_kept(const char *path)
{
    for (int i = 0; i < kept_count; i++)
        if (!strcmp(kept_files[i].path, path))
            return kept_files[i].name;
    return path;
}

int is_standard_input(const char *path) { return name_of_kept(path) == standard_name; }

static void replace(char *text, size_t size, const char *path, const char *name)
{
    const size_t old = strlen(path), new = strlen(name);
    for (char *at = text; (at = strstr(at, path)) != NULL;) {
        const size_t rest = strlen(at + old);
        if (isdigit((unsigned char)at[old]) || (size_t)(at - text) + new + rest >= size) {
            at += old; /* another file, or the text would not fit */
            continue;
        }
        memmove(at + new, at + old, rest + 1);
        memcpy(at, name, new);
        at += new;
    }
}

void name_kept_files(char *text, size_t size)
{
    for (int i = 0; i < kept_count; i++)
        replace(text, size, kept_files[i].path, kept_files[i].name);
    replace(text, size, STANDARD_OUTPUT, "standard output");
}

const char *standard_output_problem(int json, int show)
{
    if (json || show)
        return "--json and --show use it";
    return isatty(STDOUT_FILENO) ? "it is a terminal" : NULL;
}

zn_status check_image(const char *kind, int64_t width, int64_t height, int compared)
{
    return zn_image_check(kind, compared ? 3 * width + 2 * ZN_IMAGE_GAP : width, height, 8);
}

zn_status write_image(const char *path, const char *kind, const zn_image *image, const zn_image_write_options *writing)
{
    if (!strcmp(path, kind))
        return zn_image_write(path, image, writing);
    const char *extension = strrchr(kind, '.') + 1, *format = strcmp(extension, "jpg") ? extension : "jpeg";
    if (strcmp(path, STANDARD_OUTPUT))
        return zn_image_write_as(path, format, image, writing);
    void *bytes;
    size_t size;
    const zn_status status = zn_image_write_memory(format, image, writing, &bytes, &size);
    if (status == ZN_OK)
        say_bytes(bytes, size);
    zn_memory_free(bytes);
    return status;
}
