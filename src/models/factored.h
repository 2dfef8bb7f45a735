/* Convolutions that a file stores as a chain of two or three smaller ones: of low rank (to few channels and from there
 * to all), Tucker's (few channels on both sides), frames apart from rows and columns. They are found below the name of
 * the layer by their shapes, whatever their own names are: NAME.0.weight, NAME.lora_down.weight, NAME.U, ... */
#ifndef ZN_FACTORED_H
#define ZN_FACTORED_H

#include "models/arch.h"

typedef struct zn_factored {
    int count;                                          /* 0: there is no such chain */
    const zn_weight *weight[ZN_LINKS], *bias[ZN_LINKS]; /* in the order in which they run; a bias may be NULL */
    zn_weight whole;                                    /* the product, without its numbers; its name is in `name` */
    char name[320];
} zn_factored;

/* The layer that a tensor NAME.weight or NAME.bias belongs to; false: it is another tensor, or the file has the layer's
 * weight. */
bool zn_lacks_layer(const zn_weights *file, const char *name, char *layer, size_t size);

/* layer: what the file calls the convolution, which has no tensor layer.weight of its own. out, in: its channels; 0:
 * not known. Fails if there are tensors below that name which do not form one convolution. */
ZN_MUST_USE zn_status zn_factored_find(const zn_weights *file, const char *layer, int64_t out, int64_t in,
                                       zn_factored *f);

/* The chain as layers (graph/splits.h), if they are of a kind that can run and need fewer operations than the product.
 * The names are those of the file. */
bool zn_factored_split(const zn_factored *f, zn_split *out);

/* Adds a chain for the parameter `weight`; names are copied. zn_splits_tensor: the tensor of a link's parameter; NULL
 * for other parameters. */
ZN_MUST_USE zn_status zn_splits_add(zn_splits *s, zn_arena *arena, const char *weight, const zn_split *split);
const char *zn_splits_tensor(const zn_splits *s, const char *name);

/* The numbers of the product, and of the bias after it. A bias before a kernel cannot be moved after it, since the
 * zeros beyond the border have none: such a chain is refused. */
ZN_MUST_USE zn_status zn_factored_multiply(const zn_weights *file, const zn_factored *f, zn_shape shape,
                                           zn_layout layout, float *out);
ZN_MUST_USE zn_status zn_factored_bias(const zn_weights *file, const zn_factored *f, float *out);

#endif
