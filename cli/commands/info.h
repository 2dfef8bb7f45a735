/* What info.c and info_weights.c share. */
#ifndef ZN_CLI_INFO_H
#define ZN_CLI_INFO_H

#include "ui/facts.h"
#include "ui/options.h"

/* The first facts of every file: its name, its kind and how large it is. */
void file_facts(facts *f, const char *path, const char *kind);
/* Architecture, parameters, and the arithmetic and memory it takes at o->size. */
void model_facts(facts *f, const zn_model *model, const options *o);
/* All there is to say of a file of weights. */
void weights_info(const options *o, const char *path, const zn_weights *weights);

#endif
