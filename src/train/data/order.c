/* Permutations by sorting-free cycle walking over a keyed bijection of [0, 2^k). */
#include "train/data/order.h"

#include "base/rng.h"

uint64_t zn_order_mix(uint64_t a, uint64_t b)
{
    zn_rng r = zn_rng_new(a ^ (b * 0x9e3779b97f4a7c15u));
    return zn_rng_next(&r);
}

int64_t zn_order_at(uint64_t seed, uint64_t n, uint64_t count)
{
    const uint64_t epoch = n / count;
    uint64_t i = n % count;
    int bits = 2;
    while ((1ull << bits) < count)
        bits += 2;
    const int half = bits / 2;
    const uint64_t mask = (1ull << half) - 1;
    do { /* four Feistel rounds; repeat until the value falls inside */
        uint64_t left = i >> half, right = i & mask;
        for (uint64_t round = 0; round < 4; round++) {
            const uint64_t swap = right;
            right = left ^ (zn_order_mix(seed ^ (epoch << 8) ^ round, right) & mask);
            left = swap;
        }
        i = left << half | right;
    } while (i >= count);
    return (int64_t)i;
}
