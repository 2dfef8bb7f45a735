/* Affine quantisation of MLX files: the elements of a group share a scale and a bias, w = scale * code + bias. Codes
 * have 2, 3, 4, 5, 6 or 8 bits and are stored without gaps, the first one in the lowest bits of the first byte.
 *
 *     zn_mlx_to_f32(row, codes, scales, biases, 2560, &(zn_mlx_form){ .bits = 4, .group = 64 }); */
#ifndef ZN_MLX_H
#define ZN_MLX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zenith/weights.h>

typedef struct zn_mlx_form {
    int bits, group;
} zn_mlx_form;

/* True for the formats of MLX files: one of the code widths above, and groups of 32, 64 or 128. */
bool zn_mlx_form_known(zn_mlx_form form);

/* count: a multiple of the group size. scales, biases: one per group. */
void zn_mlx_to_f32(float *out, const uint8_t *codes, const float *scales, const float *biases, size_t count,
                   const zn_mlx_form *form);

/* The inverse; rounds to the nearest code. `as` is the dtype in which scales and biases will be stored (F32, F16 or
 * BF16). Elements are rounded to it before they are encoded, and the returned scales and biases are rounded to it.
 * codes: count * bits / 8 bytes. */
void zn_mlx_from_f32(uint8_t *codes, float *scales, float *biases, const float *in, size_t count,
                     const zn_mlx_form *form, zn_dtype as);

/* Packs codes, one per byte, into `bits` bits each. count * bits must be a multiple of 8. */
void zn_mlx_pack(uint8_t *packed, const uint8_t *codes, size_t count, int bits);

#endif
