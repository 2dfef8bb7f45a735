/* Kernels on maps of bf16; see narrow.h. */
#include "kernels/narrow.h"

#include "base/convert.h"
#include "base/least.h"
#include "kernels/mix.h"
#include "kernels/norm.h"

void zn_ref_widen(const void *args, zn_range r)
{
    const zn_widen_args *a = args;
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = zn_bf16_to_f32(a->x[i]);
}

void zn_ref_round(const void *args, zn_range r)
{
    const zn_round_args *a = args;
    for (int64_t i = r.begin; i < r.end; i++)
        a->y[i] = zn_f32_to_bf16(a->x[i]);
}

/* Values [at, at + count) of a map as floats: the map's own, or widened into `piece`. */
static const float *load_piece(const float *map, zn_type type, int64_t at, int64_t count, float *piece)
{
    if (type == ZN_TYPE_F32)
        return map + at;
    zn_k_widen(&(zn_widen_args){ (const uint16_t *)map + at, piece }, (zn_range){ 0, count, NULL });
    return piece;
}

/* Where to compute values [at, ...) of a map: in the map, or in `piece`, which store_piece then rounds. */
static float *buffer_for(float *map, zn_type type, int64_t at, float *piece)
{
    return type == ZN_TYPE_F32 ? map + at : piece;
}

static void store_piece(float *map, zn_type type, int64_t at, int64_t count, const float *piece)
{
    if (type != ZN_TYPE_F32)
        zn_k_round(&(zn_round_args){ piece, (uint16_t *)map + at }, (zn_range){ 0, count, NULL });
}

void zn_k_narrow_unary(const void *args, zn_range r)
{
    const zn_narrow_unary_args *a = args;
    float x[ZN_NARROW_PIECE];
    for (int64_t i = r.begin; i < r.end; i += ZN_NARROW_PIECE) {
        const int64_t count = zn_least(ZN_NARROW_PIECE, r.end - i);
        zn_unary_args piece = a->a;
        piece.x = load_piece(a->a.x, ZN_TYPE_BF16, i, count, x);
        piece.y = x;
        a->body(&piece, (zn_range){ 0, count, r.scratch });
        store_piece(a->a.y, ZN_TYPE_BF16, i, count, x);
    }
}

void zn_k_narrow_binary(const void *args, zn_range r)
{
    const zn_narrow_binary_args *a = args;
    float left[ZN_NARROW_PIECE], right[ZN_NARROW_PIECE];
    for (int64_t i = r.begin; i < r.end; i += ZN_NARROW_PIECE) {
        const int64_t count = zn_least(ZN_NARROW_PIECE, r.end - i);
        const zn_binary_args piece = { .a = load_piece(a->a.a, ZN_TYPE_BF16, i, count, left),
                                       .b = load_piece(a->a.b, ZN_TYPE_BF16, i, count, right),
                                       .y = left };
        a->body(&piece, (zn_range){ 0, count, r.scratch });
        store_piece(a->a.y, ZN_TYPE_BF16, i, count, left);
    }
}

/* Pixels of c channels in a piece. */
static int64_t pixels_of(int c) { return ZN_NARROW_PIECE / c; }

void zn_k_narrow_rms_norm(const void *args, zn_range r)
{
    const zn_mix_args *a = args;
    float x[ZN_NARROW_PIECE], y[ZN_NARROW_PIECE];
    for (int64_t p = r.begin, count; p < r.end; p += count) {
        count = zn_least(pixels_of(a->c), r.end - p);
        zn_mix_args piece = *a;
        piece.x = load_piece(a->x, a->x_type, p * a->c, count * a->c, x);
        piece.y = buffer_for(a->y, a->y_type, p * a->c, y);
        piece.pixels = count;
        zn_k_rms_norm(&piece, (zn_range){ 0, count, r.scratch });
        store_piece(a->y, a->y_type, p * a->c, count * a->c, y);
    }
}

/* A block is read twice, so it is widened as a whole: into the thread's scratch. */
void zn_k_narrow_norm_sums(const void *args, zn_range r)
{
    const zn_norm_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        int64_t begin, end;
        zn_norm_block_of(a, unit, &begin, &end);
        zn_norm_args block = *a;
        block.n = 1;
        block.pixels = end - begin;
        block.x = load_piece(a->x, a->x_type, begin * a->c, (end - begin) * a->c, r.scratch);
        block.partial = a->partial + unit * 2 * a->c;
        zn_k_norm_sums(&block, (zn_range){ 0, 1, NULL });
    }
}

void zn_k_narrow_norm_apply(const void *args, zn_range r)
{
    const zn_norm_args *a = args;
    float x[ZN_NARROW_PIECE], y[ZN_NARROW_PIECE];
    for (int64_t p = r.begin, count; p < r.end; p += count) {
        const int64_t map = p / a->pixels;
        count = zn_least(pixels_of(a->c), zn_least(r.end, (map + 1) * a->pixels) - p);
        zn_norm_args piece = *a;
        piece.n = 1;
        piece.pixels = count;
        piece.table = a->table + map * 3 * a->c;
        piece.x = load_piece(a->x, a->x_type, p * a->c, count * a->c, x);
        piece.y = buffer_for(a->y, a->y_type, p * a->c, y);
        zn_k_norm_apply(&piece, (zn_range){ 0, count, r.scratch });
        store_piece(a->y, a->y_type, p * a->c, count * a->c, y);
    }
}
