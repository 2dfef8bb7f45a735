/* Names of models as --model takes them. */
#ifndef ZN_CLI_MODEL_NAMES_H
#define ZN_CLI_MODEL_NAMES_H

/* The name of a model that zn_models_visit found at this path: what its files are called, or the folder of a training
 * run, whose file is always called "model". To be freed. */
char *model_name(const char *path);

/* Complains that there is no model of this name, with the nearest one that there is and where to get weights. */
void complain_of_missing_model(const char *name);

/* Does a name (not a path, and not random:ARCHITECTURE) lead to no model? Complains then. NULL is no name. */
int is_missing_model(const char *name);

#endif
