/* What reading and writing videos through FFmpeg share. Its libraries are opened when the first video is: they bring a
 * hundred others with them, which a program that only sees images should neither need nor wait for. */
#ifndef ZN_FFMPEG_H
#define ZN_FFMPEG_H

#include <zenith/film.h>

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/frame.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>
#include <stdbool.h>

enum { ZN_FILM_MAX_PIXELS = 1 << 28 };

/* Whether a stream's side data are part of its codec's parameters. */
#define ZN_FFMPEG_CODED_SIDE_DATA (LIBAVCODEC_VERSION_INT >= AV_VERSION_INT(60, 31, 102))
#if ZN_FFMPEG_CODED_SIDE_DATA
#define ZN_FFMPEG_SIDE_OF_CODEC(CALL) CALL(av_packet_side_data_new)
#define ZN_FFMPEG_SIDE_OF_STREAM(CALL)
#else
#define ZN_FFMPEG_SIDE_OF_CODEC(CALL)
#define ZN_FFMPEG_SIDE_OF_STREAM(CALL) CALL(av_stream_new_side_data)
#endif

/* What is called, by library. */
#define ZN_FFMPEG_AVUTIL(CALL)                                                                                         \
    CALL(av_d2q)                                                                                                       \
    CALL(av_dict_copy)                                                                                                 \
    CALL(av_dict_free)                                                                                                 \
    CALL(av_dict_set)                                                                                                  \
    CALL(av_frame_alloc)                                                                                               \
    CALL(av_frame_free)                                                                                                \
    CALL(av_frame_get_buffer)                                                                                          \
    CALL(av_frame_make_writable)                                                                                       \
    CALL(av_frame_unref)                                                                                               \
    CALL(av_freep)                                                                                                     \
    CALL(av_log_set_level)                                                                                             \
    CALL(av_malloc)                                                                                                    \
    CALL(av_opt_set)                                                                                                   \
    CALL(av_pix_fmt_desc_get)                                                                                          \
    CALL(av_rescale_q)                                                                                                 \
    CALL(av_strerror)
#define ZN_FFMPEG_AVCODEC(CALL)                                                                                        \
    CALL(av_packet_alloc)                                                                                              \
    CALL(av_packet_free)                                                                                               \
    CALL(av_packet_rescale_ts)                                                                                         \
    CALL(av_packet_unref)                                                                                              \
    CALL(avcodec_alloc_context3)                                                                                       \
    CALL(avcodec_find_encoder)                                                                                         \
    CALL(avcodec_free_context)                                                                                         \
    CALL(avcodec_get_name)                                                                                             \
    CALL(avcodec_open2)                                                                                                \
    CALL(avcodec_parameters_copy)                                                                                      \
    CALL(avcodec_parameters_from_context)                                                                              \
    CALL(avcodec_parameters_to_context)                                                                                \
    CALL(avcodec_receive_frame)                                                                                        \
    CALL(avcodec_receive_packet)                                                                                       \
    CALL(avcodec_send_frame)                                                                                           \
    CALL(avcodec_send_packet)                                                                                          \
    ZN_FFMPEG_SIDE_OF_CODEC(CALL)
#define ZN_FFMPEG_AVFORMAT(CALL)                                                                                       \
    CALL(av_find_best_stream)                                                                                          \
    CALL(av_guess_format)                                                                                              \
    CALL(av_interleaved_write_frame)                                                                                   \
    CALL(av_read_frame)                                                                                                \
    CALL(av_write_trailer)                                                                                             \
    CALL(avformat_alloc_output_context2)                                                                               \
    CALL(avformat_close_input)                                                                                         \
    CALL(avformat_find_stream_info)                                                                                    \
    CALL(avformat_free_context)                                                                                        \
    CALL(avformat_new_stream)                                                                                          \
    CALL(avformat_open_input)                                                                                          \
    CALL(avformat_query_codec)                                                                                         \
    CALL(avformat_write_header)                                                                                        \
    CALL(avio_close_dyn_buf)                                                                                           \
    CALL(avio_closep)                                                                                                  \
    CALL(avio_open)                                                                                                    \
    CALL(avio_open_dyn_buf)                                                                                            \
    ZN_FFMPEG_SIDE_OF_STREAM(CALL)
#define ZN_FFMPEG_SWSCALE(CALL)                                                                                        \
    CALL(sws_freeContext)                                                                                              \
    CALL(sws_getCachedContext)                                                                                         \
    CALL(sws_getCoefficients)                                                                                          \
    CALL(sws_getContext)                                                                                               \
    CALL(sws_scale)                                                                                                    \
    CALL(sws_setColorspaceDetails)

#define ZN_FFMPEG_CALL(name) __typeof__(name) *name;
typedef struct zn_ffmpeg {
    ZN_FFMPEG_AVUTIL(ZN_FFMPEG_CALL)
    ZN_FFMPEG_AVCODEC(ZN_FFMPEG_CALL)
    ZN_FFMPEG_AVFORMAT(ZN_FFMPEG_CALL)
    ZN_FFMPEG_SWSCALE(ZN_FFMPEG_CALL)
} zn_ffmpeg;
#undef ZN_FFMPEG_CALL

/* Whole after zn_ffmpeg_open. */
extern zn_ffmpeg zn_ff;
/* Before anything else here; may be called again, and by several threads. */
ZN_MUST_USE zn_status zn_ffmpeg_open(void);

/* The file as an address, to be freed: FFmpeg takes text before a colon for a protocol. */
ZN_MUST_USE zn_status zn_ffmpeg_address(const char *path, char **out);

/* "PATH: cannot WHAT: FFmpeg's reason". */
zn_status zn_ffmpeg_fail(const char *path, const char *what, int code);

/* Opens a file for reading its packets: this file alone, though it may name other places. */
ZN_MUST_USE zn_status zn_ffmpeg_open_file(const char *path, AVFormatContext **out);

/* The matrix that turns YUV images of a video into RGB: the one it names, or else what is usual for their height. */
enum AVColorSpace zn_ffmpeg_colours(enum AVColorSpace told, int height);
/* Tells the scaler, which makes RGB of YUV (or the other way round), the video's colours. full: its values use all of
 * 0..255. */
void zn_ffmpeg_use_colours(struct SwsContext *scaler, enum AVColorSpace colours, int full, int to_rgb);

static inline const AVPacketSideData *zn_ffmpeg_side_data(const AVStream *s, int *count)
{
#if ZN_FFMPEG_CODED_SIDE_DATA
    *count = s->codecpar->nb_coded_side_data;
    return s->codecpar->coded_side_data;
#else
    *count = s->nb_side_data;
    return s->side_data;
#endif
}

/* Room for more of it; NULL: out of memory. */
static inline uint8_t *zn_ffmpeg_new_side_data(AVStream *s, enum AVPacketSideDataType type, size_t size)
{
#if ZN_FFMPEG_CODED_SIDE_DATA
    AVCodecParameters *p = s->codecpar;
    AVPacketSideData *added = zn_ff.av_packet_side_data_new(&p->coded_side_data, &p->nb_coded_side_data, type, size, 0);
    return added ? added->data : NULL;
#else
    return zn_ff.av_stream_new_side_data(s, type, size);
#endif
}

/* False for AV_NOPTS_VALUE, and for times of damaged files that no video reaches: sums and differences of the others
 * fit into 64 bits. */
static inline bool zn_ffmpeg_is_time(int64_t time) { return time >= -(INT64_MAX / 4) && time <= INT64_MAX / 4; }

struct zn_film {
    char *path;
    AVFormatContext *format;
    AVCodecContext *decoder;
    AVPacket *packet;
    AVFrame *frame;
    struct SwsContext *scaler;
    uint8_t *rows; /* RGB with rows as long as the scaler likes them */
    int row_bytes, width, height, bits;
    int stream;
    int orientation; /* as EXIF counts, 1..8 */
    bool keeps_bits; /* more than 8 bits become 16 */
    bool ended;      /* the decoder knows that no more comes */
    /* Times of the images given out, in units of the stream: each later than the one before it. */
    int64_t *times, shortest, longest;
    int64_t count, capacity;
    int64_t lost;    /* packets that gave no image because of errors */
    int64_t damaged; /* images with errors */
    int64_t interlaced;
    int64_t played; /* the end of the packets that were read, in microseconds */
};

/* Bits per sample of the film's images as they are stored. */
int zn_film_bits(const zn_film *film);
/* Do the images lie on their side, so that width and height change places? */
bool zn_film_is_turned(const zn_film *film);

#endif
