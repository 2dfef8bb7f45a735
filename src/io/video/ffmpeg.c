#include "io/video/ffmpeg.h"

#include "base/fail.h"

#include <libavutil/error.h>

zn_status zn_ffmpeg_fail(const char *path, const char *what, int code)
{
    char text[AV_ERROR_MAX_STRING_SIZE] = "";
    av_strerror(code, text, sizeof text);
    return ZN_FAIL(code == AVERROR(ENOMEM)   ? ZN_ENOMEM
                   : code == AVERROR(ENOENT) ? ZN_ENOTFOUND
                   : code == AVERROR(EIO)    ? ZN_EIO
                                             : ZN_EFORMAT,
                   "%s: cannot %s: %s", path, what, text);
}

enum AVColorSpace zn_ffmpeg_colours(enum AVColorSpace told, int height)
{
    if (told != AVCOL_SPC_UNSPECIFIED && told != AVCOL_SPC_RESERVED)
        return told;
    return height >= 720 ? AVCOL_SPC_BT709 : AVCOL_SPC_SMPTE170M;
}

void zn_ffmpeg_use_colours(struct SwsContext *scaler, enum AVColorSpace colours, int full, int to_rgb)
{
    const int one = 1 << 16;
    const int *film = sws_getCoefficients(colours == AVCOL_SPC_BT709        ? SWS_CS_ITU709
                                          : colours == AVCOL_SPC_BT2020_NCL ? SWS_CS_BT2020
                                                                            : SWS_CS_ITU601);
    const int *rgb = sws_getCoefficients(SWS_CS_DEFAULT);
    if (to_rgb)
        sws_setColorspaceDetails(scaler, film, full, rgb, 1, 0, one, one);
    else
        sws_setColorspaceDetails(scaler, rgb, 1, film, full, 0, one, one);
}
