/* Lists the available builds of the kernels of simd.def, for simd.c, which chooses among them, and for the test,
 * which compares all of them with the reference. */
#ifndef ZN_KERNELS_SIMD_H
#define ZN_KERNELS_SIMD_H

#include "base/threads.h"

#include <stdbool.h>
#include <stdint.h>

enum {
#define ZN_SIMD(name) ZN_SIMD_##name,
#include "kernels/simd.def"
#undef ZN_SIMD
    ZN_SIMD_COUNT
};

typedef struct zn_simd_entry {
    zn_body body;                       /* NULL: use an earlier table */
    bool (*supports)(const void *args); /* NULL: supports all arguments */
} zn_simd_entry;

/* The kernels of one instruction set. */
typedef struct zn_simd_table {
    const char *isa;
    uint32_t cpu; /* ZN_CPU_ flags that it needs */
    zn_simd_entry entry[ZN_SIMD_COUNT];
} zn_simd_table;

/* Ordered from lowest to highest priority, NULL-terminated. The first is the reference, which has every kernel. Each
 * table overlays those before it: a call uses the last table that has the kernel and supports its arguments. */
extern const zn_simd_table *const zn_simd_tables[];

/* Whether a CPU with these flags can run the table's kernel with these arguments. */
bool zn_simd_has(const zn_simd_table *t, int kernel, const void *args, uint32_t cpu);

#endif
