/* Quantises rows to 8 bits (kernels/matrix_i8.h). Plain loops over a group, which compilers turn into vectors. */
#include "base/least.h"
#include "kernels/matrix_i8.h"
#include "kernels/simd/vec.h"

#include <math.h>

void ZN_KERNEL(matrix_codes)(const void *args, zn_range r);

/* Largest magnitude; not finite if a value is not. As integers, NaN and infinity are above all other magnitudes. */
static float largest(const float *x)
{
    uint32_t bits[ZN_I8_GROUP], top = 0;
    float value;
    memcpy(bits, x, sizeof bits);
    for (int i = 0; i < ZN_I8_GROUP; i++) {
        const uint32_t magnitude = bits[i] & 0x7fffffffu;
        top = magnitude > top ? magnitude : top;
    }
    memcpy(&value, &top, sizeof value);
    return value;
}

/* Subtracts half the sum of the extremes from all values, and returns it. */
static float centre(const float *x, float *to)
{
    float low[VEC_LANES], high[VEC_LANES];
    memcpy(low, x, sizeof low);
    memcpy(high, x, sizeof high);
    for (int i = VEC_LANES; i < ZN_I8_GROUP; i += VEC_LANES)
        for (int l = 0; l < VEC_LANES; l++) {
            low[l] = x[i + l] < low[l] ? x[i + l] : low[l];
            high[l] = x[i + l] > high[l] ? x[i + l] : high[l];
        }
    for (int n = VEC_LANES / 2; n; n /= 2)
        for (int l = 0; l < n; l++) {
            low[l] = low[l + n] < low[l] ? low[l + n] : low[l];
            high[l] = high[l + n] > high[l] ? high[l + n] : high[l];
        }
    const float middle = 0.5f * low[0] + 0.5f * high[0];
    for (int i = 0; i < ZN_I8_GROUP; i++)
        to[i] = x[i] - middle;
    return middle;
}

static void group(const float *x, bool centred, int8_t *codes, float *scale, float *sum)
{
    float shifted[ZN_I8_GROUP];
    const float middle = centred ? centre(x, shifted) : 0,
                rounder = 0x1.8p23f; /* numbers next to it have no fraction */
    x = centred ? shifted : x;
    const float most = largest(x);
    if (!(most >= ZN_I8_LEAST) || most == INFINITY) {
        memset(codes, 0, ZN_I8_GROUP);
        *scale = most < ZN_I8_LEAST ? 0 : NAN;
        *sum = most < ZN_I8_LEAST ? middle : NAN;
        return;
    }
    const float inverse = 127 / most;
    int32_t rounded[ZN_I8_GROUP], total = 0;
    for (int i = 0; i < ZN_I8_GROUP; i++)
        rounded[i] = (int32_t)(x[i] * inverse + rounder - rounder);
    for (int i = 0; i < ZN_I8_GROUP; i++) {
        codes[i] = (int8_t)rounded[i];
        total += rounded[i];
    }
    *scale = most / 127;
    *sum = centred ? middle : *scale * (float)total;
}

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
        group(x + i, a->centred, a->q.codes + at + i, a->q.scales + g, a->q.sums + g);
    }
}

void ZN_KERNEL(matrix_codes)(const void *args, zn_range r)
{
    const zn_matrix_codes_args *a = args;
    for (int64_t p = r.begin; p < r.end; p++)
        for (int64_t i = 0; i < a->in; i += ZN_PACKED_ROTATED)
            piece(a, p * a->in + i, zn_least(ZN_PACKED_ROTATED, a->in - i));
}
