/* Which builds of the kernels of simd.def there are: for simd.c, which chooses one, and for the test, which compares
 * all of them with the reference. */
#ifndef ZN_KERNELS_SIMD_H
#define ZN_KERNELS_SIMD_H

#include "base/threads.h"

#include <stdint.h>

enum {
#define ZN_SIMD(name) ZN_SIMD_##name,
#include "kernels/simd.def"
#undef ZN_SIMD
    ZN_SIMD_COUNT
};

typedef struct zn_simd_table {
    const char *isa;
    uint32_t cpu; /* ZN_CPU_ flags it needs */
    zn_body body[ZN_SIMD_COUNT];
} zn_simd_table;

/* Best first, NULL-terminated; the last one is the reference. */
extern const zn_simd_table *const zn_simd_tables[];

#endif
