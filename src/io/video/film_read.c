/* Films to pictures through FFmpeg. Only the file itself is opened: a film may name other places, which are not gone
 * to.
 */
#include <zenith/film.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/pixels/pixels.h"
#include "io/video/ffmpeg.h"

#include <stdio.h>
#include <string.h>

struct zn_film {
    char *path;
    AVFormatContext *format;
    AVCodecContext *decoder;
    AVPacket *packet;
    AVFrame *frame;
    struct SwsContext *scaler;
    uint8_t *rows; /* RGB with rows as long as the scaler likes them */
    int row_bytes, width, height;
    int stream;
    bool ended; /* the decoder knows that no more comes */
};

void zn_film_close(zn_film *f)
{
    if (!f)
        return;
    zn_ff.av_freep(&f->rows);
    zn_ff.sws_freeContext(f->scaler);
    zn_ff.av_frame_free(&f->frame);
    zn_ff.av_packet_free(&f->packet);
    zn_ff.avcodec_free_context(&f->decoder);
    zn_ff.avformat_close_input(&f->format);
    zn_free(f->path);
    zn_free(f);
}

static zn_status open_file(zn_film *f)
{
    AVDictionary *options = NULL;
    char *name;
    ZN_TRY(zn_ffmpeg_address(f->path, &name));
    zn_ff.av_dict_set(&options, "protocol_whitelist", "file", 0);
    int code = zn_ff.avformat_open_input(&f->format, name, NULL, &options);
    zn_ff.av_dict_free(&options);
    zn_free(name);
    if (code >= 0)
        code = zn_ff.avformat_find_stream_info(f->format, NULL);
    return code < 0 ? zn_ffmpeg_fail(f->path, "read the video", code) : ZN_OK;
}

static zn_status open_decoder(zn_film *f)
{
    const AVCodec *codec = NULL;
    f->stream = zn_ff.av_find_best_stream(f->format, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
    if (f->stream < 0)
        return zn_ffmpeg_fail(f->path, "find images in it", f->stream);
    f->decoder = zn_ff.avcodec_alloc_context3(codec);
    f->packet = zn_ff.av_packet_alloc();
    f->frame = zn_ff.av_frame_alloc();
    if (!f->decoder || !f->packet || !f->frame)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a video");
    int code = zn_ff.avcodec_parameters_to_context(f->decoder, f->format->streams[f->stream]->codecpar);
    f->decoder->max_pixels = ZN_FILM_MAX_PIXELS;
    if (code >= 0)
        code = zn_ff.avcodec_open2(f->decoder, codec, NULL);
    return code < 0 ? zn_ffmpeg_fail(f->path, "decode the video", code) : ZN_OK;
}

zn_status zn_film_open(const char *path, zn_film **out)
{
    *out = NULL;
    ZN_TRY(zn_ffmpeg_open());
    zn_film *f = zn_calloc(1, sizeof *f);
    zn_status status = f && (f->path = zn_strdup(path)) ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a video");
    if (status == ZN_OK)
        status = open_file(f);
    if (status == ZN_OK)
        status = open_decoder(f);
    if (status == ZN_OK)
        *out = f;
    else
        zn_film_close(f);
    return status;
}

/* Frames of the video by its packets: each holds one. The film is at its end then. */
static zn_status count_frames(zn_film *f, int64_t *count)
{
    int code;
    for (*count = 0; (code = zn_ff.av_read_frame(f->format, f->packet)) >= 0; zn_ff.av_packet_unref(f->packet))
        *count += f->packet->stream_index == f->stream;
    return code == AVERROR_EOF ? ZN_OK : zn_ffmpeg_fail(f->path, "count its frames", code);
}

zn_status zn_film_describe(const char *path, zn_film_info *out)
{
    zn_film *f;
    *out = (zn_film_info){ 0 };
    ZN_TRY(zn_film_open(path, &f));
    const AVStream *s = f->format->streams[f->stream];
    snprintf(out->codec, sizeof out->codec, "%s", zn_ff.avcodec_get_name(s->codecpar->codec_id));
    out->width = s->codecpar->width;
    out->height = s->codecpar->height;
    out->rate = s->avg_frame_rate.den ? av_q2d(s->avg_frame_rate) : 0;
    out->frames = s->nb_frames;
    const zn_status status = out->frames > 0 ? ZN_OK : count_frames(f, &out->frames);
    zn_film_close(f);
    return status;
}

/* One packet of the film to its decoder. */
static int feed(zn_film *f)
{
    for (;;) {
        int code = zn_ff.av_read_frame(f->format, f->packet);
        if (code == AVERROR_EOF) {
            f->ended = true;
            return zn_ff.avcodec_send_packet(f->decoder, NULL);
        }
        if (code < 0)
            return code;
        const bool ours = f->packet->stream_index == f->stream;
        if (ours)
            code = zn_ff.avcodec_send_packet(f->decoder, f->packet);
        zn_ff.av_packet_unref(f->packet);
        if (ours || code < 0)
            return code;
    }
}

/* Room for RGB of the frame's size. */
static zn_status make_rows(zn_film *f)
{
    if (f->rows && f->width == f->frame->width && f->height == f->frame->height)
        return ZN_OK;
    zn_ff.av_freep(&f->rows);
    f->width = f->frame->width;
    f->height = f->frame->height;
    f->row_bytes = (3 * f->width + 63) / 64 * 64;
    f->rows = zn_ff.av_malloc((size_t)f->row_bytes * (size_t)f->height + 64);
    return f->rows ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a frame of a video");
}

static zn_status convert(zn_film *f, zn_image *image)
{
    const AVFrame *in = f->frame;
    ZN_TRY(make_rows(f));
    f->scaler = zn_ff.sws_getCachedContext(f->scaler, in->width, in->height, (enum AVPixelFormat)in->format, in->width,
                                           in->height, AV_PIX_FMT_RGB24,
                                           SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT, NULL, NULL, NULL);
    if (!f->scaler)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: its colours cannot be turned into RGB", f->path);
    zn_ffmpeg_use_colours(f->scaler, zn_ffmpeg_colours(in->colorspace, in->height), in->color_range == AVCOL_RANGE_JPEG,
                          1);
    uint8_t *rows[4] = { f->rows };
    const int strides[4] = { f->row_bytes };
    const int code =
        zn_ff.sws_scale(f->scaler, (const uint8_t *const *)in->data, in->linesize, 0, in->height, rows, strides);
    if (code < 0)
        return zn_ffmpeg_fail(f->path, "convert a frame to RGB", code);
    for (int y = 0; y < in->height; y++)
        memcpy((uint8_t *)image->pixels + (size_t)y * 3 * (size_t)in->width, f->rows + (size_t)y * (size_t)f->row_bytes,
               3 * (size_t)in->width);
    return ZN_OK;
}

zn_status zn_film_next(zn_film *f, zn_image **out)
{
    *out = NULL;
    int code;
    while ((code = zn_ff.avcodec_receive_frame(f->decoder, f->frame)) == AVERROR(EAGAIN) && !f->ended) {
        code = feed(f);
        if (code < 0 && code != AVERROR_EOF)
            return zn_ffmpeg_fail(f->path, "read more of the video", code);
    }
    if (code == AVERROR_EOF || code == AVERROR(EAGAIN))
        return ZN_OK;
    if (code < 0)
        return zn_ffmpeg_fail(f->path, "decode a frame of the video", code);
    zn_image *image;
    zn_status status = zn_image_new(f->frame->width, f->frame->height, 8, &image);
    if (status == ZN_OK)
        status = convert(f, image);
    zn_ff.av_frame_unref(f->frame);
    if (status == ZN_OK) {
        image->grey = zn_pixels_are_grey(image, 0);
        *out = image;
    } else {
        zn_image_free(image);
    }
    return status;
}
