/* Names of a classifier's attributes: kept with the model, and in the metadata of its file as "Bald,Smiling,Young". */
#include "base/fail.h"
#include "models/model.h"

#include <string.h>

#define KEY "attributes"

zn_status zn_model_name_attributes(zn_model *m, const char *const *names, int count)
{
    const char **copy = zn_arena_alloc(&m->arena, sizeof *copy * (size_t)count);
    for (int i = 0; i < count && copy; i++)
        copy[i] = zn_arena_copy(&m->arena, names[i]);
    if (m->arena.failed)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for attributes");
    m->attributes = copy;
    return ZN_OK;
}

zn_status zn_model_read_attributes(zn_model *m, const zn_weights *w)
{
    const char *text = zn_weights_metadata(w, KEY);
    const int classes = m->config.classes;
    int count = 1;
    for (const char *p = text; p && *p; p++)
        count += *p == ',';
    if (!text)
        return ZN_OK;
    if (count != classes)
        return ZN_FAIL(ZN_EFORMAT, "it names %d attributes, but its classifier knows %d", count, classes);
    char *words = zn_arena_copy(&m->arena, text);
    const char **names = zn_arena_alloc(&m->arena, sizeof *names * (size_t)count);
    if (m->arena.failed)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for attributes");
    for (int i = 0; i < count; i++) {
        names[i] = words;
        words += strcspn(words, ",");
        *words++ = 0;
    }
    m->attributes = names;
    return ZN_OK;
}

zn_status zn_model_attribute_metadata(const zn_model *m, zn_arena *arena, zn_metadata *out)
{
    size_t size = 1;
    for (int i = 0; i < m->config.classes; i++)
        size += strlen(m->attributes[i]) + 1;
    char *text = zn_arena_alloc(arena, size), *at = text;
    if (!text)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for attributes");
    for (int i = 0; i < m->config.classes; i++) {
        const size_t length = strlen(m->attributes[i]);
        if (i > 0)
            *at++ = ',';
        memcpy(at, m->attributes[i], length);
        at += length;
    }
    *at = 0;
    *out = (zn_metadata){ KEY, text };
    return ZN_OK;
}
