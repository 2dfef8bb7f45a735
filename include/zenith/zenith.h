/* libzenith: image latents in C. Includes every public header.
 *
 *     zn_model *m; zn_codec *c; zn_image *im; zn_latent *z;
 *     zn_model_find("zenith-r", &m);
 *     zn_codec_new(m, NULL, &c);
 *     zn_image_read("photo.jpg", NULL, &im);
 *     zn_encode(c, im, &z);
 *     zn_latent_write("photo.safetensors", z); */
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
