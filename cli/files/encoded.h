/* Frames of a file encoded to a video's latent, and what is reported of latents: for the commands and the server. */
#ifndef ZN_CLI_ENCODED_H
#define ZN_CLI_ENCODED_H

#include "files/film_pipe.h"
#include "ui/json.h"

/* Called before each frame of a file, with its number from 0. */
typedef void (*frame_fn)(void *user, int number);

/* Adds the frames of a video file, or of an image, which may be animated, to *clip (zn_video_encode), and their number
 * to *count. tell and faults may be NULL. */
zn_status encode_frames(zn_video *v, const char *path, const zn_image_read_options *reading, zn_latent **clip,
                        int *count, frame_fn tell, void *user, zn_film_faults *faults);

/* Members of a JSON object: sizes of the image and of its latent, and the time. */
void json_encoded(json *j, const zn_latent *latent, double encode_ms);

#endif
