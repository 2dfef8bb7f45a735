/* The tile registers in plain C, to test code that uses them on processors without AMX. Follows the order of
 * operations in the manual, except that subnormal numbers are not flushed. Aborts where the processor would raise an
 * exception. */
#ifndef ZN_KERNELS_X86_TILE_EMULATED_H
#define ZN_KERNELS_X86_TILE_EMULATED_H

#include "kernels/x86/bf16.h"
#include "kernels/x86/tile.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local struct {
    tile_config config; /* palette 0: not configured */
    unsigned char data[TILE_COUNT][TILE_ROWS][TILE_BYTES];
} tile_file;

static inline void tile_begin(int bytes)
{
    memset(&tile_file, 0, sizeof tile_file);
    tile_file.config = tile_config_of(bytes);
    for (int t = 0; t < TILE_COUNT; t++)
        if (tile_file.config.rows[t] < 1 || tile_file.config.rows[t] > TILE_ROWS || tile_file.config.bytes[t] < 4 ||
            tile_file.config.bytes[t] > TILE_BYTES || tile_file.config.bytes[t] % 4)
            abort();
}

static inline void tile_end(void) { memset(&tile_file, 0xff, sizeof tile_file), tile_file.config.palette = 0; }

static inline void tile_need(int t)
{
    if (tile_file.config.palette != 1 || t < 0 || t >= TILE_COUNT)
        abort();
}

static inline void tile_zero(int t)
{
    tile_need(t);
    memset(tile_file.data[t], 0, sizeof tile_file.data[t]);
}

static inline void tile_load(int t, const void *from, int64_t stride)
{
    tile_zero(t);
    for (int r = 0; r < tile_file.config.rows[t]; r++)
        memcpy(tile_file.data[t][r], (const char *)from + r * stride, tile_file.config.bytes[t]);
}

static inline void tile_store(int t, void *to, int64_t stride)
{
    tile_need(t);
    for (int r = 0; r < tile_file.config.rows[t]; r++)
        memcpy((char *)to + r * stride, tile_file.data[t][r], tile_file.config.bytes[t]);
}

/* Element i of a row of bf16. */
static inline float tile_element(const unsigned char *row, int i)
{
    uint16_t half;
    memcpy(&half, row + 2 * i, sizeof half);
    return bf16_value(half);
}

/* The operands of a product must be three tiles of matching sizes. */
static inline void tile_need_product(int sum, int a, int b)
{
    const tile_config *c = &tile_file.config;
    tile_need(sum), tile_need(a), tile_need(b);
    if (sum == a || sum == b || a == b || c->rows[sum] != c->rows[a] || c->bytes[sum] != c->bytes[b] ||
        c->bytes[a] != 4 * c->rows[b])
        abort();
}

/* Even and odd products are summed separately, the two are added, and the result is added to the sum. */
static inline void tile_dp(int sum, int a, int b)
{
    const tile_config *c = &tile_file.config;
    tile_need_product(sum, a, b);
    float weights[TILE_ROWS][TILE_DEPTH];
    for (int k = 0; k < c->rows[b]; k++)
        for (int n = 0; n < c->bytes[b] / 2; n++)
            weights[k][n] = tile_element(tile_file.data[b][k], n);
    for (int m = 0; m < c->rows[sum]; m++) {
        float part[TILE_DEPTH] = { 0 }, total[TILE_ROWS];
        for (int k = 0; k < c->rows[b]; k++) {
            const float even = tile_element(tile_file.data[a][m], 2 * k),
                        odd = tile_element(tile_file.data[a][m], 2 * k + 1);
            for (int n = 0; n < c->bytes[b] / 2; n += 2) {
                part[n] += even * weights[k][n];
                part[n + 1] += odd * weights[k][n + 1];
            }
        }
        memcpy(total, tile_file.data[sum][m], sizeof total);
        for (int n = 0; n < c->bytes[sum] / 4; n++)
            total[n] += part[2 * n] + part[2 * n + 1];
        memcpy(tile_file.data[sum][m], total, sizeof total);
    }
}

/* Adds four products at a time. is_signed: whether the bytes of a are. */
static inline void tile_dp_bytes(int sum, int a, int b, int is_signed)
{
    const tile_config *c = &tile_file.config;
    tile_need_product(sum, a, b);
    for (int m = 0; m < c->rows[sum]; m++) {
        int32_t total[TILE_ROWS];
        memcpy(total, tile_file.data[sum][m], sizeof total);
        for (int k = 0; k < c->bytes[a]; k++) {
            const int left = is_signed ? (int8_t)tile_file.data[a][m][k] : tile_file.data[a][m][k];
            for (int n = 0; n < c->bytes[sum] / 4; n++)
                total[n] += left * (int8_t)tile_file.data[b][k / 4][4 * n + k % 4];
        }
        memcpy(tile_file.data[sum][m], total, sizeof total);
    }
}

static inline void tile_dp_i8(int sum, int a, int b) { tile_dp_bytes(sum, a, b, 0); }
static inline void tile_dp_s8(int sum, int a, int b) { tile_dp_bytes(sum, a, b, 1); }

#endif
