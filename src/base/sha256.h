/* SHA-256 (FIPS 180-4).
 *
 *     zn_sha256 h;
 *     zn_sha256_start(&h);
 *     zn_sha256_add(&h, bytes, size);
 *     zn_sha256_finish(&h, digest); */
#ifndef ZN_SHA256_H
#define ZN_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct zn_sha256 {
    uint32_t state[8];
    uint64_t length;
    uint8_t block[64];
} zn_sha256;

void zn_sha256_start(zn_sha256 *h);
void zn_sha256_add(zn_sha256 *h, const void *bytes, size_t size);
void zn_sha256_finish(zn_sha256 *h, uint8_t digest[32]);
/* Writes the digest as 64 lower-case hex digits and a NUL. */
void zn_sha256_finish_hex(zn_sha256 *h, char hex[65]);

/* Computes the digest of one block of memory. */
void zn_sha256_hex(const void *bytes, size_t size, char hex[65]);

#endif
