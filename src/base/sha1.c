/* SHA-1 (FIPS 180-4), portable. */
#include "base/sha1.h"

#include <stdio.h>
#include <string.h>

static uint32_t rotate(uint32_t x, int n) { return x << n | x >> (32 - n); }

static void add_block(uint32_t state[5], const uint8_t *block)
{
    uint32_t w[80];
    for (int t = 0; t < 16; t++)
        w[t] = (uint32_t)block[4 * t] << 24 | (uint32_t)block[4 * t + 1] << 16 | (uint32_t)block[4 * t + 2] << 8 |
               block[4 * t + 3];
    for (int t = 16; t < 80; t++)
        w[t] = rotate(w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16], 1);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
    for (int t = 0; t < 80; t++) {
        const uint32_t f = t < 20 ? (b & c) | (~b & d) : t >= 40 && t < 60 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
        static const uint32_t k[4] = { 0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6 };
        const uint32_t next = rotate(a, 5) + f + e + k[t / 20] + w[t];
        e = d;
        d = c;
        c = rotate(b, 30);
        b = a;
        a = next;
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
}

void zn_sha1_start(zn_sha1 *h)
{
    *h = (zn_sha1){ .state = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 } };
}

void zn_sha1_add(zn_sha1 *h, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    size_t held = h->length % 64;
    h->length += size;
    while (size) {
        const size_t n = size < 64 - held ? size : 64 - held;
        memcpy(h->block + held, p, n);
        p += n;
        size -= n;
        held += n;
        if (held == 64) {
            add_block(h->state, h->block);
            held = 0;
        }
    }
}

void zn_sha1_finish_hex(zn_sha1 *h, char hex[41])
{
    const uint64_t bits = h->length * 8;
    zn_sha1_add(h, "\x80", 1);
    while (h->length % 64 != 56)
        zn_sha1_add(h, "", 1);
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    zn_sha1_add(h, length, 8);
    for (int i = 0; i < 5; i++)
        snprintf(hex + 8 * i, 9, "%08x", (unsigned)h->state[i]);
}
