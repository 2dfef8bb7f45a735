/* Mamba: mixes tokens [N,1,L,C] with selective scans (Gu and Dao, 2023), along a sequence or in four directions over
 * the image plane.
 *
 *     ZN_TRY(zn_scan_orders(coords, NULL, n, length, 64, orders->data));
 *     x = zn_add(x, zn_mamba_plane(zn_at(s, "mixer"), norm(x), orders, &k));
 *
 * Parameter names are those of the public package. */
#ifndef ZN_MAMBA_H
#define ZN_MAMBA_H

#include "nn/nn.h"

typedef struct zn_mamba {
    int states; /* states of each inner channel; 16 */
    int taps;   /* taps of the convolution before a scan; 4 */
    int expand; /* inner channels per token channel; 2 */
    int layers; /* mixers whose results are added to one sum, for the initial values; 0: one */
} zn_mamba;

/* One scan along the sequence. Parameters: in_proj, conv1d, x_proj, dt_proj, A_log, D, out_proj. */
zn_node *zn_mamba_line(zn_scope s, zn_node *x, const zn_mamba *k);

/* Four scans: they share in_proj, gate and out_proj; each order has its own other parameters. The result is the mean of
 * the four. Tokens that are not in the orders are ignored and give 0. orders [2,N,4,L], see zn_gather_tokens. */
enum { ZN_SCAN_WAYS = 4 };
zn_node *zn_mamba_plane(zn_scope s, zn_node *x, zn_node *orders, const zn_mamba *k);

/* The scan orders of points coords [n][length][2] (x to the right, y down, in [-1,1]): by grid row and x, by grid
 * column and y, and both reversed. Points that are equal in both keep their order. counts [n]: number of valid points
 * of a sample, which come first (NULL: all). table [2][n][4][length]. */
ZN_MUST_USE zn_status zn_scan_orders(const float *coords, const int64_t *counts, int64_t n, int64_t length, int grid,
                                     float *table);

#endif
