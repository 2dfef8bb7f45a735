/* Overlapping tiles: decoding, then encoding. */
#include "pipeline/generate/tiles.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/pixels/pixels.h"

#include <string.h>

enum { SCALE = 8, SHARE = 4 };

/* How many tiles cover a side, neighbours sharing a quarter. */
static int count_of(int whole, int tile)
{
    const int step = tile - tile / SHARE;
    return whole <= tile ? 1 : (whole - tile + step - 1) / step + 1;
}

zn_tiling zn_tiling_of(int width, int height, int side)
{
    const int w = width < side ? width : side, h = height < side ? height : side;
    return (zn_tiling){ w, h, count_of(width, w), count_of(height, h) };
}

/* Where tile i begins: evenly, the last one at the end. */
static int begin_of(int i, int count, int whole, int tile) { return count > 1 ? i * (whole - tile) / (count - 1) : 0; }

/* Weight of position x of a tile's side: it rises from an edge that lies inside the image. */
static float weight(int x, int side, bool before, bool after)
{
    const float ramp = (float)(side / SHARE);
    float w = 1;
    if (before && ((float)x + 0.5f) / ramp < w)
        w = ((float)x + 0.5f) / ramp;
    if (after && ((float)(side - x) - 0.5f) / ramp < w)
        w = ((float)(side - x) - 0.5f) / ramp;
    return w;
}

/* ---- decoding ---- */

/* A sum of colours, and of their weights, for each pixel. */
typedef struct canvas {
    const zn_tiling *tiling;
    const zn_latent *z;
    float *sum; /* [height][width][4] */
    float *rgb; /* of a tile */
} canvas;

static void add_tile(const canvas *c, const zn_image *tile, int column, int row, int x0, int y0)
{
    const zn_tiling *t = c->tiling;
    zn_pixels_to_float(tile, (zn_region){ 0, 0, tile->width, tile->height }, c->rgb, (size_t)tile->width * 3);
    for (int y = 0; y < tile->height; y++)
        for (int x = 0; x < tile->width; x++) {
            const float w = weight(x, tile->width, column > 0, column + 1 < t->columns) *
                            weight(y, tile->height, row > 0, row + 1 < t->rows);
            const size_t place = (size_t)(y0 * SCALE + y) * (size_t)(c->z->width * SCALE) + (size_t)(x0 * SCALE + x);
            for (size_t k = 0; k < 3; k++)
                c->sum[4 * place + k] += w * c->rgb[((size_t)y * (size_t)tile->width + (size_t)x) * 3 + k];
            c->sum[4 * place + 3] += w;
        }
}

static void cut(const zn_latent *z, int x0, int y0, zn_latent *tile)
{
    const size_t c = (size_t)z->channels, row = (size_t)tile->width * c;
    for (int y = 0; y < tile->height; y++)
        memcpy(tile->data + (size_t)y * row, z->data + ((size_t)(y0 + y) * (size_t)z->width + (size_t)x0) * c,
               sizeof(float) * row);
}

static zn_status decode_tiles(const canvas *c, zn_latent *tile, zn_tile_fn decode, void *self)
{
    const zn_tiling *t = c->tiling;
    for (int row = 0; row < t->rows; row++)
        for (int column = 0; column < t->columns; column++) {
            const int x0 = begin_of(column, t->columns, c->z->width, t->width);
            const int y0 = begin_of(row, t->rows, c->z->height, t->height);
            zn_image *image;
            cut(c->z, x0, y0, tile);
            ZN_TRY(decode(self, tile, row * t->columns + column, &image));
            add_tile(c, image, column, row, x0, y0);
            zn_image_free(image);
        }
    return ZN_OK;
}

static void finish(const canvas *c, zn_image *image)
{
    const size_t width = (size_t)image->width;
    for (int y = 0; y < image->height; y++) {
        float *line = c->sum + 4 * width * (size_t)y;
        for (size_t x = 0; x < width; x++)
            for (size_t k = 0; k < 3; k++)
                c->rgb[3 * x + k] = line[4 * x + k] / line[4 * x + 3];
        zn_pixels_from_float(c->rgb, width * 3, image, (zn_region){ 0, y, image->width, 1 });
    }
}

zn_status zn_tiling_decode(const zn_tiling *t, const zn_latent *z, zn_tile_fn decode, void *self, zn_image **out)
{
    const size_t width = (size_t)z->width * SCALE, height = (size_t)z->height * SCALE;
    const size_t tile_pixels = (size_t)t->width * (size_t)t->height * SCALE * SCALE;
    zn_latent *tile = NULL;
    canvas c = { .tiling = t, .z = z, .sum = zn_calloc(4 * width * height, sizeof(float)) };
    zn_status status = c.sum ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for an image of %zux%zu", width, height);
    *out = NULL;
    ZN_TRY_DONE(status);
    ZN_TRY_DONE(
        zn_alloc_for("a tile", sizeof(float) * 3 * (tile_pixels > width ? tile_pixels : width), (void **)&c.rgb));
    ZN_TRY_DONE(zn_latent_new(t->width, t->height, z->channels, &tile));
    ZN_TRY_DONE(decode_tiles(&c, tile, decode, self));
    ZN_TRY_DONE(zn_image_new((int)width, (int)height, 8, out));
    finish(&c, *out);
done:
    zn_latent_free(tile);
    zn_free(c.sum);
    zn_free(c.rgb);
    return status;
}

/* ---- encoding ---- */

static void cut_image(const zn_image *image, int x0, int y0, zn_image *tile)
{
    const size_t pixel = 3 * (size_t)image->bits / 8, row = (size_t)tile->width * pixel;
    for (int y = 0; y < tile->height; y++)
        memcpy((char *)tile->pixels + (size_t)y * row,
               (const char *)image->pixels + ((size_t)(y0 + y) * (size_t)image->width + (size_t)x0) * pixel, row);
}

/* Adds a tile's latent to the sum of all, and its weights to the sum of theirs. */
static void add_latent(const zn_tiling *t, const zn_latent *tile, int column, int row, int x0, int y0, zn_latent *sum,
                       float *weights)
{
    const size_t channels = (size_t)sum->channels;
    for (int y = 0; y < t->height; y++)
        for (int x = 0; x < t->width; x++) {
            const float w = weight(x, t->width, column > 0, column + 1 < t->columns) *
                            weight(y, t->height, row > 0, row + 1 < t->rows);
            const size_t to = (size_t)(y0 + y) * (size_t)sum->width + (size_t)(x0 + x);
            const size_t from = (size_t)y * (size_t)t->width + (size_t)x;
            for (size_t c = 0; c < channels; c++)
                sum->data[to * channels + c] += w * tile->data[from * channels + c];
            weights[to] += w;
        }
}

/* The first tile says how many channels there are. */
static zn_status start_sum(const zn_latent *tile, int width, int height, zn_latent **sum, float **weights)
{
    const size_t pixels = (size_t)width * (size_t)height;
    ZN_TRY(zn_latent_new(width, height, tile->channels, sum));
    memset((*sum)->data, 0, sizeof(float) * pixels * (size_t)tile->channels);
    (*sum)->downscale = tile->downscale;
    *weights = zn_calloc(pixels, sizeof **weights);
    return *weights ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a latent of %dx%d", width, height);
}

static zn_status encode_tile(const zn_tiling *t, const zn_image *image, zn_image *piece, int number,
                             zn_tile_encode_fn encode, void *self, zn_latent **sum, float **weights)
{
    const int column = number % t->columns, row = number / t->columns;
    const int width = image->width / SCALE, height = image->height / SCALE;
    const int x0 = begin_of(column, t->columns, width, t->width), y0 = begin_of(row, t->rows, height, t->height);
    zn_latent *tile;
    cut_image(image, x0 * SCALE, y0 * SCALE, piece);
    ZN_TRY(encode(self, piece, number, &tile));
    const zn_status status = *sum ? ZN_OK : start_sum(tile, width, height, sum, weights);
    if (status == ZN_OK)
        add_latent(t, tile, column, row, x0, y0, *sum, *weights);
    zn_latent_free(tile);
    return status;
}

zn_status zn_tiling_encode(const zn_tiling *t, const zn_image *image, zn_tile_encode_fn encode, void *self,
                           zn_latent **out)
{
    zn_image *piece;
    zn_latent *sum = NULL;
    float *weights = NULL;
    *out = NULL;
    ZN_TRY(zn_image_new(t->width * SCALE, t->height * SCALE, image->bits, &piece));
    zn_status status = ZN_OK;
    for (int i = 0; i < t->columns * t->rows && status == ZN_OK; i++)
        status = encode_tile(t, image, piece, i, encode, self, &sum, &weights);
    for (int64_t i = 0; status == ZN_OK && i < (int64_t)sum->width * sum->height; i++)
        for (int c = 0; c < sum->channels; c++)
            sum->data[i * sum->channels + c] /= weights[i];
    zn_image_free(piece);
    zn_free(weights);
    if (status == ZN_OK)
        *out = sum;
    else
        zn_latent_free(sum);
    return status;
}
