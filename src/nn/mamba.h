/* Mamba: mixers of tokens [N,1,L,C] by selective scans (Gu and Dao, 2023), along a sequence or four ways over the
 * plane.
 *
 *     ZN_TRY(zn_scan_orders(coords, NULL, n, length, 64, orders->data));
 *     x = zn_add(x, zn_mamba_plane(zn_at(s, "mixer"), norm(x), orders, &k));
 *
 * The names are those of the public package. */
#ifndef ZN_MAMBA_H
#define ZN_MAMBA_H

#include "base/rng.h"
#include "nn/nn.h"

typedef struct zn_mamba {
    int states; /* of each inner channel; 16 */
    int taps;   /* of the convolution before a scan; 4 */
    int expand; /* inner channels for each of the tokens'; 2 */
} zn_mamba;

/* Along the sequence: in_proj, conv1d, x_proj, dt_proj, A_log, D, out_proj. */
zn_node *zn_mamba_line(zn_scope s, zn_node *x, const zn_mamba *k);

/* Four ways: one in_proj, gate and out_proj, all else for each order; the mean of the four. Tokens without a place in
 * the orders take no part and give 0. orders [2,N,4,L], see zn_gather_tokens. */
enum { ZN_SCAN_WAYS = 4 };
zn_node *zn_mamba_plane(zn_scope s, zn_node *x, zn_node *orders, const zn_mamba *k);

/* The orders of points coords [n][length][2] (x to the right, y down, in [-1,1]): by rows of a grid and x, by its
 * columns and y, and both backwards; points alike in both stay as they were. counts [n]: how many points of a sample
 * are there, the first ones (NULL: all). table [2][n][4][length]. */
ZN_MUST_USE zn_status zn_scan_orders(const float *coords, const int64_t *counts, int64_t n, int64_t length, int grid,
                                     float *table);

/* Initial values of a mixer's parameter: true if `name` ends like one. layers: how many mixers add to one sum. */
bool zn_mamba_start(const zn_mamba *k, const char *name, zn_shape shape, int layers, zn_rng *rng, float *out);
/* Uniform within 1 / sqrt(inputs). */
void zn_start_linear(int64_t inputs, zn_shape shape, zn_rng *rng, float *out);

#endif
