/* Weight files: named tensors in .safetensors, .gguf, .pth, .pt or .ckpt files, mapped and checked, never executed.
 *
 *     zn_weights *w;
 *     zn_weights_open("taef2_decoder.pth", &w);
 *     for (int64_t i = 0; i < zn_weights_count(w); i++)
 *         puts(zn_weights_at(w, i)->name);
 *     zn_weights_close(w); */
#ifndef ZN_WEIGHTS_H
#define ZN_WEIGHTS_H

#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum zn_dtype {
    ZN_F64,
    ZN_F32,
    ZN_F16,
    ZN_BF16,
    ZN_F8_E4M3,
    ZN_F8_E5M2,
    ZN_I64,
    ZN_I32,
    ZN_I16,
    ZN_I8,
    ZN_U64,
    ZN_U32,
    ZN_U16,
    ZN_U8,
    ZN_BOOL,
    ZN_Q4_0, /* from here on: blocks of several elements with their own scales, as in GGUF files */
    ZN_Q4_1,
    ZN_Q5_0,
    ZN_Q5_1,
    ZN_Q8_0,
    ZN_Q2_K,
    ZN_Q3_K,
    ZN_Q4_K,
    ZN_Q5_K,
    ZN_Q6_K,
    ZN_DTYPE_COUNT
} zn_dtype;

/* Safetensors spelling ("F32", "BF16", …); GGUF spelling of blocks ("Q4_K"). */
ZN_API const char *zn_dtype_name(zn_dtype dtype);
/* Bytes of an element, or of a block; elements of a block, 1 for dtypes without blocks. */
ZN_API size_t zn_dtype_size(zn_dtype dtype);
ZN_API size_t zn_dtype_block(zn_dtype dtype);

enum { ZN_MAX_RANK = 8 };

/* One tensor as it is stored: row-major, little-endian, in the checkpoint's own layout (PyTorch: OIHW). Rows, along
 * the last dimension, are whole numbers of blocks. */
typedef struct zn_weight {
    const char *name;
    zn_dtype dtype;
    int rank;
    int64_t shape[ZN_MAX_RANK];
    const void *data; /* borrowed from the open file; not necessarily aligned */
    size_t bytes;
} zn_weight;

typedef struct zn_weights zn_weights;

/* Recognises the format by content. Nested dictionaries become dotted names. */
ZN_API ZN_MUST_USE zn_status zn_weights_open(const char *path, zn_weights **out);
/* As zn_weights_open for bytes in memory, which must outlive the handle; name is used in messages. */
ZN_API ZN_MUST_USE zn_status zn_weights_open_memory(const void *bytes, size_t size, const char *name, zn_weights **out);
ZN_API void zn_weights_close(zn_weights *weights);

ZN_API const char *zn_weights_format(const zn_weights *weights); /* "safetensors", "gguf" or "pytorch" */
ZN_API int64_t zn_weights_count(const zn_weights *weights);
ZN_API const zn_weight *zn_weights_at(const zn_weights *weights, int64_t index);
ZN_API const zn_weight *zn_weights_find(const zn_weights *weights, const char *name); /* NULL if absent */

/* Metadata of the file as text: __metadata__ of safetensors; all keys of GGUF whose value is not an array. */
ZN_API int64_t zn_weights_metadata_count(const zn_weights *weights);
ZN_API const char *zn_weights_metadata_at(const zn_weights *weights, int64_t index, const char **value);
ZN_API const char *zn_weights_metadata(const zn_weights *weights, const char *key); /* NULL if absent */

/* The name of the network in these weights if it is only a part of a model: "z-image", "qwen3"; NULL if there is none.
 * description[size] receives one line of text. */
ZN_API const char *zn_weights_network(const zn_weights *weights, char *description, size_t size);

/* Writes a copy as .safetensors. The file appears whole or not at all.
 *
 * convert 0: tensors keep their dtype. Else floating and block tensors become dtype (a floating one, or ZN_I8), and so
 * do 8-bit weights with scales, which are applied; others keep their dtype. ZN_EUNSUPPORTED for block tensors that
 * would keep theirs.
 *
 * With ZN_I8 and ZN_F8_E4M3, tensors NAME.weight with two dimensions or more and 4096 elements or more become 8-bit
 * numbers with scales in NAME.weight_scale: one for each row (output), or with ZN_F8_E4M3 one for the tensor. All
 * others keep their dtype. */
ZN_API ZN_MUST_USE zn_status zn_weights_save(const zn_weights *weights, const char *path, int convert, zn_dtype dtype);

/* The same for an index.json of shards, or a folder with one, with a single file, or with encoder.safetensors and
 * decoder.safetensors: one file with all tensors. */
ZN_API ZN_MUST_USE zn_status zn_weights_join(const char *in, const char *out, int convert, zn_dtype dtype);

/* Quantises the weights of Z-Image, of Qwen3, or of any other network: into a .gguf file with its matrices in one of
 * GGUF's types, or into a .safetensors file with matrices of MLX codes. Tensors get the names of published files: in
 * GGUF those with fused qkv (Z-Image) and llama.cpp's (Qwen3, whose tokenizer is included), in .safetensors those of
 * MLX. Norms and biases stay as exact as they were, and layers that suffer most get more bits than asked. */
typedef struct zn_quantisation {
    size_t size;             /* sizeof, see zn_options */
    zn_dtype dtype;          /* .gguf: ZN_F32, F16, BF16, Q8_0, Q4_0, Q4_K, Q5_K or Q6_K */
    int mlx_bits;            /* .safetensors: 4 or 8, in groups of 32; 0: .gguf */
    int threads;             /* 0: all CPUs */
    zn_progress_fn progress; /* may be NULL */
    void *user;
} zn_quantisation;
/* in: a file, an index.json of shards, or a folder with one of these. Needs little memory beside the mapped files. The
 * file appears whole or not at all. */
ZN_API ZN_MUST_USE zn_status zn_weights_quantise(const char *in, const char *out, const zn_quantisation *how);

/* Lower-case hex SHA-256 of a file's bytes. */
ZN_API ZN_MUST_USE zn_status zn_file_sha256(const char *path, char hex[65]);

#ifdef __cplusplus
}
#endif
#endif
