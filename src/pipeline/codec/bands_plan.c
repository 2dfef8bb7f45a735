/* Which rows each layer computes, reads and keeps in each band; see bands.h. */
#include "pipeline/codec/bands_data.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/least.h"
#include "graph/needs.h"
#include "graph/plan.h"

#include <string.h>

/* ---- what can be cut into bands ---- */

static void mark_live(zn_bands *b)
{
    b->live[b->output->index] = true;
    for (int i = b->output->index; i > b->input->index; i--) {
        const zn_node *n = zn_graph_at(b->graph, i);
        for (int s = 0; s < n->source_count && b->live[i]; s++) {
            const int source = n->source[s]->index;
            b->live[source] |= !zn_is_constant(n->source[s]);
            b->last[source] = i > b->last[source] ? i : b->last[source];
        }
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
        ends[i] = round_up(ends[i] - b->phase[i], b->block[i]) + b->phase[i];
        for (int s = 0; s < n->source_count; s++) {
            const bool moved = s == 0 && is_live(b, n->source[0]);
            const int64_t reached = moved ? reach_beyond(b, n, (span){ ends[i] - 1, ends[i] }).end : ends[i];
            int64_t *source = &ends[n->source[s]->index];
            *source = reached > *source ? reached : *source;
        }
    }
}

/* Rows to make in a band: up to `ends`. */
static void plan_made(zn_bands *b, int band, const int64_t *ends)
{
    step *now = step_of(b, band, zn_graph_at(b->graph, 0));
    const step *before = band ? now - b->nodes : NULL;
    for (int i = 0; i < b->nodes; i++) {
        const int64_t done = before ? before[i].made.end : 0;
        now[i] = (step){ .made = { done, done }, .kept = before ? before[i].keep : 0 };
        if (b->live[i] && ends[i] > done)
            now[i].made.end = zn_least(ends[i], b->height[i]);
    }
}

/* Rows of output that the bands follow the input by: what its first row depends on. */
static int64_t lag_of(const zn_bands *b, int64_t *ends)
{
    find_ends(b, 0, ends);
    const int64_t in = b->height[b->input->index], out = b->height[b->output->index];
    const int64_t rows = ends[b->input->index] * out / in;
    return rows > 0 ? rows : 0;
}

/* ---- running ahead of the output ---- */

/* The rows of n that can be made of `ends` rows of its sources: up to `most`, and whole squares. */
static int64_t makeable(const zn_bands *b, const zn_node *n, const int64_t *ends, int64_t done, int64_t most)
{
    const int64_t block = b->block[n->index], phase = b->phase[n->index];
    int64_t low = done, high = zn_least(most, b->height[n->index]);
    for (int s = 1; s < n->source_count; s++)
        high = is_live(b, n->source[s]) ? zn_least(high, ends[n->source[s]->index]) : high;
    while (low < high) { /* the last row that depends only on rows that are there */
        const int64_t middle = low + (high - low + 1) / 2;
        const bool fits =
            !is_live(b, n->source[0]) || reach_of(b, n, (span){ middle - 1, middle }).end <= ends[n->source[0]->index];
        low = fits ? middle : low;
        high = fits ? high : middle - 1;
    }
    const int64_t whole = round_up(low - phase - block + 1, block) + phase;
    return low == b->height[n->index] || low == done ? low : whole > done ? whole : done;
}

/* Lets layers that save memory make all rows that their sources' rows suffice for. */
static void extend(const zn_bands *b, int64_t *ends)
{
    for (int i = b->input->index; i < b->nodes; i++) {
        const zn_node *n = zn_graph_at(b->graph, i);
        if (!b->live[i])
            continue;
        ends[i] = zn_least(ends[i] < 0 ? 0 : ends[i], b->height[i]);
        if (b->saves[i])
            ends[i] = makeable(b, n, ends, ends[i], b->height[i]);
    }
}

/* Rows of the sources of n that its rows up to `end` depend on. */
static void want_sources(const zn_bands *b, const zn_node *n, int64_t end, int64_t *wants)
{
    for (int s = 0; s < n->source_count; s++) {
        int64_t *source = &wants[n->source[s]->index];
        if (!is_live(b, n->source[s]))
            continue;
        const int64_t needed = s == 0 ? reach_of(b, n, (span){ end - 1, end }).end : end;
        *source = needed > *source ? needed : *source;
    }
}

static int64_t done_of(const zn_bands *b, int node)
{
    return b->count ? step_of(b, b->count - 1, zn_graph_at(b->graph, node))->made.end : 0;
}

/* Rows that a node should make in a band: as many as the output, at its own resolution, and whole squares. */
static int64_t share_of(const zn_bands *b, int node)
{
    const int64_t rows = b->rows * b->height[node] / b->height[b->output->index];
    return round_up(rows > 1 ? rows : 1, b->block[node]);
}

static bool too_many(const zn_bands *b, const int64_t *ends)
{
    for (int i = 0; i < b->nodes; i++)
        if (b->live[i] && ends[i] - done_of(b, i) > 2 * share_of(b, i))
            return true;
    return false;
}

/* What can be made of `input` rows of the input and is needed for `ends`: rows of the layers that save memory, and what
 * they depend on. False: nothing. */
static bool find_early(const zn_bands *b, int64_t input, const int64_t *ends, int64_t *early)
{
    int64_t *can = early + b->nodes;
    bool any = false;
    for (int i = 0; i < b->nodes; i++) {
        const zn_node *n = zn_graph_at(b->graph, i);
        early[i] = done_of(b, i);
        const int64_t most = b->block[i] > 1 ? zn_least(ends[i], early[i] + share_of(b, i)) : ends[i];
        if (b->live[i])
            can[i] = n == b->input ? zn_least(input, ends[i]) : makeable(b, n, can, early[i], most);
    }
    for (int i = b->nodes - 1; i > b->input->index; i--) {
        const zn_node *n = zn_graph_at(b->graph, i);
        if (b->live[i] && can[i] > early[i] && b->saves[i])
            early[i] = can[i];
        if (b->live[i] && early[i] > done_of(b, i)) {
            any = true;
            want_sources(b, n, early[i], early);
        }
    }
    return any;
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

bool zn_bands_show_window(const zn_bands *b, zn_node *n, const step *st, bool check)
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

void zn_bands_restore_heights(zn_bands *b)
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
        good = zn_bands_show_window(b, n, st, true);
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
    zn_bands_restore_heights(b);
    return good;
}

/* *possible: every op does as planned. */
static zn_status add_band(zn_bands *b, const int64_t *ends, bool *possible)
{
    const int band = b->count;
    if (!ZN_GROW(b->steps, b->step_capacity, (band + 1) * b->nodes) || !ZN_GROW(b->flops, b->flops_capacity, band + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a plan of bands");
    b->count++;
    b->flops[band] = 0;
    plan_made(b, band, ends);
    for (int i = b->input->index; i < b->nodes; i++)
        if (b->live[i])
            plan_window(b, zn_graph_at(b->graph, i), step_of(b, band, zn_graph_at(b->graph, i)));
    *possible = measure_band(b, band);
    if (*possible)
        plan_held(b, band);
    return ZN_OK;
}

/* Adds bands before the one that makes `ends`, while a layer would make many more rows in that one than in others. */
static zn_status lead_up(zn_bands *b, const int64_t *ends, int64_t *early, bool *possible)
{
    int64_t input = done_of(b, b->input->index);
    while (*possible && too_many(b, ends)) {
        if (find_early(b, input, ends, early))
            ZN_TRY(add_band(b, early, possible));
        else if (input >= ends[b->input->index])
            break;
        input += share_of(b, b->input->index);
    }
    return ZN_OK;
}

/* Every band takes so many new rows of the input: the first ones make no output yet, and in the last ones there is no
 * more input. Otherwise the first band would have to make everything that the first output depends on. Where layers
 * compute large squares, some bands would make many more rows than others, so others lead up to them. */
static zn_status plan_bands(zn_bands *b, int64_t *ends, int64_t *early, bool *possible)
{
    const int64_t out = b->height[b->output->index];
    *possible = true;
    for (int64_t end = b->rows - b->lag; end < out + b->rows && *possible; end += b->rows) {
        find_ends(b, end, ends);
        extend(b, ends);
        ZN_TRY(lead_up(b, ends, early, possible));
        if (*possible)
            ZN_TRY(add_band(b, ends, possible));
    }
    return ZN_OK;
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
    ZN_TRY(zn_plan_make(b->graph, &b->output, 1, false, zn_views_parameters(&b->prepare), &plan));
    for (int i = 0; i < b->nodes; i++)
        if (b->live[i])
            b->window_at[i] = (size_t)plan.offset[i];
    b->windows = plan.block;
    zn_plan_free(&plan);
    zn_bands_restore_heights(b);
    return ZN_OK;
}

/* ---- the whole plan ---- */

static zn_status plan_all(zn_bands *b, bool *possible)
{
    const size_t nodes = (size_t)b->nodes + 1;
    int64_t *ends = zn_calloc(3 * nodes, sizeof *ends); /* of the next band, and two lists for find_early */
    if (!ends)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a plan of bands");
    b->lag = lag_of(b, ends);
    const zn_status status = plan_bands(b, ends, ends + nodes, possible);
    zn_free(ends);
    return status;
}

static int64_t reach_end(const zn_bands *b, const zn_node *n, int64_t row)
{
    int64_t begin = row, end = row + 1;
    if (n->op->reach)
        n->op->reach(n, &b->prepare, &begin, &end);
    return end;
}

/* A layer that reads whole squares, of `block` rows each, may have borders of squares elsewhere than at row 0. */
static int64_t phase_of(const zn_bands *b, const zn_node *n)
{
    const int64_t block = b->block[n->index];
    for (int64_t row = 1; row < block && n != b->input; row++)
        if (reach_end(b, n, row) != reach_end(b, n, row - 1))
            return reach_end(b, n, row) == reach_end(b, n, row + block - 1) ? row : 0;
    return 0;
}

/* Whether rows of n take no more memory than the rows that it is the last to read. */
static bool saves_memory(const zn_bands *b, const zn_node *n)
{
    size_t freed = 0;
    for (int s = 0; s < n->source_count; s++)
        if (is_live(b, n->source[s]) && b->last[n->source[s]->index] == n->index)
            freed += row_bytes(n->source[s]) * (size_t)b->height[n->source[s]->index];
    return freed >= row_bytes(n) * (size_t)b->height[n->index];
}

static void look_at_nodes(zn_bands *b)
{
    for (int i = 0; i < b->nodes; i++) {
        zn_node *n = zn_graph_at(b->graph, i);
        if (!b->live[i])
            continue;
        b->height[i] = n->whole_rows = n->shape.dim[1];
        b->block[i] = n->op->block ? n->op->block(n, &b->prepare) : 1;
        b->phase[i] = phase_of(b, n);
    }
    for (int i = 0; i < b->nodes; i++)
        b->saves[i] = b->live[i] && i != b->input->index && saves_memory(b, zn_graph_at(b->graph, i));
}

zn_status zn_bands_plan(zn_bands *b, bool *possible)
{
    mark_live(b);
    if (!all_fit(b))
        return ZN_OK;
    look_at_nodes(b);
    ZN_TRY(plan_all(b, possible));
    return *possible ? place(b) : ZN_OK;
}
