/* The tables of a vocabulary. bpe_build.c fills them, bpe.c uses them. */
#ifndef ZN_BPE_TABLES_H
#define ZN_BPE_TABLES_H

#include <stdint.h>

typedef struct zn_bpe_token { /* sorted by bytes */
    const uint8_t *bytes;
    uint32_t size;
    int32_t id;
} zn_bpe_token_entry;

typedef struct zn_bpe_merge { /* sorted by pair */
    uint64_t pair;
    uint32_t rank;
    int32_t id;
} zn_bpe_merge_entry;

static inline uint64_t zn_bpe_pair(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

#endif
