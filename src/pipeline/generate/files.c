/* The files of a generator in the layout of diffusers: a folder for each part. */
#include "pipeline/generate/files.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/sha256.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char *const folders[ZN_GENERATOR_PARTS] = { "transformer", "text_encoder", "vae", "tokenizer", "taef1" };

static zn_status find_part(const zn_generator_files *asked, zn_generator_part part, char *out, size_t size)
{
    const char *named[] = { asked->transformer, asked->text_encoder, asked->vae, asked->tokenizer, asked->preview };
    out[0] = 0;
    if (named[part])
        snprintf(out, size, "%s", named[part]);
    else if (asked->model)
        snprintf(out, size, "%s/%s", asked->model, folders[part]);
    if (out[0] && zn_exists(out))
        return ZN_OK;
    if (part == ZN_GENERATOR_PREVIEW && !named[part]) {
        out[0] = 0;
        return ZN_OK;
    }
    return ZN_FAIL(ZN_ENOTFOUND, "there is no %s: %s was looked for", folders[part], out);
}

zn_status zn_generator_paths_find(const zn_generator_files *asked, zn_generator_paths *out)
{
    for (int part = 0; part < ZN_GENERATOR_PARTS; part++)
        ZN_TRY(find_part(asked, part, out->part[part], sizeof out->part[part]));
    return ZN_OK;
}

static zn_status read_config(const char *folder, zn_json *out)
{
    char path[4200];
    zn_map map;
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (!zn_exists(path))
        return ZN_OK;
    ZN_TRY(zn_map_open(&map, path));
    const zn_status status = zn_json_parse(out, map.bytes, map.size, path);
    zn_map_close(&map);
    return status;
}

static void identify(const char *path, char identity[65])
{
    char text[4400];
    struct stat s = { 0 };
    stat(path, &s);
    const int n = snprintf(text, sizeof text, "%s %lld %lld", path, (long long)s.st_size, (long long)s.st_mtime);
    zn_sha256_hex(text, (size_t)n, identity);
}

static zn_status open_part(const char *path, zn_part_files *out)
{
    static const char *const names[] = { "diffusion_pytorch_model.safetensors", "model.safetensors" };
    char file[4200];
    zn_weights *w;
    snprintf(file, sizeof file, "%s", path);
    for (size_t i = 0; zn_is_folder(path) && i < sizeof names / sizeof *names; i++) {
        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        if (zn_exists(file))
            break;
    }
    ZN_TRY(zn_alloc_for("files", sizeof *out->files, (void **)&out->files));
    ZN_TRY(zn_weights_open(file, &w));
    out->files[out->count++] = w;
    identify(file, out->identity);
    return zn_is_folder(path) ? read_config(path, &out->config) : ZN_OK;
}

zn_status zn_part_open(const char *path, zn_generator_part part, zn_part_files *out)
{
    (void)part;
    *out = (zn_part_files){ 0 };
    const zn_status status = open_part(path, out);
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

zn_status zn_generator_tokenizer(const char *path, zn_tokenizer **out) { return zn_tokenizer_open(path, out); }
