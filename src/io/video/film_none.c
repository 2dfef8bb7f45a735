/* Stands in for videos in a build without FFmpeg's libraries. */
#include <zenith/film.h>

#include "base/fail.h"

static zn_status missing(const char *path)
{
    return ZN_FAIL(ZN_EUNSUPPORTED,
                   "%s: video is not supported in this build; install libavformat-dev and libswscale-dev and rebuild",
                   path);
}

zn_status zn_film_check(const char *path)
{
    if (path)
        return missing(path);
    return ZN_FAIL(ZN_EUNSUPPORTED,
                   "video is not supported in this build; install libavformat-dev and libswscale-dev and rebuild");
}

zn_status zn_film_describe(const char *path, zn_film_info *out)
{
    *out = (zn_film_info){ 0 };
    return missing(path);
}

zn_status zn_film_open(const char *path, zn_film **out)
{
    *out = NULL;
    return missing(path);
}

void zn_film_keep_bits(zn_film *film) { (void)film; }

void zn_film_intervals(const zn_film *film, double *shortest, double *longest)
{
    (void)film;
    *shortest = *longest = 0;
}

void zn_film_find_faults(const zn_film *film, zn_film_faults *out)
{
    (void)film;
    *out = (zn_film_faults){ 0 };
}

zn_status zn_film_next(zn_film *film, zn_image **out)
{
    (void)film;
    *out = NULL;
    return missing("video");
}

void zn_film_close(zn_film *film) { (void)film; }

zn_status zn_film_create(const char *path, int width, int height, double rate, unsigned how, zn_film_writer **out)
{
    (void)width;
    (void)height;
    (void)rate;
    (void)how;
    *out = NULL;
    return missing(path);
}

zn_status zn_film_create_from(const char *path, const zn_film *source, int width, int height, unsigned how,
                              zn_film_writer **out)
{
    (void)source;
    (void)width;
    (void)height;
    (void)how;
    *out = NULL;
    return missing(path);
}

size_t zn_film_bytes(const zn_film *film, int width, int height, int bits)
{
    (void)film;
    (void)width;
    (void)height;
    (void)bits;
    return 0;
}

const char *zn_film_left_out(const zn_film_writer *writer)
{
    (void)writer;
    return "";
}

zn_status zn_film_write(zn_film_writer *writer, const zn_image *picture)
{
    (void)writer;
    (void)picture;
    return missing("video");
}

zn_status zn_film_finish(zn_film_writer *writer)
{
    (void)writer;
    return missing("video");
}

void zn_film_drop(zn_film_writer *writer) { (void)writer; }
