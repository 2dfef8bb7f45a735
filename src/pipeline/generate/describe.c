/* Describes models without opening a generator: their parts, and the folders that hold one. */
#include "base/fail.h"
#include "base/file.h"
#include "base/text.h"
#include "pipeline/generate/generate.h"
#include "pipeline/generate/missing.h"
#include "pipeline/model/open.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- parts ---- */

/* The type that most bytes of the tensors have. MLX packs its codes into words. */
static const char *main_dtype(const zn_part_files *p)
{
    double bytes[ZN_DTYPE_COUNT] = { 0 };
    zn_dtype most = ZN_F32;
    for (int f = 0; f < p->count; f++)
        for (int64_t i = 0; i < zn_weights_count(p->files[f]); i++) {
            const zn_weight *w = zn_weights_at(p->files[f], i);
            bytes[w->dtype] += (double)w->bytes;
            most = bytes[w->dtype] > bytes[most] ? w->dtype : most;
        }
    return most == ZN_U32 ? "MLX" : zn_dtype_name(most);
}

static void describe_tokenizer(zn_generator_part_info *info)
{
    struct stat s;
    info->format = zn_ending(info->path, ".gguf") ? "gguf" : "json";
    if (stat(info->path, &s) == 0 && S_ISREG(s.st_mode) && !zn_ending(info->path, ".gguf"))
        info->bytes = (double)s.st_size;
}

static void visit_part(const zn_generator_paths *paths, zn_generator_part part, zn_generator_part_fn visit, void *user)
{
    zn_generator_part_info info = { .size = sizeof info,
                                    .name = zn_part_label(part),
                                    .format = "",
                                    .dtype = "",
                                    .optional = part == ZN_GENERATOR_PREVIEW };
    zn_part_files files = { 0 };
    if (paths->part[part][0])
        info.path = paths->part[part];
    if (info.path && part == ZN_GENERATOR_TOKENIZER) {
        info.files = 1;
        describe_tokenizer(&info);
    } else if (info.path && zn_part_open(info.path, part, &files) == ZN_OK) {
        info.format = zn_weights_format(files.files[0]);
        info.dtype = main_dtype(&files);
        info.bytes = zn_part_bytes(&files);
        info.files = files.count;
    }
    visit(user, &info);
    zn_part_close(&files);
}

zn_status zn_generator_parts(const zn_generator_files *files, zn_generator_part_fn visit, void *user)
{
    zn_generator_paths paths;
    char why[2048];
    const zn_status status = zn_generator_paths_find(files, &paths);
    snprintf(why, sizeof why, "%s", status == ZN_OK ? "" : zn_error_text());
    for (int part = 0; part < ZN_GENERATOR_PARTS; part++)
        visit_part(&paths, part, visit, user);
    return status == ZN_OK ? ZN_OK : ZN_FAIL(status, "%s", why);
}

/* ---- folders ---- */

typedef struct folder_visit {
    zn_generator_folder_fn visit;
    void *user;
} folder_visit;

/* The search also looks beside the folder; only a transformer inside makes it a model. */
static bool is_model(const char *folder)
{
    const zn_generator_files asked = { .size = sizeof asked, .model = folder };
    const size_t length = strlen(folder);
    zn_generator_paths paths;
    (void)!zn_generator_paths_find(&asked, &paths);
    const char *transformer = paths.part[ZN_GENERATOR_TRANSFORMER];
    return strncmp(transformer, folder, length) == 0 && transformer[length] == '/';
}

/* A place may be a model itself, such as ComfyUI's folder; its folders are then parts. */
static bool visit_place(void *user, const char *place)
{
    const folder_visit *v = user;
    struct dirent **entries;
    if (is_model(place)) {
        v->visit(v->user, place);
        return true;
    }
    const int count = scandir(place, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        char folder[4096];
        const int length = snprintf(folder, sizeof folder, "%s/%s", place, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && length < (int)sizeof folder && zn_is_folder(folder) && is_model(folder))
            v->visit(v->user, folder);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return true;
}

zn_status zn_generators_visit(zn_generator_folder_fn visit, void *user)
{
    return zn_each_place(visit_place, &(folder_visit){ visit, user });
}
