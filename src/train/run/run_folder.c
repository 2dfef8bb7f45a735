/* The folder of a run: is there something to resume, or nothing in the way; its recipe; and one process at a time. */
#define _DEFAULT_SOURCE
#include "base/fail.h"
#include "base/file.h"
#include "train/run/run.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

static zn_status check_empty(const char *folder)
{
    DIR *d = opendir(folder);
    int entries = 0;
    if (!d)
        return ZN_FAIL(ZN_EIO, "%s: %s", folder, strerror(errno));
    for (const struct dirent *e; entries <= 2 && (e = readdir(d));)
        entries += !zn_is_temporary(e->d_name);
    closedir(d);
    if (entries > 2)
        return ZN_FAIL(ZN_EINVALID, "%s: not empty; resume the run there or choose another folder", folder);
    return ZN_OK;
}

/* True if another process holds the folder. One that was just killed does so until its memory is given back. */
static bool is_taken(DIR *folder)
{
    enum { TRIES = 20 };
    const struct timespec pause = { .tv_nsec = 100000000 };
    for (int i = 0; flock(dirfd(folder), LOCK_EX | LOCK_NB); i++) {
        if (errno != EWOULDBLOCK)
            return false;
        if (i == TRIES)
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* The lock goes with the process, however that ends. A file system without locks must do without. */
static zn_status lock_folder(zn_run *r)
{
    r->lock = zn_run_keeps(r) ? opendir(r->options.folder) : NULL;
    if (r->lock && is_taken(r->lock))
        return ZN_FAIL(ZN_EINVALID, "%s: another process is at work on this run", r->options.folder);
    return ZN_OK;
}

void zn_run_unlock_folder(zn_run *r)
{
    if (r->lock)
        closedir(r->lock);
    r->lock = NULL;
}

zn_status zn_run_read_recipe(zn_run *r)
{
    char path[ZN_RUN_PATH];
    ZN_TRY(lock_folder(r));
    zn_run_path(r, "checkpoint.safetensors", path);
    r->has_checkpoint = zn_exists(path);
    zn_run_path(r, "recipe.yaml", path);
    if (!r->has_checkpoint && !zn_exists(path))
        return ZN_FAIL(ZN_ENOTFOUND, "%s: no checkpoint to resume from", r->options.folder);
    ZN_TRY(zn_recipe_read(path, &r->recipe));
    zn_run_read_origin(r);
    return r->options.data ? ZN_OK : zn_run_recall_data(r);
}

zn_status zn_run_make_folder(zn_run *r)
{
    char path[ZN_RUN_PATH], text[ZN_RECIPE_TEXT];
    if (!r->options.resume) {
        ZN_TRY(zn_folder_make(r->options.folder));
        ZN_TRY(lock_folder(r));
        ZN_TRY(check_empty(r->options.folder));
    }
    zn_remove_temporaries(r->options.folder);
    zn_run_path(r, "recipe.yaml", path);
    const int length = zn_recipe_text(&r->recipe, text, sizeof text);
    return zn_file_write(path, text, (size_t)length);
}
