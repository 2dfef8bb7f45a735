/* Packing weights into files of fewer bits: what is to be written, and from where. */
#ifndef ZN_PACK_H
#define ZN_PACK_H

#include "base/packed.h"
#include "graph/graph.h"
#include "io/weights/gguf_write.h"
#include "models/qwen3/qwen3.h"
#include "pipeline/generate/files.h"

/* A tensor of the new file, made of the rows of up to three matrices one after the other. */
typedef struct zn_pack_item {
    char name[224];
    zn_dtype dtype;
    bool mlx; /* codes, scales and biases instead of dtype */
    int rank;
    int64_t shape[ZN_MAX_RANK];
    zn_packed part[3];
    int parts;
    int64_t rows, columns; /* of each part */
} zn_pack_item;

typedef struct zn_pack_plan {
    zn_part_files files;
    zn_graph *graph; /* owns names and small parameters; NULL for networks that are not known */
    zn_pack_item *items;
    size_t count, capacity;
    const char *architecture; /* "lumina2" as other programs call Z-Image, "qwen3", or "unknown" */
    zn_qwen3_form text;       /* if it is qwen3 */
} zn_pack_plan;

/* Refuses the folder of a whole model, whose networks are converted one by one. */
ZN_MUST_USE zn_status zn_pack_check_folder(const char *in);
/* Opens and recognises the network, and decides on names and types. Free the plan in any case. */
ZN_MUST_USE zn_status zn_pack_plan_make(const char *in, const zn_quantisation *how, zn_pack_plan *plan);
void zn_pack_plan_free(zn_pack_plan *plan);

/* Metadata of a .gguf file; in: where the tokenizer is looked for. */
ZN_MUST_USE zn_status zn_pack_keys(const zn_pack_plan *plan, const char *in, zn_dtype dtype, zn_gguf_keys *keys);

#endif
