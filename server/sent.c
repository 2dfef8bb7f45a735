/* Until they are decoded, images are files such as "00003 photo.jpg.sent": their number, and the client's name. */
#include "server/sent.h"
#include "server/jobs.h"

#include "base/fail.h"
#include "base/file.h"
#include "ui/report.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/zenith.h>

enum { DIGITS = 5 };
static const char ending[] = ".sent";

static zn_status keep_one(const char *folder, int number, sv_field *f)
{
    ZN_TRY(sv_field_decode(f));
    char *name = must_print("%.80s", f->filename && *f->filename ? f->filename : "an image");
    for (char *slash = name; (slash = strchr(slash, '/')) != NULL;)
        *slash = '_';
    char *path = must_print("%s/%0*d %s%s", folder, DIGITS, number, name, ending);
    const zn_status status = zn_file_write(path, f->bytes, f->size);
    free(path);
    free(name);
    return status;
}

zn_status sv_sent_keep(const char *folder, const sv_form *form)
{
    sv_folder_remove(folder); /* of a request that the server did not outlive */
    ZN_TRY(zn_folder_make(folder));
    for (int i = 0, number = 0; i < form->count; i++) {
        sv_field *f = &form->fields[i];
        if (!strcmp(f->name, "file") || !strcmp(f->name, "files"))
            ZN_TRY(keep_one(folder, ++number, f));
    }
    return ZN_OK;
}

/* The library's sentence about bytes in memory, with the client's name of the file. */
static zn_status name_failure(zn_status status, const char *file)
{
    static const char unnamed[] = "image in memory";
    const char *name = file + DIGITS + 1;
    char *text = must_copy(zn_error_text());
    const size_t known = strncmp(text, unnamed, sizeof unnamed - 1) ? 0 : sizeof unnamed - 1;
    status = ZN_FAIL(status, "%.*s%s%s", (int)(strlen(name) - strlen(ending)), name, known ? "" : ": ", text + known);
    free(text);
    return status;
}

static zn_status decode_one(const char *folder, int64_t most_pixels, const char *file)
{
    const zn_image_read_options reading = { .max_pixels = most_pixels };
    char *path = must_print("%s/%s", folder, file), *result = must_print("%s/%.*s.png", folder, DIGITS, file);
    zn_map map = { 0 };
    zn_image *image = NULL;
    zn_status status = zn_map_open(&map, path);
    if (status == ZN_OK)
        status = zn_image_read_memory(map.bytes, map.size, &reading, &image);
    zn_map_close(&map);
    if (status != ZN_OK)
        status = name_failure(status, file);
    else
        status = zn_image_write(result, image, &(zn_image_write_options){ .threads = 1 });
    if (status == ZN_OK)
        remove(path);
    zn_image_free(image);
    free(path);
    free(result);
    return status;
}

static int is_sent(const struct dirent *entry)
{
    const size_t length = strlen(entry->d_name), end = sizeof ending - 1;
    return length > DIGITS + end && !strcmp(entry->d_name + length - end, ending);
}

zn_status sv_sent_decode(const char *folder, int64_t most_pixels, const atomic_int *halts)
{
    struct dirent **entries = NULL;
    const int count = scandir(folder, &entries, is_sent, alphasort);
    zn_status status = ZN_OK;
    for (int i = 0; i < count; i++) {
        if (status == ZN_OK)
            status = *halts ? ZN_FAIL(ZN_ECANCELLED, "cancelled") : decode_one(folder, most_pixels, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return status;
}
