/* Changes all parameters of a network a little: the zeros that branches end with at the start of a training would hide
 * what comes before and after them. */
#ifndef ZN_TESTS_STIR_H
#define ZN_TESTS_STIR_H

#include "models/model.h"

static inline void stir(zn_model *m, float by)
{
    for (int i = 0; i < m->count; i++)
        for (int64_t j = 0; j < zn_shape_count(m->parameters[i].shape); j++)
            m->parameters[i].data[j] += by * (float)((i * 7 + j * 3) % 11 - 5);
}

#endif
