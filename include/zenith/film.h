/* Video files: .mp4, .mkv, .webm and others that FFmpeg's libraries support, if the library was built with them;
 * otherwise every call fails with ZN_EUNSUPPORTED.
 *
 *     zn_film *f; zn_image *image;
 *     zn_film_open("film.mp4", &f);
 *     while (zn_film_next(f, &image) == ZN_OK && image) {
 *         ...
 *         zn_image_free(image);
 *     }
 *     zn_film_close(f);
 *
 * Audio is neither read nor written. */
#ifndef ZN_FILM_H
#define ZN_FILM_H

#include <zenith/image.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_film zn_film;

/* ZN_OK if videos can be read, and ones called `path` written (NULL: only read), so that a program can refuse before
 * minutes of work: FFmpeg's libraries are present, support the extension and have an encoder for it. */
ZN_API ZN_MUST_USE zn_status zn_film_check(const char *path);

typedef struct zn_film_info {
    char codec[32]; /* "h264" */
    int width, height;
    int64_t frames;
    double rate; /* frames per second; 0 if unknown */
} zn_film_info;

/* Describes a video. Frames are counted, without decoding, if the file does not state their number. */
ZN_API ZN_MUST_USE zn_status zn_film_describe(const char *path, zn_film_info *out);

ZN_API ZN_MUST_USE zn_status zn_film_open(const char *path, zn_film **out);
/* The next image, 8 bits, owned by the caller; NULL after the last. */
ZN_API ZN_MUST_USE zn_status zn_film_next(zn_film *film, zn_image **out);
ZN_API void zn_film_close(zn_film *film);

typedef struct zn_film_writer zn_film_writer;

/* The extension selects the container; the codec is H.264 at high quality where possible. Images have 8 bits and this
 * size; odd sides are padded by one line. rate: images per second. */
ZN_API ZN_MUST_USE zn_status zn_film_create(const char *path, int width, int height, double rate, zn_film_writer **out);
ZN_API ZN_MUST_USE zn_status zn_film_write(zn_film_writer *writer, const zn_image *picture);
/* Completes the file, which appears under its name now. Frees the writer, also on failure. */
ZN_API ZN_MUST_USE zn_status zn_film_finish(zn_film_writer *writer);
/* Discards the file and frees the writer. NULL is allowed. */
ZN_API void zn_film_drop(zn_film_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
