/* Stored tensors to parameters in our layout and back: files hold [out][in][taps], kernels want [taps][in][out]. */
#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "io/weights/scaled.h"
#include "models/model.h"

#include <math.h>
#include <string.h>

zn_shape zn_weight_file_shape(zn_shape s, zn_layout layout)
{
    switch (layout) {
    case ZN_LAYOUT_CONV:
        return ZN_SHAPE(s.dim[3], s.dim[2], s.dim[0], s.dim[1]);
    case ZN_LAYOUT_CONV3D:
        return ZN_SHAPE(s.dim[4], s.dim[3], s.dim[0], s.dim[1], s.dim[2]);
    case ZN_LAYOUT_LINEAR:
        return ZN_SHAPE(s.dim[3], s.dim[2]);
    case ZN_LAYOUT_ROWS:
        return ZN_SHAPE(s.dim[2], s.dim[3]);
    case ZN_LAYOUT_LINEARS:
        return ZN_SHAPE(s.dim[0], s.dim[4], s.dim[3]);
    case ZN_LAYOUT_CONV1D:
        return ZN_SHAPE(s.dim[3], s.dim[2], 1);
    case ZN_LAYOUT_PATCH2:
        return ZN_SHAPE(2, 2, s.dim[2] / 4, s.dim[3]);
    case ZN_LAYOUT_PATCH4:
        return ZN_SHAPE(4, 4, s.dim[2] / 16, s.dim[3]);
    default:
        return s;
    }
}

/* True where the file holds [out][in] and we [in][out]; elsewhere the order of the numbers is the same. */
static bool is_turned(zn_layout layout)
{
    return layout == ZN_LAYOUT_CONV || layout == ZN_LAYOUT_CONV3D || layout == ZN_LAYOUT_LINEAR ||
           layout == ZN_LAYOUT_LINEARS || layout == ZN_LAYOUT_CONV1D;
}

/* With all taps in one: they are so in both. */
static zn_shape taps_shape(zn_shape s, zn_layout layout)
{
    return layout == ZN_LAYOUT_CONV3D ? ZN_SHAPE(s.dim[0] * s.dim[1], s.dim[2], s.dim[3], s.dim[4]) : s;
}

/* One after the other where the shape has a side more than [kh,kw,in,out]. */
static void permute(const float *in, float *out, zn_shape s, bool to_file)
{
    if (s.rank > 4) {
        zn_shape one = { .rank = s.rank - 1 };
        memcpy(one.dim, s.dim + 1, sizeof(int64_t) * (size_t)one.rank);
        for (int64_t i = 0; i < s.dim[0]; i++)
            permute(in + i * zn_shape_count(one), out + i * zn_shape_count(one), one, to_file);
        return;
    }
    const int64_t taps = s.dim[0] * s.dim[1], in_channels = s.dim[2], out_channels = s.dim[3];
    for (int64_t t = 0; t < taps; t++)
        for (int64_t i = 0; i < in_channels; i++)
            for (int64_t o = 0; o < out_channels; o++) {
                const int64_t ours = (t * in_channels + i) * out_channels + o, file = (o * in_channels + i) * taps + t;
                if (to_file)
                    out[file] = in[ours];
                else
                    out[ours] = in[file];
            }
}

/* Without sides of 1 at its end: a matrix may be kept as a convolution of 1x1. */
static zn_shape trimmed(zn_shape s)
{
    while (s.rank > 1 && s.dim[s.rank - 1] == 1)
        s.rank--;
    return s;
}

/* A convolution over frames of which the file holds the newest frame's taps alone, [out,in,kh,kw]: enough for images.
 */
static bool is_flat(const zn_weight *w, zn_shape shape, zn_layout layout)
{
    return layout == ZN_LAYOUT_CONV3D && w->rank == 4 && shape.dim[0] > 1 && shape.dim[1] > 1;
}

zn_status zn_weight_check_shape(const zn_weight *w, zn_shape shape, zn_layout layout)
{
    zn_shape stored = { .rank = w->rank };
    memcpy(stored.dim, w->shape, sizeof stored.dim);
    const bool flat = is_flat(w, shape, layout);
    const zn_shape wanted =
        flat ? ZN_SHAPE(shape.dim[4], shape.dim[3], shape.dim[1], shape.dim[2]) : zn_weight_file_shape(shape, layout);
    char a[96], b[96];
    if (!zn_shape_equal(trimmed(stored), trimmed(wanted)))
        return ZN_FAIL(ZN_ESHAPE, "tensor '%s' is %s, but the network needs %s", w->name,
                       zn_shape_text(stored, a, sizeof a), zn_shape_text(wanted, b, sizeof b));
    return ZN_OK;
}

/* Every row must name each of its positions once: kernels use the numbers as indices. */
static zn_status check_permutations(const zn_weight *w, zn_shape shape, const float *rows)
{
    const int64_t length = shape.dim[shape.rank - 1], count = zn_shape_count(shape);
    int64_t *seen = zn_calloc((size_t)length + 1, sizeof *seen); /* 1 + the last row that named it */
    if (!seen)
        return ZN_FAIL(ZN_ENOMEM, "out of memory while checking '%s'", w->name);
    zn_status status = ZN_OK;
    for (int64_t i = 0; i < count && status == ZN_OK; i++) {
        const int64_t row = i / length;
        const bool inside = rows[i] >= 0 && rows[i] < (float)length && rows[i] == floorf(rows[i]);
        if (!inside || seen[(int64_t)rows[i]] == row + 1)
            status = ZN_FAIL(ZN_EFORMAT, "tensor '%s': %g at %lld: row %lld is not a permutation of 0..%lld", w->name,
                             (double)rows[i], (long long)(i % length), (long long)row, (long long)length - 1);
        else
            seen[(int64_t)rows[i]] = row + 1;
    }
    zn_free(seen);
    return status;
}

/* Puts the rows [first, first + count) of a stored tensor, [out][in][taps], where they belong in ours, of shape s. */
static void put_rows(const float *rows, int64_t first, int64_t count, zn_shape s, float *out)
{
    const int64_t taps = s.dim[0] * s.dim[1], inputs = s.dim[2], outputs = s.dim[3];
    for (int64_t t = 0; t < taps; t++)
        for (int64_t i = 0; i < inputs; i++)
            for (int64_t o = 0; o < count; o++)
                out[(t * inputs + i) * outputs + first + o] = rows[(o * inputs + i) * taps + t];
}

/* A few rows at a time, where rows are whole blocks of the format: large tensors are read while memory is scarce. */
static zn_status import_turned(const zn_weight *w, zn_shape s, float *out)
{
    enum { ROWS = 16 };
    const int64_t count = zn_shape_count(s), outputs = s.dim[s.rank - 1], row = count / outputs;
    size_t bytes;
    const bool by_rows = s.rank == 4 && outputs > ROWS && zn_dtype_bytes(w->dtype, (size_t)row, &bytes);
    float *plain;
    ZN_TRY(zn_alloc_for("a weight", sizeof *plain * (size_t)(by_rows ? ROWS * row : count), (void **)&plain));
    if (by_rows) {
        for (int64_t first = 0; first < outputs; first += ROWS) {
            const int64_t n = outputs - first < ROWS ? outputs - first : ROWS;
            zn_to_f32(plain, (const char *)w->data + (size_t)first * bytes, w->dtype, (size_t)(n * row));
            put_rows(plain, first, n, s, out);
        }
    } else {
        zn_to_f32(plain, w->data, w->dtype, (size_t)count);
        permute(plain, out, s, false);
    }
    zn_free(plain);
    return ZN_OK;
}

zn_status zn_weight_import(const zn_weight *w, zn_shape shape, zn_layout layout, float *out)
{
    ZN_TRY(zn_weight_check_shape(w, shape, layout));
    if (is_flat(w, shape, layout)) { /* zeros for the frames before */
        const zn_shape last = ZN_SHAPE(shape.dim[1], shape.dim[2], shape.dim[3], shape.dim[4]);
        const int64_t before = (shape.dim[0] - 1) * zn_shape_count(last);
        memset(out, 0, sizeof *out * (size_t)before);
        return zn_weight_import(w, last, ZN_LAYOUT_CONV, out + before);
    }
    const size_t count = (size_t)zn_shape_count(shape);
    if (!is_turned(layout)) {
        zn_to_f32(out, w->data, w->dtype, count);
        return layout == ZN_LAYOUT_INDEX ? check_permutations(w, shape, out) : ZN_OK;
    }
    return import_turned(w, taps_shape(shape, layout), out);
}

zn_status zn_weight_read(const zn_weights *file, const zn_weight *w, zn_shape shape, zn_layout layout, float *out)
{
    zn_weight plain;
    float *copy;
    ZN_TRY(zn_scaled_unpack(file, w, &plain, &copy));
    const zn_status status = zn_weight_import(&plain, shape, layout, out);
    zn_free(copy);
    return status;
}

void zn_weight_export(const float *in, zn_shape shape, zn_layout layout, float *out)
{
    if (is_turned(layout))
        permute(in, out, taps_shape(shape, layout), true);
    else
        memcpy(out, in, sizeof *out * (size_t)zn_shape_count(shape));
}
