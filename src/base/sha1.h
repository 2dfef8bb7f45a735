/* SHA-1 (FIPS 180-4). Git names its files by it; use SHA-256 (sha256.h) for anything else. */
#ifndef ZN_SHA1_H
#define ZN_SHA1_H

#include <stddef.h>
#include <stdint.h>

typedef struct zn_sha1 {
    uint32_t state[5];
    uint64_t length;
    uint8_t block[64];
} zn_sha1;

void zn_sha1_start(zn_sha1 *h);
void zn_sha1_add(zn_sha1 *h, const void *bytes, size_t size);
/* Writes the digest as 40 lower-case hex digits and a NUL. */
void zn_sha1_finish_hex(zn_sha1 *h, char hex[41]);

#endif
