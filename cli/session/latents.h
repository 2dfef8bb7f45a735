/* Latent files in encode and decode: scaling of their values (--scaling), packing of FLUX.2's (--packed), and files
 * with several latents (--batch). */
#ifndef ZN_CLI_LATENTS_H
#define ZN_CLI_LATENTS_H

#include "session/batch.h"

/* Extensions of latent files that can hold more than the latent of one image, and their names in messages. */
#define TENSOR_FILES      "safetensors npy latent"
#define TENSOR_FILE_NAMES ".safetensors, .npy or .latent"

/* scale_after_reading converts a latent to the scale that the session's model decodes, and unpacks it.
 * scale_for_writing converts it to the scale of the file `path`, and packs it if asked or if the file is ComfyUI's.
 * Both return non-zero after reporting an error. */
int scale_after_reading(const session *s, const char *path, zn_latent *latent);
int scale_for_writing(const session *s, const char *path, zn_latent *latent);

/* Writes latents of one size to the output of a job, in the format of its kind. */
zn_status write_latents(const job *item, const zn_latent *const *latents, int count);

/* Name of the single result of a command with many inputs: -o, or else the name of the folder. kind: "a clip", for
 * messages. Returns NULL after reporting an error. */
char *single_result(const options *o, const char *kind);
/* Runs one job that makes `output` from all inputs. Takes ownership of `output`. b: the batch that encode uses for
 * separate files. */
int run_single(const options *o, const batch *b, char *output,
               zn_status (*work)(session *s, const job *item, json *j, char *summary, size_t size));

/* zenith encode --batch: encodes all images to one file [N,C,H,W]. */
int encode_batch_run(const options *o, const batch *b);

#endif
