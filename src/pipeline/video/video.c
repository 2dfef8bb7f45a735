/* The public promise for clips: pictures to latent frames and back. A video autoencoder works on top of pieces
 * (clip.h); an image autoencoder has no memory of other frames and takes each by itself (codec.h). */
#include <zenith/video.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/fail.h"
#include "base/memory.h"
#include "graph/compute.h"
#include "io/image/pixels/pixels.h"
#include "pipeline/codec/codec.h"
#include "pipeline/video/blend.h"
#include "pipeline/video/clip.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

struct zn_video {
    const zn_model *model;
    zn_codec *codec; /* of an image autoencoder; NULL: pieces */
    zn_compute compute;
    bool fp8;         /* the decoder multiplies FP8 numbers */
    bool both;        /* the budget is for both parts */
    size_t held;      /* bytes of the budget that the caller takes */
    zn_clip *part[2]; /* for the last size used */
    zn_blend blend;   /* with a side: instead of parts */
    /* encoder */
    int width, height; /* of the clip's pictures; 0: none yet */
    int64_t taken;     /* pictures of the clip */
    int filled;        /* pictures of the piece to come */
    bool coloured;     /* a picture of that piece is not grey */
    /* decoder */
    bool decoding, counted; /* counted: every latent said how many pictures there were */
    int64_t shown, promised;
    char plan[256];
};

static zn_status begin_pieces(zn_video *v, const zn_options *options)
{
    ZN_TRY(zn_compute_begin(options, &v->compute));
    if (v->compute.math == ZN_PRECISION_FP8) {
        if (!(zn_device_flags(v->compute.device) & ZN_CPU_HOPPER))
            return ZN_FAIL(ZN_EUNSUPPORTED, "clips in fp8 need a GPU of NVIDIA's Hopper generation: use bf16");
        v->fp8 = true;
        v->compute.math = ZN_PRECISION_BF16;
    }
    if (!v->compute.options.blend)
        return v->compute.options.tile <= 0
                   ? ZN_OK
                   : ZN_FAIL(ZN_EINVALID, "tiles of videos are blended: give --blend with --tile, or leave out both");
    v->blend.side = v->compute.options.tile;
    return zn_blend_check(v->blend.side, zn_model_info_of(v->model)->downscale);
}

static zn_status begin_images(zn_video *v, const zn_options *options)
{
    const zn_model_info *info = zn_model_info_of(v->model);
    if (info->diffuses || !(info->has_encoder || info->has_decoder))
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: %s is not an autoencoder of images or videos", info->path,
                       info->architecture);
    ZN_TRY(zn_codec_new(v->model, options, &v->codec));
    if (v->codec->compute.options.blend)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s: %s is for single images, and tiles are blended by video autoencoders only",
                       info->path, info->architecture);
    return ZN_OK;
}

zn_status zn_video_new(const zn_model *model, const zn_options *options, zn_video **out)
{
    *out = NULL;
    zn_video *v = zn_calloc(1, sizeof *v);
    if (!v)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a video");
    v->model = model;
    const zn_status status = (zn_model_info_of(model)->clip_frames ? begin_pieces : begin_images)(v, options);
    if (status != ZN_OK)
        zn_video_free(v);
    else
        *out = v;
    return status;
}

void zn_video_free(zn_video *v)
{
    if (!v)
        return;
    zn_clip_free(v->part[0]);
    zn_clip_free(v->part[1]);
    zn_blend_clear(&v->blend);
    zn_codec_free(v->codec);
    zn_compute_end(&v->compute);
    zn_free(v);
}

const char *zn_video_plan(zn_video *v, zn_part part)
{
    v->plan[0] = 0;
    if (v->codec)
        return part <= ZN_DECODER && v->codec->runner[part] ? zn_runner_plan(v->codec->runner[part]) : v->plan;
    if (part <= ZN_DECODER && v->part[part])
        zn_clip_describe(v->part[part], v->plan, sizeof v->plan);
    return v->plan;
}

double zn_video_precision_share(const zn_video *v)
{
    double share = v->codec ? zn_codec_precision_share(v->codec) : NAN;
    for (int part = 0; part < 2; part++)
        if (v->part[part])
            share = fmax(share, zn_clip_coarse(v->part[part]));
    return share;
}

int zn_video_retains_16(const zn_video *v)
{
    bool any = false;
    for (int part = 0; part < 2; part++)
        any |= v->part[part] && zn_clip_retains_16(v->part[part]);
    return any;
}

/* frame: shape of one of the part's. An image that is read or written may have 16 bits, and its file another half; they
 * are in the host's memory, which a device's budget is not for. */
static zn_clip_options clip_options(const zn_video *v, zn_part part, zn_shape frame)
{
    const zn_compute *k = &v->compute;
    const int64_t scale = part == ZN_DECODER ? zn_model_info_of(v->model)->downscale : 1;
    const size_t pixels = (size_t)(frame.dim[1] * frame.dim[2] * scale * scale);
    size_t held =
        k->device ? zn_compute_overhead(k) : zn_model_bytes(v->model) + ZN_MEMORY_PROGRAM + v->held + 9 * pixels;
    for (int i = 0; i < 2 && (!k->device || k->options.memory); i++) /* else what is free there is without them */
        held += v->part[i] ? zn_clip_bytes_of(v->part[i]) : 0;
    return (zn_clip_options){ .pool = k->pool,
                              .device = k->device,
                              .packs = k->packs,
                              .math = k->math,
                              .fp8 = v->fp8 && part == ZN_DECODER,
                              .memory = k->options.memory,
                              .held = held,
                              .progress = k->options.progress,
                              .user = k->options.user };
}

void zn_video_use_both(zn_video *v) { v->both = true; }

void zn_video_hold(zn_video *v, size_t bytes)
{
    v->held = bytes;
    if (v->codec)
        zn_codec_hold(v->codec, bytes);
}

/* Leaves what the decoder of such images takes at least. One for another size is given up. */
static zn_status reserve(zn_video *v, zn_shape image, zn_clip_options *encoding)
{
    const zn_model_info *info = zn_model_info_of(v->model);
    const int64_t d = info->downscale;
    const zn_shape frame = ZN_SHAPE(1, image.dim[1] / d, image.dim[2] / d, info->latent_channels);
    zn_clip **decoder = &v->part[ZN_DECODER];
    if (*decoder && (v->decoding || zn_shape_equal(zn_clip_frame(*decoder), frame)))
        return ZN_OK; /* it is among what is held */
    zn_clip_free(*decoder);
    *decoder = NULL;
    *encoding = clip_options(v, ZN_ENCODER, image);
    const zn_clip_options decoding = clip_options(v, ZN_DECODER, frame);
    return zn_clip_least(v->model, ZN_DECODER, frame, &decoding, &encoding->reserved);
}

/* The part for frames of this shape; one for another size is given up. */
static zn_status part_for(zn_video *v, zn_part part, zn_shape frame)
{
    zn_clip **kept = &v->part[part];
    if (*kept && !zn_shape_equal(zn_clip_frame(*kept), frame)) {
        zn_clip_free(*kept);
        *kept = NULL;
    }
    if (*kept)
        return ZN_OK;
    zn_clip_options options = clip_options(v, part, frame);
    if (v->both && part == ZN_ENCODER && zn_model_info_of(v->model)->has_decoder)
        ZN_TRY(reserve(v, frame, &options));
    return zn_clip_new(v->model, part, frame, &options, kept);
}

/* ---- encoding ---- */

static void forget_pictures(zn_video *v)
{
    v->width = v->height = v->filled = 0;
    v->taken = 0;
    v->coloured = false;
    zn_blend_clear(&v->blend);
    if (v->part[ZN_ENCODER])
        zn_clip_end(v->part[ZN_ENCODER]);
}

/* Of one latent frame or several, made of so many pictures. */
static zn_status append(const zn_video *v, const float *data, zn_shape s, int pictures, zn_latent **clip)
{
    const zn_model_info *info = zn_model_info_of(v->model);
    zn_latent z = { .width = (int)s.dim[2],
                    .height = (int)s.dim[1],
                    .channels = (int)s.dim[3],
                    .image_width = v->width,
                    .image_height = v->height,
                    .downscale = info->downscale,
                    .data = (float *)data,
                    .frames = (int)s.dim[0],
                    .image_frames = pictures,
                    .grey = !v->coloured };
    snprintf(z.model, sizeof z.model, "%s", info->architecture);
    return zn_latent_append(clip, &z);
}

static zn_status run_piece(zn_video *v, int pictures, zn_latent **clip)
{
    const float *data;
    zn_shape shape;
    ZN_TRY(zn_clip_run(v->part[ZN_ENCODER], &data, &shape));
    v->filled = 0;
    const zn_status status = append(v, data, shape, pictures, clip);
    v->coloured = false;
    return status;
}

/* Adds the picture to the piece to come, which runs when it is full. */
static zn_status fill_piece(zn_video *v, const zn_image *picture, zn_latent **clip)
{
    const int64_t d = zn_model_info_of(v->model)->downscale;
    const int64_t h = zn_round_up(picture->height, d), w = zn_round_up(picture->width, d);
    const zn_shape frame = ZN_SHAPE(1, h, w, 3);
    float *input;
    int frames = INT_MAX; /* of a piece */
    if (v->blend.side) {
        const zn_clip_options options = clip_options(v, ZN_ENCODER, frame);
        ZN_TRY(zn_blend_add(&v->blend, frame, &options, &input));
    } else {
        ZN_TRY(part_for(v, ZN_ENCODER, frame));
        ZN_TRY(zn_clip_begin(v->part[ZN_ENCODER], &input, &frames));
        input += v->filled * h * w * 3;
    }
    v->width = picture->width;
    v->height = picture->height;
    v->coloured |= !picture->grey;
    zn_pixels_to_float(picture, (zn_region){ 0, 0, (int)w, (int)h }, input, (size_t)w * 3);
    return ++v->filled == frames ? run_piece(v, frames, clip) : ZN_OK;
}

static zn_status encode_image(zn_video *v, const zn_image *picture, zn_latent **clip)
{
    zn_latent *z;
    if (v->both && !v->width)
        ZN_TRY(zn_codec_check_both(v->codec, picture));
    ZN_TRY(zn_encode(v->codec, picture, &z));
    v->width = picture->width;
    v->height = picture->height;
    z->image_frames = 1;
    const zn_status status = zn_latent_append(clip, z);
    zn_latent_free(z);
    return status;
}

static zn_status take_picture(zn_video *v, const zn_image *picture, zn_latent **clip)
{
    const zn_model_info *info = zn_model_info_of(v->model);
    if (!info->has_encoder)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no encoder: give a model with encoder weights", info->path);
    if (v->width && (picture->width != v->width || picture->height != v->height))
        return ZN_FAIL(ZN_ESHAPE, "image %lld is %dx%d, and those before it are %dx%d: a clip has one size",
                       (long long)v->taken + 1, picture->width, picture->height, v->width, v->height);
    v->taken++;
    return (v->codec ? encode_image : fill_piece)(v, picture, clip);
}

zn_status zn_video_encode(zn_video *v, const zn_image *picture, zn_latent **clip)
{
    const zn_status status = take_picture(v, picture, clip);
    if (status != ZN_OK)
        forget_pictures(v);
    return status;
}

static zn_status finish_piece(zn_video *v, zn_latent **clip)
{
    float *input;
    int frames;
    ZN_TRY(zn_clip_begin(v->part[ZN_ENCODER], &input, &frames));
    const size_t size = (size_t)zn_shape_count(zn_clip_frame(v->part[ZN_ENCODER]));
    for (int i = v->filled; i < frames; i++)
        memcpy(input + (size_t)i * size, input + (size_t)(v->filled - 1) * size, sizeof *input * size);
    return run_piece(v, v->filled, clip);
}

static zn_status finish_blend(zn_video *v, zn_latent **clip)
{
    const zn_clip_options options = clip_options(v, ZN_ENCODER, v->blend.frame);
    float *data;
    zn_shape shape;
    ZN_TRY(zn_blend_encode(&v->blend, v->model, &options, &data, &shape));
    const zn_status status = append(v, data, shape, v->filled, clip);
    zn_free(data);
    return status;
}

zn_status zn_video_encode_end(zn_video *v, zn_latent **clip)
{
    const zn_status status = !v->filled ? ZN_OK : v->blend.side ? finish_blend(v, clip) : finish_piece(v, clip);
    forget_pictures(v);
    return status;
}

/* ---- decoding ---- */

void zn_video_decode_end(zn_video *v)
{
    v->decoding = false;
    if (v->part[ZN_DECODER])
        zn_clip_end(v->part[ZN_DECODER]);
}

static zn_status check_latent(const zn_video *v, const zn_latent *z)
{
    const zn_model_info *info = zn_model_info_of(v->model);
    const int64_t d = info->downscale;
    if (!info->has_decoder)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no decoder: give a model with decoder weights", info->path);
    ZN_TRY(zn_codec_check_latent(info, z));
    if (z->image_width > z->width * d || z->image_height > z->height * d)
        return ZN_FAIL(ZN_EFORMAT, "the latent claims images of %dx%d, more than its %lldx%lld", z->image_width,
                       z->image_height, (long long)(z->width * d), (long long)(z->height * d));
    const zn_shape frame = v->decoding ? zn_clip_frame(v->part[ZN_DECODER]) : ZN_SHAPE(1, z->height, z->width, 1);
    if (frame.dim[1] != z->height || frame.dim[2] != z->width)
        return ZN_FAIL(ZN_ESHAPE, "latent frames of %dx%d do not belong to a clip of %lldx%lld", z->width, z->height,
                       (long long)frame.dim[2], (long long)frame.dim[1]);
    return ZN_OK;
}

typedef struct rows_to_show {
    const float *data;
    size_t stride;
    zn_image *picture;
} rows_to_show;

static void show_rows(const void *args, zn_range r)
{
    const rows_to_show *a = args;
    const zn_region rows = { 0, (int)r.begin, a->picture->width, (int)(r.end - r.begin) };
    zn_pixels_from_float(a->data + (size_t)r.begin * a->stride, a->stride, a->picture, rows);
}

/* The pictures of a piece, as many as there should be in all. */
static zn_status show(zn_video *v, const float *data, zn_shape s, zn_image *picture, zn_video_picture_fn take,
                      void *user)
{
    enum { ROWS = 16 }; /* of a picture at a time */
    const int64_t size = zn_shape_count(s) / s.dim[0];
    for (int64_t i = 0; i < s.dim[0] && (!v->counted || v->shown < v->promised); i++, v->shown++) {
        zn_pool_run(v->compute.pool, picture->height, ROWS, show_rows,
                    &(rows_to_show){ data + i * size, (size_t)s.dim[2] * 3, picture }, NULL, 0);
        ZN_TRY(take(user, picture));
    }
    return ZN_OK;
}

static zn_status decode_pieces(zn_video *v, const zn_latent *z, zn_image *picture, zn_video_picture_fn take, void *user)
{
    const zn_shape frame = ZN_SHAPE(1, z->height, z->width, z->channels);
    const size_t size = (size_t)zn_shape_count(frame);
    const int frames = z->frames > 1 ? z->frames : 1;
    ZN_TRY(part_for(v, ZN_DECODER, frame));
    v->decoding = true;
    for (int i = 0; i < frames; i++) {
        float *input;
        const float *data;
        zn_shape shape;
        int each;
        ZN_TRY(zn_clip_begin(v->part[ZN_DECODER], &input, &each));
        memcpy(input, z->data + (size_t)i * size, sizeof *input * size);
        ZN_TRY(zn_clip_run(v->part[ZN_DECODER], &data, &shape));
        ZN_TRY(show(v, data, shape, picture, take, user));
    }
    return ZN_OK;
}

/* Every frame by itself. */
static zn_status decode_images(zn_video *v, const zn_latent *z, int bits, zn_video_picture_fn take, void *user)
{
    const int frames = z->frames > 1 ? z->frames : 1;
    if (z->image_frames && z->image_frames != frames)
        return ZN_FAIL(
            ZN_ESHAPE,
            "the latent has %d frames for %d images, as video autoencoders make them; %s is for single images", frames,
            z->image_frames, zn_model_info_of(v->model)->architecture);
    for (int i = 0; i < frames; i++) {
        zn_latent one = *z;
        zn_image *picture;
        one.frames = 1;
        one.data += (size_t)i * ((size_t)z->width * (size_t)z->height * (size_t)z->channels);
        ZN_TRY(zn_decode_bits(v->codec, &one, bits, &picture));
        const zn_status status = take(user, picture);
        zn_image_free(picture);
        ZN_TRY(status);
    }
    return ZN_OK;
}

/* The latent is a whole clip. */
static zn_status decode_blend(zn_video *v, const zn_latent *z, zn_image *picture, zn_video_picture_fn take, void *user)
{
    const zn_clip_options options = clip_options(v, ZN_DECODER, ZN_SHAPE(1, z->height, z->width, z->channels));
    const zn_shape in = ZN_SHAPE(z->frames > 1 ? z->frames : 1, z->height, z->width, z->channels);
    float *data;
    zn_shape shape;
    ZN_TRY(zn_blend_decode(&v->blend, v->model, &options, z->data, in, &data, &shape));
    const zn_status status = show(v, data, shape, picture, take, user);
    zn_free(data);
    return status;
}

static zn_status take_latent(zn_video *v, const zn_latent *z, int bits, zn_video_picture_fn take, void *user)
{
    ZN_TRY(check_latent(v, z));
    const int d = zn_model_info_of(v->model)->downscale;
    if (!v->decoding) {
        v->counted = true;
        v->shown = v->promised = 0;
    }
    v->counted &= z->image_frames > 0;
    v->promised += z->image_frames;
    zn_image *picture;
    ZN_TRY(zn_image_new(z->image_width ? z->image_width : z->width * d,
                        z->image_height ? z->image_height : z->height * d, bits, &picture));
    picture->grey = z->grey;
    const zn_status status = (v->blend.side ? decode_blend : decode_pieces)(v, z, picture, take, user);
    zn_image_free(picture);
    return status;
}

zn_status zn_video_decode(zn_video *v, const zn_latent *latent, int bits, zn_video_picture_fn take, void *user)
{
    if (bits != 8 && bits != 16)
        return ZN_FAIL(ZN_EINVALID, "%d bits: images have 8 or 16", bits);
    const zn_status status = (v->codec ? decode_images : take_latent)(v, latent, bits, take, user);
    if (status != ZN_OK)
        zn_video_decode_end(v);
    return status;
}
