/* Shared by the fusion passes. A fused node is turned into another op in place, so the order of execution stays
 * valid. The nodes it replaces are left without readers. */
#ifndef ZN_OPS_FUSE_H
#define ZN_OPS_FUSE_H

#include "kernels/norm.h"
#include "ops/ops.h"

/* Ops that only fusion creates. They have no gradient; none is requested after fusion. */
extern const zn_op zn_op_lite_rows, zn_op_lite_columns, zn_op_lite_expand, zn_op_lite_head, zn_op_spectral_linear,
    zn_op_tile_square;

/* Those of zn_graph_fuse_tokens. */
extern const zn_op zn_op_gated_norm, zn_op_norm_rope, zn_op_silu_multiply;
typedef struct zn_gated_norm {
    float eps, limit; /* kernels/token.h */
    bool plus_one;
    int first;  /* of the channels of its scale that it reads */
    bool codes; /* the result is FP8 codes */
} zn_gated_norm;

/* Those of zn_graph_fuse_frames. */
extern const zn_op zn_op_conv_frames;
typedef struct zn_conv_frames {
    int pad;
    bool before, bias, residual; /* sources that it has */
    bool codes;                  /* x and the frames before it are FP8 codes, which a norm has written */
} zn_conv_frames;
/* The kernel for a convolution over frames if its x were codes; NULL: none. */
const struct zn_conv_kernel *zn_conv_frames_of_codes(const zn_node *n, uint32_t cpu);

/* A norm with SiLU whose results are FP8 codes, with one scale for all: a norm bounds them. Whether n can be one, what
 * makes it one, and what a code is multiplied with. */
bool zn_norm_can_write_codes(const zn_node *n);
void zn_norm_write_codes(zn_node *n);
float zn_norm_code_scale(const zn_node *n);

/* Those of zn_graph_use_fp8. */
extern const zn_op zn_op_matrix_fp8, zn_op_silu_multiply_fp8;
typedef struct zn_fp8_product {
    bool trial, off;
} zn_fp8_product;

/* Number of readers of each node; an output counts as one more reader. NULL if there is no memory. */
int *zn_fuse_count_uses(zn_graph *g, zn_node *const *outputs, int count);

/* The settings of a group norm. */
typedef struct zn_norm {
    int groups;
    float eps;
    bool pixels;             /* layer norm: every pixel is normalised separately */
    bool scale, shift, gain; /* sources after beta; set by fusion, like act */
    int first[3], whole[3];  /* of these: channels from `first` on of a source that has `whole` */
    bool pair;               /* the last source has the last channels of x; only on devices */
    zn_activation act;
} zn_norm;
/* If n is an activation and all before it, up to two modulations and a norm, is read by no other node: what the norm
 * would be with them, and its sources, whose number is returned. Otherwise 0. */
int zn_norm_before(const zn_node *n, const int *uses, zn_norm *k, zn_node *sources[ZN_MAX_SOURCES]);

/* Each checks whether n is the last node of its pattern (uses: readers by node index), and if so changes n. */
void zn_fuse_norm(zn_node *n, int *uses);
void zn_fuse_rms_norm(zn_node *n, int *uses);  /* with SiLU; only on a device */
void zn_fuse_norm_rope(zn_node *n, int *uses); /* only on a device */
void zn_fuse_lite(zn_node *n, int *uses);
void zn_fuse_lite_head(zn_node *n, int *uses);
void zn_fuse_spectral_linear(zn_node *n, int *uses);
void zn_fuse_tile_square(zn_node *n, int *uses);

/* Moves products with weights that read the same few values, such as the modulations of all blocks of a network, to
 * where the first of them is: a device computes them in one launch. */
void zn_gather_products(zn_graph *g);

/* n gets op, attribute and sources; its former sources lose a reader. */
void zn_fuse_become(zn_node *n, int *uses, const zn_op *op, const void *attribute, size_t attribute_size,
                    zn_node *const *sources, int count);

#endif
