/* Random numbers: xoshiro256**, seeded with SplitMix64. The same seed gives the same numbers on every machine. */
#ifndef ZN_RNG_H
#define ZN_RNG_H

#include <stdint.h>

typedef struct zn_rng {
    uint64_t s[4];
} zn_rng;

zn_rng zn_rng_new(uint64_t seed);
uint64_t zn_rng_next(zn_rng *r);
float zn_rng_uniform(zn_rng *r); /* [0,1), 24 bits */
float zn_rng_normal(zn_rng *r);  /* mean 0, standard deviation 1 */

/* Derives a seed from a name, so that the random numbers of an object do not depend on its position among others. */
uint64_t zn_seed_for(uint64_t seed, const char *name);

#endif
