/* Reorders frames. */
#include "kernels/frames.h"

#include "base/convert.h"

#include <string.h>

/* The part of a frame that a unit computes. */
static int64_t piece_of(const zn_frames_args *a, int64_t unit, int64_t *begin)
{
    *begin = unit % zn_frame_pieces(a->size) * ZN_FRAME_PIECE;
    return a->size - *begin < ZN_FRAME_PIECE ? a->size - *begin : ZN_FRAME_PIECE;
}

void zn_k_frames(const void *args, zn_range r)
{
    const zn_frames_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        int64_t begin;
        const int64_t count = piece_of(a, unit, &begin), t = unit / zn_frame_pieces(a->size);
        const int64_t f = a->from[t] - a->first;
        float *to = a->y + t * a->size + begin;
        if (a->from[t] < 0 && a->clear)
            memset(to, 0, sizeof(float) * (size_t)count);
        else if (f >= 0 && f < a->count)
            memcpy(to, a->x + f * a->size + begin, sizeof(float) * (size_t)count);
    }
}

void zn_k_frames_grad(const void *args, zn_range r)
{
    const zn_frames_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        int64_t begin;
        const int64_t count = piece_of(a, unit, &begin), f = unit / zn_frame_pieces(a->size);
        float *to = a->y + f * a->size + begin;
        memset(to, 0, sizeof(float) * (size_t)count);
        for (int64_t t = 0; t < a->frames; t++) {
            const float *dy = a->x + t * a->size + begin;
            for (int64_t i = 0; i < count && a->from[t] == a->first + f; i++)
                to[i] += dy[i];
        }
    }
}

static float number_of(const zn_stack_args *a, int64_t unit, int age, int channel)
{
    const int64_t frame = unit / a->pixels - age, pixel = unit % a->pixels, kept = frame + a->depth - 1;
    return frame >= 0  ? a->x[(frame * a->pixels + pixel) * a->c + channel]
           : a->before ? a->before[(kept * a->pixels + pixel) * a->c + channel]
                       : 0;
}

void zn_k_stack_frames(const void *args, zn_range r)
{
    const zn_stack_args *a = args;
    const int each = a->depth * a->c;
    for (int64_t i = r.begin; i < r.end; i++)
        for (int k = 0; k < ZN_STACKED; k++) {
            const float x = k < 3 * each ? number_of(a, i, k % each / a->c, k % a->c) : 0;
            const float high =
                a->type == ZN_TYPE_F16 ? zn_f16_to_f32(zn_f32_to_f16(x)) : zn_bf16_to_f32(zn_f32_to_bf16(x));
            const float y = k / each == 1 ? x - high : high;
            ((uint16_t *)a->y)[i * ZN_STACKED + k] = a->type == ZN_TYPE_F16 ? zn_f32_to_f16(y) : zn_f32_to_bf16(y);
        }
}
