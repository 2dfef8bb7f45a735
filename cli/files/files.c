/* Selects the files to read and the names of the results. */
#include "files/files.h"

#include "commands.h"
#include "files/standard.h"
#include "ui/report.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

int file_exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0;
}

int is_folder(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

int is_pipe(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && (S_ISFIFO(s.st_mode) || S_ISCHR(s.st_mode));
}

int same_file(const char *a, const char *b)
{
    struct stat s, t;
    return stat(a, &s) == 0 && stat(b, &t) == 0 && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

/* Creates a file in a folder and removes it. access() does not know all: in /proc root may write, and nobody can create
 * anything. Returns 0 or errno. */
static int try_folder(const char *folder)
{
    char *name = must_print("%s/.zenith-XXXXXX", folder);
    const int file = access(folder, W_OK | X_OK) ? -1 : mkstemp(name), error = file < 0 ? errno : 0;
    if (file >= 0) {
        close(file);
        unlink(name);
    }
    free(name);
    return error;
}

/* Cuts off slashes at the end. Returns whether there were any. */
static int cut_slashes(char *path)
{
    size_t length = strlen(path);
    const size_t whole = length;
    while (length > 1 && path[length - 1] == '/')
        path[--length] = 0;
    return length < whole;
}

char *output_problem(const char *path)
{
    struct stat s;
    char *name = must_copy(path);
    const int slash_ends = cut_slashes(name), exists = lstat(name, &s) == 0, whole = exists && S_ISDIR(s.st_mode);
    const char *folder = name, *why = NULL;
    int missing = 0;
    if (exists && !S_ISDIR(s.st_mode) && !S_ISREG(s.st_mode)) { /* links lead elsewhere, and pipes have no folder */
        free(name);
        return NULL;
    }
    if (!exists && errno == ENAMETOOLONG)
        why = strerror(errno);
    else if (exists && !whole && slash_ends)
        why = "it is not a folder";
    else if (exists && !whole && access(name, W_OK))
        why = strerror(errno);
    char *slash = whole ? NULL : strrchr(name, '/');
    if (slash)
        slash[slash == name] = 0;
    else if (!whole)
        folder = ".";
    int error;
    if (!why && !(missing = !is_folder(folder)) && (error = try_folder(folder)) != 0)
        why = strerror(error);
    char *problem = NULL;
    if (missing)
        problem = must_print("cannot write %s: %s%s%s", path, file_exists(folder) ? "" : "there is no folder ", folder,
                             file_exists(folder) ? " is not a folder" : "");
    else if (why)
        problem = must_print("cannot write %s: %s", path, why);
    free(name);
    return problem;
}

int lacks_folder(const char *path)
{
    char *problem = output_problem(path);
    if (!problem)
        return 0;
    complain("%s", problem);
    free(problem);
    return EXIT_FAILURE;
}

int lacks_folders(const char *folder)
{
    char *path = must_copy(folder);
    for (char *slash; !file_exists(path) && (slash = strrchr(path, '/')) && slash != path;) {
        *slash = 0;
        if (file_exists(path)) {
            *slash = '/';
            break;
        }
    }
    const int status = lacks_folder(path);
    free(path);
    return status;
}

const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The dot of the extension, or the end of the name if it has none. */
static const char *extension_of(const char *path)
{
    const char *name = base_name(path), *dot = strrchr(name, '.');
    return dot && dot != name ? dot : path + strlen(path);
}

int has_extension(const char *path, const char *extensions)
{
    const char *dot = extension_of(path);
    if (!*dot)
        return 0;
    const size_t length = strlen(dot + 1);
    for (const char *e = extensions; *e;) {
        const size_t n = strcspn(e, " ");
        if (n == length && !strncasecmp(e, dot + 1, n))
            return 1;
        e += n + (e[n] == ' ');
    }
    return 0;
}

int is_image_file(const char *path) { return has_extension(path, "png jpg jpeg webp heic heif avif tif tiff gif bmp"); }

int is_video_file(const char *path) { return has_extension(path, "mp4 m4v mkv webm mov avi"); }

int has_transparency(const char *path)
{
    zn_image_kind kind;
    zn_image *alpha = NULL;
    if (zn_image_probe(path, &kind) != ZN_OK || !kind.format || !strcmp(kind.format, "jpeg"))
        return 0;
    const int has = zn_image_read_alpha(path, NULL, &alpha) == ZN_OK && alpha;
    zn_image_free(alpha);
    return has;
}

zn_status read_image(const options *o, const char *path, const zn_image_read_options *reading, zn_image **out)
{
    zn_image_kind kind;
    const zn_status status = zn_image_read(path, reading, out);
    if (status == ZN_OK && !o->quiet && !reading->ignore_alpha && has_transparency(path))
        note(o, "%s: its transparency is not kept; it is blended with the background, which --background sets", path);
    if (status != ZN_OK || zn_image_probe(path, &kind) != ZN_OK || kind.frames < 2)
        return status;
    if (!strcmp(kind.format, "tiff"))
        note(o, "%s: %d pages, of which only the first is used", path, kind.frames);
    else
        note(o, "%s: %d frames, of which only the first is used; 'zenith encode --clip' takes all", path, kind.frames);
    return status;
}

static job *add(job_list *list, char *input)
{
    if (list->count == list->capacity) {
        list->capacity = 2 * list->capacity + 16;
        list->items = must_alloc(list->items, (size_t)list->capacity * sizeof *list->items);
    }
    list->items[list->count] = (job){ .input = input };
    return &list->items[list->count++];
}

/* Digits compare as numbers, so that 2 comes before 10. */
static int by_name(const void *a, const void *b)
{
    const char *x = ((const job *)a)->input, *y = ((const job *)b)->input;
    while (*x && *y) {
        const size_t nx = strspn(x, "0123456789"), ny = strspn(y, "0123456789");
        if (!nx || !ny) {
            if (*x != *y)
                break;
            x++;
            y++;
            continue;
        }
        const size_t zx = strspn(x, "0"), zy = strspn(y, "0"), vx = nx - (zx < nx ? zx : nx),
                     vy = ny - (zy < ny ? zy : ny);
        const int order = vx != vy ? (vx < vy ? -1 : 1) : strncmp(x + nx - vx, y + ny - vy, vx);
        if (order)
            return order;
        x += nx;
        y += ny;
    }
    const int order = (unsigned char)*x - (unsigned char)*y;
    return order ? order : strcmp(((const job *)a)->input, ((const job *)b)->input);
}

/* True for folders, and for pipes, sockets and devices, because opening them may block forever. False for broken links,
 * so that they are reported. */
static int is_special_file(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && !S_ISREG(s.st_mode);
}

static void add_folder(job_list *list, const char *folder, const job_rules *rules)
{
    DIR *dir = opendir(folder);
    if (!dir) {
        add(list, must_copy(folder))->problem = must_copy(strerror(errno));
        return;
    }
    const int first = list->count;
    const char *slash = folder[strlen(folder) - 1] == '/' ? "" : "/";
    for (const struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        char *path = must_print("%s%s%s", folder, slash, e->d_name);
        if (!is_special_file(path) && rules->takes(path))
            add(list, path);
        else
            free(path);
    }
    closedir(dir);
    if (list->count == first)
        add(list, must_copy(folder))->problem = must_print("no %s in this folder", rules->what);
    else
        qsort(list->items + first, (size_t)(list->count - first), sizeof *list->items, by_name);
}

/* Whether any file can be worked on. */
static int has_work(const job_list *list)
{
    int i = 0;
    while (i < list->count && list->items[i].problem)
        i++;
    return i < list->count;
}

/* Sets *folder if -o is a folder, which is created if there is something to write to it. Returns 0, or an exit status
 * after reporting an error. The name of a new folder must not look like a file name: for several results, that is
 * probably a mistake. */
static int find_folder(const options *o, const job_rules *rules, job_list *jobs, int several, int *folder)
{
    const size_t length = strlen(o->output);
    const char *name = o->command->name;
    if ((*folder = is_folder(o->output)))
        return lacks_folder(o->output);
    if (several && !strcmp(o->output, "-"))
        return usage_error(name, "several results need a folder, not standard output");
    if (o->output[length - 1] != '/') {
        if (!several)
            return 0;
        if (file_exists(o->output) || rules->can_write(o->output))
            return usage_error(name, "several results need a folder, and '%s' is %s", o->output,
                               file_exists(o->output) ? "a file" : "the name of a file");
    }
    if (lacks_folder(o->output))
        return EXIT_FAILURE;
    *folder = 1;
    if (!has_work(jobs))
        return 0;
    if (mkdir(o->output, 0777) == 0) {
        jobs->created = must_copy(o->output);
        return 0;
    }
    if (errno == EEXIST && is_folder(o->output)) /* another rank created it first */
        return 0;
    complain("cannot create the folder %s: %s", o->output, strerror(errno));
    return EXIT_FAILURE;
}

static int to_standard_output(const options *o) { return o->output && !strcmp(o->output, "-"); }

static char *result_name(const options *o, const char *input, int in_folder, const char *extension)
{
    if (to_standard_output(o))
        return must_copy(STANDARD_OUTPUT);
    if (o->output && !in_folder)
        return must_copy(o->output);
    const char *called = is_standard_input(input) ? "stdin" : name_of_kept(input);
    const char *name = o->output ? base_name(called) : called;
    const int stem = (int)(extension_of(name) - name);
    if (!o->output)
        return must_print("%.*s.%s", stem, name, extension);
    const char *slash = o->output[strlen(o->output) - 1] == '/' ? "" : "/";
    return must_print("%s%s%.*s.%s", o->output, slash, stem, name, extension);
}

int jobs_expand(const options *o, const job_rules *rules, job_list *out)
{
    *out = (job_list){ 0 };
    int several = o->file_count > 1;
    for (int i = 0; i < o->file_count; i++) {
        if (is_folder(o->files[i])) {
            several = 1;
            add_folder(out, o->files[i], rules);
        } else {
            add(out, must_copy(o->files[i]));
        }
    }
    return several;
}

int jobs_make(const options *o, const job_rules *rules, job_list *out)
{
    const int several = jobs_expand(o, rules, out);
    const char *why = to_standard_output(o) ? standard_output_problem(o->json, o->show) : NULL;
    if (why)
        return usage_error(o->command->name, "cannot write to standard output: %s", why);
    if (!o->output && (is_standard_input(o->files[0]) || !strncmp(name_of_kept(o->files[0]), "/dev/fd/", 8)))
        return usage_error(o->command->name, "the result of standard input needs a name: -o");
    const char *extension = o->format ? o->format : rules->extension;
    char *sample = must_print("x.%s", extension);
    const int good = rules->can_write(sample);
    free(sample);
    if (!good)
        return usage_error(o->command->name, "cannot write '%s' files, only %s", extension, rules->extensions);
    int in_folder = 0;
    const int status = o->output ? find_folder(o, rules, out, several, &in_folder) : 0;
    if (status)
        return status;
    const int by_format = to_standard_output(o) || (o->output && o->format && is_pipe(o->output));
    if (o->output && !in_folder && !by_format) {
        if (!rules->can_write(o->output))
            return usage_error(o->command->name, "cannot write '%s': its name must end in %s%s", o->output,
                               rules->extensions, is_pipe(o->output) ? ", or give --format" : ", or in / for a folder");
        if (same_file(o->output, o->files[0]))
            return usage_error(o->command->name, "the result would replace the input '%s'", o->files[0]);
        if (lacks_folder(o->output))
            return EXIT_FAILURE;
    }
    for (int i = 0; i < out->count; i++) {
        job *j = &out->items[i];
        if (j->problem)
            continue;
        j->output = result_name(o, j->input, in_folder, extension);
        j->kind = by_format ? must_print("-.%s", extension) : must_copy(j->output);
        if (!o->output)
            j->problem = output_problem(j->output);
    }
    jobs_find_conflicts(o, out);
    return 0;
}

void jobs_free(job_list *list)
{
    for (int i = 0; i < list->count; i++) {
        free(list->items[i].input);
        free(list->items[i].output);
        free(list->items[i].kind);
        free(list->items[i].problem);
    }
    free(list->items);
    if (list->created)
        rmdir(list->created);
    free(list->created);
    *list = (job_list){ 0 };
}
