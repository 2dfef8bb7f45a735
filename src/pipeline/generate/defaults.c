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

static zn_status read_index(const char *path, zn_generation_defaults *d)
{
    zn_map map;
    zn_json doc;
    ZN_TRY(zn_map_open(&map, path));
    zn_status status = zn_json_parse(&doc, map.bytes, map.size, path);
    zn_map_close(&map);
    ZN_TRY(status);
    const zn_json_node *own = zn_json_get(doc.root, "_generate");
    if (own && read_settings(own, d) != ZN_OK)
        status = zn_fail_in_file(ZN_EFORMAT, path);
    zn_json_free(&doc);
    return status;
}

/* Cuts the last name off a path; false if there is none. */
static bool cut(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
    return slash != NULL;
}

zn_status zn_generation_defaults_find(const char *transformer, zn_generation_defaults *out)
{
    char folder[MAX_PATH], path[MAX_PATH + 32];
    *out = zn_generation_usual();
    snprintf(folder, sizeof folder, "%s%s", strchr(transformer, '/') ? "" : "./", transformer);
    for (int level = 0; level < 2 && cut(folder); level++) {
        snprintf(path, sizeof path, "%s/model_index.json", folder);
        if (zn_exists(path))
            return read_index(path, out);
    }
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
