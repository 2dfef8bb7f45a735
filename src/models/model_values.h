/* Values of a model's parameters: found in a file, read at once or left there until a step needs them, or drawn. */
#ifndef ZN_MODEL_VALUES_H
#define ZN_MODEL_VALUES_H

#include "base/rng.h"
#include "models/factored.h"
#include "models/model.h"

/* Where the values of a part come from: a file, or if that is NULL, rng. */
typedef struct zn_value_source {
    const zn_weights *file;
    const char *path; /* of the file, in the model's arena */
    const zn_naming *naming;
    zn_rng *rng;
} zn_value_source;

/* What a file has for a parameter: a tensor, or a chain of convolutions whose product or bias it is. */
typedef struct zn_stored_value {
    const zn_weight *tensor;
    zn_factored chain;
} zn_stored_value;

/* What a file calls a parameter. */
void zn_value_name(const zn_model *m, const zn_naming *naming, const zn_node *n, char *name, size_t size);

/* Finds what a file stores for a parameter and checks its shape, before any memory is allocated for it. */
ZN_MUST_USE zn_status zn_value_find(const zn_model *m, const zn_value_source *from, const zn_node *n,
                                    zn_stored_value *out);

/* Memory for the values of a parameter. */
ZN_MUST_USE zn_status zn_value_allocate(zn_model_parameter *p);
/* Gives a parameter its values: those that zn_value_find found, or new ones. */
ZN_MUST_USE zn_status zn_value_fill(zn_model *m, const zn_value_source *from, const zn_stored_value *w,
                                    const zn_node *n, zn_model_parameter *p);

#endif
