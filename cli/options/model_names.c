/* Model names for --model, and the message about a missing model. */
#include "options/model_names.h"

#include "files/files.h"
#include "ui/report.h"

#include <stdlib.h>
#include <string.h>

char *model_name(const char *path)
{
    const char *name = base_name(path);
    if (name == path || strcmp(name, "model"))
        return must_copy(name);
    const char *end = name - 1, *folder = end;
    while (folder > path && folder[-1] != '/')
        folder--;
    return must_print("%.*s", (int)(end - folder), folder);
}

char *reported_model(const zn_model_info *info)
{
    return (info->restores || info->diffuses) && !info->is_random ? model_name(info->path)
                                                                  : must_copy(info->architecture);
}

typedef struct name_list {
    const char **items;
    int count;
} name_list;

static void add_name(name_list *list, char *name)
{
    list->items = must_alloc(list->items, (size_t)(list->count + 1) * sizeof *list->items);
    list->items[list->count++] = name;
}

static void visit(void *user, const char *path, const zn_model_info *info, const char *error)
{
    if (info && !(error && *error))
        add_name(user, model_name(path));
}

/* A name that zn_generators_visit may find. */
typedef struct wanted {
    const char *name;
    int found;
} wanted;

static void visit_generator(void *user, const char *folder)
{
    wanted *w = user;
    char *name = model_name(folder);
    w->found |= !strcmp(name, w->name);
    free(name);
}

static int generates(const char *name)
{
    wanted w = { .name = name };
    return zn_generators_visit(visit_generator, &w) == ZN_OK && w.found;
}

static int is_architecture(const char *name)
{
    const char *description;
    for (int i = 0; i < zn_architecture_count(); i++)
        if (!strcmp(name, zn_architecture_at(i, &description)))
            return 1;
    return 0;
}

void complain_of_generator(const char *name)
{
    complain("%s is a generator of images from prompts: 'zenith generate' uses it", name);
}

void complain_of_missing_model(const char *name)
{
    static const char advice[] = "'zenith models' lists those found, 'zenith help models' says where to get weights";
    name_list found = { 0 };
    const char *near = zn_models_visit(visit, &found) == ZN_OK ? nearest_word(name, found.items, found.count) : NULL;
    if (generates(name))
        complain_of_generator(name);
    else if (zn_published_find(name))
        complain("no weights of %s are found; 'zenith pull %s' fetches them", name, name);
    else if (is_architecture(name))
        complain("no weights of %s are found; %s", name, advice);
    else if (near)
        complain("no file or model is called '%s', did you mean '%s'? %s", name, near, advice);
    else
        complain("no file or model is called '%s'; %s", name, advice);
    for (int i = 0; i < found.count; i++)
        free((char *)found.items[i]);
    free(found.items);
}

char *training_remark(const zn_model_info *info, int upscaling)
{
    if (info->is_random || !info->upscales == !upscaling)
        return NULL;
    char *name = model_name(info->path);
    char *text = upscaling
                     ? must_print("%s was trained to restore photos, not to enlarge them; zenith-upscale was", name)
                     : must_print("%s was trained to enlarge photos, not to restore them; zenith-restore was", name);
    free(name);
    return text;
}

void complain_of_missing_architecture(const char *name)
{
    const char *near = nearest_name(name, zn_architecture_at);
    if (near)
        complain("no architecture is called '%s', did you mean '%s'? 'zenith models' lists them", name, near);
    else
        complain("no architecture is called '%s'; 'zenith models' lists them", name);
}

int is_missing_model(const char *name)
{
    if (!name || strpbrk(name, "/:") || file_exists(name))
        return 0;
    zn_model *model = NULL;
    const zn_status status = zn_model_find_released(name, &model);
    zn_model_free(model);
    if (status == ZN_ENOTFOUND)
        complain_of_missing_model(name);
    return status == ZN_ENOTFOUND;
}
