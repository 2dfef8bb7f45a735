/* Films to pictures through FFmpeg. Only the file itself is opened: a film may name other places, which are not gone
 * to.
 */
#include <zenith/film.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "io/image/metadata/exif.h"
#include "io/image/pixels/pixels.h"
#include "io/video/ffmpeg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    zn_free(f->times);
    zn_free(f->path);
    zn_free(f);
}

/* The matrix by which a player turns the images; NULL if there is none. */
static const int32_t *display_matrix(const AVStream *s)
{
    int count;
    const AVPacketSideData *data = zn_ffmpeg_side_data(s, &count);
    for (int i = 0; i < count; i++)
        if (data[i].type == AV_PKT_DATA_DISPLAYMATRIX && data[i].size >= 9 * sizeof(int32_t))
            return (const int32_t *)data[i].data;
    return NULL;
}

/* The EXIF orientation nearest to a display matrix, which takes (x, y) to (m0 x + m3 y, m1 x + m4 y). */
static int orientation_of(const int32_t *m)
{
    if (!m)
        return 1;
    const int64_t straight = llabs((int64_t)m[0]) + llabs((int64_t)m[4]);
    const int64_t crossed = llabs((int64_t)m[1]) + llabs((int64_t)m[3]);
    if (straight >= crossed)
        return m[0] >= 0 ? (m[4] >= 0 ? 1 : 4) : (m[4] >= 0 ? 2 : 3);
    return m[1] >= 0 ? (m[3] >= 0 ? 5 : 6) : (m[3] >= 0 ? 8 : 7);
}

bool zn_film_is_turned(const zn_film *f) { return f->orientation >= 5; }

static int count_audio(const AVFormatContext *format)
{
    int count = 0;
    for (unsigned i = 0; i < format->nb_streams; i++)
        count += format->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_AUDIO;
    return count;
}

static zn_status open_decoder(zn_film *f)
{
    const AVCodec *codec = NULL;
    f->stream = zn_ff.av_find_best_stream(f->format, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
    if (f->stream == AVERROR_STREAM_NOT_FOUND)
        return ZN_FAIL(ZN_EFORMAT, "%s: there is no video in the file, only %s", f->path,
                       count_audio(f->format) ? "audio" : "other data");
    if (f->stream < 0)
        return zn_ffmpeg_fail(f->path, "find images in it", f->stream);
    f->decoder = zn_ff.avcodec_alloc_context3(codec);
    f->packet = zn_ff.av_packet_alloc();
    f->frame = zn_ff.av_frame_alloc();
    if (!f->decoder || !f->packet || !f->frame)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a video");
    f->orientation = orientation_of(display_matrix(f->format->streams[f->stream]));
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
        status = zn_ffmpeg_open_file(path, &f->format);
    if (status == ZN_OK)
        status = open_decoder(f);
    if (status == ZN_OK)
        *out = f;
    else
        zn_film_close(f);
    return status;
}

void zn_film_keep_bits(zn_film *f) { f->keeps_bits = true; }

static int bits_of(enum AVPixelFormat format)
{
    const AVPixFmtDescriptor *d = format == AV_PIX_FMT_NONE ? NULL : zn_ff.av_pix_fmt_desc_get(format);
    return d ? d->comp[0].depth : 8;
}

int zn_film_bits(const zn_film *f)
{
    return bits_of((enum AVPixelFormat)f->format->streams[f->stream]->codecpar->format);
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
    static const int rotations[] = { 0, 0, 180, 180, 90, 90, 270, 270 };
    out->width = zn_film_is_turned(f) ? s->codecpar->height : s->codecpar->width;
    out->height = zn_film_is_turned(f) ? s->codecpar->width : s->codecpar->height;
    out->bits = zn_film_bits(f);
    out->rotation = rotations[f->orientation - 1];
    out->audio = count_audio(f->format);
    out->rate = s->avg_frame_rate.den ? av_q2d(s->avg_frame_rate) : 0;
    out->frames = s->nb_frames;
    const zn_status status = out->frames > 0 ? ZN_OK : count_frames(f, &out->frames);
    zn_film_close(f);
    return status;
}

static void note_end(zn_film *f)
{
    const AVPacket *p = f->packet;
    const int64_t begin = p->pts != AV_NOPTS_VALUE ? p->pts : p->dts;
    int64_t end;
    if (begin == AV_NOPTS_VALUE || __builtin_add_overflow(begin, p->duration, &end))
        return;
    end = zn_ff.av_rescale_q(end, f->format->streams[p->stream_index]->time_base, AV_TIME_BASE_Q);
    f->played = end > f->played ? end : f->played;
}

/* A packet to the decoder, NULL after the last. One that it does not take is lost, as in players, and the film goes
 * on. */
static int send(zn_film *f, const AVPacket *packet)
{
    const int code = zn_ff.avcodec_send_packet(f->decoder, packet);
    f->lost += code == AVERROR_INVALIDDATA;
    return code == AVERROR_INVALIDDATA ? 0 : code;
}

/* One packet of the film to its decoder. */
static int feed(zn_film *f)
{
    for (;;) {
        int code = zn_ff.av_read_frame(f->format, f->packet);
        if (code == AVERROR_EOF) {
            f->ended = true;
            return send(f, NULL);
        }
        if (code < 0)
            return code;
        const bool ours = f->packet->stream_index == f->stream;
        note_end(f);
        if (ours)
            code = send(f, f->packet);
        zn_ff.av_packet_unref(f->packet);
        if (ours || code < 0)
            return code;
    }
}

/* Room for RGB of the frame's size. */
static zn_status make_rows(zn_film *f)
{
    const int bits = f->keeps_bits && bits_of((enum AVPixelFormat)f->frame->format) > 8 ? 16 : 8;
    if (f->rows && f->width == f->frame->width && f->height == f->frame->height && f->bits == bits)
        return ZN_OK;
    zn_ff.av_freep(&f->rows);
    f->width = f->frame->width;
    f->height = f->frame->height;
    f->bits = bits;
    f->row_bytes = (3 * bits / 8 * f->width + 63) / 64 * 64;
    f->rows = zn_ff.av_malloc((size_t)f->row_bytes * (size_t)f->height + 64);
    return f->rows ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a frame of a video");
}

/* Decoders of VP8, whose stream states neither, claim BT.601 and limited range; browsers record other ones and state
 * them in the container. */
static void use_colours(zn_film *f)
{
    const AVFrame *in = f->frame;
    const AVCodecParameters *p = f->format->streams[f->stream]->codecpar;
    const bool outside = p->codec_id == AV_CODEC_ID_VP8;
    const enum AVColorSpace space =
        outside && p->color_space != AVCOL_SPC_UNSPECIFIED ? p->color_space : in->colorspace;
    const enum AVColorRange range =
        outside && p->color_range != AVCOL_RANGE_UNSPECIFIED ? p->color_range : in->color_range;
    zn_ffmpeg_use_colours(f->scaler, zn_ffmpeg_colours(space, in->height), range == AVCOL_RANGE_JPEG, 1);
}

static zn_status convert(zn_film *f, zn_image *image)
{
    const AVFrame *in = f->frame;
    f->scaler = zn_ff.sws_getCachedContext(f->scaler, in->width, in->height, (enum AVPixelFormat)in->format, in->width,
                                           in->height, f->bits > 8 ? AV_PIX_FMT_RGB48 : AV_PIX_FMT_RGB24,
                                           SWS_BICUBIC | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT, NULL, NULL, NULL);
    if (!f->scaler)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: its colours cannot be turned into RGB", f->path);
    use_colours(f);
    uint8_t *rows[4] = { f->rows };
    const int strides[4] = { f->row_bytes };
    const int code =
        zn_ff.sws_scale(f->scaler, (const uint8_t *const *)in->data, in->linesize, 0, in->height, rows, strides);
    if (code < 0)
        return zn_ffmpeg_fail(f->path, "convert a frame to RGB", code);
    const size_t bytes = 3 * (size_t)in->width * (size_t)f->bits / 8;
    for (int y = 0; y < in->height; y++)
        memcpy((uint8_t *)image->pixels + (size_t)y * bytes, f->rows + (size_t)y * (size_t)f->row_bytes, bytes);
    return ZN_OK;
}

/* When the frame is shown, in units of the stream: the time that the file states, unless it states none or one that no
 * video reaches. A frame that is not after the last is shown a moment later. */
static int64_t time_of_frame(const zn_film *f, int64_t last)
{
    const AVStream *s = f->format->streams[f->stream];
    const AVRational rate = s->avg_frame_rate.num > 0 ? s->avg_frame_rate : (AVRational){ 25, 1 };
    int64_t now = f->frame->best_effort_timestamp;
    if (!zn_ffmpeg_is_time(now))
        now = f->count ? last + zn_ff.av_rescale_q(1, av_inv_q(rate), s->time_base) : 0;
    return f->count && (now <= last || !zn_ffmpeg_is_time(now)) ? last + 1 : now;
}

/* Records when the frame is shown. */
static zn_status note_time(zn_film *f)
{
    if (f->count == f->capacity) {
        const int64_t capacity = f->capacity ? 2 * f->capacity : 256;
        int64_t *more = zn_realloc(f->times, sizeof *more * (size_t)capacity);
        if (!more)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for the times of a video's frames");
        f->times = more;
        f->capacity = capacity;
    }
    const int64_t last = f->count ? f->times[f->count - 1] : 0, now = time_of_frame(f, last);
    if (f->count == 1 || (f->count > 1 && now - last < f->shortest))
        f->shortest = now - last;
    if (f->count && now - last > f->longest)
        f->longest = now - last;
    f->times[f->count++] = now;
    return ZN_OK;
}

void zn_film_intervals(const zn_film *f, double *shortest, double *longest)
{
    const double tick = av_q2d(f->format->streams[f->stream]->time_base);
    *shortest = (double)f->shortest * tick;
    *longest = (double)f->longest * tick;
}

/* Only for a duration that the file states: FFmpeg derives others from the packets that it finds. It is counted from 0,
 * also where the first image comes later. Up to a second may be the time of a last packet that states none, unless that
 * is much of a short video. */
static double missing_seconds(const zn_film *f)
{
    const AVFormatContext *format = f->format;
    if (!f->ended || format->duration_estimation_method != AVFMT_DURATION_FROM_STREAM || format->duration <= 0)
        return 0;
    const int64_t missing = format->duration - f->played;
    const int64_t least = format->duration / 4 < AV_TIME_BASE ? format->duration / 4 : AV_TIME_BASE;
    return missing >= least && missing >= AV_TIME_BASE / 5 ? (double)missing / AV_TIME_BASE : 0;
}

void zn_film_find_faults(const zn_film *f, zn_film_faults *out)
{
    *out = (zn_film_faults){
        .lost = f->lost, .damaged = f->damaged, .interlaced = f->interlaced, .missing = missing_seconds(f)
    };
}

/* FFmpeg's code for the next frame of the decoder. At the end of the film it gives the frames that it held back, 16 in
 * H.264 and H.265; one of them that it cannot decode is lost like others. */
static int receive(zn_film *f)
{
    enum { MOST_HELD = 16 };
    int code = zn_ff.avcodec_receive_frame(f->decoder, f->frame);
    for (int i = 0; f->ended && code == AVERROR_INVALIDDATA && i < MOST_HELD; i++) {
        f->lost++;
        code = zn_ff.avcodec_receive_frame(f->decoder, f->frame);
    }
    return f->ended && code == AVERROR_INVALIDDATA ? AVERROR_EOF : code;
}

/* The next frame of the decoder into f->frame. *found: there was one. */
static zn_status next_frame(zn_film *f, bool *found)
{
    int code;
    *found = false;
    while (((code = receive(f)) == AVERROR(EAGAIN) || code == AVERROR_INVALIDDATA) && !f->ended) {
        f->lost += code == AVERROR_INVALIDDATA;
        code = feed(f);
        if (code < 0 && code != AVERROR_EOF)
            return zn_ffmpeg_fail(f->path, "read more of the video", code);
    }
    if (code == AVERROR_EOF || code == AVERROR(EAGAIN))
        return ZN_OK;
    *found = code >= 0;
    return *found ? ZN_OK : zn_ffmpeg_fail(f->path, "decode a frame of the video", code);
}

/* After the last image. */
static zn_status end_of_film(const zn_film *f)
{
    if (f->count || !f->lost)
        return ZN_OK;
    if (f->lost == 1)
        return ZN_FAIL(ZN_EFORMAT, "%s: its only frame could not be decoded", f->path);
    return ZN_FAIL(ZN_EFORMAT, "%s: none of its %lld frames could be decoded", f->path, (long long)f->lost);
}

static bool is_interlaced(const AVFrame *frame)
{
#ifdef AV_FRAME_FLAG_INTERLACED
    return frame->flags & AV_FRAME_FLAG_INTERLACED;
#else
    return frame->interlaced_frame;
#endif
}

zn_status zn_film_next(zn_film *f, zn_image **out)
{
    bool found;
    *out = NULL;
    ZN_TRY(next_frame(f, &found));
    if (!found)
        return end_of_film(f);
    zn_image *image = NULL;
    zn_status status = make_rows(f);
    if (status == ZN_OK)
        status = zn_image_new(f->frame->width, f->frame->height, f->bits, &image);
    if (status == ZN_OK)
        status = convert(f, image);
    if (status == ZN_OK)
        status = note_time(f);
    f->interlaced += is_interlaced(f->frame);
    f->damaged += f->frame->decode_error_flags || f->frame->flags & AV_FRAME_FLAG_CORRUPT;
    zn_ff.av_frame_unref(f->frame);
    if (status == ZN_OK && f->orientation != 1)
        status = zn_exif_apply(f->orientation, &image);
    if (status == ZN_OK) {
        image->grey = zn_pixels_are_grey(image, 0);
        *out = image;
    } else {
        zn_image_free(image);
    }
    return status;
}
