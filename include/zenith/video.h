/* Video: clips to latents and back, a few pictures at a time, by the autoencoders that know clips (zn_model_info says
 * clip_frames).
 *
 *     zn_video *v; zn_latent *clip = NULL;
 *     zn_video_new(model, NULL, &v);
 *     while (next(&picture))
 *         zn_video_encode(v, picture, &clip);
 *     zn_video_encode_end(v, &clip);
 *     zn_video_decode(v, clip, 8, take, user);            // take is called with each picture
 *     zn_video_free(v);
 *
 * Between calls a video keeps what the network's layers remember of the last pictures, so memory depends on their size
 * and not on how many there are; the result has the bits of the whole clip at once. A video borrows its model and
 * belongs to one thread at a time. Encoding and decoding are apart: each has its own clip. */
#ifndef ZN_VIDEO_H
#define ZN_VIDEO_H

#include <zenith/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_video zn_video;

/* Of the options threads, precision, progress (within a piece: clip_frames pictures) and memory count: a size whose
 * pieces take more memory is refused (ZN_ELIMIT). A model that knows no clips is ZN_EUNSUPPORTED. */
ZN_API ZN_MUST_USE zn_status zn_video_new(const zn_model *model, const zn_codec_options *options, zn_video **out);
ZN_API void zn_video_free(zn_video *video);

/* The next picture of a clip. All have the size of the first, which may be any: sides are padded as zn_encode does.
 * Latent frames that are complete now are appended to *clip; NULL there is left so while there are none, and becomes a
 * new latent of the caller's. Whoever takes it away after each call gets the latent frames one by one. After a failure
 * the clip begins anew. */
ZN_API ZN_MUST_USE zn_status zn_video_encode(zn_video *video, const zn_image *picture, zn_latent **clip);
/* The clip is over: a latent frame that lacks pictures gets copies of the last one, and the latent tells how many
 * pictures there really were. The next picture begins another clip. */
ZN_API ZN_MUST_USE zn_status zn_video_encode_end(zn_video *video, zn_latent **clip);

/* Takes a picture, which is the library's. Anything but ZN_OK ends the decoding and is its result. */
typedef zn_status (*zn_video_picture_fn)(void *user, const zn_image *picture);
/* The next latent frames of a clip, all that `latent` has; pictures of `bits` (8 or 16) are taken as they are made: of
 * the first latent frame one, of each other clip_frames, as many in all as latents say that there were. */
ZN_API ZN_MUST_USE zn_status zn_video_decode(zn_video *video, const zn_latent *latent, int bits,
                                             zn_video_picture_fn take, void *user);
/* The next latent begins another clip. */
ZN_API void zn_video_decode_end(zn_video *video);

/* What the last pieces of a part (ZN_ENCODER, ZN_DECODER) took, as text: their size, memory, and what is kept between
 * them. Valid until the next call. */
ZN_API const char *zn_video_plan(zn_video *video, zn_part part);

#ifdef __cplusplus
}
#endif
#endif
