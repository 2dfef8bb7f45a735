/* One run of a kernel of simd.def: its arguments with all inputs, and the pointers to its results. */
#ifndef ZN_SIMD_CASE_H
#define ZN_SIMD_CASE_H

#include "base/threads.h"

#include <stdbool.h>

enum { SIMD_OUTPUTS = 5 };

typedef struct simd_case {
    int kernel; /* ZN_SIMD_... */
    char text[96];
    const void *args;
    int64_t units;
    size_t scratch; /* bytes for each thread */
    double tolerance;
    int outputs;
    struct {
        float **slot; /* in args: set before each run */
        int64_t count;
    } output[SIMD_OUTPUTS];
    bool not_for_devices;
    const float **replaced; /* in args, or NULL: the input that output 0 may overwrite */
} simd_case;

/* Case number `index`, with only every Nth size (`every`) of each family. Returns false after the last. Its memory is
 * valid until simd_case_free. */
bool simd_case_at(int index, int every, simd_case *c);
void simd_case_free(void);
/* Input number i of the current case and its number of floats; NULL after the last. */
float *simd_case_input(int i, int64_t *count);

/* For files of cases: makes the cases of a kernel by size (c->kernel is already set), random inputs, and pointers to
 * results. */
typedef struct simd_family {
    void (*make)(simd_case *c, int size);
    int kernel, sizes;
} simd_family;
const float *simd_normal(int64_t count, float scale);
void simd_output(simd_case *c, float **slot, int64_t count);
/* Each list ends with a NULL. */
extern const simd_family simd_layer_families[], simd_mix_families[], simd_prune_families[], simd_diffusion_families[],
    simd_mamba_families[], simd_matrix_families[];

#endif
