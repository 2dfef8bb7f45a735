/* Pictures to films through FFmpeg. The film grows in a temporary file beside its own (base/file.h), which is renamed
 * when it is whole. */
#include <zenith/film.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "io/video/film_copy.h"

#include <string.h>

enum { MOST_RATE = 1000, RATE_PARTS = 60000, MOST_PARTS = 65535 /* of a second, in MPEG-4 */ };

struct zn_film_writer {
    char *path;
    zn_outfile file; /* FFmpeg writes to its temporary, and not through its stream */
    AVFormatContext *format;
    AVCodecContext *encoder;
    AVStream *stream;
    AVPacket *packet;
    AVFrame *rgb, *yuv; /* of even sides */
    struct SwsContext *scaler;
    const zn_film *source; /* whose times and colours are kept; NULL: a steady rate */
    zn_film_copy copy;     /* of its audio */
    int width, height;
    bool lean;           /* ZN_FILM_LEAN */
    int64_t count, last; /* last: the time of the last image, in units of the encoder */
};

void zn_film_drop(zn_film_writer *w)
{
    if (!w)
        return;
    zn_film_copy_end(&w->copy);
    zn_ff.sws_freeContext(w->scaler);
    zn_ff.av_frame_free(&w->rgb);
    zn_ff.av_frame_free(&w->yuv);
    zn_ff.av_packet_free(&w->packet);
    zn_ff.avcodec_free_context(&w->encoder);
    if (w->format && w->format->pb)
        zn_ff.avio_closep(&w->format->pb);
    zn_ff.avformat_free_context(w->format);
    zn_outfile_abandon(&w->file);
    zn_free(w->path);
    zn_free(w);
}

/* The kind of film that the name says, and an encoder that it can hold. */
/* Containers that keep times, colours and tags. */
static bool holds_all(const char *name)
{
    static const char *const names[] = { "mp4", "mov", "ipod", "matroska", "webm" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

static zn_status choose(const char *path, const AVOutputFormat **kind, const AVCodec **codec)
{
    if (zn_exists(path) && !zn_is_folder(path) && !zn_is_regular(path))
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: a pipe or device; a video needs a regular file", path);
    *kind = zn_ff.av_guess_format(NULL, path, NULL);
    if (!*kind || !holds_all((*kind)->name))
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: not the name of a video that can be written: .mp4, .mkv, .mov or .webm",
                       path);
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
    const int code = zn_ff.avformat_alloc_output_context2(&w->format, kind, NULL, w->path);
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

static const AVStream *source_stream(const zn_film_writer *w) { return w->source->format->streams[w->source->stream]; }

/* The times and colours of the source. */
static void take_after(AVCodecContext *e, const zn_film_writer *w)
{
    const AVStream *s = source_stream(w);
    const AVCodecParameters *p = s->codecpar;
    e->framerate = s->avg_frame_rate.num > 0 ? s->avg_frame_rate : (AVRational){ 25, 1 };
    e->time_base = s->time_base;
    if (e->codec_id == AV_CODEC_ID_MPEG4 && (e->time_base.num != 1 || e->time_base.den > MOST_PARTS))
        e->time_base = (AVRational){ 1, RATE_PARTS };
    e->color_range = p->color_range == AVCOL_RANGE_JPEG ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG;
    e->colorspace = zn_ffmpeg_colours(p->color_space, p->height);
    e->color_primaries = p->color_primaries;
    e->color_trc = p->color_trc;
    e->sample_aspect_ratio = s->sample_aspect_ratio.num ? s->sample_aspect_ratio : p->sample_aspect_ratio;
    if (zn_film_is_turned(w->source) && e->sample_aspect_ratio.num)
        e->sample_aspect_ratio = av_inv_q(e->sample_aspect_ratio);
}

/* A film of 1920x1080 takes 133 MiB so and 360 otherwise, with three threads, which H.264 has on two CPUs. */
static void make_lean(AVCodecContext *e)
{
    e->thread_count = 1;
    if (e->priv_data) {
        zn_ff.av_opt_set(e->priv_data, "rc-lookahead", "5", 0);  /* libx264 */
        zn_ff.av_opt_set(e->priv_data, "lag-in-frames", "5", 0); /* libvpx */
    }
}

/* An encoder for images of 8 or 10 bits. Returns FFmpeg's code. */
static int try_encoder(zn_film_writer *w, const AVCodec *codec, double rate, int bits)
{
    AVCodecContext *e = w->encoder = zn_ff.avcodec_alloc_context3(codec);
    if (!e)
        return AVERROR(ENOMEM);
    e->width = (w->width + 1) & ~1;
    e->height = (w->height + 1) & ~1;
    e->pix_fmt = bits > 8 ? AV_PIX_FMT_YUV420P10 : AV_PIX_FMT_YUV420P;
    if (w->source) {
        take_after(e, w);
    } else {
        e->framerate = zn_ff.av_d2q(rate, RATE_PARTS);
        e->time_base = av_inv_q(e->framerate);
        e->color_range = AVCOL_RANGE_MPEG;
        e->colorspace = zn_ffmpeg_colours(AVCOL_SPC_UNSPECIFIED, w->height);
    }
    e->flags |=
        AV_CODEC_FLAG_QSCALE | (w->format->oformat->flags & AVFMT_GLOBALHEADER ? AV_CODEC_FLAG_GLOBAL_HEADER : 0);
    e->global_quality = 3 * FF_QP2LAMBDA; /* of encoders that know no crf */
    if (e->priv_data)
        zn_ff.av_opt_set(e->priv_data, "crf", "16", 0);
    if (w->lean)
        make_lean(e);
    const int code = zn_ff.avcodec_open2(e, codec, NULL);
    if (code < 0)
        zn_ff.avcodec_free_context(&w->encoder);
    return code;
}

static zn_status open_encoder(zn_film_writer *w, const AVCodec *codec, double rate)
{
    w->packet = zn_ff.av_packet_alloc();
    w->stream = zn_ff.avformat_new_stream(w->format, codec);
    if (!w->packet || !w->stream)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a video");
    int code = w->source && zn_film_bits(w->source) > 8 ? try_encoder(w, codec, rate, 10) : AVERROR(EINVAL);
    if (code < 0)
        code = try_encoder(w, codec, rate, 8);
    if (code >= 0)
        code = zn_ff.avcodec_parameters_from_context(w->stream->codecpar, w->encoder);
    if (code < 0)
        return zn_ffmpeg_fail(w->path, "encode such a video", code);
    const AVCodecContext *e = w->encoder;
    w->stream->time_base = e->time_base;
    w->stream->avg_frame_rate = e->framerate;
    w->stream->sample_aspect_ratio = e->sample_aspect_ratio;
    w->yuv = frame_of(e->pix_fmt, e->width, e->height);
    return w->yuv ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a video");
}

/* What turns images of so many bits into the encoder's: made for the first image, and again if the bits change. */
static zn_status make_scaler(zn_film_writer *w, int bits)
{
    const enum AVPixelFormat pixels = bits > 8 ? AV_PIX_FMT_RGB48 : AV_PIX_FMT_RGB24;
    const AVCodecContext *e = w->encoder;
    if (w->rgb && w->rgb->format == pixels)
        return ZN_OK;
    zn_ff.sws_freeContext(w->scaler);
    zn_ff.av_frame_free(&w->rgb);
    w->rgb = frame_of(pixels, e->width, e->height);
    w->scaler = zn_ff.sws_getContext(e->width, e->height, pixels, e->width, e->height, e->pix_fmt,
                                     SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INP, NULL, NULL, NULL);
    if (!w->rgb || !w->scaler)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a video");
    zn_ffmpeg_use_colours(w->scaler, e->colorspace, e->color_range == AVCOL_RANGE_JPEG, 0);
    return ZN_OK;
}

static zn_status begin(zn_film_writer *w)
{
    char *name;
    ZN_TRY(zn_outfile_open(&w->file, w->path));
    ZN_TRY(zn_ffmpeg_address(w->file.temporary, &name));
    int code = zn_ff.avio_open(&w->format->pb, name, AVIO_FLAG_WRITE);
    zn_free(name);
    if (code >= 0)
        code = zn_ff.avformat_write_header(w->format, NULL);
    return code < 0 ? zn_ffmpeg_fail(w->path, "write the video", code) : ZN_OK;
}

/* What the file states of the brightness of HDR, which players need with its transfer curve. */
static zn_status copy_brightness(zn_film_writer *w)
{
    int count;
    const AVPacketSideData *data = zn_ffmpeg_side_data(source_stream(w), &count);
    for (int i = 0; i < count; i++) {
        if (data[i].type != AV_PKT_DATA_MASTERING_DISPLAY_METADATA && data[i].type != AV_PKT_DATA_CONTENT_LIGHT_LEVEL)
            continue;
        uint8_t *to = zn_ffmpeg_new_side_data(w->stream, data[i].type, data[i].size);
        if (!to)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for a video");
        memcpy(to, data[i].data, data[i].size);
    }
    return ZN_OK;
}

/* Audio, and with metadata what the file says of itself. */
static zn_status copy_rest(zn_film_writer *w, bool metadata)
{
    const AVFormatContext *source = w->source->format;
    if (metadata && zn_ff.av_dict_copy(&w->format->metadata, source->metadata, 0) < 0)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a video");
    if (metadata)
        ZN_TRY(zn_film_copy_chapters(source, w->format));
    ZN_TRY(copy_brightness(w));
    return zn_film_copy_begin(&w->copy, w->source->path, w->source->stream, w->format);
}

static zn_status create(const char *path, const zn_film *source, int width, int height, double rate, unsigned how,
                        zn_film_writer **out)
{
    const AVOutputFormat *kind = NULL;
    const AVCodec *codec = NULL;
    if (width < 1 || height < 1 || (int64_t)width * height > ZN_FILM_MAX_PIXELS)
        return ZN_FAIL(ZN_EINVALID, "%s: a video of %dx%d", path, width, height);
    zn_film_writer *w = zn_calloc(1, sizeof *w);
    if (!w)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a video");
    w->width = width;
    w->height = height;
    w->source = source;
    w->lean = how & ZN_FILM_LEAN;
    zn_status status =
        (w->path = zn_strdup(path)) ? choose(path, &kind, &codec) : ZN_FAIL(ZN_ENOMEM, "out of memory for a video");
    if (status == ZN_OK)
        status = make_format(w, kind);
    if (status == ZN_OK)
        status = open_encoder(w, codec, rate);
    if (status == ZN_OK && source)
        status = copy_rest(w, how & ZN_FILM_METADATA);
    if (status == ZN_OK)
        status = begin(w);
    if (status == ZN_OK)
        *out = w;
    else
        zn_film_drop(w);
    return status;
}

zn_status zn_film_create(const char *path, int width, int height, double rate, unsigned how, zn_film_writer **out)
{
    *out = NULL;
    if (!(rate > 0 && rate <= MOST_RATE))
        return ZN_FAIL(ZN_EINVALID, "%s: a video with %g frames per second", path, rate);
    ZN_TRY(zn_ffmpeg_open());
    return create(path, NULL, width, height, rate, how, out);
}

zn_status zn_film_create_from(const char *path, const zn_film *source, int width, int height, unsigned how,
                              zn_film_writer **out)
{
    *out = NULL;
    return create(path, source, width, height, 0, how, out);
}

/* Measured with libx264 and noise from 64x64 to 1920x1080, and with films of H.264 in 8 bits. Frames have borders. */
size_t zn_film_bytes(const zn_film *f, int width, int height, int bits)
{
    enum { BORDER = 64, LIBRARIES = 28 << 20, ENCODER = 7 << 20, ENCODER_PIXEL = 64, MOST_KEPT = 8, ON_THE_WAY = 3 };
    size_t bytes = LIBRARIES;
    if (f) {
        const AVCodecContext *d = f->decoder;
        const int refs = d->codec_id == AV_CODEC_ID_H264 ? d->refs : MOST_KEPT;
        const size_t size = (size_t)(d->width + BORDER) * (size_t)(d->height + BORDER) * (zn_film_bits(f) > 8 ? 2 : 1);
        bytes += size * 3 / 2 * (size_t)(refs + d->has_b_frames + ON_THE_WAY) + 3 * size; /* and a frame of RGB */
    }
    if (width)
        bytes +=
            ENCODER + (size_t)ENCODER_PIXEL * (size_t)(width + BORDER) * (size_t)(height + BORDER) * (bits > 8 ? 2 : 1);
    return bytes;
}

const char *zn_film_left_out(const zn_film_writer *w) { return w->copy.left_out; }

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

/* The image with its last row and column repeated up to even sides. */
static void fill_rgb(zn_film_writer *w, const zn_image *picture)
{
    const size_t pixel = 3 * (size_t)picture->bits / 8, bytes = pixel * (size_t)w->width;
    for (int y = 0; y < w->rgb->height; y++) {
        uint8_t *row = w->rgb->data[0] + (ptrdiff_t)y * w->rgb->linesize[0];
        memcpy(row, (const uint8_t *)picture->pixels + (size_t)(y < w->height ? y : w->height - 1) * bytes, bytes);
        if (w->rgb->width > w->width)
            memcpy(row + bytes, row + bytes - pixel, pixel);
    }
}

/* When the next image is shown, in units of the encoder. */
static int64_t next_time(zn_film_writer *w)
{
    const zn_film *f = w->source;
    int64_t now = w->count;
    if (f)
        now = w->count < f->count
                  ? zn_ff.av_rescale_q(f->times[w->count], source_stream(w)->time_base, w->encoder->time_base)
                  : w->last + zn_ff.av_rescale_q(1, av_inv_q(w->encoder->framerate), w->encoder->time_base);
    if (!zn_ffmpeg_is_time(now))
        now = w->last; /* 0 before the first image */
    if (w->count && now <= w->last)
        now = w->last + 1;
    w->count++;
    return w->last = now;
}

zn_status zn_film_write(zn_film_writer *w, const zn_image *picture)
{
    if (picture->width != w->width || picture->height != w->height)
        return ZN_FAIL(ZN_ESHAPE, "%s: image %lld is %dx%d, and those before it are %dx%d: a video has one size",
                       w->path, (long long)w->count + 1, picture->width, picture->height, w->width, w->height);
    ZN_TRY(make_scaler(w, picture->bits));
    fill_rgb(w, picture);
    int code = zn_ff.av_frame_make_writable(w->yuv); /* the encoder may still look at the last one */
    if (code >= 0)
        code = zn_ff.sws_scale(w->scaler, (const uint8_t *const *)w->rgb->data, w->rgb->linesize, 0, w->rgb->height,
                               w->yuv->data, w->yuv->linesize);
    if (code < 0)
        return zn_ffmpeg_fail(w->path, "convert an image to the colours of the video", code);
    w->yuv->pts = next_time(w);
    ZN_TRY(zn_film_copy_until(&w->copy, zn_ff.av_rescale_q(w->last, w->encoder->time_base, AV_TIME_BASE_Q), w->format));
    return encode(w, w->yuv);
}

zn_status zn_film_finish(zn_film_writer *w)
{
    zn_status status = encode(w, NULL);
    if (status == ZN_OK)
        status = zn_film_copy_until(&w->copy, INT64_MAX, w->format);
    int code = status == ZN_OK ? zn_ff.av_write_trailer(w->format) : 0;
    if (code >= 0 && status == ZN_OK)
        code = zn_ff.avio_closep(&w->format->pb);
    if (code < 0)
        status = zn_ffmpeg_fail(w->path, "end the video", code);
    if (status == ZN_OK)
        status = zn_outfile_commit(&w->file);
    zn_film_drop(w);
    return status;
}
