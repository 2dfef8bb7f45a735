/* Looks for the models of `zenith generate`. */
#include "files/generator.h"

#include <string.h>
#include <zenith/generate.h>

typedef struct search {
    const char *folder; /* parts inside it count; NULL: all */
    int found;
} search;

static int is_inside(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    return !strncmp(path, folder, length) && path[length] == '/';
}

static void visit(void *user, const zn_generator_part_info *p)
{
    search *s = user;
    if (p->path && (!strcmp(p->name, "transformer") || !strcmp(p->name, "text encoder")))
        s->found |= !s->folder || is_inside(p->path, s->folder);
}

int is_generator(const char *model, int folder)
{
    const zn_generator_files files = { .size = sizeof files, .model = model };
    search s = { .folder = folder ? model : NULL };
    (void)!zn_generator_parts(&files, visit, &s);
    return s.found;
}
