/* The order in which a run takes its images: endless, every epoch a permutation, known at any place without what came
 * before.
 *
 *     image = usable[zn_order_at(seed, step * batch + i, usable_count)]; */
#ifndef ZN_TRAIN_ORDER_H
#define ZN_TRAIN_ORDER_H

#include <stdint.h>

/* The n-th number of the sequence, from 0 to count - 1. */
int64_t zn_order_at(uint64_t seed, uint64_t n, uint64_t count);

/* A seed made of two numbers. */
uint64_t zn_order_mix(uint64_t a, uint64_t b);

#endif
