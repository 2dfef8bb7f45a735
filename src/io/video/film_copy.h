/* What lies beside the images of a video file: audio and subtitles, copied packet by packet, undecoded, and chapters.
 */
#ifndef ZN_FILM_COPY_H
#define ZN_FILM_COPY_H

#include "io/video/ffmpeg.h"

typedef struct zn_film_copy {
    AVFormatContext *source; /* NULL: nothing is copied */
    const char *path;
    AVPacket *packet;
    int streams;  /* at the beginning; what appears later is not copied */
    int *to;      /* by stream of the source: the stream of the result, or -1 */
    bool waiting; /* the packet is for later than the last call asked */
    bool ended;
    char left_out[160]; /* audio and subtitles that the result's container does not support, and other streams */
} zn_film_copy;

/* Adds streams for the audio and subtitles of the file to `out`, whose header is not written yet. images: the stream of
 * the file whose images are processed. The path is borrowed until zn_film_copy_end. */
ZN_MUST_USE zn_status zn_film_copy_begin(zn_film_copy *copy, const char *path, int images, AVFormatContext *out);
/* Those with times that FFmpeg writes, and their titles. Also before the header. */
ZN_MUST_USE zn_status zn_film_copy_chapters(const AVFormatContext *source, AVFormatContext *out);
/* Copies what comes before this time, in microseconds. INT64_MAX: all. */
ZN_MUST_USE zn_status zn_film_copy_until(zn_film_copy *copy, int64_t time, AVFormatContext *out);
void zn_film_copy_end(zn_film_copy *copy);

#endif
