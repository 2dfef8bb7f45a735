/* Tensors [C,H,W], [N,C,H,W] and [N,C,T,H,W] to latents and back. Their planes (CHW) become our pixels (HWC) here and
 * nowhere else. */
#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "io/latent/latent_file.h"

#include <string.h>

static zn_status check_tensor(const zn_weight *t, const char *name)
{
    if (t->rank < 3 || t->rank > 5)
        return ZN_FAIL(ZN_EFORMAT, "%s: '%s' has %d dimensions; a latent has 3 to 5", name, t->name, t->rank);
    if (!zn_dtype_is_float(t->dtype))
        return ZN_FAIL(ZN_EFORMAT, "%s: '%s' is %s, not floating point", name, t->name, zn_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 1)
            return ZN_FAIL(ZN_EFORMAT, "%s: '%s' is empty", name, t->name);
    return ZN_OK;
}

static zn_status take_planes(const zn_weight *t, int64_t index, zn_latent *z)
{
    const size_t pixels = (size_t)z->width * (size_t)z->height, channels = (size_t)z->channels;
    const size_t frames = (size_t)z->frames;
    const size_t plane_bytes = pixels * zn_dtype_size(t->dtype);
    const uint8_t *planes = (const uint8_t *)t->data + (size_t)index * channels * frames * plane_bytes;
    void *memory;
    ZN_TRY(zn_alloc_for("a plane of a latent", pixels * sizeof(float), &memory));
    const float *plane = memory;
    for (size_t p = 0; p < channels * frames; p++) { /* all frames of a channel, one after the other */
        float *to = z->data + p % frames * pixels * channels + p / frames;
        zn_to_f32(memory, planes + p * plane_bytes, t->dtype, pixels);
        for (size_t i = 0; i < pixels; i++)
            to[i * channels] = plane[i];
    }
    zn_free(memory);
    return ZN_OK;
}

zn_status zn_latent_from_tensor(const zn_weight *t, const char *name, int64_t index, int64_t *count, zn_latent **out)
{
    *out = NULL;
    ZN_TRY(check_tensor(t, name));
    const int64_t *d = t->shape + t->rank, frames = t->rank == 5 ? d[-3] : 1;
    *count = t->rank > 3 ? t->shape[0] : 1;
    if (index < 0 || index >= *count)
        return ZN_FAIL(ZN_EINVALID, "%s: there is no latent %lld, only %lld of them counted from 0", name,
                       (long long)index, (long long)*count);
    zn_latent *z;
    ZN_TRY(zn_latent_alloc(name, d[-1], d[-2], t->rank == 5 ? d[-4] : d[-3], frames, &z));
    const zn_status status = take_planes(t, index, z);
    if (status == ZN_OK)
        *out = z;
    else
        zn_latent_free(z);
    return status;
}

void zn_latent_tensor_shape(const zn_latent *z, int64_t count, zn_weight *t)
{
    const int64_t picture[] = { count, z->channels, z->height, z->width };
    const int64_t clip[] = { count, z->channels, z->frames, z->height, z->width };
    t->dtype = ZN_F32;
    t->rank = z->frames > 1 ? 5 : 4;
    memcpy(t->shape, z->frames > 1 ? clip : picture, sizeof *clip * (size_t)t->rank);
}

static void put_planes(zn_outfile *file, const zn_latent *z, float *plane)
{
    const size_t pixels = (size_t)z->width * (size_t)z->height, channels = (size_t)z->channels;
    const size_t frames = z->frames > 1 ? (size_t)z->frames : 1;
    for (size_t p = 0; p < channels * frames; p++) {
        const float *from = z->data + p % frames * pixels * channels + p / frames;
        for (size_t i = 0; i < pixels; i++)
            plane[i] = from[i * channels];
        zn_outfile_write(file, plane, pixels * sizeof *plane);
    }
}

zn_status zn_latent_commit_planes(zn_outfile *file, const zn_latent *const *latents, int64_t count)
{
    void *plane;
    const size_t pixels = (size_t)latents[0]->width * (size_t)latents[0]->height;
    const zn_status status = zn_alloc_for("a plane of a latent", pixels * sizeof(float), &plane);
    if (status != ZN_OK) {
        zn_outfile_abandon(file);
        return status;
    }
    for (int64_t i = 0; i < count; i++)
        put_planes(file, latents[i], plane);
    zn_free(plane);
    return zn_outfile_commit(file);
}
