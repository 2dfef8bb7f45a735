/* Tiles that fade into each other. A tile is blended with the one above and then with the one on its left, both already
 * blended and still whole, before its own part of the result is taken; so two rows of tiles are kept. */
#include "models/wan/wan_tiles.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

static int patch_of(int downscale) { return downscale > 8 ? 2 : 1; }

zn_wan_tiles zn_wan_decode_tiles(int downscale, int side, int step)
{
    return (zn_wan_tiles){ side / downscale, step / downscale, step, side - step, patch_of(downscale) };
}

zn_wan_tiles zn_wan_encode_tiles(int downscale, int side, int step)
{
    const int patch = patch_of(downscale), ratio = downscale / patch;
    return (zn_wan_tiles){ side * patch, step * patch, step / ratio, side / ratio - step / ratio, 1 };
}

typedef struct tile {
    zn_shape shape;
    float *data;
} tile;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Position `at` along axis 1 or 2 of b, at [t], becomes a mixture of it and of a's that lies over it. */
static void mix(const tile *a, tile *b, int axis, int64_t t, int64_t at, int64_t over, float weight)
{
    const int64_t *da = a->shape.dim, *db = b->shape.dim, c = db[3];
    const int64_t count = axis == 1 ? 1 : least(da[1], db[1]), run = axis == 1 ? least(da[2], db[2]) * c : c;
    for (int64_t i = 0; i < count; i++) {
        const int64_t ya = axis == 1 ? da[1] - over + at : i, yb = axis == 1 ? at : i;
        const int64_t xa = axis == 1 ? 0 : da[2] - over + at, xb = axis == 1 ? 0 : at;
        const float *from = a->data + ((t * da[1] + ya) * da[2] + xa) * c;
        float *to = b->data + ((t * db[1] + yb) * db[2] + xb) * c;
        for (int64_t k = 0; k < run; k++)
            to[k] = from[k] * (1 - weight) + to[k] * weight;
    }
}

/* b begins where the last positions of a are, and takes over from it by and by. */
static void fade(const zn_wan_tiles *k, const tile *a, tile *b, int axis)
{
    const int64_t over = least(least(a->shape.dim[axis], b->shape.dim[axis]), k->fading), steps = over / k->patch;
    for (int64_t t = 0; t < b->shape.dim[0]; t++)
        for (int64_t at = 0; at < steps * k->patch; at++)
            mix(a, b, axis, t, at, over, (float)(at / k->patch) / (float)steps);
}

/* The tile's own part of the result, which begins at [top,left]. */
static void take(const zn_wan_tiles *k, const tile *own, float *y, zn_shape out, int64_t top, int64_t left)
{
    const int64_t *d = own->shape.dim, c = d[3];
    const int64_t rows = least(least(d[1], k->out_step), out.dim[1] - top);
    const int64_t columns = least(least(d[2], k->out_step), out.dim[2] - left);
    for (int64_t t = 0; t < d[0]; t++)
        for (int64_t i = 0; i < rows; i++)
            memcpy(y + ((t * out.dim[1] + top + i) * out.dim[2] + left) * c, own->data + (t * d[1] + i) * d[2] * c,
                   sizeof(float) * (size_t)(columns * c));
}

static zn_status compute(zn_wan_tile run, void *self, const float *x, zn_shape in, const int64_t begin[2],
                         zn_shape piece, tile *to)
{
    const int64_t c = in.dim[3];
    float *cut;
    ZN_TRY(zn_alloc_for("a tile", sizeof(float) * (size_t)zn_shape_count(piece), (void **)&cut));
    zn_status status = zn_alloc_for("a tile", sizeof(float) * (size_t)zn_shape_count(to->shape), (void **)&to->data);
    for (int64_t t = 0; t < in.dim[0] && status == ZN_OK; t++)
        for (int64_t i = 0; i < piece.dim[1]; i++)
            memcpy(cut + (t * piece.dim[1] + i) * piece.dim[2] * c,
                   x + ((t * in.dim[1] + begin[0] + i) * in.dim[2] + begin[1]) * c,
                   sizeof(float) * (size_t)(piece.dim[2] * c));
    if (status == ZN_OK)
        status = run(self, cut, piece, to->data, to->shape);
    zn_free(cut);
    return status;
}

static void forget(tile *tiles, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        zn_free(tiles[i].data);
        tiles[i] = (tile){ 0 };
    }
}

/* A tile's side, in the input, of those that begin so far into it. */
static int64_t side_at(const zn_wan_tiles *k, zn_shape in, int axis, int64_t begin)
{
    return least(k->side, in.dim[axis] - begin);
}

/* A frame that fits into a tile is one. */
static zn_wan_tiles fit(const zn_wan_tiles *k, zn_shape in, zn_shape out)
{
    zn_wan_tiles t = *k;
    if (k->step > 0 && in.dim[1] <= k->side && in.dim[2] <= k->side) {
        t.step = t.side;
        t.out_step = (int)(out.dim[1] > out.dim[2] ? out.dim[1] : out.dim[2]);
    }
    return t;
}

size_t zn_wan_tiles_bytes(const zn_wan_tiles *asked, zn_shape in, zn_shape out)
{
    const zn_wan_tiles fitted = fit(asked, in, out), *const k = &fitted;
    const int64_t high = side_at(k, in, 1, 0), wide = side_at(k, in, 2, 0);
    int64_t across = 0; /* of a row of tiles */
    for (int64_t begin = 0; begin < in.dim[2]; begin += k->step)
        across += side_at(k, in, 2, begin) * out.dim[2] / in.dim[2];
    return sizeof(float) * (size_t)(in.dim[0] * in.dim[3] * high * wide +
                                    2 * out.dim[0] * out.dim[3] * across * (high * out.dim[1] / in.dim[1]));
}

zn_status zn_wan_tiled(const zn_wan_tiles *asked, zn_wan_tile run, void *self, const float *x, zn_shape in, float *y,
                       zn_shape out)
{
    const zn_wan_tiles fitted = fit(asked, in, out), *const k = &fitted;
    if (k->step < 1 || k->side < k->step || k->out_step < 1)
        return ZN_FAIL(ZN_EINVALID, "tiles of %d, every %d: too small, or with gaps", k->side, k->step);
    const int64_t columns = (in.dim[2] + k->step - 1) / k->step;
    tile *above = zn_calloc(2 * (size_t)columns, sizeof *above), *row = above + columns;
    zn_status status = above ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for %lld tiles", (long long)columns);
    for (int64_t i = 0; i * k->step < in.dim[1] && status == ZN_OK; i++) {
        for (int64_t j = 0; j < columns && status == ZN_OK; j++) {
            const int64_t begin[2] = { i * k->step, j * k->step };
            zn_shape piece = in;
            row[j].shape = out;
            for (int axis = 1; axis <= 2; axis++) {
                piece.dim[axis] = side_at(k, in, axis, begin[axis - 1]);
                row[j].shape.dim[axis] = piece.dim[axis] * out.dim[axis] / in.dim[axis];
            }
            status = compute(run, self, x, in, begin, piece, &row[j]);
            if (status != ZN_OK)
                break;
            if (i)
                fade(k, &above[j], &row[j], 1);
            if (j)
                fade(k, &row[j - 1], &row[j], 2);
            take(k, &row[j], y, out, i * k->out_step, j * k->out_step);
        }
        if (status == ZN_OK) {
            forget(above, columns);
            memcpy(above, row, sizeof *row * (size_t)columns);
            memset(row, 0, sizeof *row * (size_t)columns);
        }
    }
    if (above)
        forget(above, 2 * columns);
    zn_free(above);
    return status;
}
