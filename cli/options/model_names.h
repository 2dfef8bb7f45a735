/* Model names for --model. */
#ifndef ZN_CLI_MODEL_NAMES_H
#define ZN_CLI_MODEL_NAMES_H

#include <zenith/zenith.h>

/* The bundled model that edit, interpolate and sample use if none is named. */
#define DIFFUSION_MODEL "diffae-faces"

/* The name of a model that zn_models_visit found at this path: the name of its files, or the folder of a training run,
 * whose file is always called "model". The caller frees it. */
char *model_name(const char *path);
/* What reports call a model; the caller frees it. For a restorer and a diffusion autoencoder it is the name of its
 * weights, since those of one architecture were trained for different purposes; else the architecture, which latents
 * name too. */
char *reported_model(const zn_model_info *info);

/* A remark that a restorer is used for what it was not trained for: to enlarge photos, or not to. NULL: it is not, or
 * its weights are random. The caller frees it. */
char *training_remark(const zn_model_info *info, int upscaling);

/* Reports that a model of zenith generate was given to another command. */
void complain_of_generator(const char *name);

/* Reports that no model has this name, suggests the nearest name, and says where to get weights; or that it is one of
 * zenith generate. */
void complain_of_missing_model(const char *name);

/* Reports that random:NAME names no architecture, and suggests the nearest. */
void complain_of_missing_architecture(const char *name);

/* Returns true and reports an error if no model has this name. False for NULL, paths and random:ARCHITECTURE. */
int is_missing_model(const char *name);

#endif
