/* Noise of PyTorch's generators: uniform numbers from MT19937 or Philox, normal ones by Box and Muller. */
#include "diffusion/noise.h"

#include "base/threads.h"

#include <math.h>

enum { N = ZN_MT_WORDS, M = 397, GROUP = 16, GROUPS_AT_ONCE = 256 };

static const double two_pi = 6.283185307179586;

void zn_torch_noise_seed(zn_torch_noise *n, uint64_t seed)
{
    n->word[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < N; i++)
        n->word[i] = 1812433253u * (n->word[i - 1] ^ n->word[i - 1] >> 30) + i;
    n->used = N;
    n->kept = 0;
    n->has_kept = false;
}

static void twist(uint32_t *w)
{
    for (int i = 0; i < N; i++) {
        const uint32_t y = (w[i] & 0x80000000u) | (w[(i + 1) % N] & 0x7fffffffu);
        w[i] = w[(i + M) % N] ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
    }
}

static uint32_t next(zn_torch_noise *n)
{
    if (n->used == N) {
        twist(n->word);
        n->used = 0;
    }
    uint32_t y = n->word[n->used++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

static float uniform(zn_torch_noise *n) { return (float)(next(n) & 0xffffff) * 0x1p-24f; }

static double uniform_double(zn_torch_noise *n)
{
    const uint64_t high = next(n), low = next(n);
    return (double)((high << 32 | low) & ((1ull << 53) - 1)) * 0x1p-53;
}

/* Sixteen uniform numbers become normal ones, each with the one eight places on. */
static void box_muller(float a[GROUP])
{
    for (int j = 0; j < GROUP / 2; j++) {
        const float r = sqrtf(-2 * logf(1 - a[j])), angle = (float)two_pi * a[j + GROUP / 2];
        a[j] = r * cosf(angle);
        a[j + GROUP / 2] = r * sinf(angle);
    }
}

static float normal(zn_torch_noise *n)
{
    if (n->has_kept) {
        n->has_kept = false;
        return (float)n->kept;
    }
    const double angle = two_pi * uniform_double(n), r = sqrt(-2 * log1p(-uniform_double(n)));
    n->kept = r * sin(angle);
    n->has_kept = true;
    return (float)(r * cos(angle));
}

static void transform(const void *out, zn_range groups)
{
    for (int64_t i = groups.begin; i < groups.end; i++)
        box_muller(*(float *const *)out + i * GROUP);
}

void zn_torch_noise_fill(zn_torch_noise *n, float *out, int64_t count, zn_pool *pool)
{
    if (count < GROUP) {
        for (int64_t i = 0; i < count; i++)
            out[i] = normal(n);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        out[i] = uniform(n);
    if (pool)
        zn_pool_run(pool, count / GROUP, GROUPS_AT_ONCE, transform, &out, NULL, 0);
    else
        transform(&out, (zn_range){ 0, count / GROUP, NULL });
    if (count % GROUP) { /* the last sixteen anew, over what some of them were */
        float *last = out + count - GROUP;
        for (int i = 0; i < GROUP; i++)
            last[i] = uniform(n);
        box_muller(last);
    }
}

/* Ten rounds of Philox; the first two words of the result. */
static void philox(uint64_t seed, uint32_t call, uint64_t element, uint32_t out[2])
{
    uint32_t c[4] = { call, 0, (uint32_t)element, (uint32_t)(element >> 32) };
    uint32_t low = (uint32_t)seed, high = (uint32_t)(seed >> 32);
    for (int i = 0; i < 10; i++, low += 0x9e3779b9u, high += 0xbb67ae85u) {
        const uint64_t a = (uint64_t)0xd2511f53u * c[0], b = (uint64_t)0xcd9e8d57u * c[2];
        const uint32_t c1 = c[1], c3 = c[3];
        c[0] = (uint32_t)(b >> 32) ^ c1 ^ low;
        c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c3 ^ high;
        c[3] = (uint32_t)a;
    }
    out[0] = c[0];
    out[1] = c[1];
}

void zn_torch_cuda_noise(uint64_t seed, uint32_t call, float *out, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t w[2];
        philox(seed, call, (uint64_t)i, w);
        const float u = (float)w[0] * 0x1p-32f + 0x1p-33f, v = (float)w[1] * (float)(two_pi * 0x1p-32);
        out[i] = sqrtf(-2 * logf(u)) * sinf(v + (float)(two_pi * 0x1p-33));
    }
}
