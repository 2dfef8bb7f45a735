/* The cases of check_simd.c on the device, for every kernel that has both a vector build and a CUDA build. */
#include "cuda_case.h"
#include "simd_case.h"

#include "kernels/simd.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ZN_SIMD(name) void zn_k_##name(const void *, zn_range);
#include "kernels/simd.def"
#undef ZN_SIMD

static const struct {
    const char *name;
    zn_body body;
} kernels[] = {
#define ZN_SIMD(name) { #name, zn_k_##name },
#include "kernels/simd.def"
#undef ZN_SIMD
};

/* Kernels whose cases have arguments that are not floats; they have cases of their own, if they have a CUDA build. */
static bool has_other_arguments(int kernel)
{
    return kernel == ZN_SIMD_matrix || kernel == ZN_SIMD_matrix_codes || kernel == ZN_SIMD_matrix_i8 ||
           kernel == ZN_SIMD_matrix_runs || kernel == ZN_SIMD_matrix_bf16;
}

/* The emulation skips cases that would take it many seconds. */
static bool is_too_large(const simd_case *c)
{
    int64_t all = 0, count;
    for (int i = 0; simd_case_input(i, &count); i++)
        all += count;
    for (int i = 0; i < c->outputs; i++)
        all += c->output[i].count;
    return cuda_is_emulated && all > 1 << 15;
}

static void share_inputs(bool shared)
{
    int64_t count;
    float *x;
    for (int i = 0; (x = simd_case_input(i, &count)); i++)
        if (shared) {
            cuda_must(zn_device_twin(cuda_device, x, sizeof(float) * (size_t)count));
            zn_device_send(cuda_device, x, sizeof(float) * (size_t)count);
        } else {
            zn_device_drop(cuda_device, x);
        }
}

static void run_reference(const simd_case *c, float **want)
{
    for (int i = 0; i < c->outputs; i++)
        *c->output[i].slot = want[i] = fenced_new(c->output[i].count, false);
    cuda_reference(zn_simd_tables[0]->entry[c->kernel].body, c->units, c->args, c->scratch);
}

static void check(const simd_case *c)
{
    float *want[SIMD_OUTPUTS], *got[SIMD_OUTPUTS];
    char name[160];
    run_reference(c, want);
    share_inputs(true);
    for (int i = 0; i < c->outputs; i++)
        *c->output[i].slot = got[i] = cuda_result_new(c->output[i].count);
    cuda_start(kernels[c->kernel].body, c->units, c->args);
    for (int i = 0; i < c->outputs; i++) {
        snprintf(name, sizeof name, "%s (%s), output %d", kernels[c->kernel].name, c->text, i);
        cuda_compare(name, got[i], want[i], c->output[i].count, c->tolerance);
        cuda_result_free(got[i]);
        fenced_free(want[i]);
    }
    share_inputs(false);
}

void cuda_check_simd(void)
{
    simd_case c;
    for (int i = 0; simd_case_at(i, 1, &c); i++) {
        if (cuda_has(kernels[c.kernel].body) && !has_other_arguments(c.kernel) && !c.not_for_devices &&
            strstr(kernels[c.kernel].name, cuda_filter) && !is_too_large(&c))
            check(&c);
        simd_case_free();
    }
}
