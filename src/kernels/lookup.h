/* Gathers rows of a table by index. Indices are integers stored as floats; an index outside the table gives zeros. */
#ifndef ZN_KERNELS_LOOKUP_H
#define ZN_KERNELS_LOOKUP_H

#include "base/packed.h"
#include "base/threads.h"

typedef struct zn_lookup_args {
    zn_packed table; /* [rows][c] */
    const float *ids;
    const float *dy; /* gradient: [count][c] */
    float *y;        /* [count][c]; gradient: gradient of the table */
    int64_t rows, count;
    int c;
} zn_lookup_args;

void zn_k_lookup(const void *lookup_args, zn_range ids);
/* Units: strips of ZN_LOOKUP_STRIP channels. Sums in the order of ids. */
enum { ZN_LOOKUP_STRIP = 64 };
void zn_k_lookup_grad(const void *lookup_args, zn_range strips);

#endif
