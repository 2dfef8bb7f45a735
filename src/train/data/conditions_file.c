/* Conditions in a file: a .safetensors with "conds" [pictures*views,width] and "known" [pictures], and in its metadata
 * a digest of what they are the conditions of. */
#include "train/data/conditions.h"

#include "base/fail.h"
#include "base/sha256.h"
#include "io/weights/writer.h"

#include <math.h>
#include <string.h>

#define FORMAT "zenith-conditions"

enum { DIGEST = 65 };

/* Of the names of the set, which of them are wanted, and in how many views. */
static void digest_of(const zn_conditions *c, const zn_dataset *set, const uint8_t *wanted, char hex[DIGEST])
{
    zn_sha256 h;
    zn_sha256_start(&h);
    for (int64_t i = 0; i < c->pictures; i++) {
        const char mark = wanted && !wanted[i] ? '-' : (char)('0' + c->views);
        zn_sha256_add(&h, &mark, 1);
        zn_sha256_add(&h, zn_dataset_name(set, i), strlen(zn_dataset_name(set, i)) + 1);
    }
    zn_sha256_finish_hex(&h, hex);
}

zn_status zn_conditions_write(const char *path, const zn_conditions *c, const zn_dataset *set, const uint8_t *wanted)
{
    char digest[DIGEST];
    digest_of(c, set, wanted, digest);
    const zn_weight tensors[] = {
        { .name = "conds",
          .dtype = ZN_F32,
          .rank = 2,
          .shape = { c->pictures * c->views, c->width },
          .data = c->values },
        { .name = "known", .dtype = ZN_F32, .rank = 1, .shape = { c->pictures }, .data = c->known },
    };
    const zn_metadata metadata[] = { { "format", FORMAT }, { "pictures", digest } };
    return zn_safetensors_write(path, tensors, 2, metadata, 2);
}

/* Copies a tensor of floats of that size, all finite. */
static bool take(const zn_weights *w, const char *name, float *to, int64_t count)
{
    const zn_weight *t = zn_weights_find(w, name);
    if (!t || t->dtype != ZN_F32 || t->bytes != sizeof *to * (size_t)count)
        return false;
    memcpy(to, t->data, t->bytes);
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(to[i]))
            return false;
    return true;
}

zn_status zn_conditions_read(const char *path, zn_conditions *c, const zn_dataset *set, const uint8_t *wanted,
                             bool *is_it)
{
    char digest[DIGEST];
    zn_weights *w;
    *is_it = false;
    const zn_status status = zn_weights_open(path, &w);
    if (status != ZN_OK)
        return status == ZN_ENOMEM ? status : ZN_OK;
    const char *format = zn_weights_metadata(w, "format"), *pictures = zn_weights_metadata(w, "pictures");
    digest_of(c, set, wanted, digest);
    *is_it = format && strcmp(format, FORMAT) == 0 && pictures && strcmp(pictures, digest) == 0 &&
             take(w, "conds", c->values, c->pictures * c->views * c->width) && take(w, "known", c->known, c->pictures);
    zn_weights_close(w);
    if (!*is_it)
        zn_conditions_forget(c);
    return ZN_OK;
}
