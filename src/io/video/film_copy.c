#include "io/video/film_copy.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <stdio.h>
#include <string.h>

static bool is_copied(const AVStream *s)
{
    return s->codecpar->codec_type == AVMEDIA_TYPE_AUDIO || s->codecpar->codec_type == AVMEDIA_TYPE_SUBTITLE;
}

static const char *kind_of(const AVStream *s)
{
    switch (s->codecpar->codec_type) {
    case AVMEDIA_TYPE_AUDIO:
        return "audio";
    case AVMEDIA_TYPE_SUBTITLE:
        return "subtitles";
    case AVMEDIA_TYPE_VIDEO:
        return s->disposition & AV_DISPOSITION_ATTACHED_PIC ? "cover art" : "other video";
    case AVMEDIA_TYPE_ATTACHMENT:
        return "attachment";
    default:
        return s->codecpar->codec_tag == MKTAG('t', 'm', 'c', 'd') ? "timecode" : "data";
    }
}

/* MP4 keeps the titles of chapters in such a stream too. */
static bool is_chapters(const AVFormatContext *source, const AVStream *s)
{
    return source->nb_chapters && s->codecpar->codec_type == AVMEDIA_TYPE_DATA &&
           s->codecpar->codec_tag == MKTAG('t', 'e', 'x', 't');
}

/* "audio (pcm_s16le), cover art (png), timecode" */
static void leave_out(zn_film_copy *c, const AVStream *s)
{
    const enum AVCodecID codec = s->codecpar->codec_id;
    const char *name = codec == AV_CODEC_ID_NONE ? "" : zn_ff.avcodec_get_name(codec);
    const size_t length = strlen(c->left_out);
    char item[64];
    snprintf(item, sizeof item, "%s%s%s%s", kind_of(s), *name ? " (" : "", name, *name ? ")" : "");
    if (!strstr(c->left_out, item)) /* ten fonts are one */
        snprintf(c->left_out + length, sizeof c->left_out - length, "%s%s", length ? ", " : "", item);
}

static zn_status add_stream(const AVStream *from, AVFormatContext *out)
{
    AVStream *s = zn_ff.avformat_new_stream(out, NULL);
    if (!s || zn_ff.avcodec_parameters_copy(s->codecpar, from->codecpar) < 0 ||
        zn_ff.av_dict_copy(&s->metadata, from->metadata, 0) < 0)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the audio of a video");
    s->codecpar->codec_tag = 0; /* each container has its own */
    s->time_base = from->time_base;
    s->disposition = from->disposition;
    return ZN_OK;
}

/* avformat_query_codec also accepts codecs whose header the muxer then refuses (FLAC in MP4, Opus in MOV): writes a
 * header with this stream alone to memory. */
static zn_status try_header(const AVStream *s, const AVOutputFormat *kind, bool *fits)
{
    AVFormatContext *trial = NULL;
    uint8_t *bytes = NULL;
    int code = zn_ff.avformat_alloc_output_context2(&trial, kind, NULL, NULL);
    zn_status status = code < 0 ? ZN_FAIL(ZN_ENOMEM, "out of memory for the audio of a video") : add_stream(s, trial);
    if (status == ZN_OK && zn_ff.avio_open_dyn_buf(&trial->pb) < 0)
        status = ZN_FAIL(ZN_ENOMEM, "out of memory for the audio of a video");
    if (status == ZN_OK) {
        code = zn_ff.avformat_write_header(trial, NULL);
        zn_ff.avio_close_dyn_buf(trial->pb, &bytes);
        trial->pb = NULL;
        zn_ff.av_freep(&bytes);
    }
    zn_ff.avformat_free_context(trial);
    *fits = code >= 0;
    return status;
}

zn_status zn_film_copy_chapters(const AVFormatContext *source, AVFormatContext *out)
{
    if (!source->nb_chapters)
        return ZN_OK;
    out->chapters = zn_ff.av_malloc(sizeof *out->chapters * source->nb_chapters);
    if (!out->chapters)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the chapters of a video");
    for (unsigned i = 0; i < source->nb_chapters; i++) {
        const AVChapter *from = source->chapters[i];
        if (from->start < 0 || from->end < from->start || !zn_ffmpeg_is_time(from->end))
            continue;
        AVChapter *c = zn_ff.av_malloc(sizeof *c);
        if (!c)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for the chapters of a video");
        *c = (AVChapter){ .id = from->id, .time_base = from->time_base, .start = from->start, .end = from->end };
        out->chapters[out->nb_chapters++] = c;
        if (zn_ff.av_dict_copy(&c->metadata, from->metadata, 0) < 0)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for the chapters of a video");
    }
    return ZN_OK;
}

zn_status zn_film_copy_begin(zn_film_copy *c, const char *path, int images, AVFormatContext *out)
{
    c->path = path;
    ZN_TRY(zn_ffmpeg_open_file(path, &c->source));
    ZN_TRY(zn_alloc_for("the audio of a video", sizeof *c->to * (c->source->nb_streams + 1), (void **)&c->to));
    c->streams = (int)c->source->nb_streams;
    c->packet = zn_ff.av_packet_alloc();
    if (!c->packet)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the audio of a video");
    for (int i = 0; i < c->streams; i++) {
        AVStream *s = c->source->streams[i];
        bool fits =
            is_copied(s) && zn_ff.avformat_query_codec(out->oformat, s->codecpar->codec_id, FF_COMPLIANCE_NORMAL) == 1;
        if (fits)
            ZN_TRY(try_header(s, out->oformat, &fits));
        c->to[i] = fits ? (int)out->nb_streams : -1;
        if (fits)
            ZN_TRY(add_stream(s, out));
        else if (i != images && !is_chapters(c->source, s))
            leave_out(c, s);
        if (!fits)
            s->discard = AVDISCARD_ALL;
    }
    return ZN_OK;
}

/* The time at which a packet is decoded, in microseconds. */
static int64_t time_of(const AVPacket *p, const AVStream *s)
{
    const int64_t told = p->dts != AV_NOPTS_VALUE ? p->dts : p->pts;
    return told == AV_NOPTS_VALUE ? INT64_MIN : zn_ff.av_rescale_q(told, s->time_base, AV_TIME_BASE_Q);
}

static int write_packet(zn_film_copy *c, AVFormatContext *out)
{
    const int from = c->packet->stream_index, to = c->to[from];
    zn_ff.av_packet_rescale_ts(c->packet, c->source->streams[from]->time_base, out->streams[to]->time_base);
    c->packet->stream_index = to;
    c->packet->pos = -1;
    return zn_ff.av_interleaved_write_frame(out, c->packet); /* takes what the packet holds */
}

/* The next packet of a copied stream. false: there is none; *code tells why. */
static bool find_packet(zn_film_copy *c, int *code)
{
    while (!c->waiting && (*code = zn_ff.av_read_frame(c->source, c->packet)) >= 0) {
        c->waiting = c->packet->stream_index < c->streams && c->to[c->packet->stream_index] >= 0;
        if (!c->waiting)
            zn_ff.av_packet_unref(c->packet);
    }
    return c->waiting;
}

zn_status zn_film_copy_until(zn_film_copy *c, int64_t time, AVFormatContext *out)
{
    int code = 0;
    while (c->source && !c->ended && find_packet(c, &code)) {
        if (time != INT64_MAX && time_of(c->packet, c->source->streams[c->packet->stream_index]) > time)
            return ZN_OK;
        c->waiting = false;
        code = write_packet(c, out);
        if (code < 0)
            return zn_ffmpeg_fail(c->path, "copy the audio", code);
    }
    c->ended |= code < 0;
    return code < 0 && code != AVERROR_EOF ? zn_ffmpeg_fail(c->path, "read the audio", code) : ZN_OK;
}

void zn_film_copy_end(zn_film_copy *c)
{
    zn_ff.av_packet_free(&c->packet);
    zn_ff.avformat_close_input(&c->source);
    zn_free(c->to);
    c->to = NULL;
}
