/* Normal noise as PyTorch draws it, so that a seed gives the image that it gives elsewhere.
 *
 *     zn_torch_noise n;
 *     zn_torch_noise_seed(&n, 42);
 *     zn_torch_noise_fill(&n, x, count, NULL);           // torch.randn(count, generator=g), g a torch.Generator()
 *     zn_torch_cuda_noise(42, 0, x, count);              // the same with a generator on a GPU */
#ifndef ZN_NOISE_H
#define ZN_NOISE_H

#include "base/threads.h"

#include <stdbool.h>
#include <stdint.h>

enum { ZN_MT_WORDS = 624 };

/* The generator of the CPU: MT19937, of whose seed only the low 32 bits count. */
typedef struct zn_torch_noise {
    uint32_t word[ZN_MT_WORDS];
    int used;
    double kept; /* the second number of a pair, for the next call */
    bool has_kept;
} zn_torch_noise;

void zn_torch_noise_seed(zn_torch_noise *n, uint64_t seed);
/* One call of randn: calls for fewer than 16 numbers draw them in another way, so how they are grouped matters. pool
 * NULL: the calling thread alone. */
void zn_torch_noise_fill(zn_torch_noise *n, float *out, int64_t count, zn_pool *pool);

/* The generator of GPUs, Philox 4x32-10, in call number `call` since it was seeded. */
void zn_torch_cuda_noise(uint64_t seed, uint32_t call, float *out, int64_t count);

#endif
