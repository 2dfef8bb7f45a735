/* Finds the files of a tokenizer. */
#include "base/alloc.h"
#include "base/arena.h"
#include "base/fail.h"
#include "base/file.h"
#include "text/tokenizer.h"

static zn_status open_file(const char *path, zn_tokenizer **out)
{
    zn_map map;
    ZN_TRY(zn_map_open(&map, path));
    const zn_status status = zn_tokenizer_read(map.bytes, map.size, path, out);
    zn_map_close(&map);
    return status;
}

static zn_status open_parts(const char *folder, const char *const paths[3], zn_tokenizer **out)
{
    zn_map maps[3] = { 0 };
    zn_status status = ZN_OK;
    for (int i = 0; i < 3 && status == ZN_OK; i++)
        status = zn_map_open(&maps[i], paths[i]);
    if (status == ZN_OK)
        status = zn_tokenizer_read_parts(maps[0].bytes, maps[0].size, maps[1].bytes, maps[1].size, maps[2].bytes,
                                         maps[2].size, folder, out);
    for (int i = 0; i < 3; i++)
        zn_map_close(&maps[i]);
    return status;
}

zn_status zn_tokenizer_open(const char *path, zn_tokenizer **out)
{
    *out = NULL;
    if (!zn_is_folder(path))
        return open_file(path, out);
    zn_arena names = { 0 };
    const char *whole = zn_arena_format(&names, "%s/tokenizer.json", path);
    const char *const parts[] = { zn_arena_format(&names, "%s/vocab.json", path),
                                  zn_arena_format(&names, "%s/merges.txt", path),
                                  zn_arena_format(&names, "%s/tokenizer_config.json", path) };
    zn_status status;
    if (names.failed)
        status = ZN_FAIL(ZN_ENOMEM, "out of memory: tokenizer %s", path);
    else if (zn_exists(whole) || !zn_exists(parts[0]))
        status = open_file(whole, out);
    else
        status = open_parts(path, parts, out);
    zn_arena_free(&names);
    return status;
}
