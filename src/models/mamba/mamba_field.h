/* Networks for sparse fields: values at scattered points of the plane instead of pixels (specification B4, B5). An
 * encoder makes a condition of points with values, a denoiser predicts the noise in the values at any points, and the
 * coordinate network denoises Fourier features of points and colours them.
 *
 * Points are tokens [N,1,L,2], x to the right and y down, in [-1,1]; orders as zn_scan_orders makes them of these
 * points on a grid of k->grid. Conditions and embeddings of times have a row for each sample: [1,1,N,..]. */
#ifndef ZN_MAMBA_FIELD_H
#define ZN_MAMBA_FIELD_H

#include "nn/mamba.h"

typedef struct zn_field {
    int width, blocks; /* of the tokens */
    int features;      /* frequencies of the Fourier features */
    float spread;      /* their deviation */
    int values;        /* at each point */
    int latent;        /* of the condition */
    int embed;         /* of the time's inner layers */
    int colours;       /* of the coordinate network */
    int hidden;        /* of the layer before them */
    int grid;
    zn_mamba mixer;
} zn_field;

extern const zn_field zn_field_usual;

/* Condition [1,1,N,latent] of values [N,1,L,C] at points. The order in which points are given does not matter. */
zn_node *zn_field_encode(zn_scope s, zn_node *points, zn_node *values, zn_node *orders, const zn_field *k);

/* Inputs of the denoisers: embedding of the step [1,1,N,width] (diffusion/schedule.h), and the condition. */
typedef struct zn_field_known {
    zn_node *orders, *time, *cond;
} zn_field_known;

/* The noise in values [N,1,Q,C] at points; values NULL: none are given, as for regression. */
zn_node *zn_field_denoise(zn_scope s, zn_node *points, zn_node *values, const zn_field_known *known, const zn_field *k);

/* The values at points from the condition alone: the denoiser without noisy values among its inputs, for regression. */
zn_node *zn_field_values(zn_scope s, zn_node *points, const zn_field_known *known, const zn_field *k);

/* The coordinate network: features of points, of variance 1; the clean features predicted from noisy ones [N,1,Q,2F];
 * colours [N,1,Q,colours] for features under a condition. */
zn_node *zn_field_features(zn_scope s, zn_node *points, const zn_field *k);
zn_node *zn_field_clean_features(zn_scope s, zn_node *noisy, const zn_field_known *known, const zn_field *k);
zn_node *zn_field_colours(zn_scope s, zn_node *features, zn_node *cond, const zn_field *k);

/* How parameters of the three networks start, by role, where the networks do not say. */
extern const zn_start zn_field_start[ZN_ROLES];

#endif
