/* Video in encode and decode: images as frames, latents with several frames. */
#ifndef ZN_CLI_CLIP_H
#define ZN_CLI_CLIP_H

#include "session/batch.h"

/* zenith encode --clip: encodes all images to one latent. b: the batch that encode uses for separate files. */
int encode_clip_run(const options *o, const batch *b);

/* Decodes a latent with several frames. Writes images named like item->output with a number before the extension, or a
 * video with that name. Contract as batch.work. */
zn_status decode_clip(session *s, const job *item, const zn_latent *latent, json *j, char *summary, size_t size);

/* A handle for videos. With a budget of memory the model's weights stay in its files: there are no copies of them
 * beside the prepared ones. */
zn_status new_video(session *s, const zn_options *compute, zn_video **out);

/* "frames/clip_0001.png" for "frames/clip.png", in newly allocated memory. */
char *numbered(const char *path, int number);

#endif
