/* A video through a function of its images: read one by one, processed, and written as a video with the audio, the
 * times and the colours of the original. For the commands and the server.
 *
 *     film_pipe p = { .input = "in.mp4", .output = "out.mp4" };
 *     status = film_begin(&p);
 *     while (status == ZN_OK && (status = film_next(&p, &image)) == ZN_OK && image)
 *         status = film_put(&p, process(image));         // results come in order, also several images later
 *     status = film_end(&p, status);
 *     film_free(&p); */
#ifndef ZN_CLI_FILM_PIPE_H
#define ZN_CLI_FILM_PIPE_H

#include <zenith/zenith.h>

/* Called before an image, from 1, is processed. total: as far as known. Non-zero cancels. */
typedef int (*film_tell_fn)(void *user, int64_t number, int64_t total);

/* Calls `tell` with a sentence on each fault of the video called `name`. */
typedef void (*film_remark_fn)(void *user, const char *text);
void film_report_faults(const zn_film_faults *faults, const char *name, film_remark_fn tell, void *user);

typedef struct film_pipe {
    /* set by the caller */
    const char *input, *output; /* output NULL: the results are only measured */
    int measure;                /* compare results with their originals */
    int compare;                /* write original | result | difference */
    int strip;                  /* leave out title, date and the like */
    int scale;                  /* results are so many times as wide and high; 0: once */
    int lean;                   /* keep to film_bytes when writing */
    film_tell_fn tell;          /* may be NULL */
    void *user;
    /* figures, valid after film_end too */
    zn_film_info info;
    int64_t read, written;
    int width, height;        /* of the results */
    double mse, ssim;         /* sums over the results */
    double shortest, longest; /* seconds between images */
    zn_film_faults faults;
    char *left_out; /* streams that could not be copied; "" if none */
    /* its own */
    zn_film *film;
    zn_film_writer *writer;
    zn_image **waiting; /* originals whose results are to come, oldest first */
    int held, capacity;
} film_pipe;

zn_status film_begin(film_pipe *p);
/* The next image; NULL after the last. The pipe owns it until its result is put. */
zn_status film_next(film_pipe *p, const zn_image **out);
/* Whether a budget is for this machine's memory, and not for that of a GPU: then videos are written with less of it. */
int film_is_lean(size_t memory, const char *device);
/* Bytes that the pipe takes with results of this image, of which `waiting` are to come at a time: for a memory budget.
 */
size_t film_bytes(const film_pipe *p, const zn_image *image, int waiting);
/* The result of the oldest image that waits for one. Without such an image, the result is ignored. */
zn_status film_put(film_pipe *p, const zn_image *result);
/* All images to latents and back. each: clip_step of the model. */
zn_status film_code(film_pipe *p, zn_video *v, int each);
/* Completes the result, or removes it if status, which is returned, or the completion fails. A video without images is
 * ZN_EFORMAT. Frees what is the pipe's own. */
zn_status film_end(film_pipe *p, zn_status status);
/* Frees left_out. */
void film_free(film_pipe *p);

/* Images for each latent frame after the first. */
int clip_step(const zn_model_info *info);

#endif
