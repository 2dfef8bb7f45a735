/* Writes .safetensors files. The file appears whole or not at all.
 *
 *     const zn_weight t = { .name = "latent", .dtype = ZN_F32, .rank = 4, .shape = { 1, 4, 64, 64 }, .data = z };
 *     const zn_metadata m[] = { { "format", "zenith-latent" } };
 *     ZN_TRY(zn_safetensors_write("z.safetensors", &t, 1, m, 1)); */
#ifndef ZN_WRITER_H
#define ZN_WRITER_H

#include "base/file.h"
#include "io/weights/reader.h"

/* Data lies in the order given; `bytes` of each tensor is not used: shape and dtype say how many there are. */
ZN_MUST_USE zn_status zn_safetensors_write(const char *path, const zn_weight *tensors, int64_t count,
                                           const zn_metadata *metadata, int64_t metadata_count);

/* The same with the data streamed: opens the file and writes the header; the caller writes the bytes of every tensor in
 * order with zn_outfile_write and commits. `data` of the tensors is not used. On failure there is nothing to abandon.
 */
ZN_MUST_USE zn_status zn_safetensors_begin(zn_outfile *out, const char *path, const zn_weight *tensors, int64_t count,
                                           const zn_metadata *metadata, int64_t metadata_count);

#endif
