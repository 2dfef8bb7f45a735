/* Shared by info.c, info_weights.c, info_generator.c and models.c. */
#ifndef ZN_CLI_INFO_H
#define ZN_CLI_INFO_H

#include "options/options.h"
#include "ui/facts.h"

/* The first facts of every file: name, kind and size. */
void file_facts(facts *f, const char *path, const char *kind);
/* Architecture, parameters, and the operations and memory needed at o->size. */
void model_facts(facts *f, const zn_model *model, const options *o);
/* All facts about a weights file. */
void weights_info(const options *o, const char *path, const zn_weights *weights);

/* The parts of a model of `zenith generate`, and a sentence about what is missing. */
void generator_facts(facts *f, const char *model);
int generator_info(const options *o, const char *model);
/* Types and total size of the parts, and the names of missing ones, in one line, which the caller frees. */
char *generator_summary(const char *model);

#endif
