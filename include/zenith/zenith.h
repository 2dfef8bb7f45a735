/* libzenith: image latents in C. Includes every public header.
 *
 *     zn_model *m; zn_codec *c; zn_image *im; zn_latent *z;
 *     zn_model_find("zenith-r", &m);
 *     zn_codec_new(m, NULL, &c);
 *     zn_image_read("photo.jpg", NULL, &im);
 *     zn_encode(c, im, &z);
 *     zn_latent_write("photo.safetensors", z);
 *
 * Rules for all headers, unless a comment states an exception:
 *
 * - A function that can fail returns a zn_status; zn_error_text() then has one sentence on what went wrong.
 * - What a function stores in *out belongs to the caller, who frees it with the _free or _close function of its type.
 *   These functions accept NULL. On failure such a pointer is set to NULL.
 * - Result structs that the library fills in are emptied by the _clear function of their type.
 * - In structs of options, zero means the default.
 * - Strings and arrays that a caller passes are not retained after the call. A handle that keeps using an argument is
 *   said to borrow it: that argument must outlive the handle.
 * - Strings that a handle returns are valid until it is freed, or until the next call if the comment says so. */
#ifndef ZN_ZENITH_H
#define ZN_ZENITH_H

#include <zenith/codec.h>
#include <zenith/context.h>
#include <zenith/dataset.h>
#include <zenith/diffae.h>
#include <zenith/diffae_eval.h>
#include <zenith/eval.h>
#include <zenith/field.h>
#include <zenith/film.h>
#include <zenith/generate.h>
#include <zenith/image.h>
#include <zenith/latent.h>
#include <zenith/model.h>
#include <zenith/options.h>
#include <zenith/precision.h>
#include <zenith/pull.h>
#include <zenith/ranks.h>
#include <zenith/restore.h>
#include <zenith/sample.h>
#include <zenith/status.h>
#include <zenith/train.h>
#include <zenith/video.h>
#include <zenith/weights.h>

#define ZN_VERSION_MAJOR  0
#define ZN_VERSION_MINOR  1
#define ZN_VERSION_PATCH  0
#define ZN_VERSION_STRING "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the library at run time, "MAJOR.MINOR.PATCH". */
ZN_API const char *zn_version(void);

#ifdef __cplusplus
}
#endif
#endif
