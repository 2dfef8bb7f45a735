/* Random numbers: SplitMix64 seeding xoshiro256**. The same seed gives the same numbers everywhere. */
#ifndef ZN_RNG_H
#define ZN_RNG_H

#include <stdint.h>

typedef struct zn_rng {
    uint64_t s[4];
} zn_rng;

zn_rng zn_rng_new(uint64_t seed);
uint64_t zn_rng_next(zn_rng *r);
float zn_rng_uniform(zn_rng *r); /* [0,1), 24 bits */
float zn_rng_normal(zn_rng *r);  /* mean 0, deviation 1 */

/* A seed for the thing of that name, so that what it gets does not depend on its place among others. */
uint64_t zn_seed_for(uint64_t seed, const char *name);

#endif
