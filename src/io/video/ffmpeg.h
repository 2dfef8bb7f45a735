/* What reading and writing films through FFmpeg share. */
#ifndef ZN_FFMPEG_H
#define ZN_FFMPEG_H

#include <zenith/status.h>

#include <libavutil/frame.h>
#include <libswscale/swscale.h>

enum { ZN_FILM_MAX_PIXELS = 1 << 28 };

/* "PATH: cannot WHAT: FFmpeg's reason". */
zn_status zn_ffmpeg_fail(const char *path, const char *what, int code);

/* The colours that YUV pictures of a film stand for: what it says, or else what is usual for their height. */
enum AVColorSpace zn_ffmpeg_colours(enum AVColorSpace told, int height);
/* Tells the scaler, which makes RGB of YUV (or the other way round), the film's colours. full: its values use all of
 * 0..255. */
void zn_ffmpeg_use_colours(struct SwsContext *scaler, enum AVColorSpace colours, int full, int to_rgb);

#endif
