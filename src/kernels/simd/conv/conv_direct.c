/* Direct convolution of any shape as an implicit matrix product, fp32, NHWC.
 *
 * In NHWC the kw * cin multipliers of one kernel row are contiguous in the input. An output pixel is therefore a row
 * of gemm.h's a with one segment per kernel row, read in place. A unit is a stretch of one output row. Only a
 * stretch that crosses the left or right edge (or reads upsampled input) is first copied, with zeros. Kernel rows
 * above and below the image are skipped. With too few channels for that, all multipliers of a pixel are gathered
 * into one row ("columns" below). Pixel shuffles are done in the scratch buffer of a stretch.
 *
 * Where a small map has many weights, these would come from memory for each row again: a unit is then a panel of
 * outputs for all rows, or for a group of them, in slices where no assembly fetches weights ahead. */
#include "kernels/conv.h"
#include "kernels/simd/conv/gemm.h"
#include "kernels/simd/conv/slices.h"
#include "kernels/simd/vec_math.h"

extern const zn_conv_kernel ZN_KERNEL(conv_direct);

enum { STRETCH = 16 * GEMM_MR, PATCH_FLOATS = 256 << 10, FEW = 24 };

static int least(int64_t a, int64_t b) { return (int)(a < b ? a : b); }

/* A 1x1 convolution is treated as one long row. */
static zn_conv_shape flat(const zn_conv_shape *s)
{
    zn_conv_shape f = *s;
    const int64_t pixels = (int64_t)s->n * s->oh * s->ow;
    if (s->kh == 1 && s->kw == 1 && s->stride == 1 && s->pad == 0 && !s->up2 && zn_conv_keeps_size(s) &&
        !s->unshuffle && !s->shuffle && pixels < INT32_MAX) {
        f.w = f.ow = (int)pixels;
        f.n = f.h = f.oh = 1;
    }
    return f;
}

/* Multipliers of a gathered pixel, rounded up to whole steps; 0: not gathered. */
static int columns_of(const zn_conv_shape *s)
{
    const int k = s->kw * s->cin, all = s->kh * k, step = 4;
    const bool few = k < FEW && s->kh > 1;
    if ((!few && k % VEC_STEP == 0 && k >= GEMM_K_LEAST) || all > 1024)
        return 0;
    return (all < 8 ? 8 : (all + step - 1) / step * step);
}

static int64_t patch_floats(const zn_conv_shape *s, int stretch)
{
    return (int64_t)s->kh * ((stretch - 1) * s->stride + s->kw) * s->cin + VEC_LANES;
}

/* Output pixels per unit: whole blocks, part of a row, with a patch of limited size. */
static int stretch_of(const zn_conv_shape *s)
{
    int stretch = STRETCH;
    while (stretch > GEMM_MR && (patch_floats(s, stretch) > PATCH_FLOATS || stretch * s->cout > PATCH_FLOATS))
        stretch -= GEMM_MR;
    const int parts = (s->ow + stretch - 1) / stretch, even = (s->ow + parts - 1) / parts;
    return (even + GEMM_MR - 1) / GEMM_MR * GEMM_MR;
}

static int parts_of(const zn_conv_shape *s)
{
    const int stretch = stretch_of(s);
    return (s->ow + stretch - 1) / stretch;
}

static int64_t depth_of(const zn_conv_shape *s)
{
    return columns_of(s) ? columns_of(s) : (int64_t)s->kh * s->kw * s->cin;
}

/* How the outputs of all rows are divided into units: `panels` of `width` outputs, and `groups` of rows for each. */
typedef struct division {
    int width, panels, groups;
    int64_t rows;
} division;

static division division_of(const zn_conv_shape *s)
{
    enum { MANY_WEIGHTS = 256 << 10, FEW_PIXELS = 256 };
    const int all = VEC_ROUND(s->cout);
    division d = { .width = all, .panels = 1, .rows = (int64_t)s->n * s->oh };
    d.groups = (int)d.rows;
    if (s->shuffle || depth_of(s) * all < MANY_WEIGHTS || d.rows * s->ow > FEW_PIXELS || all <= GEMM_NR)
        return d;
    const int wanted = 2 * zn_conv_threads(s);
    d.width = GEMM_NR;
    d.panels = (all + GEMM_NR - 1) / GEMM_NR;
    d.groups = least(d.rows, d.panels < wanted ? (wanted + d.panels - 1) / d.panels : 1);
    return d;
}

/* A line of the input with its edges; and how many of them all rows of outputs read at most. */
static int64_t line_floats(const zn_conv_shape *s) { return (int64_t)((s->ow - 1) * s->stride + s->kw) * s->cin; }
static int64_t all_lines(const zn_conv_shape *s) { return ((int64_t)s->n * s->h) << (s->up2 ? 1 : 0); }

/* Whether a unit multiplies slices of its weights with all of its pixels. */
static bool is_sliced(const zn_conv_shape *s)
{
    return !GEMM_FETCHES && division_of(s).panels > 1 && !s->unshuffle && !columns_of(s) && s->pad < s->kh &&
           parts_of(s) == 1 && all_lines(s) * line_floats(s) <= 2 * PATCH_FLOATS;
}

/* Scratch, in floats: the results of a stretch, its patch of the input (or one pixel during a shuffle), its gathered
 * multipliers. With slices: the results of a unit, and the lines that it reads. */
typedef struct buffers {
    float *c, *patch, *columns;
} buffers;

static int64_t carve(const zn_conv_shape *s, float *base, buffers *b)
{
    if (is_sliced(s)) {
        const int64_t sums = division_of(s).rows * s->ow * GEMM_NR;
        if (b)
            *b = (buffers){ .c = base, .patch = base + sums };
        return sums + all_lines(s) * line_floats(s);
    }
    const int stretch = stretch_of(s);
    const int64_t c = (int64_t)stretch * VEC_ROUND(s->cout), most = patch_floats(s, stretch);
    const int64_t patch = most < s->cout ? s->cout : most;
    if (b)
        *b = (buffers){ .c = base, .patch = base + c, .columns = base + c + patch };
    return c + patch + (int64_t)stretch * columns_of(s) + VEC_LANES;
}

/* patch[rows][cols][cin] = the input from (y,x), upsampled if needed, zero outside the image. */
static void gather(const zn_conv_args *a, const zn_conv_shape *s, int n, int y, int x, int rows, int cols, float *patch)
{
    const int up = s->up2 ? 1 : 0, high = s->h << up, wide = s->w << up;
    const int first = x < 0 ? least(-x, cols) : 0, end = wide - x < first ? first : least(cols, wide - x);
    for (int r = 0; r < rows; r++, patch += (int64_t)cols * s->cin) {
        if (y + r < 0 || y + r >= high) {
            memset(patch, 0, sizeof(float) * (size_t)cols * (size_t)s->cin);
            continue;
        }
        const float *line = a->x + ((int64_t)n * s->h + ((y + r) >> up)) * s->w * s->cin;
        memset(patch, 0, sizeof(float) * (size_t)first * (size_t)s->cin);
        memset(patch + (int64_t)end * s->cin, 0, sizeof(float) * (size_t)(cols - end) * (size_t)s->cin);
        if (!up)
            memcpy(patch + (int64_t)first * s->cin, line + (int64_t)(x + first) * s->cin,
                   sizeof(float) * (size_t)(end - first) * (size_t)s->cin);
        for (int c = first; up && c < end; c++)
            memcpy(patch + (int64_t)c * s->cin, line + (int64_t)((x + c) >> 1) * s->cin,
                   sizeof(float) * (size_t)s->cin);
    }
}

/* patch[count][cin], read through a pixel unshuffle. */
static void gather_unshuffled(const zn_conv_args *a, const zn_conv_shape *s, int64_t row, int x, int count,
                              float *patch)
{
    const int c = s->cin / 4;
    for (int t = 0; t < count; t++, patch += s->cin) {
        const float *from[4];
        for (int i = 0; i < 4; i++)
            from[i] = a->x + zn_conv_sub_pixel(row, s->w, x + t, i, c);
        for (int k = 0; k < c; k += 4)
            interleave4(patch + 4 * k, from[0] + k, from[1] + k, from[2] + k, from[3] + k);
    }
}

/* columns[count][width]: the kh * kw * cin multipliers of each pixel, then zeros. Whole vectors are copied; the next
 * row or pixel overwrites the excess. */
static void gather_columns(const zn_conv_shape *s, const float *patch, int cols, int count, int width, float *columns)
{
    const int k = s->kw * s->cin, all = s->kh * k;
    for (int t = 0; t < count; t++, columns += width) {
        for (int ky = 0; ky < s->kh; ky++) {
            const float *from = patch + ((int64_t)ky * cols + t * s->stride) * s->cin;
            for (int i = 0; i < k; i += VEC_LANES)
                vec_store(columns + ky * k + i, vec_load(from + i));
        }
        for (int i = all; i < width; i++)
            columns[i] = 0;
    }
}

/* Stores the results c[count][width] of a stretch: those of outputs from oc on. */
static void finish(const zn_conv_args *a, const float *c, int width, int oc, int count, int64_t at)
{
    const int outputs = least(width, a->s.cout - oc);
    for (int t = 0; t < count; t++, at += a->s.cout, c += width)
        finish_run(a, c, a->bias ? a->bias + oc : NULL, outputs, at + oc);
}

/* The same through a pixel shuffle; each pixel is split in the buffer `split`. */
static void finish_shuffled(const zn_conv_args *a, float *c, int padded, int count, int64_t row, int x, float *split)
{
    const int cout = a->s.cout, each = cout / 4;
    for (int t = 0; t < count; t++, c += padded) {
        for (int j = 0; a->bias && j < cout; j++)
            c[j] += a->bias[j];
        part(split, c, each, 4);
        for (int i = 0; i < 4; i++)
            finish_run(a, split + i * each, NULL, each, zn_conv_sub_pixel(row, a->s.ow, x + t, i, each));
    }
}

/* The multipliers of `count` pixels from (n,oy,ox): in the input itself, in a patch, or gathered. Returns the first
 * kernel row inside the image. */
static int multipliers(const zn_conv_args *a, const zn_conv_shape *s, int64_t row, int ox, int count, const buffers *b,
                       gemm_args *g)
{
    const int n = (int)(row / s->oh), y = (int)(row % s->oh) * s->stride - s->pad, x = ox * s->stride - s->pad;
    const int cols = (count - 1) * s->stride + s->kw, k = s->kw * s->cin, all = columns_of(s);
    if (s->unshuffle) {
        gather_unshuffled(a, s, row, ox, count, b->patch);
        *g = (gemm_args){ .a = b->patch, .row = s->cin, .segments = 1, .k = s->cin };
        return 0;
    }
    if (all) {
        gather(a, s, n, y, x, s->kh, cols, b->patch);
        gather_columns(s, b->patch, cols, count, all, b->columns);
        *g = (gemm_args){ .a = b->columns, .row = all, .segments = 1, .k = all };
        return 0;
    }
    const int first = y < 0 ? least(-y, s->kh) : 0, end = least(s->kh, ((int64_t)s->h << s->up2) - y);
    *g = (gemm_args){ .row = (int64_t)s->stride * s->cin, .segments = end > first ? end - first : 0, .k = k };
    if (s->up2 || x < 0 || x + cols > s->w) {
        gather(a, s, n, y + first, x, g->segments, cols, b->patch);
        g->a = b->patch;
        g->segment = (int64_t)cols * s->cin;
    } else {
        g->a = a->x + (((int64_t)n * s->h + y + first) * s->w + x) * s->cin;
        g->segment = (int64_t)s->w * s->cin;
    }
    return first;
}

/* How many of `count` pixels from (row,ox) to process at once. Pixels that cross an edge are separated from those
 * that are read in place; otherwise everything would be copied. */
static int piece_of(const zn_conv_shape *s, int ox, int count)
{
    if (s->up2 || s->unshuffle || columns_of(s))
        return count;
    const int inside = s->w - s->kw + s->pad < 0 ? 0 : (s->w - s->kw + s->pad) / s->stride + 1; /* of the right edge */
    if (ox * s->stride < s->pad)
        return least(count, GEMM_MR_ONE);
    return ox < inside ? least(count, inside - ox) : count;
}

/* `width` outputs from oc on of `count` pixels from (row,ox) on. */
static void run_piece(const zn_conv_args *a, const zn_conv_shape *s, int oc, int width, int64_t row, int ox, int count,
                      const buffers *b)
{
    gemm_args g;
    const int first = multipliers(a, s, row, ox, count, b, &g);
    g.depth = (int)depth_of(s);
    g.b = (const float *)a->packed + (int64_t)oc * g.depth;
    g.skip = first * s->kw * s->cin;
    g.c = b->c;
    g.c_row = width;
    ZN_KERNEL(gemm)(&g, count, width);
    if (s->shuffle)
        finish_shuffled(a, b->c, width, count, row, ox, b->patch);
    else
        finish(a, b->c, width, oc, count, (row * s->ow + ox) * s->cout);
}

/* Outputs [oc, oc + width) of the rows [row, end_row): slice by slice of the weights, for all of these rows. */
static void run_slices(const zn_conv_args *a, const zn_conv_shape *s, int oc, int width, int64_t row, int64_t end_row,
                       const buffers *b)
{
    const int high = s->h << (s->up2 ? 1 : 0), cols = (s->ow - 1) * s->stride + s->kw;
    unit_pixels u = { .high = high,
                      .stride = s->stride,
                      .pad = s->pad,
                      .rows = s->oh,
                      .wide = s->ow,
                      .row = row,
                      .end_row = end_row,
                      .patch = b->patch,
                      .line = line_floats(s) };
    int64_t end;
    unit_lines(&u, s->kh, &u.first, &end);
    for (int64_t i = u.first; i < end; i++)
        gather(a, s, (int)(i / high), (int)(i % high), -s->pad, 1, cols, b->patch + (i - u.first) * u.line);
    multiply_slices(&u, (const float *)a->packed + oc * depth_of(s), s->kh, s->kw * s->cin, s->cin, width, b->c);
    finish(a, b->c, width, oc, (int)((end_row - row) * s->ow), row * s->ow * s->cout);
}

static void run(const void *args, zn_range r)
{
    const zn_conv_args *a = args;
    const zn_conv_shape s = flat(&a->s);
    const int length = stretch_of(&s), parts = parts_of(&s);
    const division d = division_of(&s);
    const bool sliced = is_sliced(&s);
    buffers b;
    carve(&s, r.scratch, &b);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const int64_t group = unit / parts % d.groups;
        const int64_t first_row = group * d.rows / d.groups, end_row = (group + 1) * d.rows / d.groups;
        const int oc = (int)(unit / parts / d.groups) * d.width, width = least(d.width, VEC_ROUND(s.cout) - oc);
        const int begin = (int)(unit % parts) * length, end = least(begin + length, s.ow);
        if (sliced) {
            run_slices(a, &s, oc, width, first_row, end_row, &b);
            continue;
        }
        for (int64_t row = first_row; row < end_row; row++)
            for (int ox = begin, count; ox < end; ox += count) {
                count = piece_of(&s, ox, end - ox);
                run_piece(a, &s, oc, width, row, ox, count, &b);
            }
    }
}

static bool supports(const zn_conv_shape *s)
{
    return patch_floats(s, GEMM_MR) <= PATCH_FLOATS && s->cout <= PATCH_FLOATS / GEMM_MR;
}

static size_t scratch_bytes(const zn_conv_shape *shape)
{
    const zn_conv_shape s = flat(shape);
    return sizeof(float) * (size_t)carve(&s, NULL, NULL);
}

static int64_t units(const zn_conv_shape *shape)
{
    const zn_conv_shape s = flat(shape);
    const division d = division_of(&s);
    return (int64_t)d.panels * d.groups * parts_of(&s);
}

static size_t packed_bytes(const zn_conv_shape *s)
{
    return sizeof(float) * (size_t)depth_of(s) * (size_t)VEC_ROUND(s->cout);
}

/* [panel of GEMM_NR outputs][kh][kw][cin][outputs of the panel], zero-padded. */
static void pack(const zn_conv_shape *s, const float *w, void *packed)
{
    const int k = s->kh * s->kw * s->cin, all = (int)depth_of(s), cout_p = VEC_ROUND(s->cout);
    float *to = packed;
    for (int oc = 0; oc < cout_p; oc += GEMM_NR)
        for (int i = 0; i < all; i++)
            for (int j = oc; j < oc + GEMM_NR && j < cout_p; j++)
                *to++ = i < k && j < s->cout ? w[(int64_t)i * s->cout + j] : 0;
}

static bool rearranges(const zn_conv_shape *s) { return s->cin > 0; }

const zn_conv_kernel ZN_KERNEL(conv_direct) = {
    .name = "direct-f32-" ZN_ISA_NAME,
    .math = ZN_PRECISION_F32,
    .cpu = VEC_CPU,
    .tolerance = 5e-6f,
    .supports = supports,
    .packed_bytes = packed_bytes,
    .pack = pack,
    .rearranges = rearranges,
    .scratch_bytes = scratch_bytes,
    .units = units,
    .run = run,
    .flops = zn_conv_direct_flops,
};
