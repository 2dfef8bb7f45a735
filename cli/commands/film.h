/* A video through a function of its images: read one by one, processed, and written as a video with the audio, the
 * times and the colours of the original.
 *
 *     film_pipe p;
 *     status = film_begin(&p, s, "in.mp4", "out.mp4");
 *     while (status == ZN_OK && (status = film_next(&p, &image)) == ZN_OK && image)
 *         status = film_put(&p, process(image));         // results come in order, also several images later
 *     status = film_end(&p, status); */
#ifndef ZN_CLI_FILM_H
#define ZN_CLI_FILM_H

#include "commands/session.h"

typedef struct film_pipe {
    session *s;
    const char *input, *output; /* output NULL: the results are only measured */
    int measure;                /* compare results with their originals */
    zn_film *film;
    zn_film_writer *writer;
    zn_film_info info;
    zn_image **waiting; /* originals whose results are to come, oldest first */
    int held, capacity;
    int64_t read, written;
    int width, height; /* of the results */
    double mse, ssim;  /* sums over the results */
    double started, ms;
    char *left_out; /* streams that could not be copied; "" if none */
} film_pipe;

/* Is one of the input files a video? */
int names_video(const options *o);
/* Refuses what cannot work before anything is opened: the name of the result, or FFmpeg missing. Returns 0, or an exit
 * status after reporting the error. */
int film_check(const options *o);

zn_status film_begin(film_pipe *p, session *s, const char *input, const char *output);
/* The next image; NULL after the last. The pipe owns it until its result is put. */
zn_status film_next(film_pipe *p, const zn_image **out);
/* The result of the oldest image that waits for one. Without such an image, the result is ignored. */
zn_status film_put(film_pipe *p, const zn_image *result);
/* Completes the result, or removes it if status, which is returned, or the completion fails. Frees the pipe's memory
 * but for the figures. Prints remarks on what could not be kept. */
zn_status film_end(film_pipe *p, zn_status status);
/* Frees left_out. */
void film_free(film_pipe *p);

/* zenith reconstruct of one video, by a video or an image autoencoder; zenith restore and upscale of one. */
int film_reconstruct(const options *o);
int film_restore(const options *o);

#endif
