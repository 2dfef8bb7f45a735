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
 * Audio and subtitles are not decoded; zn_film_create_from copies them from one file to another. */
#ifndef ZN_FILM_H
#define ZN_FILM_H

#include <zenith/image.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_film zn_film;

/* ZN_OK if videos can be read and, unless path is NULL, a video of this name can be written: FFmpeg's libraries are
 * present, support the extension and have an encoder for it. So a program can refuse before minutes of work. */
ZN_API ZN_MUST_USE zn_status zn_film_check(const char *path);

typedef struct zn_film_info {
    char codec[32];    /* "h264" */
    int width, height; /* upright: after the rotation that the file asks for */
    int64_t frames;
    double rate;  /* frames per second, on average; 0 if unknown */
    int bits;     /* per sample: 8, 10, 12 */
    int rotation; /* degrees clockwise that the file asks for: 0, 90, 180, 270 */
    int audio;    /* number of audio streams */
} zn_film_info;

/* Describes a video. Frames are counted, without decoding, if the file does not state their number. */
ZN_API ZN_MUST_USE zn_status zn_film_describe(const char *path, zn_film_info *out);

ZN_API ZN_MUST_USE zn_status zn_film_open(const char *path, zn_film **out);
/* From now on, images of videos with more than 8 bits per sample have 16; without this call they have 8. */
ZN_API void zn_film_keep_bits(zn_film *film);
/* The next image, upright, owned by the caller; NULL after the last. A video that has frames of which none can be
 * decoded is ZN_EFORMAT. */
ZN_API ZN_MUST_USE zn_status zn_film_next(zn_film *film, zn_image **out);
/* Shortest and longest time in seconds between two images, of those read so far; both 0 before the second. A steady
 * rate differs by the rounding of the file's clock at most. */
ZN_API void zn_film_intervals(const zn_film *film, double *shortest, double *longest);

typedef struct zn_film_faults {
    int64_t lost;       /* packets that could not be decoded and gave no image; most packets are one frame */
    int64_t damaged;    /* images that were decoded with errors, of which parts are guesses */
    int64_t interlaced; /* images of two fields, each with every second line, that follow one another in time */
    /* Seconds by which the file ends before the duration that it states; known after the last image. 0 if it states
     * none, and if they are less than 0.2, or less than both 1 and a quarter of the duration: the file may not say how
     * long its last image is shown. */
    double missing;
} zn_film_faults;

/* Faults of the video as far as it has been read. */
ZN_API void zn_film_find_faults(const zn_film *film, zn_film_faults *out);

ZN_API void zn_film_close(zn_film *film);

typedef struct zn_film_writer zn_film_writer;

enum {
    ZN_FILM_METADATA = 1, /* copy title, date, chapters and the like */
    ZN_FILM_LEAN = 2      /* the encoder has one thread and looks five images ahead: a third of the memory of H.264 */
};

/* The extension selects the container; the codec is H.264 at high quality where possible. Images have this size; odd
 * sides are padded by one line. rate: images per second. how: ZN_FILM_LEAN or 0. */
ZN_API ZN_MUST_USE zn_status zn_film_create(const char *path, int width, int height, double rate, unsigned how,
                                            zn_film_writer **out);
/* Creates a video of processed images of `source`, which stays open until the writer is freed: image i is shown at the
 * time of image i of the source. Colour matrix, range, primaries and transfer curve, the shape of pixels, and more than
 * 8 bits per sample where the encoder supports them, are those of the source, and so is what it states of the
 * brightness of HDR. Audio and subtitles are copied as they are. how: of ZN_FILM_METADATA and ZN_FILM_LEAN. */
ZN_API ZN_MUST_USE zn_status zn_film_create_from(const char *path, const zn_film *source, int width, int height,
                                                 unsigned how, zn_film_writer **out);
/* About the most bytes that FFmpeg takes, for a memory budget: its libraries, what reads `film` (NULL: nothing), of
 * which an image has been read, and a ZN_FILM_LEAN writer of images of this size (0: none) and so many bits. */
ZN_API size_t zn_film_bytes(const zn_film *film, int width, int height, int bits);
/* What zn_film_create_from did not copy: audio and subtitles that the container does not support, and all streams of
 * other kinds: "audio (pcm_s16le), cover art (png)", or "". Valid until the writer is freed. */
ZN_API const char *zn_film_left_out(const zn_film_writer *writer);
/* Adds an image of 8 or 16 bits. */
ZN_API ZN_MUST_USE zn_status zn_film_write(zn_film_writer *writer, const zn_image *image);
/* Completes the file, which appears under its name only now. Frees the writer, also on failure. */
ZN_API ZN_MUST_USE zn_status zn_film_finish(zn_film_writer *writer);
/* Discards the file and frees the writer. NULL is allowed. */
ZN_API void zn_film_drop(zn_film_writer *writer);

#ifdef __cplusplus
}
#endif
#endif
