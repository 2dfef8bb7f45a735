/* The public promise: image to latent and back. Keeps one runner for each part, so that images of one size share their
 * plan; packed weights stay for images of all sizes. */
#include <zenith/codec.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/least.h"
#include "base/memory.h"
#include "io/image/pixels/pixels.h"
#include "pipeline/bench/profile.h"
#include "pipeline/codec/codec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

zn_status zn_codec_new(const zn_model *model, const zn_options *options, zn_codec **out)
{
    *out = NULL;
    zn_codec *c = zn_calloc(1, sizeof *c);
    if (!c)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a codec");
    c->model = model;
    pthread_mutex_init(&c->lock, NULL);
    zn_status status = zn_compute_begin(options, &c->compute);
    if (status == ZN_OK)
        status = zn_compute_refuse_fp8(&c->compute, "networks for single images");
    if (status != ZN_OK)
        zn_codec_free(c);
    else
        *out = c;
    return status;
}

void zn_codec_free(zn_codec *c)
{
    if (!c)
        return;
    zn_runner_free(c->runner[0]);
    zn_runner_free(c->runner[1]);
    zn_compute_end(&c->compute);
    pthread_mutex_destroy(&c->lock);
    zn_free(c->rows);
    zn_free(c);
}

size_t zn_image_bytes(int width, int height, int bits) { return (size_t)width * (size_t)height * 3 * (size_t)bits / 8; }

void zn_codec_read_image(void *from, zn_region region, float *map)
{
    zn_pixels_to_float(from, region, map, (size_t)region.width * 3);
}

void zn_codec_write_image(void *to, zn_region region, const float *map, size_t stride)
{
    zn_image *image = to;
    region.width = (int)zn_least(region.width, image->width - region.x);
    region.height = (int)zn_least(region.height, image->height - region.y);
    if (region.width > 0 && region.height > 0)
        zn_pixels_from_float(map, stride, image, region);
}

void zn_codec_hold(zn_codec *c, size_t bytes)
{
    pthread_mutex_lock(&c->lock);
    c->held = bytes ? bytes + ZN_MEMORY_PROGRAM : 0;
    pthread_mutex_unlock(&c->lock);
}

static zn_part other_of(zn_part part) { return part == ZN_ENCODER ? ZN_DECODER : ZN_ENCODER; }

static void drop(zn_codec *c, zn_part part)
{
    zn_runner_free(c->runner[part]);
    c->runner[part] = NULL;
}

/* The other part's runner waits for the next image, unless it takes much of a budget. Returns the bytes that it and its
 * packed weights use; without a runner these are in the host's memory. */
static size_t keep_other(zn_codec *c, zn_part part)
{
    const zn_part index = other_of(part);
    const size_t budget = c->compute.options.memory, overhead = zn_compute_overhead(&c->compute);
    if (c->runner[index] && budget && 8 * zn_runner_bytes(c->runner[index]) + overhead > budget)
        drop(c, index);
    return c->runner[index] ? zn_runner_bytes(c->runner[index]) : c->compute.device ? 0 : c->packed[index];
}

/* Weights in memory, and the largest of those that stay in their file while it is prepared. */
static size_t bytes_of(const zn_model *m)
{
    int64_t largest = 0;
    for (int i = 0; i < m->count; i++) {
        const int64_t count = m->parameters[i].deferred ? zn_shape_count(m->parameters[i].shape) : 0;
        largest = count > largest ? count : largest;
    }
    return zn_model_bytes(m) + sizeof(float) * (size_t)largest;
}

/* held: in the host's memory, which does not count for a device, without what the codec itself has; other: of the other
 * part. */
static zn_runner_options options_of(const zn_codec *c, size_t held, size_t other)
{
    zn_runner_options options = zn_runner_options_of(&c->compute);
    options.held = other + (c->compute.device ? zn_compute_overhead(&c->compute) + c->beside
                                              : held + c->held + bytes_of(c->model));
    options.streams = true;
    return options;
}

static zn_status new_runner(zn_codec *c, zn_part part, zn_shape shape, size_t held, zn_runner **out)
{
    const zn_runner_options options = options_of(c, held, keep_other(c, part));
    return zn_runner_new(c->model, part, shape, &options, out);
}

zn_status zn_codec_runner(zn_codec *c, zn_part part, zn_shape shape, size_t held, zn_runner **out)
{
    zn_runner **kept = &c->runner[part];
    if (*kept && !zn_shape_equal(zn_runner_input_shape(*kept), shape)) {
        zn_runner_free(*kept);
        *kept = NULL;
    }
    if (!*kept) {
        zn_status status = new_runner(c, part, shape, held, kept);
        if (status == ZN_ENOMEM && c->runner[other_of(part)]) {
            drop(c, other_of(part));
            status = new_runner(c, part, shape, held, kept);
        }
        ZN_TRY(status);
        c->packed[part] = zn_runner_packed(*kept);
    }
    c->last = part;
    *out = *kept;
    return ZN_OK;
}

zn_status zn_codec_finish(zn_image *image, zn_status status, zn_image **out)
{
    if (status == ZN_OK)
        *out = image;
    else
        zn_image_free(image);
    return status;
}

static zn_shape image_shape(const zn_model_info *info, int width, int height)
{
    return ZN_SHAPE(1, zn_round_up(height, info->downscale), zn_round_up(width, info->downscale), 3);
}

static zn_status check_both(zn_codec *c, const zn_image *image)
{
    const zn_model_info *info = zn_model_info_of(c->model);
    const zn_shape in = image_shape(info, image->width, image->height);
    const zn_shape latent =
        ZN_SHAPE(1, in.dim[1] / info->downscale, in.dim[2] / info->downscale, info->latent_channels);
    if (!c->compute.options.memory || c->compute.device || !info->has_encoder || !info->has_decoder)
        return ZN_OK;
    const zn_runner *last = c->runner[ZN_ENCODER] ? c->runner[ZN_ENCODER] : c->runner[ZN_DECODER];
    if (last &&
        (zn_shape_equal(zn_runner_input_shape(last), in) || zn_shape_equal(zn_runner_input_shape(last), latent)))
        return ZN_OK; /* it was checked before the first such image */
    const zn_runner_options options = options_of(
        c, zn_image_bytes(image->width, image->height, image->bits) + sizeof(float) * (size_t)zn_shape_count(latent),
        0);
    size_t least[2];
    ZN_TRY(zn_runner_least(c->model, ZN_ENCODER, in, &options, &least[0], &c->packed[0]));
    ZN_TRY(zn_runner_least(c->model, ZN_DECODER, latent, &options, &least[1], &c->packed[1]));
    const size_t encoding = least[0] + c->packed[1], decoding = least[1] + c->packed[0],
                 need = options.held + (encoding > decoding ? encoding : decoding);
    return need > options.memory ? zn_runner_refuse(in, in, &options, need) : ZN_OK;
}

zn_status zn_codec_check_both(zn_codec *c, const zn_image *image)
{
    pthread_mutex_lock(&c->lock);
    const zn_status status = check_both(c, image);
    pthread_mutex_unlock(&c->lock);
    return status;
}

static void write_latent(void *to, zn_region a, const float *map, size_t stride)
{
    const zn_latent *z = to;
    const size_t c = (size_t)z->channels, row = (size_t)z->width * c;
    for (int y = 0; y < a.height; y++)
        memcpy(z->data + (size_t)(a.y + y) * row + (size_t)a.x * c, map + (size_t)y * stride,
               sizeof(float) * (size_t)a.width * c);
}

static void read_latent(void *from, zn_region a, float *map)
{
    const zn_latent *z = from;
    const size_t c = (size_t)z->channels, row = (size_t)z->width * c, floats = (size_t)a.width * c;
    for (int y = 0; y < a.height; y++)
        memcpy(map + (size_t)y * floats, z->data + (size_t)(a.y + y) * row + (size_t)a.x * c, sizeof(float) * floats);
}

static zn_status encode(zn_codec *c, const zn_image *image, zn_latent **out)
{
    const zn_model_info *info = zn_model_info_of(c->model);
    if (!info->has_encoder)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no encoder: give a model with encoder weights", info->path);
    const zn_shape in = image_shape(info, image->width, image->height);
    const int64_t d = info->downscale;
    const size_t floats = (size_t)(in.dim[1] / d * (in.dim[2] / d)) * (size_t)info->latent_channels;
    zn_runner *r;
    ZN_TRY(zn_codec_runner(c, ZN_ENCODER, in,
                           zn_image_bytes(image->width, image->height, image->bits) + sizeof(float) * floats, &r));
    zn_runner_clear_rows(r);
    zn_latent *z;
    const zn_shape s = zn_runner_output_shape(r);
    ZN_TRY(zn_latent_new((int)s.dim[2], (int)s.dim[1], (int)s.dim[3], &z));
    const zn_status status = zn_runner_stream(
        r, &(zn_runner_io){ .read = zn_codec_read_image, .from = (void *)image, .write = write_latent, .to = z });
    if (status != ZN_OK) {
        zn_latent_free(z);
        return status;
    }
    z->image_width = image->width;
    z->image_height = image->height;
    z->downscale = info->downscale;
    z->grey = image->grey;
    snprintf(z->model, sizeof z->model, "%s", info->architecture);
    *out = z;
    return ZN_OK;
}

zn_status zn_codec_check_latent(const zn_model_info *info, const zn_latent *z)
{
    if (z->raw)
        return ZN_FAIL(ZN_EINVALID, "the latent is raw, and %s decodes scaled ones: zn_latent_rescale makes them",
                       info->architecture);
    if (z->channels != info->latent_channels)
        return ZN_FAIL(ZN_ESHAPE, "the latent has %d channels%s%s, but %s decodes %d", z->channels,
                       z->model[0] ? ", made by " : "", z->model, info->architecture, info->latent_channels);
    if (z->downscale && z->downscale != info->downscale)
        return ZN_FAIL(ZN_ESHAPE, "the latent was made at 1/%d of the image, but %s decodes 1/%d", z->downscale,
                       info->architecture, info->downscale);
    const int64_t frames = z->frames > 1 ? z->frames : 1, count = frames * z->height * z->width * z->channels;
    float sum = 0; /* of zeros, or NaN: decoders that limit their input would hide it */
    for (int64_t i = 0; i < count; i++)
        sum += z->data[i] - z->data[i];
    return sum == 0 ? ZN_OK : ZN_FAIL(ZN_ENUMERIC, "the input 'latent' holds NaN or infinity");
}

static zn_status decode(zn_codec *c, const zn_latent *z, int bits, zn_image **out)
{
    const zn_model_info *info = zn_model_info_of(c->model);
    if (!info->has_decoder)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no decoder: give a model with decoder weights", info->path);
    ZN_TRY(zn_codec_check_latent(info, z));
    if (z->frames > 1)
        return ZN_FAIL(ZN_ESHAPE, "the latent is a clip of %d frames, not an image: zn_video_decode takes it",
                       z->frames);
    const int64_t wide = (int64_t)z->width * info->downscale, high = (int64_t)z->height * info->downscale;
    const int width = z->image_width ? z->image_width : (int)wide;
    const int height = z->image_height ? z->image_height : (int)high;
    if (width > wide || height > high)
        return ZN_FAIL(ZN_EFORMAT, "the latent claims an image of %dx%d, more than its %lldx%lld", width, height,
                       (long long)wide, (long long)high);
    zn_runner *r;
    const size_t floats = (size_t)z->height * (size_t)z->width * (size_t)z->channels;
    ZN_TRY(zn_codec_runner(c, ZN_DECODER, ZN_SHAPE(1, z->height, z->width, z->channels),
                           zn_image_bytes(width, height, bits) + sizeof(float) * floats, &r));
    zn_runner_clear_rows(r);
    zn_image *image;
    ZN_TRY(zn_image_new(width, height, bits, &image));
    image->grey = z->grey;
    return zn_codec_finish(
        image,
        zn_runner_stream(
            r, &(zn_runner_io){ .read = read_latent, .from = (void *)z, .write = zn_codec_write_image, .to = image }),
        out);
}

/* A copy of a packed latent, unpacked. */
static zn_status decode_packed(zn_codec *c, const zn_latent *z, int bits, zn_image **out)
{
    zn_latent *copy = NULL;
    ZN_TRY(zn_latent_append(&copy, z));
    zn_status status = zn_latent_pack(copy, 0);
    if (status == ZN_OK)
        status = decode(c, copy, bits, out);
    zn_latent_free(copy);
    return status;
}

zn_status zn_encode(zn_codec *c, const zn_image *image, zn_latent **out)
{
    *out = NULL;
    pthread_mutex_lock(&c->lock);
    const zn_status status = encode(c, image, out);
    pthread_mutex_unlock(&c->lock);
    return status;
}

zn_status zn_decode_bits(zn_codec *c, const zn_latent *latent, int bits, zn_image **out)
{
    *out = NULL;
    if (bits != 8 && bits != 16)
        return ZN_FAIL(ZN_EINVALID, "%d bits: images have 8 or 16", bits);
    pthread_mutex_lock(&c->lock);
    const int packed = zn_codec_unpacks(zn_model_info_of(c->model), latent);
    const zn_status status = packed ? decode_packed(c, latent, bits, out) : decode(c, latent, bits, out);
    pthread_mutex_unlock(&c->lock);
    return status;
}

zn_status zn_decode(zn_codec *c, const zn_latent *latent, zn_image **out) { return zn_decode_bits(c, latent, 8, out); }

const char *zn_codec_plan(const zn_codec *c) { return c->runner[c->last] ? zn_runner_plan(c->runner[c->last]) : ""; }

double zn_codec_overhead(const zn_codec *c) { return c->runner[c->last] ? zn_runner_overhead(c->runner[c->last]) : 1; }

double zn_codec_precision_share(const zn_codec *c)
{
    return c->runner[c->last] ? zn_runner_coarse(c->runner[c->last]) : NAN;
}

/* Made when asked for, since the roofline needs a measurement of the machine. */
int zn_codec_profile(zn_codec *c, const zn_profile_row **rows)
{
    zn_machine machine;
    zn_free(c->rows);
    c->rows = NULL;
    *rows = NULL;
    if (!c->compute.options.profile || !c->runner[c->last] ||
        zn_machine_of(&c->compute, c->compute.options.precision, &machine) != ZN_OK ||
        zn_profile_rows(zn_runner_profile(c->runner[c->last]), &machine, 1, &c->rows, &c->row_count) != ZN_OK)
        return 0;
    *rows = c->rows;
    return c->row_count;
}
