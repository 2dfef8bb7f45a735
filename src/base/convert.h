/* Number formats of tensors: sizes, names and conversion to and from float32.
 *
 *     zn_to_f32(floats, w->data, w->dtype, count);       // any dtype, unaligned input allowed
 *     zn_from_f32(halves, ZN_F16, floats, count);        // floating dtypes only
 *
 * Narrowing rounds to nearest, ties to even. NaN stays NaN. Overflow gives infinity, or NaN in F8_E4M3, which has no
 * infinity. Integers beyond 2^24 round. */
#ifndef ZN_CONVERT_H
#define ZN_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zenith/weights.h>

bool zn_dtype_is_float(zn_dtype dtype); /* false for block dtypes, which are read but never written */
/* Bytes of `count` elements. Returns false if count is not a multiple of the block size or size_t overflows. */
bool zn_dtype_bytes(zn_dtype dtype, size_t count, size_t *bytes);
/* Finds the dtype with this safetensors name, which need not end with a NUL. Returns false for an unknown name. */
bool zn_dtype_parse(const char *name, size_t length, zn_dtype *dtype);

/* count: a multiple of the block size. */
void zn_to_f32(float *out, const void *in, zn_dtype from, size_t count);
/* to: ZN_F64, ZN_F32, ZN_F16, ZN_BF16, ZN_F8_E4M3 or ZN_F8_E5M2. */
void zn_from_f32(void *out, zn_dtype to, const float *in, size_t count);

/* F8_E4M3 for computation. zn_to_e4m3 writes the codes of in / scale and saturates at -448 and 448. zn_e4m3_scale
 * returns the scale that maps the largest magnitude to 448, or 1 if all values are 0. It fails if a value is not
 * finite. */
void zn_to_e4m3(uint8_t *out, const float *in, float scale, size_t count);
ZN_MUST_USE zn_status zn_e4m3_scale(const float *in, size_t count, float *scale);

float zn_f16_to_f32(uint16_t half);
uint16_t zn_f32_to_f16(float value);
float zn_bf16_to_f32(uint16_t half);
uint16_t zn_f32_to_bf16(float value);

#endif
