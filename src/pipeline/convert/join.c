/* Copies the shards of a network into one .safetensors file. */
#include "base/alloc.h"
#include "base/fail.h"
#include "io/weights/reader.h"
#include "pipeline/convert/pack.h"

#include <string.h>

/* All tensors of the shards as if they were in one file; names and data stay theirs. */
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
    zn_part_files p;
    if (!in || !out)
        return ZN_FAIL(ZN_EINVALID, "zn_weights_join: in and out must not be NULL");
    ZN_TRY(zn_pack_check_folder(in));
    ZN_TRY(zn_part_open(in, ZN_GENERATOR_TRANSFORMER, &p));
    const zn_status status = save(&p, out, convert, dtype);
    zn_part_close(&p);
    return status == ZN_OK ? ZN_OK : zn_fail_in_file(status, in);
}
