/* Which rows each layer computes, reads and keeps in each band, and the copies between bands; see bands.h. */
#include "pipeline/codec/bands.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/least.h"
#include "graph/needs.h"
#include "graph/plan.h"

#include <string.h>

typedef struct span {
    int64_t begin, end;
} span;

/* One node in one band, in rows of the whole map. */
typedef struct step {
    span made;    /* rows that are computed */
    span read;    /* rows of the first source that this takes */
    span window;  /* rows that the op writes: those made, and wrong ones around them */
    span held;    /* rows that the node's buffer has memory for */
    int64_t kept; /* rows [kept, made.begin) come from the band before */
    int64_t keep; /* rows [keep, made.end) are kept for the next band */
} step;

struct zn_bands {
    zn_graph *graph;
    zn_node *input, *output;
    zn_prepare prepare;
    int nodes, count, now; /* now: the band that is running */
    int64_t rows, lag;     /* of output for each band, and that it is behind the input */
    step *steps;           /* [count][nodes] */
    bool *live;            /* maps that lead to the output; this and what follows by index of the node */
    int64_t *height;       /* of the whole map */
    int64_t *block;        /* side of the squares that its kernel computes */
    size_t *window_at;     /* byte of `memory` where the node's buffer begins */
    size_t *tail_at;       /* and where the rows that it keeps do */
    size_t windows, tails;
    double *flops; /* by band */
    char *memory;
    zn_exec_bands hooks;
};

static int64_t count_of(span s) { return s.end - s.begin; }
static int64_t round_up(int64_t n, int64_t to) { return n > 0 ? (n + to - 1) / to * to : -(-n / to * to); }
static step *step_of(const zn_bands *b, int band, const zn_node *n) { return &b->steps[band * b->nodes + n->index]; }
static bool is_live(const zn_bands *b, const zn_node *n) { return b->live[n->index]; }
static size_t row_bytes(const zn_node *n)
{
    return sizeof(float) * (size_t)(n->shape.dim[0] * n->shape.dim[2] * n->shape.dim[3]);
}

/* ---- what can be cut into bands ---- */

static void mark_live(zn_bands *b)
{
    b->live[b->output->index] = true;
    for (int i = b->output->index; i > b->input->index; i--) {
        const zn_node *n = zn_graph_at(b->graph, i);
        for (int s = 0; s < n->source_count && b->live[i]; s++)
            b->live[n->source[s]->index] |= !zn_is_constant(n->source[s]);
    }
}

/* Whether rows of n correspond to rows of its sources. */
static bool node_fits(const zn_bands *b, const zn_node *n)
{
    const int64_t rows = n->shape.dim[1];
    if (n->shape.rank != 4 || n->shape.dim[0] != 1 || n->op->global || (n->op->tail && n->op->tail(n) > 0))
        return false;
    for (int s = 0; s < n->source_count; s++) {
        const zn_shape from = n->source[s]->shape;
        if (is_live(b, n->source[s]) &&
            (from.rank != 4 || (s > 0 && from.dim[1] != rows) || (from.dim[1] % rows != 0 && rows % from.dim[1] != 0)))
            return false;
    }
    return n == b->input || !n->op->is_leaf;
}

static bool all_fit(const zn_bands *b)
{
    for (int i = 0; i < b->nodes; i++)
        if (b->live[i] && !node_fits(b, zn_graph_at(b->graph, i)))
            return false;
    return b->live[b->input->index];
}

/* Rows of the first source that rows of n depend on, beyond its borders too. */
static span reach_beyond(const zn_bands *b, const zn_node *n, span want)
{
    span r = want;
    if (n->op->reach)
        n->op->reach(n, &b->prepare, &r.begin, &r.end);
    const int64_t rows = b->height[n->source[0]->index];
    if (!n->op->mirrors || want.end <= 0 || want.begin >= rows)
        return r;
    const span mirrored = { 2 * rows - 1 - r.end, 1 - r.begin }; /* row -i is row i, without repeating row 0 */
    return (span){ r.end > rows ? zn_least(r.begin, mirrored.begin) : r.begin,
                   r.begin < 0 && mirrored.end > r.end ? mirrored.end : r.end };
}

/* The same within its borders. */
static span reach_of(const zn_bands *b, const zn_node *n, span want)
{
    const span r = reach_beyond(b, n, want);
    return (span){ r.begin < 0 ? 0 : r.begin, zn_least(r.end, b->height[n->source[0]->index]) };
}

/* ---- planning ---- */

/* Where the rows of each map end that rows of the output up to `end` depend on, beyond the borders of the maps too. */
static void find_ends(const zn_bands *b, int64_t end, int64_t *ends)
{
    for (int i = 0; i < b->nodes; i++)
        ends[i] = INT64_MIN;
    ends[b->output->index] = end;
    for (int i = b->output->index; i > b->input->index; i--) {
        const zn_node *n = zn_graph_at(b->graph, i);
        if (!b->live[i])
            continue;
        ends[i] = round_up(ends[i], b->block[i]);
        for (int s = 0; s < n->source_count; s++) {
            const bool moved = s == 0 && is_live(b, n->source[0]);
            const int64_t reached = moved ? reach_beyond(b, n, (span){ ends[i] - 1, ends[i] }).end : ends[i];
            int64_t *source = &ends[n->source[s]->index];
            *source = reached > *source ? reached : *source;
        }
    }
}

/* Rows to make. Every band takes so many new rows of the input: the first ones make no output yet, and in the last ones
 * there is no more input. Otherwise the first band would have to make everything that the first output depends on. */
static void plan_made(zn_bands *b, int band, int64_t *ends)
{
    step *now = step_of(b, band, zn_graph_at(b->graph, 0));
    const step *before = band ? now - b->nodes : NULL;
    find_ends(b, (band + 1) * b->rows - b->lag, ends);
    for (int i = 0; i < b->nodes; i++) {
        const int64_t done = before ? before[i].made.end : 0;
        now[i] = (step){ .made = { done, done }, .kept = before ? before[i].keep : 0 };
        if (b->live[i] && ends[i] > done)
            now[i].made.end = zn_least(ends[i], b->height[i]);
    }
}

/* Rows of output that the bands are behind the input: what its first row depends on. */
static int64_t lag_of(const zn_bands *b, int64_t *ends)
{
    find_ends(b, 0, ends);
    const int64_t in = b->height[b->input->index], out = b->height[b->output->index];
    const int64_t rows = ends[b->input->index] * out / in;
    return rows > 0 ? rows : 0;
}

static int64_t greatest_common_divisor(int64_t a, int64_t c) { return c ? greatest_common_divisor(c, a % c) : a; }

/* The window of a node: it begins where squares of the kernel do, so that they lie as on the whole map. */
static void plan_window(const zn_bands *b, const zn_node *n, step *st)
{
    st->read = st->window = st->made;
    if (n == b->input || !is_live(b, n->source[0]) || !count_of(st->made))
        return;
    const int64_t in = b->height[n->source[0]->index], out = b->height[n->index], block = b->block[n->index];
    const int64_t shrink = in > out ? in / out : 1, grow = out > in ? out / in : 1;
    const int64_t align = shrink * (block / greatest_common_divisor(block, grow));
    st->read = reach_of(b, n, st->made);
    st->read.begin = st->read.begin / align * align;
    st->read.end = zn_least(round_up(st->read.end, shrink), in);
    st->window = (span){ st->read.begin * out / in, st->read.end * out / in };
}

/* The first row of source s that n will read in the bands after this one. */
static int64_t next_read(const zn_bands *b, const zn_node *n, int s, int64_t done)
{
    if (done >= b->height[n->index])
        return INT64_MAX;
    return s == 0 ? reach_of(b, n, (span){ done, done + 1 }).begin : done;
}

static void cover(span *s, span more)
{
    s->begin = zn_least(s->begin, more.begin);
    s->end = more.end > s->end ? more.end : s->end;
}

/* What buffers hold, and what is kept of them for the next band. */
static void plan_held(zn_bands *b, int band)
{
    step *now = step_of(b, band, zn_graph_at(b->graph, 0));
    for (int i = 0; i < b->nodes; i++) {
        now[i].held = (span){ now[i].kept, now[i].made.end };
        now[i].keep = now[i].made.end;
    }
    for (int i = 0; i < b->nodes; i++) {
        const zn_node *n = zn_graph_at(b->graph, i);
        if (!b->live[i])
            continue;
        if (count_of(now[i].made))
            cover(&now[i].held, now[i].window);
        for (int s = 0; s < n->source_count; s++) {
            step *source = &now[n->source[s]->index];
            if (!is_live(b, n->source[s]))
                continue;
            source->keep = zn_least(source->keep, next_read(b, n, s, now[i].made.end));
            if (count_of(now[i].made))
                cover(&source->held, s == 0 ? now[i].read : now[i].window);
        }
    }
}

/* Gives n and its sources the shapes of their windows. False where the op would make other rows of them. */
static bool show_window(const zn_bands *b, zn_node *n, const step *st, bool check)
{
    for (int s = n->source_count - 1; s >= 0; s--) /* the first last: it may be the residual too */
        if (is_live(b, n->source[s]))
            n->source[s]->shape.dim[1] = count_of(s == 0 ? st->read : st->window);
    if (!check) {
        n->shape.dim[1] = count_of(st->window);
        return true;
    }
    const zn_shape whole = n->shape;
    const bool good = n->op->shape(n) == ZN_OK && n->shape.dim[1] == count_of(st->window);
    const int64_t rows = n->shape.dim[1];
    n->shape = whole;
    n->shape.dim[1] = good ? rows : whole.dim[1];
    return good;
}

static void restore_heights(zn_bands *b)
{
    for (int i = 0; i < b->nodes; i++)
        if (b->live[i])
            zn_graph_at(b->graph, i)->shape.dim[1] = b->height[i];
}

/* Operations and scratch of a band; false if some op does not do as planned. */
static bool measure_band(zn_bands *b, int band)
{
    bool good = true;
    for (int i = b->input->index + 1; i < b->nodes && good; i++) {
        zn_node *n = zn_graph_at(b->graph, i);
        step *st = step_of(b, band, n);
        if (!b->live[i] || !count_of(st->made))
            continue;
        good = show_window(b, n, st, true);
        if (good && n->op->cuts_rows && b->block[i] > 1) {
            st->window.end = st->made.end;
            n->shape.dim[1] = count_of(st->window);
        }
        b->flops[band] += good && n->op->flops ? n->op->flops(n) : 0;
        const zn_needs needs = good ? zn_needs_of(n, &b->prepare) : (zn_needs){ 0 };
        b->hooks.thread_scratch =
            needs.thread_scratch > b->hooks.thread_scratch ? needs.thread_scratch : b->hooks.thread_scratch;
        b->hooks.shared_scratch =
            needs.shared_scratch > b->hooks.shared_scratch ? needs.shared_scratch : b->hooks.shared_scratch;
    }
    restore_heights(b);
    return good;
}

static bool plan_bands(zn_bands *b, int64_t *ends)
{
    for (int band = 0; band < b->count; band++) {
        plan_made(b, band, ends);
        for (int i = b->input->index; i < b->nodes; i++)
            if (b->live[i])
                plan_window(b, zn_graph_at(b->graph, i), step_of(b, band, zn_graph_at(b->graph, i)));
        if (!measure_band(b, band))
            return false;
        plan_held(b, band);
    }
    return true;
}

/* Buffers share memory as the results of a whole run do; rows that are kept have their own. */
static zn_status place(zn_bands *b)
{
    for (int i = 0; i < b->nodes; i++) {
        zn_node *n = zn_graph_at(b->graph, i);
        int64_t held = 1, kept = 0;
        for (int band = 0; band < b->count && b->live[i]; band++) {
            const step *st = step_of(b, band, n);
            held = count_of(st->held) > held ? count_of(st->held) : held;
            kept = st->made.end - st->keep > kept ? st->made.end - st->keep : kept;
        }
        if (!b->live[i])
            continue;
        b->tail_at[i] = b->tails;
        b->tails += zn_needs_round(row_bytes(n) * (size_t)kept);
        n->shape.dim[1] = held;
    }
    zn_plan plan;
    ZN_TRY(zn_plan_make(b->graph, &b->output, 1, false, &plan));
    for (int i = 0; i < b->nodes; i++)
        if (b->live[i])
            b->window_at[i] = (size_t)plan.offset[i];
    b->windows = plan.block;
    zn_plan_free(&plan);
    restore_heights(b);
    return ZN_OK;
}

/* ---- running ---- */

static char *row_at(const zn_bands *b, const zn_node *n, int64_t row)
{
    const step *st = step_of(b, b->now, n);
    return b->memory + b->window_at[n->index] + (size_t)(row - st->held.begin) * row_bytes(n);
}

/* Buffers of n and of its sources, where its window begins. */
static bool before(void *user, zn_node *n)
{
    const zn_bands *b = user;
    const step *st = step_of(b, b->now, n);
    if (!count_of(st->made))
        return false;
    for (int s = 0; s < n->source_count; s++)
        if (is_live(b, n->source[s]))
            n->source[s]->data = (float *)row_at(b, n->source[s], s == 0 ? st->read.begin : st->window.begin);
    n->data = (float *)row_at(b, n, st->window.begin);
    return show_window(b, n, st, false);
}

/* Rows of the band before take their places, those for the next one are put aside, and n is the rows that are new. */
static void after(void *user, zn_node *n)
{
    const zn_bands *b = user;
    const step *st = step_of(b, b->now, n);
    char *tail = b->memory + b->windows + b->tail_at[n->index];
    memcpy(row_at(b, n, st->kept), tail, row_bytes(n) * (size_t)(st->made.begin - st->kept));
    memcpy(tail, row_at(b, n, st->keep), row_bytes(n) * (size_t)(st->made.end - st->keep));
    n->data = (float *)row_at(b, n, st->made.begin);
    n->shape.dim[1] = count_of(st->made);
}

zn_status zn_bands_allocate(zn_bands *b)
{
    if (!b->memory)
        b->memory = zn_calloc(1, b->windows + b->tails);
    if (!b->memory)
        return ZN_FAIL(ZN_ENOMEM, "out of memory: %zu bytes for bands of rows", b->windows + b->tails);
    for (int i = 0; i < b->nodes; i++)
        if (b->live[i]) {
            zn_graph_at(b->graph, i)->placed = true;
            zn_graph_at(b->graph, i)->data = (float *)(b->memory + b->window_at[i]);
        }
    restore_heights(b);
    return ZN_OK;
}

void zn_bands_release(zn_bands *b)
{
    zn_free(b->memory);
    b->memory = NULL;
}

void zn_bands_begin(zn_bands *b, int band)
{
    b->now = band;
    after(b, b->input);
}

static float *made_rows(const zn_bands *b, int band, const zn_node *n, int64_t *first, int64_t *rows)
{
    const step *st = step_of(b, band, n);
    *first = st->made.begin;
    *rows = count_of(st->made);
    return (float *)(b->memory + b->window_at[n->index] + (size_t)(*first - st->held.begin) * row_bytes(n));
}

float *zn_bands_input(zn_bands *b, int band, int64_t *first, int64_t *rows)
{
    return made_rows(b, band, b->input, first, rows);
}

const float *zn_bands_output(const zn_bands *b, int band, int64_t *first, int64_t *rows)
{
    return made_rows(b, band, b->output, first, rows);
}

/* ---- making and measuring ---- */

static zn_status allocate_plan(zn_bands *b)
{
    const size_t nodes = (size_t)b->nodes + 1;
    b->live = zn_calloc(nodes, sizeof *b->live);
    b->height = zn_calloc(nodes, sizeof *b->height);
    b->block = zn_calloc(nodes, sizeof *b->block);
    b->window_at = zn_calloc(nodes, sizeof *b->window_at);
    b->tail_at = zn_calloc(nodes, sizeof *b->tail_at);
    return b->live && b->height && b->block && b->window_at && b->tail_at
               ? ZN_OK
               : ZN_FAIL(ZN_ENOMEM, "out of memory for a plan of bands");
}

/* Plans all bands; *possible: every op does as planned. */
static zn_status plan_all(zn_bands *b, bool *possible)
{
    int64_t *ends = zn_calloc((size_t)b->nodes + 1, sizeof *ends);
    if (ends) {
        b->lag = lag_of(b, ends);
        b->count = (int)((b->height[b->output->index] + b->lag + b->rows - 1) / b->rows);
        b->flops = zn_calloc((size_t)b->count, sizeof *b->flops);
        b->steps = zn_calloc((size_t)b->count * (size_t)b->nodes, sizeof *b->steps);
    }
    const bool memory = ends && b->flops && b->steps;
    *possible = memory && plan_bands(b, ends);
    zn_free(ends);
    return memory ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a plan of bands");
}

static void look_at_nodes(zn_bands *b)
{
    for (int i = 0; i < b->nodes; i++) {
        zn_node *n = zn_graph_at(b->graph, i);
        if (!b->live[i])
            continue;
        b->height[i] = n->whole_rows = n->shape.dim[1];
        b->block[i] = n->op->block ? n->op->block(n, &b->prepare) : 1;
    }
}

zn_status zn_bands_new(zn_graph *g, zn_node *input, zn_node *output, const zn_prepare *p, int64_t rows, zn_bands **out,
                       bool *possible)
{
    *out = NULL;
    *possible = false;
    zn_bands *b = zn_calloc(1, sizeof *b);
    if (!b)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a plan of bands");
    *b = (zn_bands){ .graph = g, .input = input, .output = output, .prepare = *p, .rows = rows };
    b->nodes = zn_graph_count(g);
    b->hooks = (zn_exec_bands){ .before = before, .after = after, .user = b };
    zn_status status;
    ZN_TRY_DONE(allocate_plan(b));
    mark_live(b);
    if (all_fit(b)) {
        look_at_nodes(b);
        ZN_TRY_DONE(plan_all(b, possible));
    }
    if (*possible) {
        ZN_TRY_DONE(place(b));
        *out = b;
        return ZN_OK;
    }
    status = ZN_OK;
done:
    zn_bands_free(b);
    return status;
}

void zn_bands_free(zn_bands *b)
{
    if (!b)
        return;
    zn_free(b->live);
    zn_free(b->height);
    zn_free(b->block);
    zn_free(b->window_at);
    zn_free(b->tail_at);
    zn_free(b->flops);
    zn_free(b->steps);
    zn_free(b->memory);
    zn_free(b);
}

size_t zn_bands_bytes(const zn_bands *b)
{
    const size_t thread = zn_needs_round(b->hooks.thread_scratch), shared = zn_needs_round(b->hooks.shared_scratch);
    return b->windows + b->tails + shared + thread * (size_t)b->prepare.threads;
}

double zn_bands_flops(const zn_bands *b)
{
    double all = 0;
    for (int i = 0; i < b->count; i++)
        all += b->flops[i];
    return all;
}

double zn_bands_band_flops(const zn_bands *b, int band) { return b->flops[band]; }
int zn_bands_count(const zn_bands *b) { return b->count; }
int64_t zn_bands_height(const zn_bands *b) { return b->rows; }
const zn_exec_bands *zn_bands_hooks(const zn_bands *b) { return &b->hooks; }
