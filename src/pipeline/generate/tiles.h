/* Encoding and decoding in overlapping tiles, for images that do not fit into memory whole: the tiles' edges are mixed
 * linearly. Norms and attention then see a tile instead of the whole image, so colours differ a little between the two.
 *
 *     const zn_tiling t = zn_tiling_of(z->width, z->height, 64);
 *     ZN_TRY(zn_tiling_decode(&t, z, decode_tile, codec, &image)); */
#ifndef ZN_GENERATE_TILES_H
#define ZN_GENERATE_TILES_H

#include <zenith/image.h>
#include <zenith/latent.h>

/* Tiles of width x height latent pixels, columns x rows of them; each shares a quarter of its side with the next. */
typedef struct zn_tiling {
    int width, height, columns, rows;
} zn_tiling;

zn_tiling zn_tiling_of(int width, int height, int side);

/* decode: the image of a tile, 16 bits, 8 times the latent's size; number: of the tile, from 0. */
typedef zn_status (*zn_tile_fn)(void *self, const zn_latent *tile, int number, zn_image **out);
ZN_MUST_USE zn_status zn_tiling_decode(const zn_tiling *t, const zn_latent *z, zn_tile_fn decode, void *self,
                                       zn_image **out);

/* encode: the latent of a tile. The image's sides are multiples of 8. */
typedef zn_status (*zn_tile_encode_fn)(void *self, const zn_image *tile, int number, zn_latent **out);
ZN_MUST_USE zn_status zn_tiling_encode(const zn_tiling *t, const zn_image *image, zn_tile_encode_fn encode, void *self,
                                       zn_latent **out);

#endif
