/* Films: .mp4, .mkv, .webm and what else FFmpeg's libraries know, where the library was built with them; otherwise
 * every call fails with ZN_EUNSUPPORTED.
 *
 *     zn_film *f; zn_image *picture;
 *     zn_film_open("film.mp4", &f);
 *     while (zn_film_next(f, &picture) == ZN_OK && picture) {
 *         ...
 *         zn_image_free(picture);
 *     }
 *     zn_film_close(f);
 *
 * Pictures alone: sound is neither read nor written. */
#ifndef ZN_FILM_H
#define ZN_FILM_H

#include <zenith/image.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_film zn_film;

/* ZN_OK if videos can be read, and ones called `path` written (NULL: only read), so that a program can say no before it
 * works for minutes: FFmpeg's libraries are there, and they know the extension and have an encoder for it. */
ZN_API ZN_MUST_USE zn_status zn_film_check(const char *path);

typedef struct zn_film_info {
    char codec[32]; /* "h264" */
    int width, height;
    int64_t frames;
    double rate; /* frames per second; 0 if unknown */
} zn_film_info;

/* What a video is. Frames are counted, without decoding them, where the file does not tell. */
ZN_API ZN_MUST_USE zn_status zn_film_describe(const char *path, zn_film_info *out);

ZN_API ZN_MUST_USE zn_status zn_film_open(const char *path, zn_film **out);
/* The next picture, 8 bits, the caller's; NULL behind the last. */
ZN_API ZN_MUST_USE zn_status zn_film_next(zn_film *film, zn_image **out);
ZN_API void zn_film_close(zn_film *film);

typedef struct zn_film_writer zn_film_writer;

/* The extension says the kind of film; H.264 of high quality where there is a choice. Pictures have 8 bits and this
 * size, an odd side gets a line more. rate: pictures a second. */
ZN_API ZN_MUST_USE zn_status zn_film_create(const char *path, int width, int height, double rate, zn_film_writer **out);
ZN_API ZN_MUST_USE zn_status zn_film_write(zn_film_writer *writer, const zn_image *picture);
/* The film is there under its name, whole, from now on; the writer is gone, also on failure. */
ZN_API ZN_MUST_USE zn_status zn_film_finish(zn_film_writer *writer);
/* Gives up: nothing is left. NULL is fine. */
ZN_API void zn_film_drop(zn_film_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
