/* Latents as .safetensors: one tensor "latent" [1,C,H,W] of F32, or [1,C,T,H,W] of a clip, and the facts as metadata.
 * Files of other programs are taken if it is clear which tensor is meant. Their planes (CHW) become our pixels (HWC)
 * here and nowhere else. */
#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "io/latent/latent_file.h"
#include "io/weights/writer.h"

#include <string.h>

static const char FORMAT[] = "zenith-latent", TENSOR[] = "latent";

static int has_shape(const zn_weight *t) { return t->rank >= 3 && t->rank <= 5; }

/* The tensor of our name, or else the only one of three to five dimensions. */
static zn_status choose(const zn_weights *w, const char *name, const zn_weight **out)
{
    *out = zn_weights_find(w, TENSOR);
    if (*out && has_shape(*out))
        return ZN_OK;
    *out = NULL;
    for (int64_t i = 0; i < zn_weights_count(w); i++) {
        const zn_weight *t = zn_weights_at(w, i);
        if (!has_shape(t))
            continue;
        if (*out)
            return ZN_FAIL(ZN_EFORMAT, "%s: '%s' and '%s' could both be the latent; name one of them 'latent'", name,
                           (*out)->name, t->name);
        *out = t;
    }
    return *out ? ZN_OK : ZN_FAIL(ZN_EFORMAT, "%s: no tensor of 3 to 5 dimensions, so no latent", name);
}

static zn_status check_tensor(const zn_weight *t, const char *name)
{
    if (t->rank > 3 && t->shape[0] != 1)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: '%s' is a batch of %lld latents; a file holds one", name, t->name,
                       (long long)t->shape[0]);
    if (!zn_dtype_is_float(t->dtype))
        return ZN_FAIL(ZN_EFORMAT, "%s: '%s' is %s, not floating point", name, t->name, zn_dtype_name(t->dtype));
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 1)
            return ZN_FAIL(ZN_EFORMAT, "%s: '%s' is empty", name, t->name);
    return ZN_OK;
}

static zn_status take_planes(const zn_weight *t, zn_latent *z)
{
    const size_t pixels = (size_t)z->width * (size_t)z->height, channels = (size_t)z->channels;
    const size_t frames = (size_t)z->frames;
    const size_t plane_bytes = pixels * zn_dtype_size(t->dtype);
    void *memory;
    ZN_TRY(zn_alloc_for("a plane of a latent", pixels * sizeof(float), &memory));
    const float *plane = memory;
    for (size_t p = 0; p < channels * frames; p++) { /* all frames of a channel, one behind the other */
        float *to = z->data + p % frames * pixels * channels + p / frames;
        zn_to_f32(memory, (const uint8_t *)t->data + p * plane_bytes, t->dtype, pixels);
        for (size_t i = 0; i < pixels; i++)
            to[i * channels] = plane[i];
    }
    zn_free(memory);
    return ZN_OK;
}

/* Metadata of other formats may use the same words for other things. */
static zn_status take_facts(const zn_weights *w, const char *name, zn_latent *z)
{
    const char *format = zn_weights_metadata(w, "format");
    if (!format || strcmp(format, FORMAT))
        return ZN_OK;
    for (int64_t i = 0; i < zn_weights_metadata_count(w); i++) {
        const char *value, *key = zn_weights_metadata_at(w, i, &value);
        ZN_TRY(zn_latent_set_fact(z, name, key, value));
    }
    return ZN_OK;
}

zn_status zn_latent_tensor_read(const zn_source *source, zn_latent **out)
{
    zn_weights *w = NULL;
    zn_latent *z = NULL;
    const zn_weight *t = NULL;
    zn_status status;
    ZN_TRY(zn_weights_open_memory(source->bytes, source->size, source->name, &w));
    ZN_TRY_DONE(choose(w, source->name, &t));
    ZN_TRY_DONE(check_tensor(t, source->name));
    const int64_t *d = t->shape + t->rank, frames = t->rank == 5 ? d[-3] : 1;
    ZN_TRY_DONE(zn_latent_alloc(source->name, d[-1], d[-2], t->rank == 5 ? d[-4] : d[-3], frames, &z));
    ZN_TRY_DONE(take_facts(w, source->name, z));
    status = take_planes(t, z);
done:
    zn_weights_close(w);
    if (status == ZN_OK)
        *out = z;
    else
        zn_latent_free(z);
    return status;
}

zn_status zn_latent_tensor_write(const zn_latent *z, const char *path)
{
    zn_weight tensor = { .name = TENSOR, .dtype = ZN_F32, .rank = 4, .shape = { 1, z->channels, z->height, z->width } };
    if (z->frames > 1) {
        const int64_t shape[] = { 1, z->channels, z->frames, z->height, z->width };
        memcpy(tensor.shape, shape, sizeof shape);
        tensor.rank = 5;
    }
    zn_latent_facts facts;
    zn_metadata metadata[ZN_LATENT_FACTS + 1] = { { "format", FORMAT } };
    zn_latent_get_facts(z, &facts);
    for (int i = 0; i < facts.count; i++)
        metadata[i + 1] = (zn_metadata){ facts.key[i], facts.value[i] };
    const size_t pixels = (size_t)z->width * (size_t)z->height, channels = (size_t)z->channels;
    const size_t frames = z->frames > 1 ? (size_t)z->frames : 1;
    void *memory;
    ZN_TRY(zn_alloc_for("a plane of a latent", pixels * sizeof(float), &memory));
    float *plane = memory;
    zn_outfile file;
    zn_status status = zn_safetensors_begin(&file, path, &tensor, 1, metadata, facts.count + 1);
    if (status == ZN_OK) {
        for (size_t p = 0; p < channels * frames; p++) {
            const float *from = z->data + p % frames * pixels * channels + p / frames;
            for (size_t i = 0; i < pixels; i++)
                plane[i] = from[i * channels];
            zn_outfile_write(&file, plane, pixels * sizeof *plane);
        }
        status = zn_outfile_commit(&file);
    }
    zn_free(memory);
    return status;
}
