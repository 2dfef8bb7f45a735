#include "pipeline/video/blend.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "models/wan/wan_tiles.h"

#include <string.h>

enum { OVERLAP = 4 /* a tile overlaps the next by this part */, STEP = 64 /* every network divides it by four */ };

zn_status zn_blend_check(int side, int downscale)
{
    const int step = OVERLAP * downscale > STEP ? OVERLAP * downscale : STEP; /* a quarter is whole latents too */
    return side >= 2 * STEP && side % step == 0
               ? ZN_OK
               : ZN_FAIL(ZN_EINVALID, "tiles to blend need a side that is a multiple of %d, %d or more, not %d", step,
                         2 * STEP, side);
}

zn_status zn_blend_add(zn_blend *b, zn_shape frame, const zn_clip_options *o, float **out)
{
    /* While the buffer grows, its old copy exists too. Pages without an image take no memory yet. */
    const int64_t size = zn_shape_count(frame), copied = b->count == b->capacity ? b->count : 0;
    if (o->memory && !o->device && o->held + sizeof *b->frames * (size_t)(size * (copied + b->count + 1)) > o->memory)
        return ZN_FAIL(ZN_ELIMIT,
                       "a memory budget of %.6g MiB is too small for more than %lld images of %lldx%lld in blended "
                       "tiles, which keep all images in memory: give more, or do not blend tiles",
                       (double)o->memory / (1 << 20), (long long)b->count, (long long)frame.dim[2],
                       (long long)frame.dim[1]);
    if (b->count == b->capacity) {
        const int64_t capacity = b->capacity ? 2 * b->capacity : 8;
        float *more = zn_realloc(b->frames, sizeof *more * (size_t)(capacity * size));
        if (!more)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for %lld images of a clip", (long long)capacity);
        b->frames = more;
        b->capacity = capacity;
    }
    b->frame = frame;
    *out = b->frames + b->count++ * size;
    return ZN_OK;
}

void zn_blend_clear(zn_blend *b)
{
    zn_free(b->frames);
    b->frames = NULL;
    b->count = b->capacity = 0;
}

/* What computes tiles of one size after another. */
typedef struct tiler {
    const zn_model *model;
    zn_part part;
    const zn_clip_options *options;
    zn_clip *clip; /* for the size of the last tile */
} tiler;

static zn_status fit_clip(tiler *t, zn_shape frame)
{
    if (t->clip && zn_shape_equal(zn_clip_frame(t->clip), frame))
        return ZN_OK;
    zn_clip_free(t->clip);
    t->clip = NULL;
    return zn_clip_new(t->model, t->part, frame, t->options, &t->clip);
}

/* A zn_wan_tile: all frames of one tile, piece by piece. */
static zn_status run_tile(void *self, const float *x, zn_shape in, float *y, zn_shape out)
{
    tiler *t = self;
    const size_t from = (size_t)(zn_shape_count(in) / in.dim[0]), to = (size_t)(zn_shape_count(out) / out.dim[0]);
    ZN_TRY(fit_clip(t, ZN_SHAPE(1, in.dim[1], in.dim[2], in.dim[3])));
    int64_t read = 0, made = 0;
    while (read < in.dim[0]) {
        float *input;
        const float *result;
        zn_shape shape;
        int frames;
        ZN_TRY(zn_clip_begin(t->clip, &input, &frames));
        if (read + frames > in.dim[0])
            return ZN_FAIL(ZN_ESHAPE, "a clip of %lld frames does not divide into pieces", (long long)in.dim[0]);
        memcpy(input, x + (size_t)read * from, sizeof *input * from * (size_t)frames);
        ZN_TRY(zn_clip_run(t->clip, &result, &shape));
        if (made + shape.dim[0] > out.dim[0])
            return ZN_FAIL(ZN_ESHAPE, "a tile makes more than %lld frames", (long long)out.dim[0]);
        memcpy(y + (size_t)made * to, result, sizeof *y * to * (size_t)shape.dim[0]);
        read += frames;
        made += shape.dim[0];
    }
    zn_clip_end(t->clip);
    return ZN_OK;
}

static zn_wan_tiles tiles_of(const zn_model *m, zn_part part, int side)
{
    const int step = side - side / OVERLAP;
    return (part == ZN_DECODER ? zn_wan_decode_tiles : zn_wan_encode_tiles)(m->config.downscale, side, step);
}

static zn_status run(int side, const zn_model *model, zn_part part, const zn_clip_options *o, const float *x,
                     zn_shape in, float **y, zn_shape out)
{
    zn_clip_options options = *o;
    tiler t = { .model = model, .part = part, .options = &options };
    const zn_wan_tiles tiles = tiles_of(model, part, side);
    if (!o->device) /* these are in the host's memory */
        options.held += sizeof **y * (size_t)zn_shape_count(out) + zn_wan_tiles_bytes(&tiles, in, out);
    ZN_TRY(zn_alloc_for("a clip", sizeof **y * (size_t)zn_shape_count(out), (void **)y));
    const zn_status status = zn_wan_tiled(&tiles, run_tile, &t, x, in, *y, out);
    zn_clip_free(t.clip);
    if (status != ZN_OK) {
        zn_free(*y);
        *y = NULL;
    }
    return status;
}

/* Copies of the last image up to whole latent frames. */
static zn_status fill(zn_blend *b, const zn_config *k, const zn_clip_options *o)
{
    const int64_t size = zn_shape_count(b->frame);
    while (b->count < k->first_frames || (b->count - k->first_frames) % k->frames) {
        float *next = NULL;
        ZN_TRY(zn_blend_add(b, b->frame, o, &next));
        memcpy(next, next - size, sizeof *next * (size_t)size);
    }
    return ZN_OK;
}

zn_status zn_blend_encode(zn_blend *b, const zn_model *model, const zn_clip_options *o, float **out, zn_shape *shape)
{
    const zn_config *k = &model->config;
    *out = NULL;
    ZN_TRY(fill(b, k, o));
    zn_clip_options options = *o;
    zn_shape in = b->frame;
    in.dim[0] = b->count;
    options.held += o->device ? 0 : sizeof *b->frames * (size_t)zn_shape_count(in);
    *shape = ZN_SHAPE(1 + (b->count - k->first_frames) / k->frames, in.dim[1] / k->downscale, in.dim[2] / k->downscale,
                      k->latent);
    return run(b->side, model, ZN_ENCODER, &options, b->frames, in, out, *shape);
}

zn_status zn_blend_decode(const zn_blend *b, const zn_model *model, const zn_clip_options *o, const float *latent,
                          zn_shape in, float **out, zn_shape *shape)
{
    const zn_config *k = &model->config;
    *out = NULL;
    *shape = ZN_SHAPE(1 + (in.dim[0] - 1) * k->frames, in.dim[1] * k->downscale, in.dim[2] * k->downscale, 3);
    return run(b->side, model, ZN_DECODER, o, latent, in, out, *shape);
}
