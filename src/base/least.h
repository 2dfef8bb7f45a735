/* The smaller of two sizes, for example to shorten the last piece to what remains. */
#ifndef ZN_LEAST_H
#define ZN_LEAST_H

#include <stdint.h>

static inline int64_t zn_least(int64_t a, int64_t b) { return a < b ? a : b; }

#endif
