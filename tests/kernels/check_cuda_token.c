/* CUDA: rotary position embeddings and tables of tokens. */
#include "cuda_case.h"

#include "kernels/lookup.h"
#include "kernels/rope.h"

#include <string.h>

/* Tables for `period` tokens. */
static void check_rope(int tokens, int period, int heads, int pairs, bool halves, bool back)
{
    zn_rng rng = zn_rng_new(41);
    const int64_t count = (int64_t)tokens * heads * 2 * pairs, angles = (int64_t)period * pairs;
    float *x = cuda_shared_normal(&rng, count, 1), *cosines = cuda_shared_normal(&rng, angles, 1),
          *sines = cuda_shared_normal(&rng, angles, 1);
    zn_rope_args a = { .x = x,
                       .cos = cosines,
                       .sin = sines,
                       .period = period,
                       .heads = heads,
                       .pairs = pairs,
                       .halves = halves,
                       .back = back };
    cuda_check("rope", zn_k_rope, tokens, &a, &a.y, NULL, count, 1e-6);
    cuda_shared_free(x);
    cuda_shared_free(cosines);
    cuda_shared_free(sines);
}

/* Ids of all kinds: repeated, outside the table on both sides. */
static void check_lookup(int64_t rows, int64_t count, int c)
{
    zn_rng rng = zn_rng_new(42);
    float *table = cuda_shared_normal(&rng, rows * c, 1), *dy = cuda_shared_normal(&rng, count * c, 1),
          *ids = cuda_shared_new(count, 0);
    for (int64_t i = 0; i < count; i++)
        ids[i] = (float)((i * 37 + i / 5) % (rows + 2) - 1);
    zn_device_send(cuda_device, ids, sizeof(float) * (size_t)count);
    zn_lookup_args a = {
        .table = zn_packed_floats(table, c), .ids = ids, .dy = dy, .rows = rows, .count = count, .c = c
    };
    if (strstr("lookup", cuda_filter))
        cuda_check("lookup", zn_k_lookup, count, &a, &a.y, NULL, count * c, 0);
    cuda_check("lookup_grad", zn_k_lookup_grad, (c + ZN_LOOKUP_STRIP - 1) / ZN_LOOKUP_STRIP, &a, &a.y, NULL, rows * c,
               0);
    cuda_shared_free(table);
    cuda_shared_free(dy);
    cuda_shared_free(ids);
}

void cuda_check_tokens(void)
{
    for (int i = 0; i < 4 && strstr("rope", cuda_filter); i++) {
        check_rope(12, 4, 3, 8, i % 2, i / 2);
        check_rope(5, 5, 3, 7, i % 2, i / 2);
        check_rope(9, 9, 2, 32, i % 2, i / 2);
    }
    if (!strstr("lookup_grad", cuda_filter))
        return;
    check_lookup(11, 300, 70);
    check_lookup(3, 5, 8);
}
