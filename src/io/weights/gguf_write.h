/* Writes GGUF files (version 3). The file appears whole or not at all.
 *
 *     zn_gguf_keys keys = { 0 };
 *     zn_gguf_key_text(&keys, "general.architecture", "qwen3");
 *     ZN_TRY(zn_gguf_begin(&out, "x.gguf", tensors, count, &keys));     // the caller frees keys.bytes in any case
 *     for each tensor: zn_outfile_write its bytes, zn_gguf_pad
 *     ZN_TRY(zn_outfile_commit(&out)); */
#ifndef ZN_GGUF_WRITE_H
#define ZN_GGUF_WRITE_H

#include "base/file.h"
#include "base/json.h"
#include "io/weights/reader.h"

typedef struct zn_gguf_keys {
    zn_json_out bytes; /* zn_json_out_free */
    uint64_t count;
} zn_gguf_keys;

void zn_gguf_key_text(zn_gguf_keys *k, const char *key, const char *text);
void zn_gguf_key_u32(zn_gguf_keys *k, const char *key, uint32_t value);
void zn_gguf_key_f32(zn_gguf_keys *k, const char *key, float value);
void zn_gguf_key_bool(zn_gguf_keys *k, const char *key, bool value);
/* A value of another file. */
void zn_gguf_key_copy(zn_gguf_keys *k, const zn_gguf_value *value);
/* The caller appends count elements: i32 as they are, strings with zn_gguf_string. */
void zn_gguf_key_array(zn_gguf_keys *k, const char *key, uint32_t type, uint64_t count);
void zn_gguf_string(zn_gguf_keys *k, const char *text, size_t size);

/* The tensors' data follows in the order given, each padded; `data` of the tensors is not used. On failure there is
 * nothing to abandon. */
ZN_MUST_USE zn_status zn_gguf_begin(zn_outfile *out, const char *path, const zn_weight *tensors, int64_t count,
                                    const zn_gguf_keys *keys);
/* Pads after a tensor of this size. */
void zn_gguf_pad(zn_outfile *out, size_t bytes);

#endif
