/* zenith reconstruct, restore and upscale of a video. */
#ifndef ZN_CLI_FILM_H
#define ZN_CLI_FILM_H

#include "files/film_pipe.h"
#include "session/session.h"

/* Is one of the input files a video? */
int names_video(const options *o);
/* Refuses a video as the result of images, or of a pipe. Returns 0, or an exit status after reporting the error. */
int film_check_input(const options *o);
/* Refuses settings that only images have, when the result is a video. Returns 0, or an exit status after reporting the
 * error. */
int film_check_settings(const options *o);
/* zenith reconstruct of one video, by a video or an image autoencoder; zenith restore and upscale of one. */
int film_reconstruct(const options *o);
int film_restore(const options *o);
/* What is wrong with a video that was read. */
void remark_on_film(const options *o, const char *path, const zn_film_faults *faults);

#endif
