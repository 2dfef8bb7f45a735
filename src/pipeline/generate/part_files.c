/* Opens the weights of one network: one file, or the shards that an index.json names.
 *
 *     {"metadata": {...}, "weight_map": {"layers.0.attention.to_q.weight": "model-00001-of-00003.safetensors", ...}} */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/text.h"
#include "pipeline/generate/part_index.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_PATH = 4096, MAX_SHARDS = 1024 };

/* ---- the index ---- */

/* True for a name that stays in the folder of the index. */
static bool is_inside(const char *name)
{
    if (!*name || *name == '/' || strchr(name, '\\'))
        return false;
    for (const char *at = name; at; at = strchr(at, '/')) {
        at += *at == '/';
        if (strncmp(at, "..", 2) == 0 && (at[2] == '/' || !at[2]))
            return false;
    }
    return true;
}

static int find_name(const zn_part_index *x, const char *name)
{
    int i = 0;
    while (i < x->count && strcmp(x->shards[i], name) != 0)
        i++;
    return i;
}

static zn_status add_shard(zn_part_index *x, const char *path, const zn_json_node *key)
{
    const char *name = zn_json_string(key + 1);
    if (!zn_json_string(key) || !name)
        return ZN_FAIL(ZN_EFORMAT, "%s: the file of tensor '%s' is not a name", path, key->value.text);
    if (!is_inside(name))
        return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s' is said to be in '%s', which is outside the folder", path,
                       key->value.text, name);
    if (find_name(x, name) < x->count)
        return ZN_OK;
    if (x->count == MAX_SHARDS)
        return ZN_FAIL(ZN_ELIMIT, "%s: more than %d shards", path, MAX_SHARDS);
    x->shards[x->count++] = name;
    return ZN_OK;
}

zn_status zn_part_index_read(const void *json, size_t size, const char *path, zn_part_index *out)
{
    *out = (zn_part_index){ 0 };
    ZN_TRY(zn_json_parse(&out->doc, json, size, path));
    zn_status status = zn_alloc_for("the list of shards", MAX_SHARDS * sizeof *out->shards, (void **)&out->shards);
    const zn_json_node *map = out->map = zn_json_get(out->doc.root, "weight_map");
    if (status == ZN_OK && (!map || map->kind != ZN_JSON_OBJECT || !map->length))
        status = ZN_FAIL(ZN_EFORMAT, "%s has no weight_map: it is not the index of a model's shards", path);
    ZN_JSON_EACH(key, map)
    {
        if (status == ZN_OK)
            status = add_shard(out, path, key);
    }
    if (status != ZN_OK)
        zn_part_index_free(out);
    return status;
}

void zn_part_index_free(zn_part_index *x)
{
    zn_json_free(&x->doc);
    zn_free(x->shards);
    *x = (zn_part_index){ 0 };
}

/* Every tensor must be in the shard that the index names. */
static zn_status check_index(const zn_part_index *x, const char *path, const zn_part_files *p)
{
    ZN_JSON_EACH(key, x->map)
    {
        const char *shard = zn_json_string(key + 1);
        if (!zn_weights_find(p->files[find_name(x, shard)], key->value.text))
            return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s' is not in %s: index and shards are not of one model", path,
                           key->value.text, shard);
    }
    return ZN_OK;
}

/* ---- files ---- */

static void folder_of(const char *path, char *folder)
{
    const char *slash = strrchr(path, '/');
    snprintf(folder, MAX_PATH, "%.*s", slash ? (int)(slash - path) + !(slash - path) : 1, slash ? path : ".");
}

static zn_status add_file(zn_part_files *p, const char *path, zn_sha256 *hash)
{
    char text[160];
    struct stat s;
    zn_weights *w;
    ZN_TRY(zn_weights_open(path, &w));
    p->files[p->count++] = w;
    memset(&s, 0, sizeof s);
    (void)!stat(path, &s);
    const int length = snprintf(text, sizeof text, "\n%" PRIu64 " %" PRId64 " %" PRId64 ".%09ld\n", (uint64_t)s.st_ino,
                                (int64_t)s.st_size, (int64_t)s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
    zn_sha256_add(hash, path, strlen(path));
    zn_sha256_add(hash, text, (size_t)length);
    return ZN_OK;
}

static zn_status add_shards(zn_part_files *p, const char *path, const zn_part_index *x, zn_sha256 *hash)
{
    char folder[MAX_PATH], shard[MAX_PATH];
    folder_of(path, folder);
    ZN_TRY(zn_alloc_for("the list of shards", (size_t)x->count * sizeof *p->files, (void **)&p->files));
    for (int i = 0; i < x->count; i++) {
        if (snprintf(shard, sizeof shard, "%s/%s", folder, x->shards[i]) >= MAX_PATH || !zn_exists(shard))
            return ZN_FAIL(ZN_ENOTFOUND, "%s names the shard %s, which is not there: download it into the same folder",
                           path, x->shards[i]);
        ZN_TRY(add_file(p, shard, hash));
    }
    return check_index(x, path, p);
}

static zn_status open_index(zn_part_files *p, const char *path, zn_sha256 *hash)
{
    zn_map map;
    zn_part_index x;
    ZN_TRY(zn_map_open(&map, path));
    zn_status status = zn_part_index_read(map.bytes, map.size, path, &x);
    zn_map_close(&map);
    if (status != ZN_OK)
        return status;
    status = add_shards(p, path, &x, hash);
    zn_part_index_free(&x);
    return status;
}

/* ---- what is not in the tensors ---- */

/* A folder may hold the config.json of another part: each has a key of its own. */
static bool is_config_of(const zn_json_node *config, zn_generator_part part)
{
    static const char *const keys[ZN_GENERATOR_PARTS][2] = { { "axes_dims", "cap_feat_dim" },
                                                             { "num_hidden_layers", "rope_theta" },
                                                             { "latent_channels", "scaling_factor" } };
    return keys[part][0] && (zn_json_get(config, keys[part][0]) || zn_json_get(config, keys[part][1]));
}

static zn_status read_config(zn_part_files *p, const char *path, zn_generator_part part)
{
    char folder[MAX_PATH], config[MAX_PATH];
    zn_map map;
    folder_of(path, folder);
    if (snprintf(config, sizeof config, "%s/config.json", folder) >= MAX_PATH || !zn_exists(config))
        return ZN_OK;
    ZN_TRY(zn_map_open(&map, config));
    const zn_status status = zn_json_parse(&p->config, map.bytes, map.size, config);
    zn_map_close(&map);
    if (status == ZN_OK && !is_config_of(p->config.root, part))
        zn_json_free(&p->config);
    return status;
}

/* The same from the metadata of a GGUF file, whose keys begin with the name of the architecture. */
static zn_status read_gguf_config(zn_part_files *p, zn_generator_part part)
{
    const zn_weights *w = p->files[0];
    const char *eps = NULL, *theta = NULL, *value;
    char text[128];
    for (int64_t i = 0; i < zn_weights_metadata_count(w); i++) {
        const char *key = zn_weights_metadata_at(w, i, &value);
        if (zn_ending(key, ".rope.freq_base"))
            theta = value;
        if (zn_ending(key, ".attention.layer_norm_rms_epsilon"))
            eps = value;
    }
    if (part != ZN_GENERATOR_TEXT || !eps || !theta)
        return ZN_OK;
    const int length = snprintf(text, sizeof text, "{\"rope_theta\":%s,\"rms_norm_eps\":%s}", theta, eps);
    if (length >= (int)sizeof text)
        return ZN_OK;
    return zn_json_parse(&p->config, text, (size_t)length, "metadata");
}

/* ---- a part ---- */

static zn_status open_path(zn_part_files *p, const char *path, zn_generator_part part)
{
    zn_sha256 hash;
    zn_sha256_start(&hash);
    if (zn_ending(path, ".json")) {
        ZN_TRY(open_index(p, path, &hash));
    } else {
        ZN_TRY(zn_alloc_for("the list of files", sizeof *p->files, (void **)&p->files));
        ZN_TRY(add_file(p, path, &hash));
    }
    zn_sha256_finish_hex(&hash, p->identity);
    ZN_TRY(read_config(p, path, part));
    return p->config.root || strcmp(zn_weights_format(p->files[0]), "gguf") != 0 ? ZN_OK : read_gguf_config(p, part);
}

/* The index or the only file of weights in a folder. */
static zn_status find_in_folder(const char *folder, char *path)
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, NULL, alphasort);
    int found = 0, index = 0;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        const bool is_index = zn_ending(name, ".index.json") != NULL;
        if (is_index || (!index && zn_part_is_weights(name))) {
            found = is_index && !index ? 1 : found + 1;
            index |= is_index;
            snprintf(path, MAX_PATH, "%s/%s", folder, name);
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    if (found == 1)
        return ZN_OK;
    return ZN_FAIL(ZN_ENOTFOUND, found ? "%s has several files of weights: name one of them" : "%s has no weights",
                   folder);
}

bool zn_part_is_weights(const char *name)
{
    return name[0] != '.' && (zn_ending(name, ".safetensors") || zn_ending(name, ".sft") || zn_ending(name, ".gguf"));
}

zn_status zn_part_open(const char *path, zn_generator_part part, zn_part_files *out)
{
    char inside[MAX_PATH];
    *out = (zn_part_files){ 0 };
    if (zn_is_folder(path)) {
        ZN_TRY(find_in_folder(path, inside));
        path = inside;
    }
    const zn_status status = open_path(out, path, part);
    if (status != ZN_OK)
        zn_part_close(out);
    return status;
}

void zn_part_close(zn_part_files *p)
{
    for (int i = 0; i < p->count; i++)
        zn_weights_close((zn_weights *)(uintptr_t)p->files[i]);
    zn_free(p->files);
    zn_json_free(&p->config);
    *p = (zn_part_files){ 0 };
}
