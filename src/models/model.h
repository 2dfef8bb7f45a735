/* A model inside: architecture, configuration and parameters as fp32 in our layout.
 *
 *     zn_graph *g; zn_node *x, *y;
 *     ZN_TRY(zn_model_graph(model, ZN_DECODER, ZN_SHAPE(1, 64, 64, 4), &g, &x, &y));   // parameters bound */
#ifndef ZN_MODELS_MODEL_H
#define ZN_MODELS_MODEL_H

#include "graph/splits.h"
#include "io/weights/reader.h"
#include "models/arch.h"

struct zn_model {
    const zn_arch *arch;
    zn_config config;
    zn_model_info info;
    zn_arena arena; /* names */
    zn_model_parameter *parameters;
    int count;
    size_t capacity;
    bool has[ZN_PARTS];
    bool released;           /* parts that are added leave large parameters in their files (zn_model_release) */
    zn_weights *files[2];    /* that released parameters are read from */
    zn_splits splits;        /* layers that their files keep as chains (models/factored.h) */
    const char **attributes; /* names of the classifier's classes, in the arena; NULL: not known */
    zn_progress_fn stop;     /* zn_model_random_part asks it before each parameter; NULL: nobody stops it */
    void *stop_user;
};

/* An empty model of an architecture; parts are added by the two functions below. */
ZN_MUST_USE zn_status zn_model_new(const zn_arch *arch, const zn_config *config, zn_model **out);

/* Adds a part with its parameters from a file, under the names that `naming` gives. */
ZN_MUST_USE zn_status zn_model_load_part(zn_model *m, zn_part part, const zn_weights *w, const zn_naming *naming);
/* Adds a constant that belongs to a part which is not there (yet). */
ZN_MUST_USE zn_status zn_model_load_constant(zn_model *m, zn_part part, const char *name, zn_shape shape,
                                             const zn_weight *w);
/* Of an encoder or decoder that was not recognised: the share of its tensors that a file has by name, and the sentence
 * about the first of a wrong shape or, if there is none, the first that is missing. */
double zn_model_share_stored(const zn_model *m, zn_part part, const zn_weights *w, const zn_naming *naming);
ZN_MUST_USE zn_status zn_model_explain_lost(const zn_model *m, zn_part part, const zn_weights *w,
                                            const zn_naming *naming);
/* Removes the classifier and its parameters. Constants stay: the latent net may share them. */
void zn_model_drop_classifier(zn_model *m);
/* Adds a part with He-normal weights and zero biases. ZN_ECANCELLED: m->stop said so. */
ZN_MUST_USE zn_status zn_model_random_part(zn_model *m, zn_part part, uint64_t seed);

/* A graph of one part. shape: image or latent, [N,H,W,C]. The graph belongs to the caller. */
ZN_MUST_USE zn_status zn_model_graph(const zn_model *m, zn_part part, zn_shape shape, zn_graph **graph, zn_node **input,
                                     zn_node **output);

/* A graph of one part for a video of shape [T,H,W,C], whole (stream NULL), a piece of it, or a stage of such a piece,
 * with the stage's own input and output. The graph belongs to the caller. */
ZN_MUST_USE zn_status zn_model_clip(const zn_model *m, zn_part part, zn_shape shape, zn_stream *stream,
                                    zn_graph **graph, zn_node **input, zn_node **output);

/* A graph of one part of a model whose parts have several inputs, for n samples and images of h x w:
 *
 *     encoder     image in [-1,1]                                     condition [1,1,n,c]
 *                 of a network that judges: images in [0,1]           its score, or features of the image
 *     decoder     x, embedding of the step [1,1,n,..], condition      noise in x
 *     latent net  z [1,1,n,c], embedding of the step                  noise in z
 *     classifier  z, normalised                                       logits [1,1,n,classes] */
enum { ZN_NETWORK_INPUTS = 5 }; /* in training a decoder may have seeds of dropout too; else there is NULL */
typedef struct zn_network {
    zn_graph *graph; /* the caller's */
    zn_node *input[ZN_NETWORK_INPUTS], *output;
} zn_network;
ZN_MUST_USE zn_status zn_model_network(const zn_model *m, zn_part part, int64_t n, int64_t h, int64_t w,
                                       zn_network *out);

/* Bytes of the parameters in memory. */
size_t zn_model_bytes(const zn_model *m);

/* A parameter by name, or NULL. */
const zn_model_parameter *zn_model_parameter_find(const zn_model *m, const char *name);

/* Gives the parameters of a graph their values by name; prefix: what the graph puts before the model's names. */
void zn_model_bind(const zn_model *m, zn_graph *g, const char *prefix);

/* Names of the classifier's classes: given (copied; without commas), from the metadata of a file, and as metadata, with
 * memory from the arena, where there are any. */
ZN_MUST_USE zn_status zn_model_name_attributes(zn_model *m, const char *const *names, int count);
ZN_MUST_USE zn_status zn_model_read_attributes(zn_model *m, const zn_weights *w);
ZN_MUST_USE zn_status zn_model_attribute_metadata(const zn_model *m, zn_arena *arena, zn_metadata *out);

/* Channels of the input of a part: those of the image, or of the latent. */
int zn_model_inputs(const zn_model *m, zn_part part);

const char *zn_part_name(zn_part part); /* "encoder", "decoder", "latent net", "classifier" */

/* The shape that files give a parameter of our shape and layout. */
zn_shape zn_weight_file_shape(zn_shape shape, zn_layout layout);
/* Refuses a stored tensor of another shape than that. */
ZN_MUST_USE zn_status zn_weight_check_shape(const zn_weight *w, zn_shape shape, zn_layout layout);
/* Copies a stored tensor into fp32 in our layout, or back. Refuses other shapes, and indices that are no permutation.
 */
ZN_MUST_USE zn_status zn_weight_import(const zn_weight *w, zn_shape shape, zn_layout layout, float *out);
/* The same times its scales, if the file keeps the tensor in 8 bits with scales (io/weights/scaled.h). */
ZN_MUST_USE zn_status zn_weight_read(const zn_weights *file, const zn_weight *w, zn_shape shape, zn_layout layout,
                                     float *out);
void zn_weight_export(const float *in, zn_shape shape, zn_layout layout, float *out);

#endif
