/* Reads rows of packed matrices. */
#include "base/packed.h"

#include "base/convert.h"

zn_packed zn_packed_floats(const float *data, int64_t columns)
{
    return (zn_packed){ .data = (const uint8_t *)data, .row_bytes = sizeof *data * (size_t)columns, .dtype = ZN_F32 };
}

zn_packed zn_packed_from(const zn_packed *m, int64_t first)
{
    zn_packed rest = *m;
    const size_t row = (size_t)first;
    rest.data += row * m->row_bytes;
    if (m->scales)
        rest.scales += row * m->groups * zn_dtype_size(m->scale_dtype);
    if (m->biases)
        rest.biases += row * m->groups * zn_dtype_size(m->bias_dtype);
    return rest;
}

/* One factor of the Kronecker product: elements i, i + step, i + 2 step and i + 3 step of every 4 step. */
static void rotate_pass(float *x, int64_t count, int64_t step)
{
    for (int64_t i = 0; i < count; i += 4 * step)
        for (int64_t j = i; j < i + step; j++) {
            const float a = x[j], b = x[j + step], c = x[j + 2 * step], d = x[j + 3 * step];
            x[j] = 0.5f * (a + b + c - d);
            x[j + step] = 0.5f * (a + b - c + d);
            x[j + 2 * step] = 0.5f * (a - b + c + d);
            x[j + 3 * step] = 0.5f * (b - a + c + d);
        }
}

void zn_packed_rotate(float *x, int64_t count, int group)
{
    for (int64_t step = 1; step < group; step *= 4)
        rotate_pass(x, count, step);
}

/* Reads a row in pieces of GROUPS groups, so that the scales of one piece fit on the stack as floats. */
static void mlx_row(const zn_packed *m, size_t row, size_t first, size_t count, float *out)
{
    enum { GROUPS = 16 };
    float scales[GROUPS], biases[GROUPS];
    const size_t group = (size_t)m->form.group, bits = (size_t)m->form.bits;
    while (count > 0) {
        const size_t most = GROUPS * group, piece = count < most ? count : most;
        const size_t at = row * m->groups + first / group;
        zn_to_f32(scales, m->scales + at * zn_dtype_size(m->scale_dtype), m->scale_dtype, piece / group);
        zn_to_f32(biases, m->biases + at * zn_dtype_size(m->bias_dtype), m->bias_dtype, piece / group);
        zn_mlx_to_f32(out, m->data + row * m->row_bytes + first * bits / 8, scales, biases, piece, &m->form);
        first += piece;
        count -= piece;
        out += piece;
    }
}

void zn_packed_row(const zn_packed *m, int64_t row, int64_t first, int64_t count, float *out)
{
    if (m->form.bits) {
        mlx_row(m, (size_t)row, (size_t)first, (size_t)count, out);
        return;
    }
    const size_t skip = (size_t)first / zn_dtype_block(m->dtype) * zn_dtype_size(m->dtype);
    zn_to_f32(out, m->data + (size_t)row * m->row_bytes + skip, m->dtype, (size_t)count);
    if (m->rotated)
        zn_packed_rotate(out, count, m->rotated);
    if (!m->scales)
        return;
    float scale;
    for (int64_t i = 0; i < count && m->period; i++) {
        const size_t at = (size_t)((first + i) % m->period);
        zn_to_f32(&scale, m->scales + at * zn_dtype_size(m->scale_dtype), m->scale_dtype, 1);
        out[i] *= scale;
    }
    if (m->period)
        return;
    zn_to_f32(&scale, m->scales + (size_t)row * m->groups * zn_dtype_size(m->scale_dtype), m->scale_dtype, 1);
    for (int64_t i = 0; i < count; i++)
        out[i] *= scale;
}
