/* The product with rows of float weights on a GPU against the scalar one. */
#include "cuda_case.h"

#include "kernels/matrix.h"

#include <stdio.h>
#include <string.h>

void zn_ref_matrix(const void *matrix_args, zn_range units);

static void check(int64_t rows, int in, int out, bool bias)
{
    char name[64];
    zn_rng rng = zn_rng_new(40);
    float *x = cuda_shared_normal(&rng, rows * in, 1), *w = cuda_shared_normal(&rng, (int64_t)in * out, 1);
    float *b = cuda_shared_normal(&rng, out, 1), *y = cuda_result_new(rows * out);
    float *want = fenced_new(rows * out, false), *scratch = fenced_new(ZN_MATRIX_SCRATCH / (int)sizeof(float), true);
    zn_matrix_args a = {
        .x = x, .w = zn_packed_floats(w, in), .bias = bias ? b : NULL, .y = want, .rows = rows, .in = in, .out = out
    };
    zn_ref_matrix(&a, (zn_range){ 0, zn_matrix_units(&a), scratch });
    a.y = y;
    cuda_start(zn_k_matrix, zn_matrix_units(&a), &a);
    snprintf(name, sizeof name, "matrix %d rows %d->%d", (int)rows, in, out);
    cuda_compare(name, y, want, rows * out, 2e-6);
    float *const all[] = { x, w, b };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_shared_free(all[i]);
    cuda_result_free(y);
    fenced_free(want);
    fenced_free(scratch);
}

void cuda_check_matrix(void)
{
    if (!strstr("matrix", cuda_filter))
        return;
    check(1, 3, 1, false);
    check(5, 130, 37, true);
    check(70, 64, 130, true);
    if (!cuda_is_emulated)
        check(1010, 520, 1100, true);
}
