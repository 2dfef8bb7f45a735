/* Which model is meant if none is named, and what a model says about how images are made with it. */
#include "base/fail.h"
#include "base/file.h"
#include "base/json.h"
#include "pipeline/generate/generate.h"
#include "pipeline/model/open.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PATH = 4096 };

/* ---- settings of a model ---- */

static zn_status read_settings(const zn_json_node *own, zn_generation_defaults *d)
{
    const int usual_width = d->width, usual_height = d->height;
    d->width = d->height = 0;
    zn_json_update_int(own, "width", &d->width);
    zn_json_update_int(own, "height", &d->height);
    d->own_size = d->width && d->height;
    d->width = d->own_size ? d->width : usual_width;
    d->height = d->own_size ? d->height : usual_height;
    zn_json_update_int(own, "steps", &d->steps);
    zn_json_update_double(own, "guidance", &d->guidance);
    zn_json_update_double(own, "shift", &d->shift);
    return zn_generation_check(&(zn_generation){ .size = sizeof(zn_generation),
                                                 .width = d->width,
                                                 .height = d->height,
                                                 .steps = d->steps,
                                                 .guidance = d->guidance,
                                                 .shift = d->shift });
}

/* Cuts the last name off a path; false if there is none. */
static bool cut(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
    return slash != NULL;
}

/* The model_index.json that belongs to a transformer: beside it, or a folder above; false if there is none. */
static bool find_index(const char *transformer, char path[MAX_PATH + 64])
{
    char folder[MAX_PATH + 8];
    snprintf(folder, sizeof folder, "%s%s", strchr(transformer, '/') ? "" : "./", transformer);
    for (int level = 0; level < 2 && cut(folder); level++) {
        snprintf(path, MAX_PATH + 64, "%s/model_index.json", folder);
        if (zn_exists(path))
            return true;
    }
    return false;
}

static zn_status open_index(const char *path, zn_json *doc)
{
    zn_map map;
    ZN_TRY(zn_map_open(&map, path));
    const zn_status status = zn_json_parse(doc, map.bytes, map.size, path);
    zn_map_close(&map);
    return status;
}

static const zn_json_node *own_settings(const zn_json *doc) { return zn_json_get(doc->root, "_generate"); }

zn_status zn_generation_defaults_find(const char *transformer, zn_generation_defaults *out, bool *lower_case)
{
    char path[MAX_PATH + 64];
    zn_json doc;
    *out = zn_generation_usual();
    *lower_case = false;
    if (!find_index(transformer, path))
        return ZN_OK;
    ZN_TRY(open_index(path, &doc));
    const zn_json_node *own = own_settings(&doc);
    const zn_json_node *lower = zn_json_get(own, "lower_case");
    const zn_status status = own ? read_settings(own, out) : ZN_OK;
    *lower_case = lower && lower->kind == ZN_JSON_BOOL && lower->value.magnitude;
    zn_json_free(&doc);
    return status == ZN_OK ? ZN_OK : zn_fail_in_file(ZN_EFORMAT, path);
}

/* ---- what a model says about itself ---- */

/* The texts of a list, one on each line; those that do not fit as a whole are left out. */
static void read_lines(const zn_json_node *list, char *out, size_t size)
{
    size_t used = 0;
    ZN_JSON_EACH(item, list)
    {
        const char *text = zn_json_string(item);
        const size_t length = text ? strlen(text) : 0;
        if (!length || strchr(text, '\n') || used + length + 2 > size)
            continue;
        used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "\n" : "", text);
    }
}

zn_status zn_generator_describe(const zn_generator_files *files, zn_generator_about *out)
{
    const size_t size = out->size ? out->size : sizeof *out;
    zn_generator_about about = { .size = size };
    zn_generator_paths paths;
    zn_json doc;
    char path[MAX_PATH + 64];
    memcpy(out, &about, size < sizeof about ? size : sizeof about);
    ZN_TRY(zn_generator_paths_find(files, &paths));
    if (!find_index(paths.part[ZN_GENERATOR_TRANSFORMER], path))
        return ZN_OK;
    ZN_TRY(open_index(path, &doc));
    const zn_json_node *own = own_settings(&doc);
    const char *description = zn_json_string(zn_json_get(own, "description"));
    snprintf(about.description, sizeof about.description, "%s", description ? description : "");
    read_lines(zn_json_get(own, "examples"), about.examples, sizeof about.examples);
    read_lines(zn_json_get(own, "subjects"), about.subjects, sizeof about.subjects);
    zn_json_update_int(own, "width", &about.width);
    zn_json_update_int(own, "height", &about.height);
    if (!about.width || !about.height)
        about.width = about.height = 0;
    zn_json_free(&doc);
    memcpy(out, &about, size < sizeof about ? size : sizeof about);
    return ZN_OK;
}

/* ---- the usual model ---- */

static const char usual[] = "z-image-turbo";

typedef struct choice {
    char *name;
    size_t size;
    bool found;
    char parent[MAX_PATH];
    bool parent_is_place;
} choice;

/* Anything of the model makes it the one that is meant: what it lacks is reported when it is opened. */
static bool is_there(const char *name)
{
    const zn_generator_files asked = { .size = sizeof asked, .model = name };
    zn_generator_paths paths;
    (void)!zn_generator_paths_find(&asked, &paths);
    return paths.part[ZN_GENERATOR_TRANSFORMER][0] || paths.part[ZN_GENERATOR_TEXT][0] ||
           paths.part[ZN_GENERATOR_VAE][0];
}

static bool is_whole(const char *folder)
{
    const zn_generator_files asked = { .size = sizeof asked, .model = folder };
    zn_generator_paths paths;
    return zn_generator_paths_find(&asked, &paths) == ZN_OK;
}

static bool compare_place(void *user, const char *place)
{
    choice *c = user;
    c->parent_is_place |= strcmp(place, c->parent) == 0;
    return !c->parent_is_place;
}

/* A folder in a place is known by its name; a place that is a model itself, by its path. */
static void visit(void *user, const char *folder)
{
    choice *c = user;
    if (c->found || !is_whole(folder))
        return;
    const char *slash = strrchr(folder, '/');
    c->found = true;
    snprintf(c->parent, sizeof c->parent, "%.*s", slash ? (int)(slash - folder) : 0, folder);
    (void)!zn_each_place(compare_place, c);
    snprintf(c->name, c->size, "%s", slash && c->parent_is_place ? slash + 1 : folder);
}

zn_status zn_generator_default(char *name, size_t size)
{
    choice c = { .name = name, .size = size };
    snprintf(name, size, "%s", usual);
    if (is_there(usual))
        return ZN_OK;
    ZN_TRY(zn_generators_visit(visit, &c));
    if (c.found)
        return ZN_OK;
    const zn_generator_files asked = { .size = sizeof asked, .model = usual };
    zn_generator_paths paths;
    return zn_generator_paths_find(&asked, &paths); /* says where it was looked for */
}
