/* Quantises rows to 8 bits (kernels/matrix_i8.h). */
#include "base/least.h"
#include "kernels/i8_group.h"
#include "kernels/simd/vec.h"

void ZN_KERNEL(matrix_codes)(const void *args, zn_range r);

/* Elements [at,at+count) of all rows. */
static void piece(const zn_matrix_codes_args *a, int64_t at, int64_t count)
{
    float rotated[ZN_PACKED_ROTATED];
    const float *x = a->x + at;
    if (a->rotated) {
        memcpy(rotated, x, sizeof *x * (size_t)count);
        zn_packed_rotate(rotated, count, a->rotated);
        x = rotated;
    }
    for (int64_t i = 0; i < count; i += ZN_I8_GROUP) {
        const int64_t g = (at + i) / ZN_I8_GROUP;
        quantise_group(x + i, a->centred, a->q.codes + at + i, a->q.scales + g, a->q.sums + g);
    }
}

void ZN_KERNEL(matrix_codes)(const void *args, zn_range r)
{
    const zn_matrix_codes_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int64_t i = 0; i < a->in; i += ZN_PACKED_ROTATED)
            piece(a, p * a->in + i, zn_least(ZN_PACKED_ROTATED, a->in - i));
}
