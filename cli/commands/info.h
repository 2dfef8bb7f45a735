/* Shared by info.c and info_weights.c. */
#ifndef ZN_CLI_INFO_H
#define ZN_CLI_INFO_H

#include "ui/facts.h"
#include "ui/options.h"

/* The first facts of every file: name, kind and size. */
void file_facts(facts *f, const char *path, const char *kind);
/* Architecture, parameters, and the operations and memory needed at o->size. */
void model_facts(facts *f, const zn_model *model, const options *o);
/* All facts about a weights file. */
void weights_info(const options *o, const char *path, const zn_weights *weights);

#endif
