/* SHA-256 (FIPS 180-4), portable, and zn_file_sha256 on top of it. */
#include "base/sha256.h"

#include "base/fail.h"
#include "base/file.h"

#include <string.h>
#include <zenith/weights.h>

static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t rotate(uint32_t x, int n) { return x >> n | x << (32 - n); }

/* One round. The caller rotates the eight working variables by passing them in another order instead of moving them;
 * see compress. */
static inline void round_step(const uint32_t s[8], uint32_t *d, uint32_t *h, uint32_t key)
{
    const uint32_t a = s[0], b = s[1], c = s[2], e = s[4], f = s[5], g = s[6];
    const uint32_t t = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + key;
    *d += t;
    *h = t + (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
}

#define ROUND(a, b, c, d, e, f, g, h, i)                                                                               \
    round_step((const uint32_t[8]){ a, b, c, d, e, f, g, h }, &d, &h, round_constants[i] + w[i])

static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        const uint32_t x = w[i - 15], y = w[i - 2];
        w[i] =
            w[i - 16] + w[i - 7] + (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i += 8) {
        ROUND(a, b, c, d, e, f, g, h, i);
        ROUND(h, a, b, c, d, e, f, g, i + 1);
        ROUND(g, h, a, b, c, d, e, f, i + 2);
        ROUND(f, g, h, a, b, c, d, e, i + 3);
        ROUND(e, f, g, h, a, b, c, d, i + 4);
        ROUND(d, e, f, g, h, a, b, c, i + 5);
        ROUND(c, d, e, f, g, h, a, b, i + 6);
        ROUND(b, c, d, e, f, g, h, a, i + 7);
    }
    const uint32_t end[8] = { a, b, c, d, e, f, g, h };
    for (int i = 0; i < 8; i++)
        state[i] += end[i];
}

void zn_sha256_start(zn_sha256 *h)
{
    *h = (zn_sha256){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab,
                                 0x5be0cd19 } };
}

void zn_sha256_add(zn_sha256 *h, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    const size_t held = h->length % 64;
    h->length += size;
    if (held) {
        const size_t take = size < 64 - held ? size : 64 - held;
        memcpy(h->block + held, p, take);
        p += take;
        size -= take;
        if (held + take < 64)
            return;
        compress(h->state, h->block);
    }
    for (; size >= 64; p += 64, size -= 64)
        compress(h->state, p);
    if (size)
        memcpy(h->block, p, size);
}

void zn_sha256_finish(zn_sha256 *h, uint8_t digest[32])
{
    const uint64_t bits = h->length * 8;
    const size_t held = h->length % 64;
    uint8_t tail[72] = { 0x80 };
    const size_t padding = (held < 56 ? 56 : 120) - held;
    for (int i = 0; i < 8; i++)
        tail[padding + (size_t)i] = (uint8_t)(bits >> (56 - 8 * i));
    zn_sha256_add(h, tail, padding + 8);
    for (int i = 0; i < 32; i++)
        digest[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

void zn_sha256_finish_hex(zn_sha256 *h, char hex[65])
{
    uint8_t digest[32];
    zn_sha256_finish(h, digest);
    for (int i = 0; i < 32; i++) {
        hex[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    hex[64] = 0;
}

void zn_sha256_hex(const void *bytes, size_t size, char hex[65])
{
    zn_sha256 h;
    zn_sha256_start(&h);
    zn_sha256_add(&h, bytes, size);
    zn_sha256_finish_hex(&h, hex);
}

zn_status zn_file_sha256(const char *path, char hex[65])
{
    zn_map map;
    if (!path || !hex)
        return ZN_FAIL(ZN_EINVALID, "zn_file_sha256: path and hex must not be NULL");
    ZN_TRY(zn_map_open(&map, path));
    zn_sha256_hex(map.bytes, map.size, hex);
    zn_map_close(&map);
    return ZN_OK;
}
