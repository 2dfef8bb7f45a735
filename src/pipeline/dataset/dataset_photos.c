/* Photos of several sources in one row. */
#include "pipeline/dataset/dataset_photos.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <stdio.h>
#include <string.h>

typedef struct zn_photo_source {
    zn_dataset *set;
    char label[256]; /* put before its names; "" for a single one */
} source;

/* Several sources keep their names apart by the last part of their paths, numbered where two are alike. */
static void label_sources(const char *const *inputs, zn_photos *p)
{
    for (int i = 0; p->source_count > 1 && i < p->source_count; i++) {
        char *label = p->sources[i].label, base[200];
        const char *path = inputs[i], *end = path + strlen(path);
        while (end > path + 1 && end[-1] == '/')
            end--;
        const char *begin = end;
        while (begin > path && begin[-1] != '/')
            begin--;
        snprintf(base, sizeof base, "%.*s", (int)(end - begin), begin);
        snprintf(label, sizeof p->sources[i].label, "%s", base);
        for (int k = 0, number = 2; k < i; k++)
            if (!strcmp(p->sources[k].label, label)) {
                snprintf(label, sizeof p->sources[i].label, "%s~%d", base, number++);
                k = -1; /* look again from the start */
            }
    }
}

zn_status zn_dataset_check_images(const zn_dataset *set, const char *name)
{
    for (int64_t i = 0; i < zn_dataset_count(set); i++)
        if (zn_dataset_frames(set, i) > 1)
            return ZN_FAIL(ZN_EINVALID, "%s: a data set of clips, not of images: build from the videos it was made of",
                           name);
    return ZN_OK;
}

zn_status zn_photos_open(const char *const *inputs, int count, zn_photos *out)
{
    *out = (zn_photos){ .sources = zn_calloc((size_t)count, sizeof *out->sources), .source_count = count };
    if (!out->sources)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a data set");
    for (int i = 0; i < count; i++) {
        ZN_TRY(zn_dataset_open(inputs[i], &out->sources[i].set));
        ZN_TRY(zn_dataset_check_images(out->sources[i].set, inputs[i]));
        out->count += zn_dataset_count(out->sources[i].set);
    }
    label_sources(inputs, out);
    return ZN_OK;
}

void zn_photos_close(zn_photos *p)
{
    for (int i = 0; p->sources && i < p->source_count; i++)
        zn_dataset_close(p->sources[i].set);
    zn_free(p->sources);
    *p = (zn_photos){ 0 };
}

static const source *source_of(const zn_photos *p, int64_t item, int64_t *index)
{
    const source *s = p->sources;
    for (; item >= zn_dataset_count(s->set); s++)
        item -= zn_dataset_count(s->set);
    *index = item;
    return s;
}

zn_status zn_photos_read(const zn_photos *p, int64_t item, zn_image **out)
{
    int64_t index;
    const source *s = source_of(p, item, &index);
    return zn_dataset_read(s->set, index, out);
}

void zn_photos_name(const zn_photos *p, int64_t item, char *name, size_t size)
{
    int64_t index;
    const source *s = source_of(p, item, &index);
    snprintf(name, size, "%s%s%s", s->label, s->label[0] ? "/" : "", zn_dataset_name(s->set, index));
}
