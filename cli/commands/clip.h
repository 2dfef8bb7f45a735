/* Clips in encode and decode: images as frames, latents of several frames. */
#ifndef ZN_CLI_CLIP_H
#define ZN_CLI_CLIP_H

#include "commands/batch.h"

/* zenith encode --clip: all images to one latent. b is how encode goes through files otherwise. */
int encode_clip_run(const options *o, const batch *b);

/* The images of a latent of several frames, as item->output with a number before its extension, or a video of that
 * name. As batch.work. */
zn_status decode_clip(session *s, const job *item, const zn_latent *latent, json *j, char *summary, size_t size);

/* "frames/clip_0001.png" of "frames/clip.png", in fresh memory. */
char *numbered(const char *path, int number);

#endif
