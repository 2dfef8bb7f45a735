/* Video to latents and back, a few images at a time. A video autoencoder (zn_model_info.clip_frames is not 0) makes one
 * latent frame of several images. An image autoencoder codes them one by one: as many latent frames as images, without
 * compression in time.
 *
 *     zn_video *v; zn_latent *clip = NULL;
 *     zn_video_new(model, NULL, &v);
 *     while (next(&image))
 *         zn_video_encode(v, image, &clip);
 *     zn_video_encode_end(v, &clip);
 *     zn_video_decode(v, clip, 8, take, user);            // take is called with each image
 *     zn_video_free(v);
 *
 * Between calls a zn_video retains the state of the network's layers, so memory depends on the size of the images and
 * not on their number; the result has the same bits as the whole video at once. A zn_video borrows its model and must
 * be used by one thread at a time. Encoding and decoding are independent: each has its own state. */
#ifndef ZN_VIDEO_H
#define ZN_VIDEO_H

#include <zenith/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_video zn_video;

/* With a video autoencoder, the options context, threads, device, precision, memory, tile with blend, and progress are
 * used; progress is that within a piece of clip_frames images. A size whose pieces take more than the memory budget is
 * refused when the first image or latent comes (ZN_ELIMIT). With an image autoencoder, all options of a codec are used,
 * and progress is that of one image. Other models are ZN_EUNSUPPORTED. */
ZN_API ZN_MUST_USE zn_status zn_video_new(const zn_model *model, const zn_options *options, zn_video **out);
ZN_API void zn_video_free(zn_video *video);

/* Announces that both parts will be used, on videos of one size: a memory budget is divided between them before the
 * first image is encoded, and one that is too small for both is refused then. Without this call a part may take all of
 * the budget that the other has left. */
ZN_API void zn_video_use_both(zn_video *video);

/* As zn_codec_hold. Of a video autoencoder's budget the program itself is always a part. */
ZN_API void zn_video_hold(zn_video *video, size_t bytes);

/* Encodes the next image of a video. All images have the size of the first, which may be any: sides are padded as
 * zn_encode does. Completed latent frames are appended to *clip; if *clip is NULL, it becomes a new latent, owned by
 * the caller, once there is a frame. A caller that takes it and sets *clip to NULL after each call gets the latent
 * frames one by one. After a failure the next image starts a new video. */
ZN_API ZN_MUST_USE zn_status zn_video_encode(zn_video *video, const zn_image *picture, zn_latent **clip);
/* Ends the video: an incomplete latent frame is filled with copies of the last image, and the latent records the true
 * number of images. The next image starts another video. */
ZN_API ZN_MUST_USE zn_status zn_video_encode_end(zn_video *video, zn_latent **clip);

/* Receives an image, which the library owns and which is valid during the call. Any result but ZN_OK stops the
 * decoding, which then returns it. */
typedef zn_status (*zn_video_picture_fn)(void *user, const zn_image *picture);
/* Decodes the next latent frames of a video, all that `latent` has. Images of `bits` (8 or 16) are delivered as they
 * are made: one for the first latent frame, clip_frames (image autoencoders: one) for each other, and no more in all
 * than the latent records. */
ZN_API ZN_MUST_USE zn_status zn_video_decode(zn_video *video, const zn_latent *latent, int bits,
                                             zn_video_picture_fn take, void *user);
/* Ends the video: the next latent starts another one. */
ZN_API void zn_video_decode_end(zn_video *video);

/* Size and memory of the last pieces of a part (ZN_ENCODER, ZN_DECODER), and of the state retained between them, as
 * text. Valid until the next call. */
ZN_API const char *zn_video_plan(zn_video *video, zn_part part);
/* As zn_codec_precision_share, of the parts that were used last. NaN before the first call, and with blended tiles. */
ZN_API double zn_video_precision_share(const zn_video *video);
/* Non-zero if those parts retain frames in 16 bits, which with ZN_PRECISION_BF16 they do on any CPU. */
ZN_API int zn_video_retains_16(const zn_video *video);

#ifdef __cplusplus
}
#endif
#endif
