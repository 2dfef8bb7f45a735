/* The public functions of latent.h, and what all kinds of file have in common: the facts beside the numbers. A file
 * may say anything, so each fact is checked by itself and then against the others. docs/latent-format.md is the format.
 */
#include "io/latent/latent_file.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "io/image/format.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

zn_status zn_latent_alloc(const char *name, int64_t width, int64_t height, int64_t channels, int64_t frames,
                          zn_latent **out)
{
    *out = NULL;
    if (width < 1 || height < 1 || channels < 1 || frames < 1)
        return ZN_FAIL(ZN_EINVALID, "%s: a latent cannot be %lldx%lld with %lld channels", name, (long long)width,
                       (long long)height, (long long)channels);
    if (frames > ZN_LATENT_MAX_FRAMES)
        return ZN_FAIL(ZN_ELIMIT, "%s: a clip of %lld frames; the limit is %d", name, (long long)frames,
                       ZN_LATENT_MAX_FRAMES);
    if (width > ZN_LATENT_MAX_SIDE || height > ZN_LATENT_MAX_SIDE || channels > ZN_LATENT_MAX_CHANNELS)
        return ZN_FAIL(ZN_ELIMIT, "%s: a latent of %lldx%lld with %lld channels; the limit is %dx%d with %d", name,
                       (long long)width, (long long)height, (long long)channels, ZN_LATENT_MAX_SIDE, ZN_LATENT_MAX_SIDE,
                       ZN_LATENT_MAX_CHANNELS);
    zn_latent *z = zn_calloc(1, sizeof *z);
    if (!z)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a latent");
    void *data;
    const zn_status status =
        zn_alloc_for("a latent", (size_t)(width * height * channels * frames) * sizeof(float), &data);
    if (status != ZN_OK) {
        zn_free(z);
        return status;
    }
    z->width = (int)width;
    z->height = (int)height;
    z->channels = (int)channels;
    z->frames = (int)frames;
    z->data = data;
    *out = z;
    return ZN_OK;
}

size_t zn_latent_count(const zn_latent *z)
{
    const int frames = z->frames > 1 ? z->frames : 1;
    return (size_t)z->width * (size_t)z->height * (size_t)z->channels * (size_t)frames;
}

zn_status zn_latent_new(int width, int height, int channels, zn_latent **out)
{
    ZN_TRY(zn_latent_alloc("new latent", width, height, channels, 1, out));
    memset((*out)->data, 0, zn_latent_count(*out) * sizeof(float));
    return ZN_OK;
}

void zn_latent_free(zn_latent *latent)
{
    if (latent)
        zn_free(latent->data);
    zn_free(latent);
}

/* At least doubles the block when it is too small, so that appending frame by frame takes linear time. Returns NULL
 * when out of memory; the old block then stays valid. */
static float *reserve(float *data, size_t bytes)
{
    const size_t held = zn_alloc_size(data), doubled = held > SIZE_MAX / 2 ? 0 : 2 * held;
    if (bytes <= held)
        return data;
    float *larger = bytes < doubled ? zn_realloc(data, doubled) : NULL;
    return larger ? larger : zn_realloc(data, bytes);
}

zn_status zn_latent_append(zn_latent **clip, const zn_latent *more)
{
    zn_latent *z = *clip;
    const int frames = more->frames > 1 ? more->frames : 1, had = z && z->frames < 1 ? 1 : z ? z->frames : 0;
    const size_t count = zn_latent_count(more);
    if (!z) {
        ZN_TRY(zn_latent_alloc("a clip", more->width, more->height, more->channels, frames, clip));
        float *data = (*clip)->data;
        **clip = *more;
        (*clip)->frames = frames;
        (*clip)->data = memcpy(data, more->data, count * sizeof *data);
        return ZN_OK;
    }
    if (z->width != more->width || z->height != more->height || z->channels != more->channels)
        return ZN_FAIL(ZN_ESHAPE, "frames of %dx%d with %d channels do not belong to a clip of %dx%d with %d",
                       more->width, more->height, more->channels, z->width, z->height, z->channels);
    if (had + frames > ZN_LATENT_MAX_FRAMES)
        return ZN_FAIL(ZN_ELIMIT, "a clip of more than %d latent frames", ZN_LATENT_MAX_FRAMES);
    const size_t before = count / (size_t)frames * (size_t)had;
    float *data = reserve(z->data, (before + count) * sizeof *data);
    if (!data)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a clip of %d latent frames", had + frames);
    z->data = data; /* also that of `more`, if it is *clip */
    memcpy(data + before, more->data, count * sizeof *data);
    z->frames = had + frames;
    z->grey = z->grey && more->grey;
    z->image_frames = z->image_frames && more->image_frames ? z->image_frames + more->image_frames : 0;
    return ZN_OK;
}

/* A decimal number from 1 to 2^31-1; 0 for anything else. */
static int number(const char *text)
{
    int64_t value = 0;
    if (!*text)
        return 0;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text))
            return 0;
        value = value * 10 + (*text - '0');
        if (value > INT_MAX)
            return 0;
    }
    return (int)value;
}

zn_status zn_latent_set_fact(zn_latent *z, const char *name, const char *key, const char *value)
{
    if (!strcmp(key, "model")) {
        if (strlen(value) >= sizeof z->model)
            return ZN_FAIL(ZN_EFORMAT, "%s: the model's name is longer than %zu bytes", name, sizeof z->model - 1);
        memset(z->model, 0, sizeof z->model);
        memcpy(z->model, value, strlen(value));
        return ZN_OK;
    }
    if (!strcmp(key, "scaling")) {
        z->raw = !strcmp(value, "raw");
        return z->raw || !strcmp(value, "diffusers")
                   ? ZN_OK
                   : ZN_FAIL(ZN_EFORMAT, "%s: scaling is '%.32s', neither raw nor diffusers", name, value);
    }
    int version = 0;
    int *fact = !strcmp(key, "version")        ? &version
                : !strcmp(key, "image_width")  ? &z->image_width
                : !strcmp(key, "image_height") ? &z->image_height
                : !strcmp(key, "image_frames") ? &z->image_frames
                : !strcmp(key, "downscale")    ? &z->downscale
                : !strcmp(key, "grey")         ? &z->grey
                                               : NULL;
    if (!fact)
        return ZN_OK;
    *fact = number(value);
    if (!*fact)
        return ZN_FAIL(ZN_EFORMAT, "%s: %s is '%.32s', not a number", name, key, value);
    if (version > ZN_LATENT_VERSION)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: latent format version %d is newer than this program, which reads up to %d",
                       name, version, ZN_LATENT_VERSION);
    return ZN_OK;
}

static void put_text(zn_latent_facts *facts, const char *key, const char *value)
{
    facts->key[facts->count] = key;
    snprintf(facts->value[facts->count++], sizeof facts->value[0], "%s", value);
}

static void put_number(zn_latent_facts *facts, const char *key, int value)
{
    if (value <= 0)
        return;
    facts->key[facts->count] = key;
    snprintf(facts->value[facts->count++], sizeof facts->value[0], "%d", value);
}

void zn_latent_get_facts(const zn_latent *z, zn_latent_facts *facts)
{
    *facts = (zn_latent_facts){ 0 };
    put_number(facts, "version", ZN_LATENT_VERSION);
    put_number(facts, "image_width", z->image_width);
    put_number(facts, "image_height", z->image_height);
    put_number(facts, "image_frames", z->image_frames);
    put_number(facts, "downscale", z->downscale);
    put_number(facts, "grey", z->grey != 0);
    if (z->model[0])
        put_text(facts, "model", z->model);
    if (z->raw)
        put_text(facts, "scaling", "raw");
}

zn_status zn_latent_check(const zn_latent *z, const char *name, zn_status code)
{
    if (!memchr(z->model, 0, sizeof z->model))
        return ZN_FAIL(code, "%s: the model's name has no end", name);
    for (const char *c = z->model; *c; c++)
        if (*c < 32 || *c > 126)
            return ZN_FAIL(code, "%s: the model's name is not printable ASCII", name);
    if (z->frames < 0 || z->image_frames < 0)
        return ZN_FAIL(code, "%s: a clip of %d frames of %d images makes no sense", name, z->frames, z->image_frames);
    if (z->image_width < 0 || z->image_height < 0 || z->downscale < 0 || !z->image_width != !z->image_height)
        return ZN_FAIL(code, "%s: an image of %dx%d pixels at 1/%d makes no sense", name, z->image_width,
                       z->image_height, z->downscale);
    if (z->downscale &&
        (z->image_width > (int64_t)z->width * z->downscale || z->image_height > (int64_t)z->height * z->downscale))
        return ZN_FAIL(code, "%s: an image of %dx%d pixels does not come from a latent of %dx%d at 1/%d", name,
                       z->image_width, z->image_height, z->width, z->height, z->downscale);
    return ZN_OK;
}

zn_status zn_latent_read_bytes_at(const zn_source *source, int64_t index, int64_t *count, zn_latent **out)
{
    *out = NULL;
    *count = 1;
    const zn_image_format *picture = zn_format_of_bytes(source->bytes, source->size);
    const int png = picture && !strcmp(picture->name, "png");
    if (picture && !png)
        return ZN_FAIL(ZN_EFORMAT, "%s: a %s image, not a latent", source->name, picture->title);
    if (png && index)
        return ZN_FAIL(ZN_EINVALID, "%s: a PNG holds one latent", source->name);
    zn_latent *z = NULL;
    zn_status status = png                                      ? zn_latent_png_read(source, &z)
                       : zn_is_npy(source->bytes, source->size) ? zn_latent_npy_read(source, index, count, &z)
                                                                : zn_latent_tensor_read(source, index, count, &z);
    if (status == ZN_OK)
        status = zn_latent_check(z, source->name, ZN_EFORMAT);
    if (status == ZN_OK)
        *out = z;
    else
        zn_latent_free(z);
    return status;
}

zn_status zn_latent_read_bytes(const zn_source *source, zn_latent **out)
{
    int64_t count;
    ZN_TRY(zn_latent_read_bytes_at(source, 0, &count, out));
    if (count == 1)
        return ZN_OK;
    zn_latent_free(*out);
    *out = NULL;
    return ZN_FAIL(ZN_EUNSUPPORTED, "%s: a batch of %lld latents, where one is expected", source->name,
                   (long long)count);
}

zn_status zn_latent_read(const char *path, zn_latent **out)
{
    *out = NULL;
    zn_map map;
    ZN_TRY(zn_map_open(&map, path));
    const zn_source source = { map.bytes, map.size, path, NULL };
    const zn_status status = zn_latent_read_bytes(&source, out);
    zn_map_close(&map);
    return status;
}

zn_status zn_latent_read_at(const char *path, int64_t index, zn_latent **out, int64_t *count)
{
    *out = NULL;
    int64_t all = 0;
    zn_map map;
    ZN_TRY(zn_map_open(&map, path));
    const zn_source source = { map.bytes, map.size, path, NULL };
    const zn_status status = zn_latent_read_bytes_at(&source, index, &all, out);
    zn_map_close(&map);
    if (count)
        *count = all;
    return status;
}

static int ends_with(const char *path, const char *lower)
{
    const size_t n = strlen(path), m = strlen(lower);
    if (n < m)
        return 0;
    for (size_t i = 0; i < m; i++)
        if (tolower((unsigned char)path[n - m + i]) != lower[i])
            return 0;
    return 1;
}

static zn_status check_all(const char *path, const zn_latent *const *latents, int64_t count)
{
    if (count < 1)
        return ZN_FAIL(ZN_EINVALID, "%s: there is no latent to write", path);
    const zn_latent *first = latents[0];
    for (int64_t i = 0; i < count; i++) {
        const zn_latent *z = latents[i];
        if (!z || !z->data || z->width < 1 || z->height < 1 || z->channels < 1)
            return ZN_FAIL(ZN_EINVALID, "%s: not a valid latent to write", path);
        ZN_TRY(zn_latent_check(z, path, ZN_EINVALID));
        if (z->width != first->width || z->height != first->height || z->channels != first->channels ||
            zn_latent_count(z) != zn_latent_count(first) || z->image_width != first->image_width ||
            z->image_height != first->image_height)
            return ZN_FAIL(ZN_ESHAPE,
                           "%s: all latents of a batch have one size, but number %lld is of an image of %dx%d and the "
                           "first of %dx%d",
                           path, (long long)i + 1, z->image_width, z->image_height, first->image_width,
                           first->image_height);
        if (z->raw != first->raw || strcmp(z->model, first->model))
            return ZN_FAIL(ZN_EINVALID, "%s: all latents of a batch are of one model and scale", path);
    }
    return ZN_OK;
}

zn_status zn_latent_write_as(const char *path, const char *format, const zn_latent *const *latents, int64_t count)
{
    ZN_TRY(check_all(path, latents, count));
    if (strcmp(format, "png") == 0)
        return count == 1 ? zn_latent_png_write(latents[0], path)
                          : ZN_FAIL(ZN_EUNSUPPORTED, "%s: a PNG holds one latent, not %lld; use .safetensors", path,
                                    (long long)count);
    if (strcmp(format, "npy") == 0)
        return zn_latent_npy_write(latents, count, path);
    if (strcmp(format, "latent") == 0)
        return zn_latent_comfy_write(latents, count, path);
    if (strcmp(format, "safetensors") == 0)
        return zn_latent_tensor_write(latents, count, path);
    return ZN_FAIL(ZN_EUNSUPPORTED, "%s: latents are written as safetensors, npy, latent or png, not '%s'", path,
                   format);
}

zn_status zn_latent_write_batch(const char *path, const zn_latent *const *latents, int64_t count)
{
    static const char *const formats[] = { "safetensors", "npy", "latent", "png" };
    char ending[16];
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        snprintf(ending, sizeof ending, ".%s", formats[i]);
        if (ends_with(path, ending))
            return zn_latent_write_as(path, formats[i], latents, count);
    }
    if (strcmp(path, "/dev/stdout") == 0)
        return zn_latent_write_as(path, "safetensors", latents, count);
    return ZN_FAIL(ZN_EUNSUPPORTED, "%s: a latent's name must end in .safetensors, .npy, .latent or .png", path);
}

zn_status zn_latent_write(const char *path, const zn_latent *latent) { return zn_latent_write_batch(path, &latent, 1); }
