/* Checked arithmetic on offsets and sizes that come from a file, and little-endian loads.
 *
 *     if (!zn_span_fits(offset, length, map.size))
 *         return ZN_FAIL(ZN_EFORMAT, "...");
 *
 * Every function returns true if the result is exact, and false if it would overflow or be out of range. */
#ifndef ZN_SPAN_H
#define ZN_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "weight and latent files are read in place: a little-endian machine is required"
#endif

/* True if [offset, offset + length) is within [0, size). */
static inline bool zn_span_fits(uint64_t offset, uint64_t length, uint64_t size)
{
    return offset <= size && length <= size - offset;
}

static inline bool zn_add_size(size_t a, size_t b, size_t *sum) { return !__builtin_add_overflow(a, b, sum); }
static inline bool zn_mul_size(size_t a, size_t b, size_t *product) { return !__builtin_mul_overflow(a, b, product); }

/* Number of elements of a shape; fails on a negative dimension. A dimension of zero gives zero elements. The product of
 * the other dimensions must still not overflow, so that strides can be computed. */
static inline bool zn_count_elements(const int64_t *shape, int rank, size_t *count)
{
    size_t product = 1;
    int empty = 0;
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0)
            return false;
        if (shape[i] == 0)
            empty = 1;
        else if (!zn_mul_size(product, (size_t)shape[i], &product) || product > PTRDIFF_MAX)
            return false;
    }
    *count = empty ? 0 : product;
    return true;
}

static inline uint16_t zn_load16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t zn_load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t zn_load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

#endif
