/* Copies the shards of a network, or the halves of an autoencoder, into one .safetensors file. */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "io/weights/reader.h"
#include "pipeline/convert/pack.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Opens encoder.safetensors and decoder.safetensors of a folder that has both, as distillations of either leave them;
 * *count is 0 otherwise. */
static zn_status open_halves(const char *folder, const zn_weights *halves[2], int *count)
{
    static const char *const names[] = { "encoder.safetensors", "decoder.safetensors" };
    char path[2][4096];
    *count = 0;
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", folder, names[i]);
        if (!zn_exists(path[i]))
            return ZN_OK;
    }
    for (; *count < 2; ++*count) {
        zn_weights *w;
        ZN_TRY(zn_weights_open(path[*count], &w));
        halves[*count] = w;
    }
    return ZN_OK;
}

/* All tensors of the files as if they were in one; names and data stay theirs. */
static zn_status save(const zn_part_files *p, const char *out, int convert, zn_dtype dtype)
{
    int64_t count = 0;
    zn_weight *items;
    for (int f = 0; f < p->count; f++)
        count += zn_weights_count(p->files[f]);
    ZN_TRY(zn_alloc_for("the list of tensors", (size_t)count * sizeof *items, (void **)&items));
    count = 0;
    for (int f = 0; f < p->count; f++)
        for (int64_t i = 0; i < zn_weights_count(p->files[f]); i++)
            items[count++] = *zn_weights_at(p->files[f], i);
    zn_weights all = { .name = p->files[0]->name,
                       .items = items,
                       .count = count,
                       .metadata = p->files[0]->metadata,
                       .metadata_count = p->files[0]->metadata_count };
    zn_status status = zn_weights_index(&all);
    if (status == ZN_OK)
        status = zn_weights_save(&all, out, convert, dtype);
    zn_free(all.sorted);
    zn_free(items);
    return status;
}

zn_status zn_weights_join(const char *in, const char *out, int convert, zn_dtype dtype)
{
    zn_part_files p = { 0 };
    const zn_weights *halves[2];
    int count;
    if (!in || !out)
        return ZN_FAIL(ZN_EINVALID, "zn_weights_join: in and out must not be NULL");
    zn_status status = open_halves(in, halves, &count);
    if (status == ZN_OK && count == 2) {
        status = save(&(zn_part_files){ .files = halves, .count = count }, out, convert, dtype);
    } else if (status == ZN_OK) {
        ZN_TRY(zn_pack_check_folder(in));
        ZN_TRY(zn_part_open(in, ZN_GENERATOR_TRANSFORMER, &p));
        status = save(&p, out, convert, dtype);
        zn_part_close(&p);
    }
    for (int i = 0; i < count; i++)
        zn_weights_close((zn_weights *)(uintptr_t)halves[i]);
    return status == ZN_OK ? ZN_OK : zn_fail_in_file(status, in);
}
