/* DeepSpectralLinear for AArch64, using the passes of spectral_turn.h, spectral_turn.h and spectral_turn.h. This
 * file defines which passes make up a layer, where rows are stored between the stages, and what the passes read
 * besides rows. */
#include "kernels/arm/kernels.h"
#include "kernels/arm/spectral/spectral_turn.h"
#include "kernels/spectral.h"

/* A layer, and its scratch: values for every stage in the order of their use, and two sets of rows. */
typedef struct whole_plan {
    const zn_spectral_linear_args *a;
    int first, bits, last; /* bits of the row index: of the input, of all rows, and of the output */
    int last_steps;        /* of the pass that the last stage starts with */
    uint32_t *offsets;     /* [depth][d], plus padding */
    float *factors, *bias; /* factors: as many; bias: [d] */
    char *t, *u;
    float *in, *out; /* pixels of an incomplete block */
} whole_plan;

/* Floats of padding after what the passes read. */
enum { WHOLE_SPARE = 32 };

static int whole_bits(int n)
{
    int bits = 0;
    while (1 << bits < n)
        bits++;
    return bits;
}

/* Whether the passes can transpose these channels: whole cache lines in each part, and parts distinguished by bits
 * of the row index. */
static bool whole_channels(int channels, bool shuffled)
{
    return shuffled ? channels >= 64 && 1 << whole_bits(channels) == channels : channels >= 48 && channels % 16 == 0;
}

/* Whether the passes support the layer, for any map size. */
bool zn_spectral_linear_arm_supports(const void *args)
{
    const zn_spectral_linear_args *a = args;
    const int bits = whole_bits(a->d), last = whole_bits(a->cout);
    if (bits < 7 || bits > 9 || a->depth < 2 || last < bits - 1 || last < 7 || !whole_channels(a->cin, a->shuffle_in) ||
        !whole_channels(a->cout, a->shuffle_out))
        return false;
    for (int i = 0; i < a->d; i++)
        if (a->from[i] != i)
            return false;
    return true;
}

/* Rotates a number of `bits` bits: its highest `by` bits become the lowest. */
static int whole_around(int row, int bits, int by) { return (row << by | row >> (bits - by)) & ((1 << bits) - 1); }

/* The row of channel k in a map of shuffled pixels: the parts are consecutive. */
static int whole_row(int k, int channels) { return k % 4 * (channels / 4) + k / 4; }
static int whole_channel(int row, int channels) { return row % (channels / 4) * 4 + row / (channels / 4); }

/* The position of channel k after a stage that started with four steps of sixteen adjacent rows. */
static int whole_end(const whole_plan *w, int stage, int k)
{
    const int bits = stage == 0 ? w->first : w->bits;
    k &= (1 << bits) - 1; /* zeros after the input make its end repeat */
    if (stage == 0 && w->a->shuffle_in)
        k = whole_row(k, w->a->cin);
    return whole_around(k, bits, bits - 4);
}

/* The channel of row i at the start of the last stage. It is chosen so that sixteen channels that are adjacent in
 * the map are in the highest bits when the last pass starts. */
static int whole_begin(const whole_plan *w, int i)
{
    const int high = w->last - 4, place = whole_around(i, w->last, high - w->last_steps);
    const int row = (place & ((1 << high) - 1)) << 4 | place >> high;
    return w->a->shuffle_out ? whole_channel(row, w->a->cout) : row;
}

/* Sets entry `at` of a stage to that of channel k. */
static void whole_number(const whole_plan *w, int stage, int at, int k)
{
    const int64_t first = (int64_t)stage * w->a->d;
    w->factors[first + at] = w->a->s[first + k];
    if (stage > 0)
        w->offsets[first + at] = (uint32_t)(whole_end(w, stage - 1, w->a->from[first + k]) * PASS_ROW);
}

static void whole_numbers(const whole_plan *w)
{
    const zn_spectral_linear_args *a = w->a;
    const int last = a->depth - 1, rows = 1 << w->last, parts = a->d / rows;
    for (int i = 0; i < 1 << w->first; i++)
        whole_number(w, 0, i, a->shuffle_in ? whole_channel(i, a->cin) : i);
    for (int stage = 1; stage < last; stage++)
        for (int i = 0; i < a->d; i++)
            whole_number(w, stage, i, i);
    for (int i = 0; i < rows; i++)
        for (int part = 0, k = whole_begin(w, i); part < parts; part++)
            whole_number(w, last, i / 16 * 16 * parts + part * 16 + i % 16, k + part * rows);
    memset(w->offsets + (int64_t)a->depth * a->d, 0, sizeof(uint32_t) * WHOLE_SPARE);
    memset(w->factors + (int64_t)a->depth * a->d, 0, sizeof(float) * WHOLE_SPARE);
    for (int i = 0; i < a->cout; i++)
        w->bias[i] = a->bias[a->shuffle_out ? whole_channel(i, a->cout) : i];
}

/* Eight pixels of a map, the first at x of a row. */
static pass_map whole_map(const float *map, int channels, bool shuffled, int64_t row, int x, int wide)
{
    pass_map m = { .parts = shuffled ? 4 : 1 };
    m.each = channels / m.parts;
    m.next = m.each * (shuffled ? 2 : 1) * (int64_t)sizeof(float);
    for (int sub = 0; sub < m.parts; sub++) {
        const int64_t pixel = shuffled ? ((row * 2 + sub / 2) * wide + x) * 2 + sub % 2 : row * wide + x;
        m.part[sub] = (char *)(uintptr_t)(map + pixel * m.each);
    }
    return m;
}

static void whole_copy(const pass_map *from, const pass_map *to, int pixels)
{
    for (int sub = 0; sub < from->parts; sub++)
        for (int i = 0; i < pixels; i++)
            memcpy(to->part[sub] + i * to->next, from->part[sub] + i * from->next, sizeof(float) * (size_t)from->each);
}

static void whole_swap(whole_plan *w)
{
    char *other = w->t;
    w->t = w->u;
    w->u = other;
}

/* What a pass reads and writes when the row index has `bits` bits. */
static pass_rows whole_rows(const whole_plan *w, int bits, pass_ahead **ahead)
{
    return (pass_rows){ w->t, w->u, (int64_t)1 << bits, (int64_t)w->a->d * PASS_ROW, ahead };
}

/* Does `steps` more steps on the rows in t. */
static void whole_steps(whole_plan *w, int bits, int steps, pass_ahead **ahead)
{
    while (steps > 0) {
        const int now = steps == 4 || steps == 2 ? steps : 3;
        const pass_rows r = whole_rows(w, bits, ahead);
        if (now == 4)
            pass_sixteen(r);
        else if (now == 3)
            pass_eight(r);
        else
            pass_four(r);
        steps -= now;
        whole_swap(w);
    }
}

/* Gathers the rows that a stage starts with. */
static void whole_gather(whole_plan *w, int stage, int bits, int steps, pass_ahead **ahead)
{
    const int64_t numbers = (int64_t)stage * w->a->d;
    const pass_gather q = { w->t, w->offsets + numbers, w->factors + numbers };
    const pass_rows r = whole_rows(w, bits, ahead);
    if (bits == w->bits && steps == 4)
        pass_gathered_four(&q, r);
    else if (bits == w->bits)
        pass_gathered_three(&q, r);
    else if (steps == 4)
        pass_folded_four(&q, r);
    else
        pass_folded_three(&q, r);
    whole_swap(w);
}

/* Computes all stages of the pixels of a block. */
static void whole_block(whole_plan *w, const pass_map *in, const pass_map *out, pass_ahead *ahead)
{
    const zn_spectral_linear_args *a = w->a;
    const int last = a->depth - 1;
    const int64_t panel = (int64_t)a->d * PASS_ROW;
    vec_pinned_fence();
    pass_turned(in, w->factors, w->t, panel);
    for (int i = 0; a->cin < 1 << w->first && i < 2; i++)
        memset(w->t + i * panel + a->cin * PASS_ROW, 0, (size_t)((1 << w->first) - a->cin) * PASS_ROW);
    whole_steps(w, w->first, w->first - 4, &ahead);
    for (int stage = 1; stage < last; stage++) {
        whole_gather(w, stage, w->bits, 4, &ahead);
        whole_steps(w, w->bits, w->bits - 4, &ahead);
    }
    whole_gather(w, last, w->last, w->last_steps, &ahead);
    whole_steps(w, w->last, w->last - 4 - w->last_steps, &ahead);
    const pass_rows r = whole_rows(w, w->last, NULL);
    pass_out(&r, w->bias, out);
    vec_pinned_fence();
}

/* Lists the cache lines of eight pixels in a map; returns the number of entries. */
static int whole_lines(const float *map, int channels, bool shuffled, int64_t row, int x, int wide, pass_ahead *ahead)
{
    const int lines = shuffled ? 2 : 1;
    const int64_t each = channels / lines;
    for (int i = 0; i < lines; i++)
        ahead[i] = (pass_ahead){ (const char *)(map + ((row * lines + i) * wide + x) * each), PASS_PIXELS * each / 16 };
    return lines;
}

enum { WHOLE_AHEAD = 5 };

/* What the next block reads, and what this one writes. */
static void whole_ahead(const zn_spectral_linear_args *a, int64_t row, int x, pass_ahead ahead[WHOLE_AHEAD])
{
    const int then = x + 2 * PASS_PIXELS <= a->wide ? x + PASS_PIXELS : 0;
    int n = whole_lines(a->x, a->cin, a->shuffle_in, then ? row : row + 1, then, a->wide, ahead);
    n += whole_lines(a->y, a->cout, a->shuffle_out, row, x, a->wide, ahead + n);
    ahead[n] = (pass_ahead){ 0 };
}

/* Processes pixels from x; those of an incomplete block are copied. */
static void whole_pixels(whole_plan *w, int64_t row, int x)
{
    const zn_spectral_linear_args *a = w->a;
    const int count = a->wide - x;
    const pass_map in = whole_map(a->x, a->cin, a->shuffle_in, row, x, a->wide),
                   out = whole_map(a->y, a->cout, a->shuffle_out, row, x, a->wide);
    pass_ahead ahead[WHOLE_AHEAD];
    if (count >= PASS_PIXELS) {
        whole_ahead(a, row, x, ahead);
        whole_block(w, &in, &out, ahead);
        return;
    }
    const pass_map in_copy = whole_map(w->in, a->cin, a->shuffle_in, 0, 0, PASS_PIXELS),
                   out_copy = whole_map(w->out, a->cout, a->shuffle_out, 0, 0, PASS_PIXELS);
    ahead[0] = (pass_ahead){ 0 };
    whole_copy(&in, &in_copy, count);
    whole_block(w, &in_copy, &out_copy, ahead);
    whole_copy(&out_copy, &out, count);
}

void zn_spectral_linear_arm(const void *args, zn_range r)
{
    const zn_spectral_linear_args *a = args;
    const int64_t rows = (int64_t)a->d * PASS_PIXELS, numbers = (int64_t)a->depth * a->d + WHOLE_SPARE;
    float *f = r.scratch;
    whole_plan w = { .a = a, .first = whole_bits(a->cin), .bits = whole_bits(a->d), .last = whole_bits(a->cout) };
    w.last_steps = w.last == 8 ? 4 : 3; /* the last pass does four; if any remain, they are two */
    w.t = (char *)f;
    w.u = (char *)(f + rows);
    w.in = f + 2 * rows + WHOLE_SPARE;
    w.out = w.in + rows;
    w.factors = w.out + rows;
    w.bias = w.factors + numbers;
    w.offsets = (uint32_t *)(void *)(w.bias + a->d);
    memset(w.in, 0, sizeof(float) * (size_t)rows);
    whole_numbers(&w);
    for (int64_t row = r.begin; row < r.end; row++)
        for (int x = 0; x < a->wide; x += PASS_PIXELS)
            whole_pixels(&w, row, x);
}
