/* Streaming weights to the device; see turns.h. */
#include "graph/turns.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/memory.h"
#include "graph/exec.h"
#include "graph/needs.h"
#include "graph/types.h"

#include <string.h>

/* While one slot is read, the other is written. */
enum { LEAST_SLOTS = 2, MOST_SLOTS = 4 };

static const double mib = 1048576.0;

int zn_packed_buffers(const zn_packed *w, int64_t rows, zn_window_buffer out[3])
{
    const size_t scales = w->groups ? (size_t)rows * w->groups : 1;
    int count = 0;
    out[count++] = (zn_window_buffer){ w->data, w->data, (size_t)rows * w->row_bytes };
    if (w->scales)
        out[count++] = (zn_window_buffer){ w->scales, w->scales, scales * zn_dtype_size(w->scale_dtype) };
    if (w->biases)
        out[count++] = (zn_window_buffer){ w->biases, w->biases, scales * zn_dtype_size(w->bias_dtype) };
    return count;
}

/* ---- which matrices there are ---- */

/* The packed matrix that a step on the device reads, or NULL. */
static const zn_node *matrix_of(const zn_node *n)
{
    const bool on_device = !n->on_host && n->op->launches && n->op->launches(n);
    for (int s = 0; s < n->source_count && on_device; s++)
        if (n->source[s]->packed)
            return n->source[s];
    return NULL;
}

static zn_turns_piece piece_of(const zn_node *matrix, int step)
{
    zn_turns_piece p = { .weights = matrix->packed, .step = step };
    p.count = zn_packed_buffers(matrix->packed, matrix->shape.dim[2], p.buffer);
    for (int i = 0; i < p.count; i++)
        p.bytes += zn_window_round(p.buffer[i].bytes);
    return p;
}

/* Whether another step reads the same numbers: such weights stay. */
static bool is_read_again(const zn_plan *plan, int first, int step)
{
    const zn_node *mine = matrix_of(plan->steps[step]);
    for (int i = first; i < plan->step_count; i++) {
        const zn_node *other = matrix_of(plan->steps[i]);
        if (i != step && other && other->packed->data == mine->packed->data)
            return true;
    }
    return false;
}

typedef struct totals {
    size_t all, largest, fixed; /* bytes; fixed: of those that have to stay */
} totals;

static totals count_bytes(const zn_plan *plan, int first)
{
    totals t = { 0 };
    for (int i = first; i < plan->step_count; i++) {
        const zn_node *m = matrix_of(plan->steps[i]);
        if (!m)
            continue;
        const size_t bytes = piece_of(m, i).bytes;
        const bool stays = is_read_again(plan, first, i);
        t.all += bytes;
        t.fixed += stays ? bytes : 0;
        t.largest = !stays && bytes > t.largest ? bytes : t.largest;
    }
    return t;
}

zn_status zn_exec_estimate_weights(zn_graph *g, zn_node *const *outputs, int count, const zn_prepare *p, size_t *all,
                                   size_t *least)
{
    zn_plan plan;
    ZN_TRY(zn_graph_status(g));
    ZN_TRY(zn_types_choose(g, outputs, count, p));
    ZN_TRY(zn_plan_make(g, outputs, count, true, zn_views_parameters(p), &plan));
    const totals t = count_bytes(&plan, plan.constant_count);
    *all = t.all;
    *least = t.fixed + LEAST_SLOTS * t.largest < t.all ? t.fixed + LEAST_SLOTS * t.largest : t.all;
    zn_plan_free(&plan);
    return ZN_OK;
}

bool zn_turns_has(const zn_turns *s, const zn_packed *w)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->pieces[i].weights == w)
            return true;
    return false;
}

/* Spreads those that stay evenly over the run, so that copies never pause: a matrix stays if the
 * share of bytes that stay, among those seen so far, is smaller than the share that may. */
static zn_status choose(zn_turns *s, const zn_plan *plan, int first, size_t may_stay, const totals *t)
{
    const double share = (double)(may_stay - t->fixed) / (double)(t->all - t->fixed);
    double seen = 0, stay = 0;
    for (int i = first; i < plan->step_count; i++) {
        const zn_node *m = matrix_of(plan->steps[i]);
        if (!m)
            continue;
        const zn_turns_piece p = piece_of(m, i);
        if (is_read_again(plan, first, i)) {
            s->resident += p.bytes;
            continue;
        }
        seen += (double)p.bytes;
        if (stay + (double)p.bytes <= share * seen) {
            stay += (double)p.bytes;
            s->resident += p.bytes;
            continue;
        }
        if (!ZN_GROW(s->pieces, s->capacity, s->count + 1))
            return ZN_FAIL(ZN_ENOMEM, "out of memory for a list of weights");
        s->pieces[s->count++] = p;
        s->bytes += p.bytes;
    }
    return ZN_OK;
}

zn_status zn_turns_make(zn_turns *s, zn_device *d, const zn_plan *plan, int first, size_t bytes, bool pins)
{
    *s = (zn_turns){ .device = d, .pins = pins };
    const totals t = count_bytes(plan, first);
    s->resident = t.all;
    if (!bytes || t.all <= bytes)
        return ZN_OK;
    s->resident = 0;
    s->slots = MOST_SLOTS;
    while (s->slots > LEAST_SLOTS && t.fixed + (size_t)s->slots * t.largest > bytes)
        s->slots--;
    const size_t window = s->window_bytes = (size_t)s->slots * t.largest;
    if (t.fixed + window > bytes)
        return ZN_FAIL(ZN_ENOMEM, "the weights need %.1f MiB of the GPU at least, even in turns, and there are %.1f",
                       (double)(t.fixed + window) / mib, (double)bytes / mib);
    ZN_TRY(choose(s, plan, first, bytes - window, &t));
    return zn_device_window(d, s->slots, t.largest, &s->window);
}

void zn_turns_free(zn_turns *s)
{
    if (s->window)
        zn_window_free(s->window);
    for (size_t i = 0; i < s->count; i++)
        zn_device_unpin(s->device, s->pieces[i].pinned);
    zn_free(s->pieces);
    *s = (zn_turns){ 0 };
}

/* ---- runs ---- */

/* A copy in memory from which transfers are fast. It takes as long as many of them: not for graphs that run seldom. */
static void pin(zn_turns *s, zn_turns_piece *p)
{
    if (!s->pins || s->runs < 2 || p->pinned || zn_memory_available(ZN_MEMINFO) / 4 < p->bytes)
        return;
    char *to = p->pinned = zn_device_pinned(s->device, p->bytes);
    for (int i = 0; to && i < p->count; i++) {
        memcpy(to, p->buffer[i].host, p->buffer[i].bytes);
        p->buffer[i].from = to;
        to += zn_window_round(p->buffer[i].bytes);
    }
}

static int slot_of(const zn_turns *s, size_t piece) { return (int)(piece % (size_t)s->slots); }

static void load_next(zn_turns *s)
{
    if (s->loaded == s->count)
        return;
    zn_turns_piece *p = &s->pieces[s->loaded];
    pin(s, p);
    zn_window_load(s->window, slot_of(s, s->loaded++), p->buffer, p->count);
}

void zn_turns_begin(zn_turns *s)
{
    s->loaded = s->next = 0;
    s->runs++;
    for (int i = 0; i < s->slots; i++)
        load_next(s);
}

static bool is_next(const zn_turns *s, int step) { return s->next < s->count && s->pieces[s->next].step == step; }

void zn_turns_enter(zn_turns *s, int step)
{
    if (is_next(s, step))
        zn_window_use(s->window, slot_of(s, s->next));
}

void zn_turns_leave(zn_turns *s, int step)
{
    if (!is_next(s, step))
        return;
    zn_window_done(s->window, slot_of(s, s->next++));
    load_next(s);
}

void zn_turns_end(zn_turns *s)
{
    if (s->window)
        zn_window_clear(s->window);
}
