/* Affine groups as MLX files hold them: the elements of a group share a scale and a bias, w = scale code + bias. Codes
 * of 2, 3, 4, 5, 6 or 8 bits follow each other without gaps, the first in the lowest bits of the first byte.
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

/* Is it a form that files have: a width of codes from above, groups of 32, 64 or 128? */
bool zn_mlx_form_known(zn_mlx_form form);

/* count: whole groups. scales, biases: one for each group. */
void zn_mlx_to_f32(float *out, const uint8_t *codes, const float *scales, const float *biases, size_t count,
                   const zn_mlx_form *form);

/* The reverse, rounding to the nearest code. `as` is the dtype that scales and biases will be kept in (F32, F16 or
 * BF16): codes are those of the elements rounded to it; scales and biases are given as kept. codes: count * bits / 8
 * bytes. */
void zn_mlx_from_f32(uint8_t *codes, float *scales, float *biases, const float *in, size_t count,
                     const zn_mlx_form *form, zn_dtype as);

/* count * bits: whole bytes. */
void zn_mlx_pack(uint8_t *packed, const uint8_t *codes, size_t count, int bits);

#endif
