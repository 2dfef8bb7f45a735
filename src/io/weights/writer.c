/* The .safetensors writer. The header is padded with spaces to a multiple of 8, so
 * that the data starts aligned as other readers expect. */
#include "io/weights/writer.h"

#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "base/json.h"
#include "base/span.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static zn_status tensor_bytes(const char *path, const zn_weight *t, size_t *bytes)
{
    size_t count;
    if (!t->name || strcmp(t->name, "__metadata__") == 0 || !zn_utf8_valid(t->name, strlen(t->name)))
        return ZN_FAIL(ZN_EINVALID, "cannot write %s: '%s' cannot name a tensor", path, t->name ? t->name : "(null)");
    if (t->rank < 0 || t->rank > ZN_MAX_RANK || zn_dtype_size(t->dtype) == 0 ||
        !zn_count_elements(t->shape, t->rank, &count) || !zn_dtype_bytes(t->dtype, count, bytes))
        return ZN_FAIL(ZN_EINVALID, "cannot write %s: tensor '%s' has no valid shape and dtype", path, t->name);
    if (zn_dtype_block(t->dtype) > 1)
        return ZN_FAIL(
            ZN_EUNSUPPORTED,
            "cannot write %s: tensor '%s' is %s, which .safetensors files cannot hold: ask for another dtype", path,
            t->name, zn_dtype_name(t->dtype));
    return ZN_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static zn_status check_unique(const char *path, const zn_weight *tensors, int64_t count)
{
    const char **names = zn_alloc((size_t)count * sizeof *names);
    if (!names)
        return ZN_FAIL(ZN_ENOMEM, "out of memory: %lld names of %s", (long long)count, path);
    for (int64_t i = 0; i < count; i++)
        names[i] = tensors[i].name;
    qsort(names, (size_t)count, sizeof *names, by_name);
    zn_status status = ZN_OK;
    for (int64_t i = 1; i < count && status == ZN_OK; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            status = ZN_FAIL(ZN_EINVALID, "cannot write %s: two tensors are named '%s'", path, names[i]);
    zn_free(names);
    return status;
}

static void put_metadata(zn_json_out *json, const zn_metadata *metadata, int64_t count)
{
    zn_json_out_format(json, "\"__metadata__\":{");
    for (int64_t i = 0; i < count; i++) {
        zn_json_out_format(json, "%s", i ? "," : "");
        zn_json_out_string(json, metadata[i].key);
        zn_json_out_format(json, ":");
        zn_json_out_string(json, metadata[i].value);
    }
    zn_json_out_format(json, "}");
}

static void put_tensor(zn_json_out *json, const zn_weight *t, size_t begin, size_t end)
{
    zn_json_out_string(json, t->name);
    zn_json_out_format(json, ":{\"dtype\":\"%s\",\"shape\":[", zn_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++)
        zn_json_out_format(json, "%s%" PRId64, i ? "," : "", t->shape[i]);
    zn_json_out_format(json, "],\"data_offsets\":[%zu,%zu]}", begin, end);
}

static zn_status make_header(zn_json_out *json, const char *path, const zn_weight *tensors, int64_t count,
                             const zn_metadata *metadata, int64_t metadata_count)
{
    static const char spaces[8] = "        ";
    size_t at = 0, bytes = 0;
    zn_json_out_format(json, "{");
    if (metadata_count > 0)
        put_metadata(json, metadata, metadata_count);
    for (int64_t i = 0; i < count; i++) {
        ZN_TRY(tensor_bytes(path, &tensors[i], &bytes));
        if (!zn_add_size(at, bytes, &bytes))
            return ZN_FAIL(ZN_EINVALID, "cannot write %s: its size overflows", path);
        zn_json_out_format(json, "%s", i || metadata_count > 0 ? "," : "");
        put_tensor(json, &tensors[i], at, bytes);
        at = bytes;
    }
    zn_json_out_format(json, "}");
    zn_json_out_raw(json, spaces, (8 - json->size % 8) % 8);
    if (json->failed)
        return ZN_FAIL(ZN_ENOMEM, "out of memory: header of %s", path);
    return check_unique(path, tensors, count);
}

zn_status zn_safetensors_begin(zn_outfile *out, const char *path, const zn_weight *tensors, int64_t count,
                               const zn_metadata *metadata, int64_t metadata_count)
{
    zn_json_out json = { 0 };
    zn_status status;
    ZN_TRY_DONE(make_header(&json, path, tensors, count, metadata, metadata_count));
    ZN_TRY_DONE(zn_outfile_open(out, path));
    const uint64_t length = json.size;
    zn_outfile_write(out, &length, sizeof length);
    zn_outfile_write(out, json.bytes, json.size);
done:
    zn_json_out_free(&json);
    return status;
}

zn_status zn_safetensors_write(const char *path, const zn_weight *tensors, int64_t count, const zn_metadata *metadata,
                               int64_t metadata_count)
{
    zn_outfile out;
    size_t bytes = 0;
    ZN_TRY(zn_safetensors_begin(&out, path, tensors, count, metadata, metadata_count));
    for (int64_t i = 0; i < count; i++)
        if (tensor_bytes(path, &tensors[i], &bytes) == ZN_OK)
            zn_outfile_write(&out, tensors[i].data, bytes);
    return zn_outfile_commit(&out);
}
