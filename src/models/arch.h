/* Architectures: a network definition, its configurations and how checkpoints name its parameters. To add one: one file
 * with a descriptor, one line in registry.c.
 *
 * An autoencoder maps image [N,H,W,3] in [0,1] to latent [N,H/d,W/d,C] and back. A restorer maps image and hints
 * [N,H,W,inputs] to image: its whole network is the encoder. A video autoencoder also
 * takes videos: frames [T,H,W,3] instead of samples, none of which depends on a later one. */
#ifndef ZN_ARCH_H
#define ZN_ARCH_H

#include "nn/video.h"

#include <zenith/model.h>
#include <zenith/weights.h>

/* Metadata of files: the side of the images that a network was trained on. */
#define ZN_MODEL_SIZE_KEY "image_size"
/* Of a restorer: ZN_MODEL_UPSCALES if it was trained on enlarged images. */
#define ZN_MODEL_TASK_KEY "task"
#define ZN_MODEL_UPSCALES "upscale"
/* Of a diffusion model: ZN_MODEL_VELOCITY if it does not predict noise. */
#define ZN_MODEL_PREDICTION_KEY "prediction"
#define ZN_MODEL_VELOCITY       "velocity"

enum { ZN_PARTS = ZN_CLASSIFIER + 1, ZN_FORM_BYTES = 768 };

/* One configuration. Recognition fills it from the tensors; presets are entries of the architecture's table. */
typedef struct zn_config {
    const char *name;        /* "taesd3" */
    const char *aliases;     /* other names for the same network, space-separated */
    const char *description; /* one line */
    int latent;              /* channels */
    int downscale;
    int inputs;                  /* channels of the image with what is beside it; 0: 3 */
    int width;                   /* channels of the trunk */
    int gates;                   /* block gates of the encoder, see encode_gated */
    int made_width, made_height; /* the only image size it can do, when weights depend on it; 0: any */
    int frames, first_frames;    /* of a clip: images that become a latent frame, and the first one; 0: no clips */
    int size;                    /* side of the images it was made for, though others work; 0: none */
    int classes;                 /* of its classifier */
    float dropout;               /* in training; files do not tell */
    const void *preset_form;     /* the family's own settings, as a preset has them; see zn_form_of */
    bool has_form;
    _Alignas(8) unsigned char form[ZN_FORM_BYTES]; /* the same, changed; needs -fno-strict-aliasing */
} zn_config;

/* A family's own settings: those of the preset until zn_form_own is called, which gives them to change. `size` is that
 * of the family's type; zeros where there is no preset. */
static inline const void *zn_form_of(const zn_config *k) { return k->has_form ? k->form : k->preset_form; }
void *zn_form_own(zn_config *k, size_t size);

/* What a recipe may ask of a new network; 0: the preset's own. */
typedef struct zn_wishes {
    int width, latent, size;
    int layers, vocabulary; /* of a generator */
    float dropout;
    bool velocity; /* of a diffusion model: what it predicts */
} zn_wishes;

/* A parameter of a model, in our layout. */
typedef struct zn_model_parameter {
    const char *name; /* "decoder.3.conv.0.weight" */
    zn_shape shape;
    zn_layout layout;
    zn_role role;
    zn_part part;                /* that it belongs to; of what parts share, the first that was added */
    float *data;                 /* NULL once released (zn_model_release) */
    bool inherited;              /* began with the values of a teacher's */
    const char *file, *tensor;   /* where the values come from; NULL: from no file */
    const zn_deferred *deferred; /* reads them again, once they are released */
} zn_model_parameter;

/* What an architecture can do; which parts a model has decides what it does. */
typedef enum zn_ability {
    ZN_ENCODES = 1,    /* image to latent */
    ZN_DECODES = 2,    /* latent to image */
    ZN_RESTORES = 4,   /* image to image: the whole network is the encoder */
    ZN_CLIPS = 8,      /* encodes and decodes video */
    ZN_EDITS = 16,     /* moves the condition of an image along attributes */
    ZN_SAMPLES = 32,   /* draws new images from noise */
    ZN_GENERATES = 64, /* draws images from a prompt */
    ZN_JUDGES = 128,   /* scores images: its whole network is the encoder */
} zn_ability;

struct zn_prune_run;
struct zn_mamba_form;

/* How a weights file names the parameters of one part. */
typedef struct zn_naming {
    bool present;
    char prefix[96]; /* put before our names */
    int shift;       /* architectures may count layers from elsewhere: see file_name */
} zn_naming;

/* A recipe for training, by name. */
typedef struct zn_preset {
    const char *name, *description, *yaml; /* lists end with a NULL name */
} zn_preset;

typedef struct zn_arch {
    const char *name;
    const zn_config *configs;    /* ends with a NULL name */
    const zn_preset *presets;    /* recipes that it brings; NULL: none */
    const char *scope[ZN_PARTS]; /* prefix of the parameters of each part */
    unsigned can;                /* ZN_ENCODES | ... */
    bool named_only;             /* never the default model: the autoencoder of a generator */
    zn_node *(*encode)(zn_scope s, zn_node *image, const zn_config *k);
    zn_node *(*decode)(zn_scope s, zn_node *latent, const zn_config *k);
    /* Where a configuration has block gates: the encoder with gates as training wants them (models/zenith/zenith.h). */
    zn_node *(*encode_gated)(zn_scope s, zn_node *image, const zn_config *k, struct zn_prune_run *run);
    /* Optional: the part `part`, encoder or decoder, for a clip: whole (m NULL) or a piece of it (nn/video.h). */
    zn_node *(*clip)(zn_scope s, zn_part part, zn_node *frames, const zn_config *k, zn_stream *m);
    /* Optional: the encoder of a network whose latents are Gaussian, for training: the means, which are what `encode`
     * and `clip` return, then as many channels of log variances. m as for clip; of images, those apart. */
    zn_node *(*moments)(zn_scope s, zn_node *x, const zn_config *k, zn_stream *m);
    /* Instead of encode and decode, where parts have several inputs: the result of a part. See zn_model_network. */
    zn_node *(*network)(zn_scope s, zn_part part, zn_node *const *inputs, const zn_config *k);
    /* Shapes of the inputs of a part for n samples, images of h x w; returns how many. */
    int (*inputs)(const zn_config *k, zn_part part, int64_t n, int64_t h, int64_t w, zn_shape *shapes);
    /* Fills config and the naming of each part that the file holds; false if this is not the architecture. Fails with a
     * sentence when it clearly is, but cannot be used. */
    zn_status (*recognise)(const zn_weights *w, zn_config *k, zn_naming naming[ZN_PARTS], bool *is_it);
    /* Optional: takes over what a part needs from the configuration of a file that has it. */
    zn_status (*adopt)(zn_config *k, const zn_config *more, zn_part part);
    /* Optional: a new network of other proportions; fails with a sentence that says which are possible. NULL: width and
     * latent as wished. */
    zn_status (*resize)(zn_config *k, const zn_wishes *want);
    /* Optional: what zn_wishes.layers counts in a network. NULL: it is not counted. */
    int (*layers)(const zn_config *k);
    /* Optional: the form of a part that is to be added to a network, as the preset has it; width: of its inner layers,
     * 0: the preset's. */
    void (*plan_part)(zn_config *k, zn_part part, const zn_config *preset, int width);
    /* Optional: the file's name of our parameter `name`. NULL: naming->prefix + name. */
    void (*file_name)(const char *name, const zn_naming *naming, char *out, size_t size);
    /* Of architectures that sample: their Mamba networks (models/mamba/mamba_parts.h), of a decoder over points what it
     * predicts; and whether the encoder has a second input, which pixels it sees: [N,H,W,1] of 1 and 0 (NULL: all). */
    const struct zn_mamba_form *(*mamba)(const zn_config *k);
    bool (*is_masked)(const zn_config *k);
    /* Likewise: whether they predict velocities, not noise (prediction in recipes). */
    bool (*tells_velocity)(const zn_config *k);
    /* Optional: [ZN_ROLES] how parameters start for which the network says nothing else. NULL: He normal, biases 0. */
    const zn_start *start;
} zn_arch;

extern const zn_arch *const zn_archs[]; /* NULL-terminated */

/* For recognise: which of encoder and decoder a file holds, by what `read` says of each. part: what they start as, then
 * what was read. False if it has neither. */
bool zn_find_parts(const zn_weights *w, bool (*read)(const zn_weights *w, zn_part part, zn_config *k),
                   zn_config part[2], zn_naming naming[ZN_PARTS]);

/* The configuration changed as a recipe wishes. */
ZN_MUST_USE zn_status zn_arch_resize(const zn_arch *arch, zn_config *k, const zn_wishes *want);

/* The architecture and preset of that name or alias, or NULL. */
const zn_arch *zn_arch_find(const char *name, const zn_config **config);

#endif
