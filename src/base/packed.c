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
    if (m->form.bits) {
        rest.scales += row * m->groups * zn_dtype_size(m->scale_dtype);
        rest.biases += row * m->groups * zn_dtype_size(m->bias_dtype);
    }
    return rest;
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
}
