/* What encode and decode know of latent files beyond single latents: the scale of their numbers (--scaling), and files
 * of several (--batch). */
#ifndef ZN_CLI_LATENTS_H
#define ZN_CLI_LATENTS_H

#include "commands/batch.h"

/* Extensions of latent files that hold more than an image's latent, and the same for messages. */
#define TENSOR_FILES      "safetensors npy latent"
#define TENSOR_FILE_NAMES ".safetensors, .npy or .latent"

/* A latent that was read becomes what the session's model decodes; one that is to be written becomes what the file
 * called `path` holds. Non-zero after saying what is wrong. */
int scale_after_reading(const session *s, const char *path, zn_latent *latent);
int scale_for_writing(const session *s, const char *path, zn_latent *latent);

/* What the only result of a command over many inputs is called: -o, or else the name of the folder. kind: "a clip", for
 * messages. NULL after saying what is wrong. */
char *single_result(const options *o, const char *kind);
/* One job that makes `output`, which becomes the job's, of all inputs; b is how encode goes through files otherwise. */
int run_single(const options *o, const batch *b, char *output,
               zn_status (*work)(session *s, const job *item, json *j, char *summary, size_t size));

/* zenith encode --batch: all images to one file [N,C,H,W]. */
int encode_batch_run(const options *o, const batch *b);

#endif
