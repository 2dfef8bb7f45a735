/* Latents as .safetensors: one tensor "latent" [N,C,H,W] of F32, or [N,C,T,H,W] of clips, and the facts as metadata.
 * Files of other programs are taken if it is clear which tensor is meant.
 *
 * ComfyUI's .latent is a safetensors file too, with a tensor "latent_tensor" of raw numbers (zn_latent.raw) and an
 * empty one, "latent_format_version_0". Files from before that mark hold the numbers times 0.18215, whatever made
 * them. Latents of FLUX.2, packed in 128 channels, are an exception: ComfyUI's VAE normalises them, so they are scaled.
 */
#include "base/fail.h"
#include "io/latent/latent_file.h"
#include "io/weights/writer.h"

#include <string.h>

static const char FORMAT[] = "zenith-latent", TENSOR[] = "latent";
static const char COMFY_TENSOR[] = "latent_tensor", COMFY_MARK[] = "latent_format_version_0";
static const float COMFY_OLD_FACTOR = 0.18215f;

bool zn_weights_hold_latent(const zn_weights *w)
{
    const char *format = zn_weights_metadata(w, "format");
    return (format && strcmp(format, FORMAT) == 0) || zn_weights_find(w, COMFY_TENSOR);
}

static int has_shape(const zn_weight *t) { return t->rank >= 3 && t->rank <= 5; }

/* The tensor of our name or ComfyUI's, or else the only one of three to five dimensions. */
static zn_status choose(const zn_weights *w, const char *name, const zn_weight **out)
{
    *out = zn_weights_find(w, TENSOR);
    if (*out && has_shape(*out))
        return ZN_OK;
    *out = zn_weights_find(w, COMFY_TENSOR);
    if (*out)
        return ZN_OK;
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

static int is_raw_in_comfy(const zn_latent *z) { return z->channels != ZN_LATENT_STATISTICS; }

static void take_comfy(const zn_weights *w, zn_latent *z)
{
    z->raw = is_raw_in_comfy(z);
    if (zn_weights_find(w, COMFY_MARK))
        return;
    const size_t count = zn_latent_count(z);
    for (size_t i = 0; i < count; i++)
        z->data[i] /= COMFY_OLD_FACTOR;
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

zn_status zn_latent_tensor_read(const zn_source *source, int64_t index, int64_t *count, zn_latent **out)
{
    zn_weights *w = NULL;
    zn_latent *z = NULL;
    const zn_weight *t = NULL;
    zn_status status;
    ZN_TRY(zn_weights_open_memory(source->bytes, source->size, source->name, &w));
    ZN_TRY_DONE(choose(w, source->name, &t));
    ZN_TRY_DONE(zn_latent_from_tensor(t, source->name, index, count, &z));
    if (strcmp(t->name, COMFY_TENSOR) == 0)
        take_comfy(w, z);
    status = take_facts(w, source->name, z);
done:
    zn_weights_close(w);
    if (status == ZN_OK)
        *out = z;
    else
        zn_latent_free(z);
    return status;
}

zn_status zn_latent_tensor_write(const zn_latent *const *latents, int64_t count, const char *path)
{
    zn_weight tensor = { .name = TENSOR };
    zn_latent_facts facts;
    zn_metadata metadata[ZN_LATENT_FACTS + 1] = { { "format", FORMAT } };
    zn_latent_tensor_shape(latents[0], count, &tensor);
    zn_latent first = *latents[0];
    for (int64_t i = 1; i < count; i++) /* one colour image keeps the others from becoming grey */
        first.grey = first.grey && latents[i]->grey;
    zn_latent_get_facts(&first, &facts);
    for (int i = 0; i < facts.count; i++)
        metadata[i + 1] = (zn_metadata){ facts.key[i], facts.value[i] };
    zn_outfile file;
    ZN_TRY(zn_safetensors_begin(&file, path, &tensor, 1, metadata, facts.count + 1));
    return zn_latent_commit_planes(&file, latents, count);
}

zn_status zn_latent_comfy_write(const zn_latent *const *latents, int64_t count, const char *path)
{
    zn_weight tensors[] = { { .name = COMFY_TENSOR }, { .name = COMFY_MARK, .dtype = ZN_F32, .rank = 1 } };
    if (!latents[0]->raw && is_raw_in_comfy(latents[0]))
        return ZN_FAIL(ZN_EINVALID, "%s: ComfyUI's files hold raw latents, and this one is scaled", path);
    if (latents[0]->raw && !is_raw_in_comfy(latents[0]))
        return ZN_FAIL(ZN_EINVALID, "%s: ComfyUI's files hold normalised latents of FLUX.2, and this one is raw", path);
    zn_latent_tensor_shape(latents[0], count, &tensors[0]);
    zn_outfile file;
    ZN_TRY(zn_safetensors_begin(&file, path, tensors, 2, NULL, 0));
    return zn_latent_commit_planes(&file, latents, count);
}
