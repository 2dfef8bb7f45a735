/* Which of many images is nearest to another, by features.
 *
 *     zn_neighbours n = { 0 };
 *     ZN_TRY(zn_neighbours_add(&n, 7, features));            // image number 7
 *     number = zn_neighbours_find(&n, others, &distance);
 *     zn_neighbours_free(&n); */
#ifndef ZN_EVAL_NEIGHBOURS_H
#define ZN_EVAL_NEIGHBOURS_H

#include "pipeline/eval/features.h"

typedef struct zn_neighbours {
    float *values;   /* [count][ZN_FEATURES] */
    int64_t *number; /* [count] */
    int64_t count;
    size_t value_capacity, number_capacity;
} zn_neighbours;

ZN_MUST_USE zn_status zn_neighbours_add(zn_neighbours *n, int64_t number, const float features[ZN_FEATURES]);
void zn_neighbours_free(zn_neighbours *n);

/* The number of the nearest by Euclidean distance; -1 of none. */
int64_t zn_neighbours_find(const zn_neighbours *n, const float features[ZN_FEATURES], double *distance);
/* The cosine between features and those of the image that was added as the at-th. */
double zn_neighbours_cosine(const zn_neighbours *n, int64_t at, const float features[ZN_FEATURES]);

#endif
