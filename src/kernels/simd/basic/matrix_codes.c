/* Quantises rows to 8 bits (kernels/matrix_i8.h). */
#include "base/least.h"
#include "kernels/simd/basic/matrix_centred.h"

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

/* Groups [begin,end) of all rows. */
static void centred(const zn_matrix_codes_args *a, int64_t begin, int64_t end)
{
    int64_t g = begin;
    for (; g + VEC_LANES <= end; g += VEC_LANES)
        quantise_centred_lanes(a->x + g * ZN_I8_GROUP, a->q.codes + g * ZN_I8_GROUP, a->q.scales + g, a->q.sums + g);
    for (; g < end; g++)
        quantise_group(a->x + g * ZN_I8_GROUP, true, a->q.codes + g * ZN_I8_GROUP, a->q.scales + g, a->q.sums + g);
}

void ZN_KERNEL(matrix_codes)(const void *args, zn_range r)
{
    const zn_matrix_codes_args *a = args;
    if (a->centred && !a->rotated) {
        centred(a, r.begin * a->in / ZN_I8_GROUP, r.end * a->in / ZN_I8_GROUP);
        return;
    }
    for (int64_t p = r.begin; p < r.end; p++)
        for (int64_t i = 0; i < a->in; i += ZN_PACKED_ROTATED)
            piece(a, p * a->in + i, zn_least(ZN_PACKED_ROTATED, a->in - i));
}
