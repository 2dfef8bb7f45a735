/* Pictures to films through FFmpeg. The film grows under another name beside its own and is renamed when it is whole.
 */
#include <zenith/film.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "io/video/ffmpeg.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_RATE = 1000, RATE_PARTS = 60000 };

struct zn_film_writer {
    char *path, *growing;
    AVFormatContext *format;
    AVCodecContext *encoder;
    AVStream *stream;
    AVPacket *packet;
    AVFrame *rgb, *yuv; /* of even sides */
    struct SwsContext *scaler;
    int width, height;
    int64_t count;
    bool begun; /* the file is there */
};

void zn_film_drop(zn_film_writer *w)
{
    if (!w)
        return;
    zn_ff.sws_freeContext(w->scaler);
    zn_ff.av_frame_free(&w->rgb);
    zn_ff.av_frame_free(&w->yuv);
    zn_ff.av_packet_free(&w->packet);
    zn_ff.avcodec_free_context(&w->encoder);
    if (w->format && w->format->pb)
        zn_ff.avio_closep(&w->format->pb);
    zn_ff.avformat_free_context(w->format);
    if (w->begun)
        unlink(w->growing);
    zn_free(w->path);
    zn_free(w->growing);
    zn_free(w);
}

/* The kind of film that the name says, and an encoder that it can hold. */
static zn_status choose(const char *path, const AVOutputFormat **kind, const AVCodec **codec)
{
    *kind = zn_ff.av_guess_format(NULL, path, NULL);
    if (!*kind || (*kind)->video_codec == AV_CODEC_ID_NONE)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: not the name of a video that FFmpeg can write", path);
    *codec = zn_ff.avcodec_find_encoder((*kind)->video_codec);
    if (!*codec && zn_ff.avformat_query_codec(*kind, AV_CODEC_ID_MPEG4, FF_COMPLIANCE_NORMAL) == 1)
        *codec = zn_ff.avcodec_find_encoder(AV_CODEC_ID_MPEG4);
    return *codec ? ZN_OK : ZN_FAIL(ZN_EUNSUPPORTED, "%s: FFmpeg has no encoder for such videos", path);
}

zn_status zn_film_check(const char *path)
{
    const AVOutputFormat *kind;
    const AVCodec *codec;
    ZN_TRY(zn_ffmpeg_open());
    return path ? choose(path, &kind, &codec) : ZN_OK;
}

static zn_status make_format(zn_film_writer *w, const AVOutputFormat *kind)
{
    const int code = zn_ff.avformat_alloc_output_context2(&w->format, kind, NULL, w->growing);
    return code < 0 ? zn_ffmpeg_fail(w->path, "make the video", code) : ZN_OK;
}

static AVFrame *frame_of(enum AVPixelFormat pixels, int width, int height)
{
    AVFrame *f = zn_ff.av_frame_alloc();
    if (!f)
        return NULL;
    f->format = pixels;
    f->width = width;
    f->height = height;
    if (zn_ff.av_frame_get_buffer(f, 0) < 0)
        zn_ff.av_frame_free(&f);
    return f;
}

static zn_status open_encoder(zn_film_writer *w, const AVCodec *codec, double rate)
{
    AVCodecContext *e = w->encoder = zn_ff.avcodec_alloc_context3(codec);
    w->packet = zn_ff.av_packet_alloc();
    w->stream = zn_ff.avformat_new_stream(w->format, codec);
    if (!e || !w->packet || !w->stream)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a video");
    e->width = (w->width + 1) & ~1;
    e->height = (w->height + 1) & ~1;
    e->framerate = zn_ff.av_d2q(rate, RATE_PARTS);
    e->time_base = av_inv_q(e->framerate);
    e->pix_fmt = AV_PIX_FMT_YUV420P;
    e->color_range = AVCOL_RANGE_MPEG;
    e->colorspace = zn_ffmpeg_colours(AVCOL_SPC_UNSPECIFIED, w->height);
    e->flags |=
        AV_CODEC_FLAG_QSCALE | (w->format->oformat->flags & AVFMT_GLOBALHEADER ? AV_CODEC_FLAG_GLOBAL_HEADER : 0);
    e->global_quality = 3 * FF_QP2LAMBDA; /* of encoders that know no crf */
    if (e->priv_data)
        zn_ff.av_opt_set(e->priv_data, "crf", "16", 0);
    int code = zn_ff.avcodec_open2(e, codec, NULL);
    if (code >= 0)
        code = zn_ff.avcodec_parameters_from_context(w->stream->codecpar, e);
    w->stream->time_base = e->time_base;
    w->stream->avg_frame_rate = e->framerate;
    if (code < 0)
        return zn_ffmpeg_fail(w->path, "encode such a video", code);
    w->rgb = frame_of(AV_PIX_FMT_RGB24, e->width, e->height);
    w->yuv = frame_of(e->pix_fmt, e->width, e->height);
    w->scaler = zn_ff.sws_getContext(e->width, e->height, AV_PIX_FMT_RGB24, e->width, e->height, e->pix_fmt,
                                     SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP, NULL, NULL, NULL);
    if (!w->rgb || !w->yuv || !w->scaler)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a video");
    zn_ffmpeg_use_colours(w->scaler, e->colorspace, 0, 0);
    return ZN_OK;
}

static zn_status begin(zn_film_writer *w)
{
    char *name;
    ZN_TRY(zn_ffmpeg_address(w->growing, &name));
    int code = zn_ff.avio_open(&w->format->pb, name, AVIO_FLAG_WRITE);
    zn_free(name);
    w->begun = code >= 0;
    if (code >= 0)
        code = zn_ff.avformat_write_header(w->format, NULL);
    return code < 0 ? zn_ffmpeg_fail(w->path, "write the video", code) : ZN_OK;
}

static zn_status name_files(zn_film_writer *w, const char *path)
{
    const size_t capacity = strlen(path) + 32;
    w->path = zn_strdup(path);
    w->growing = zn_alloc(capacity);
    if (!w->path || !w->growing)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a video");
    snprintf(w->growing, capacity, "%s.%ld.part", path, (long)getpid());
    return ZN_OK;
}

zn_status zn_film_create(const char *path, int width, int height, double rate, zn_film_writer **out)
{
    const AVOutputFormat *kind = NULL;
    const AVCodec *codec = NULL;
    *out = NULL;
    if (width < 1 || height < 1 || (int64_t)width * height > ZN_FILM_MAX_PIXELS || !(rate > 0 && rate <= MOST_RATE))
        return ZN_FAIL(ZN_EINVALID, "%s: a video of %dx%d with %g frames per second", path, width, height, rate);
    ZN_TRY(zn_ffmpeg_open());
    zn_film_writer *w = zn_calloc(1, sizeof *w);
    if (!w)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a video");
    w->width = width;
    w->height = height;
    zn_status status = name_files(w, path);
    if (status == ZN_OK)
        status = choose(path, &kind, &codec);
    if (status == ZN_OK)
        status = make_format(w, kind);
    if (status == ZN_OK)
        status = open_encoder(w, codec, rate);
    if (status == ZN_OK)
        status = begin(w);
    if (status == ZN_OK)
        *out = w;
    else
        zn_film_drop(w);
    return status;
}

/* A frame to the encoder (NULL: the end), and what it has ready to the file. */
static zn_status encode(zn_film_writer *w, const AVFrame *frame)
{
    int code = zn_ff.avcodec_send_frame(w->encoder, frame);
    while (code >= 0) {
        code = zn_ff.avcodec_receive_packet(w->encoder, w->packet);
        if (code == AVERROR(EAGAIN) || code == AVERROR_EOF)
            return ZN_OK;
        if (code < 0)
            break;
        zn_ff.av_packet_rescale_ts(w->packet, w->encoder->time_base, w->stream->time_base);
        w->packet->stream_index = w->stream->index;
        code = zn_ff.av_interleaved_write_frame(w->format, w->packet);
    }
    return zn_ffmpeg_fail(w->path, "write the video", code);
}

zn_status zn_film_write(zn_film_writer *w, const zn_image *picture)
{
    if (picture->width != w->width || picture->height != w->height || picture->bits != 8)
        return ZN_FAIL(ZN_ESHAPE, "%s: an image of %dx%d with %d bits in a video of %dx%d with 8", w->path,
                       picture->width, picture->height, picture->bits, w->width, w->height);
    const size_t bytes = 3 * (size_t)w->width;
    for (int y = 0; y < w->rgb->height; y++) {
        uint8_t *row = w->rgb->data[0] + (ptrdiff_t)y * w->rgb->linesize[0];
        memcpy(row, (const uint8_t *)picture->pixels + (size_t)(y < w->height ? y : w->height - 1) * bytes, bytes);
        if (w->rgb->width > w->width)
            memcpy(row + bytes, row + bytes - 3, 3);
    }
    int code = zn_ff.av_frame_make_writable(w->yuv); /* the encoder may still look at the last one */
    if (code >= 0)
        code = zn_ff.sws_scale(w->scaler, (const uint8_t *const *)w->rgb->data, w->rgb->linesize, 0, w->rgb->height,
                               w->yuv->data, w->yuv->linesize);
    if (code < 0)
        return zn_ffmpeg_fail(w->path, "convert an image to the colours of the video", code);
    w->yuv->pts = w->count++;
    return encode(w, w->yuv);
}

zn_status zn_film_finish(zn_film_writer *w)
{
    zn_status status = encode(w, NULL);
    int code = status == ZN_OK ? zn_ff.av_write_trailer(w->format) : 0;
    if (code >= 0 && status == ZN_OK)
        code = zn_ff.avio_closep(&w->format->pb);
    if (code < 0)
        status = zn_ffmpeg_fail(w->path, "end the video", code);
    if (status == ZN_OK && rename(w->growing, w->path) != 0)
        status = ZN_FAIL(ZN_EIO, "%s: cannot put the video there: %s", w->path, strerror(errno));
    w->begun &= status != ZN_OK;
    zn_film_drop(w);
    return status;
}
