/* FFmpeg's libraries, opened at the first film, and what its readers and writers share. */
#include "io/video/ffmpeg.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <dlfcn.h>
#include <libavutil/error.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

zn_ffmpeg zn_ff;
static pthread_once_t opened = PTHREAD_ONCE_INIT;
static const char *missing; /* a library or a function of one; NULL: all is there */

/* A library of the version whose headers this was compiled with. */
#define LIBRARY(name, NAME) "lib" name ".so." AV_STRINGIFY(LIB##NAME##_VERSION_MAJOR)

/* It stays open until the program ends. */
static void *library(const char *name)
{
    void *at = missing ? NULL : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    missing = missing || at ? missing : name;
    return at;
}

static void find(void *from, const char *name, void *to)
{
    void *at = from ? dlsym(from, name) : NULL;
    missing = missing || at ? missing : name;
    memcpy(to, &at, sizeof at); /* C has no cast from data to functions */
}

static void open_all(void)
{
#define FIND(name) find(from, #name, &zn_ff.name);
    void *from = library(LIBRARY("avutil", AVUTIL));
    ZN_FFMPEG_AVUTIL(FIND)
    from = library(LIBRARY("avcodec", AVCODEC));
    ZN_FFMPEG_AVCODEC(FIND)
    from = library(LIBRARY("avformat", AVFORMAT));
    ZN_FFMPEG_AVFORMAT(FIND)
    from = library(LIBRARY("swscale", SWSCALE));
    ZN_FFMPEG_SWSCALE(FIND)
#undef FIND
    if (!missing)
        zn_ff.av_log_set_level(AV_LOG_QUIET);
}

zn_status zn_ffmpeg_open(void)
{
    pthread_once(&opened, open_all);
    return missing ? ZN_FAIL(ZN_EUNSUPPORTED, "video needs FFmpeg's libraries, and %s was not found; install ffmpeg",
                             missing)
                   : ZN_OK;
}

zn_status zn_ffmpeg_address(const char *path, char **out)
{
    const size_t capacity = strlen(path) + sizeof "file:";
    ZN_TRY(zn_alloc_for("the name of a video", capacity, (void **)out));
    snprintf(*out, capacity, "file:%s", path);
    return ZN_OK;
}

zn_status zn_ffmpeg_fail(const char *path, const char *what, int code)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    zn_ff.av_strerror(code, text, sizeof text);
    return ZN_FAIL(code == AVERROR(ENOMEM)   ? ZN_ENOMEM
                   : code == AVERROR(ENOENT) ? ZN_ENOTFOUND
                   : code == AVERROR(EIO)    ? ZN_EIO
                                             : ZN_EFORMAT,
                   "%s: cannot %s: %s", path, what, text);
}

/* FFmpeg goes by the content of a file, not by its name: playlists and lists of files, which make it open other files,
 * must not pass for videos. */
zn_status zn_ffmpeg_open_file(const char *path, AVFormatContext **out)
{
    AVDictionary *options = NULL;
    char *name;
    ZN_TRY(zn_ffmpeg_address(path, &name));
    zn_ff.av_dict_set(&options, "protocol_whitelist", "file", 0);
    zn_ff.av_dict_set(&options, "format_whitelist", "mov,matroska,avi,gif", 0);
    int code = zn_ff.avformat_open_input(out, name, NULL, &options);
    zn_ff.av_dict_free(&options);
    zn_free(name);
    if (code == AVERROR(EINVAL))
        return ZN_FAIL(ZN_EFORMAT, "%s: not an MP4, MOV, MKV, WebM, AVI or GIF video, whatever its name", path);
    if (code >= 0)
        code = zn_ff.avformat_find_stream_info(*out, NULL);
    if (code == AVERROR_INVALIDDATA || code == AVERROR_EOF)
        return ZN_FAIL(ZN_EFORMAT,
                       "%s: not a video that FFmpeg can read; the file is damaged, cut off or of another kind", path);
    return code < 0 ? zn_ffmpeg_fail(path, "read the video", code) : ZN_OK;
}

/* What the scaler calls a matrix; SWS_CS_DEFAULT, which is that of BT.601, if it does not know it. */
static int matrix_of(enum AVColorSpace colours)
{
    switch (colours) {
    case AVCOL_SPC_BT709:
        return SWS_CS_ITU709;
    case AVCOL_SPC_BT2020_NCL:
        return SWS_CS_BT2020;
    case AVCOL_SPC_SMPTE240M:
        return SWS_CS_SMPTE240M;
    case AVCOL_SPC_FCC:
        return SWS_CS_FCC;
    default:
        return SWS_CS_DEFAULT;
    }
}

enum AVColorSpace zn_ffmpeg_colours(enum AVColorSpace told, int height)
{
    if (told == AVCOL_SPC_BT470BG || told == AVCOL_SPC_SMPTE170M || matrix_of(told) != SWS_CS_DEFAULT)
        return told;
    return height >= 720 ? AVCOL_SPC_BT709 : AVCOL_SPC_SMPTE170M;
}

void zn_ffmpeg_use_colours(struct SwsContext *scaler, enum AVColorSpace colours, int full, int to_rgb)
{
    const int one = 1 << 16;
    const int *film = zn_ff.sws_getCoefficients(matrix_of(colours));
    const int *rgb = zn_ff.sws_getCoefficients(SWS_CS_DEFAULT);
    if (to_rgb)
        zn_ff.sws_setColorspaceDetails(scaler, film, full, rgb, 1, 0, one, one);
    else
        zn_ff.sws_setColorspaceDetails(scaler, rgb, 1, film, full, 0, one, one);
}
