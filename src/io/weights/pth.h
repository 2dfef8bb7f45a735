/* What pth.c (walking the checkpoint) and pth_tensor.c (making one tensor) share. */
#ifndef ZN_PTH_H
#define ZN_PTH_H

#include "io/weights/pickle.h"
#include "io/weights/reader.h"
#include "io/weights/zip.h"

enum { ZN_PTH_MAX_NAME = 1024 };

typedef struct zn_pth {
    zn_weights *w;
    zn_zip zip;
    const char *prefix; /* of the entries' names: "archive/" */
    size_t prefix_length;
    size_t copied, copy_limit; /* bytes of tensors that had to be made contiguous */
} zn_pth;

/* Turns a recorded call into a tensor whose data lies in the archive, or in the arena if its strides are not those of a
 * contiguous tensor. name is used in messages and kept. */
ZN_MUST_USE zn_status zn_pth_tensor(zn_pth *p, const zn_pickle *call, const char *name, zn_weight *tensor);

#endif
