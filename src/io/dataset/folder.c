/* A folder of images, with its subfolders but those of training runs, in order of their paths. */
#include "io/dataset/dataset.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "io/image/format.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { PATH_SIZE = 4096, MAX_DEPTH = 16 };

/* Extensions of files that are wanted; the list ends with NULL. */
static const char *const pictures[] = { ".png",  ".jpg", ".jpeg", ".webp", ".heic", ".heif",
                                        ".avif", ".tif", ".tiff", ".bmp",  NULL };
static const char *const films[] = { ".mp4", ".m4v", ".mkv", ".webm", ".mov", ".avi", ".gif", NULL };

static bool has_extension(const char *name, const char *const *extensions)
{
    const char *dot = strrchr(name, '.');
    for (; dot && *extensions; extensions++)
        if (strcasecmp(dot, *extensions) == 0)
            return true;
    return false;
}

/* Pipes, sockets and devices are not images, and opening one may block. Dangling links are reported when read.
 */
static bool is_special(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && !S_ISREG(s.st_mode);
}

/* The folder of a training run: who keeps one beside the photos would train on its samples, and not go on with the same
 * images when it is resumed. */
static bool is_run(const char *folder)
{
    static const char *const files[] = { "recipe.yaml", "metrics.jsonl" };
    bool all = true;
    for (int i = 0; i < 2 && all; i++) {
        char path[3 * PATH_SIZE];
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        all = zn_exists(path);
    }
    return all;
}

/* By bytes, where alphasort would ask the locale: training takes images by their places in this order. */
static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

/* A folder that is being read, and the one it was found in. */
typedef struct place {
    const struct place *up;
    struct stat id;
    int depth;
} place;

/* Links may lead back to where they are: each folder is read once on a way down. */
static bool is_loop(const place *p)
{
    for (const place *q = p->up; q; q = q->up)
        if (q->id.st_dev == p->id.st_dev && q->id.st_ino == p->id.st_ino)
            return true;
    return false;
}

/* inside: path below the data set's folder, "" at the top. */
static zn_status scan(zn_dataset *d, const char *inside, const place *up, const char *const *wanted)
{
    char folder[PATH_SIZE];
    place here = { .up = up, .depth = up ? up->depth + 1 : 0 };
    snprintf(folder, sizeof folder, "%s%s%s", d->path, inside[0] ? "/" : "", inside);
    if (here.depth > MAX_DEPTH || stat(folder, &here.id) || is_loop(&here))
        return ZN_OK;
    struct dirent **entries;
    const int count = scandir(folder, &entries, NULL, by_name);
    if (count < 0)
        return ZN_FAIL(ZN_EIO, "%s: cannot read the folder", folder);
    zn_status status = ZN_OK;
    for (int i = 0; i < count; i++) {
        char child[PATH_SIZE], full[2 * PATH_SIZE];
        snprintf(child, sizeof child, "%s%s%s", inside, inside[0] ? "/" : "", entries[i]->d_name);
        snprintf(full, sizeof full, "%s/%s", d->path, child);
        if (status == ZN_OK && entries[i]->d_name[0] != '.') {
            if (zn_is_folder(full))
                status = is_run(full) ? ZN_OK : scan(d, child, &here, wanted);
            else if (has_extension(child, wanted) && !is_special(full))
                status = zn_dataset_add(d, child);
        }
        free(entries[i]);
    }
    free(entries);
    return status;
}

static zn_status open_folder(const char *path, zn_dataset *d)
{
    (void)path;
    return scan(d, "", NULL, pictures);
}

static zn_status read_picture(const zn_dataset *d, int64_t index, zn_image **out)
{
    char path[2 * PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", d->path, d->names[index]);
    return zn_image_read(path, NULL, out);
}

static int64_t count_pixels(const zn_dataset *d, int64_t index)
{
    char path[2 * PATH_SIZE];
    zn_map map;
    snprintf(path, sizeof path, "%s/%s", d->path, d->names[index]);
    if (zn_map_open(&map, path) != ZN_OK)
        return 0;
    const int64_t pixels = zn_count_pixels(map.bytes, map.size);
    zn_map_close(&map);
    return pixels;
}

static int64_t bytes_of(const zn_dataset *d)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < d->count; i++) {
        char path[2 * PATH_SIZE];
        struct stat s;
        snprintf(path, sizeof path, "%s/%s", d->path, d->names[i]);
        sum += stat(path, &s) == 0 ? (int64_t)s.st_size : 0;
    }
    return sum;
}

static void close_folder(zn_dataset *d) { (void)d; }

const zn_dataset_kind zn_dataset_folder = { "folder",     zn_is_folder, open_folder, read_picture,
                                            count_pixels, bytes_of,     close_folder };

bool zn_dataset_is_film(const char *path) { return has_extension(path, films); }

zn_status zn_dataset_list_films(const char *path, zn_dataset **out)
{
    zn_dataset *d = zn_calloc(1, sizeof *d);
    *out = NULL;
    if (!d)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a list of videos");
    d->kind = &zn_dataset_folder;
    d->path = zn_strdup(path);
    const zn_status status =
        d->path ? scan(d, "", NULL, films) : ZN_FAIL(ZN_ENOMEM, "out of memory for a list of videos");
    if (status == ZN_OK)
        *out = d;
    else
        zn_dataset_close(d);
    return status;
}
