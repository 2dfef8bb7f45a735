/* Models: an architecture with its weights.
 *
 *     zn_model *m;
 *     zn_model_open("weights/taef2", &m);             // a file, or a folder with encoder and decoder files
 *     printf("%s, %d latent channels\n", zn_model_info_of(m)->architecture, zn_model_info_of(m)->latent_channels);
 *     zn_model_free(m);
 *
 * A model is immutable once it is used, and may be shared by threads and handles. It must outlive its handles. */
#ifndef ZN_MODEL_H
#define ZN_MODEL_H

#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_model zn_model;

/* The last two exist only in diffusion autoencoders. */
typedef enum zn_part { ZN_ENCODER, ZN_DECODER, ZN_LATENT_NET, ZN_CLASSIFIER } zn_part;

typedef struct zn_model_info {
    const char *architecture; /* such as "taesd" or "zenith-r"; zn_architecture_at lists them */
    const char *description;  /* one line of text */
    const char *path;         /* of the weights; "(random, seed N)" for random ones */
    int latent_channels;
    int downscale;   /* image pixels per latent pixel and side */
    int clip_frames; /* of a video autoencoder: images for each latent frame after the first; else 0 */
    int has_encoder, has_decoder;
    int restores;   /* an image-to-image network (zn_restore), without encoder and decoder */
    int upscales;   /* one that was trained on enlarged images (zn_upscale); restores is set too */
    int judges;     /* scores images (zenith/eval.h); a codec cannot run it */
    int diffuses;   /* a diffusion autoencoder (zenith/diffae.h), which a codec cannot run */
    int image_size; /* of a diffusion autoencoder: side of its images */
    int has_latent_net, has_classifier;
    int is_random;
    int64_t parameters; /* of the parts present */
} zn_model_info;

/* Opens weights and recognises the architecture from the tensors. path: a weights file, a folder that holds
 * encoder and decoder files, or a path of zn_models_visit. */
ZN_API ZN_MUST_USE zn_status zn_model_open(const char *path, zn_model **out);

/* Adds a latent net or a classifier from another file of the same diffusion autoencoder, or from the only model of a
 * folder. Call before the model is used. */
ZN_API ZN_MUST_USE zn_status zn_model_extend(zn_model *model, const char *path);

/* Frees the large weights of a video autoencoder. They are read from the model's files again when a layer is prepared
 * for running, so there is no second copy of them in 32 bits. Call it before the model is used; afterwards use the
 * model with zn_video and zn_codec on the CPU only, and do not change its files. Does nothing to other models and to
 * random ones. zn_model_find_released opens a model in this state. */
ZN_API ZN_MUST_USE zn_status zn_model_release(zn_model *model);

/* Finds weights by name, file or folder: an existing path is opened as it is; otherwise NAME is searched in
 * $ZENITH_MODELS (colon-separated), the user's data folder ($XDG_DATA_HOME/zenith/models), ./weights,
 * those of the program and of the library (../share/zenith/models beside its folder, or weights/ beside its build
 * tree), $XDG_DATA_DIRS.
 * name NULL: zenith-r; if it is not found, the only model with encoder and decoder. ZN_EINVALID if there are several of
 * these. ZN_ENOTFOUND if there is none. */
ZN_API ZN_MUST_USE zn_status zn_model_find(const char *name, zn_model **out);

/* zn_model_find and zn_model_release at once: large weights of a video autoencoder are not read at all when it is
 * opened, and later only those of the part that runs. */
ZN_API ZN_MUST_USE zn_status zn_model_find_released(const char *name, zn_model **out);

/* A network of a known architecture with random weights (He scale) from a seed: for tests, demos and benchmarks. */
ZN_API ZN_MUST_USE zn_status zn_model_random(const char *architecture, uint64_t seed, zn_model **out);
ZN_API void zn_model_free(zn_model *model);

/* Valid until the model is freed. */
ZN_API const zn_model_info *zn_model_info_of(const zn_model *model);

/* The family of generators whose latents this model uses, for zn_latent_rescale; NULL if unknown. Networks of
 * the same form serve two of them: taesd SD and SDXL, taesd3 SD3 and FLUX.1. Then the name of the weights decides. */
ZN_API const char *zn_model_family(const zn_model_info *info);

/* Architectures of this build: count, then name and description of each. */
ZN_API int zn_architecture_count(void);
ZN_API const char *zn_architecture_at(int index, const char **description);

/* Calls visit for every model found in the search paths of zn_model_find. For a weights file that could not be used,
 * architecture is "" and error says why; otherwise error is "". Strings are valid during the call. */
typedef void (*zn_model_visit_fn)(void *user, const char *path, const zn_model_info *info, const char *error);
ZN_API ZN_MUST_USE zn_status zn_models_visit(zn_model_visit_fn visit, void *user);

/* The cost of one run at an image size (sides of 1 to 1 << 24), computed without running it. For a restorer, part is
 * ignored. */
typedef struct zn_cost {
    double gflop;        /* as if convolved directly; multiply and add counted separately */
    int64_t activations; /* bytes of planned activation memory (untiled) */
    int64_t weights;     /* bytes of weights as prepared for running */
} zn_cost;
ZN_API ZN_MUST_USE zn_status zn_model_cost(const zn_model *model, zn_part part, int width, int height, zn_cost *out);

#ifdef __cplusplus
}
#endif
#endif
