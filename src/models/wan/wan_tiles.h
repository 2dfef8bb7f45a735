/* Large frames in overlapping tiles that fade into each other, as diffusers does it: less memory, other results, since
 * a tile sees nothing outside of itself.
 *
 *     const zn_wan_tiles t = zn_wan_decode_tiles(8, 256, 192);
 *     ZN_TRY(zn_wan_tiled(&t, run, self, z, latent_shape, y, clip_shape)); */
#ifndef ZN_WAN_TILES_H
#define ZN_WAN_TILES_H

#include "tensor/shape.h"

typedef struct zn_wan_tiles {
    int side, step;       /* of tiles, in positions of the input */
    int out_step, fading; /* in positions of the output: from tile to tile; how far two fade into each other */
    int patch;            /* positions of the output that fade together */
} zn_wan_tiles;

/* For tiles of `side` pixels, `step` apart, of a network of `downscale` pixels to a latent one. Those of 16 (2.2) take
 * pixels in patches of two, and the encoder counts patches, so its tiles are twice as large. */
zn_wan_tiles zn_wan_decode_tiles(int downscale, int side, int step);
zn_wan_tiles zn_wan_encode_tiles(int downscale, int side, int step);

/* Bytes that zn_wan_tiled takes besides x and y: a tile to compute, and two rows of results. */
size_t zn_wan_tiles_bytes(const zn_wan_tiles *asked, zn_shape in, zn_shape out);

/* Computes one tile: x of shape `in` to y of shape `out`, all frames of it. */
typedef zn_status (*zn_wan_tile)(void *self, const float *x, zn_shape in, float *y, zn_shape out);

/* x [T,H,W,C] of shape `in` to y [T',H',W',C'] of shape `out`; a tile's sides are to each other as the whole ones. A
 * frame that fits into a tile is computed whole. */
ZN_MUST_USE zn_status zn_wan_tiled(const zn_wan_tiles *asked, zn_wan_tile run, void *self, const float *x, zn_shape in,
                                   float *y, zn_shape out);

#endif
