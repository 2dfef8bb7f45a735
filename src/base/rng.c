/* SplitMix64, xoshiro256** and normally distributed numbers. */
#include "base/rng.h"

#include <math.h>

static uint64_t splitmix(uint64_t *x)
{
    uint64_t z = (*x += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

zn_rng zn_rng_new(uint64_t seed)
{
    zn_rng r;
    for (int i = 0; i < 4; i++)
        r.s[i] = splitmix(&seed);
    return r;
}

static uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

uint64_t zn_rng_next(zn_rng *r)
{
    uint64_t *s = r->s;
    const uint64_t result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

float zn_rng_uniform(zn_rng *r) { return (float)(zn_rng_next(r) >> 40) * 0x1p-24f; }

/* Box-Muller; uses one number of each pair. So the state is only four words, and a run can be resumed from it. */
float zn_rng_normal(zn_rng *r)
{
    const double u = ((double)(zn_rng_next(r) >> 11) + 0.5) * 0x1p-53, v = (double)(zn_rng_next(r) >> 11) * 0x1p-53;
    return (float)(sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
}

/* FNV-1a with an initial value that depends on the seed. */
uint64_t zn_seed_for(uint64_t seed, const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u ^ seed * 0x9e3779b97f4a7c15u;
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * 0x100000001b3u;
    return hash;
}
