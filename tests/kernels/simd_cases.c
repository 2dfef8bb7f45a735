/* The cases of check_simd.c: the lists of the other files one after the other, and memory for inputs. */
#include "simd_case.h"

#include "fence.h"

enum { MAX_BLOCKS = 24 };
static float *blocks[MAX_BLOCKS];
static int64_t block_floats[MAX_BLOCKS];
static int block_count;
static zn_rng rng;

const float *simd_normal(int64_t count, float scale)
{
    float *x = blocks[block_count] = fenced_new(count, false);
    block_floats[block_count++] = count;
    fill_normal(&rng, x, count, scale);
    return x;
}

void simd_output(simd_case *c, float **slot, int64_t count)
{
    c->output[c->outputs].slot = slot;
    c->output[c->outputs++].count = count;
}

bool simd_case_at(int index, int every, simd_case *c)
{
    static const simd_family *const lists[] = { simd_layer_families,     simd_mix_families,   simd_prune_families,
                                                simd_diffusion_families, simd_mamba_families, simd_matrix_families };
    for (size_t list = 0; list < sizeof lists / sizeof *lists; list++)
        for (const simd_family *f = lists[list]; f->make; f++) {
            const int cases = (f->sizes + every - 1) / every, size = index * every;
            if (index < cases) {
                rng = zn_rng_new(100 + (uint64_t)size); /* its numbers do not change when others get more cases */
                *c = (simd_case){ .kernel = f->kernel, .tolerance = 1e-6 };
                f->make(c, size);
                return true;
            }
            index -= cases;
        }
    return false;
}

void simd_case_free(void)
{
    while (block_count > 0)
        fenced_free(blocks[--block_count]);
}

float *simd_case_input(int i, int64_t *count)
{
    *count = i < block_count ? block_floats[i] : 0;
    return i < block_count ? blocks[i] : NULL;
}
