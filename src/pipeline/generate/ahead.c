/* Reading ahead. Runs repeat: after the last matrix comes the first one again. */
#include "pipeline/generate/ahead.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "io/weights/reader.h"
#include "ops/ops.h"

/* Bytes to have asked for: a block of the published transformer in 8 bits. */
static const size_t wanted_lead = (size_t)192 << 20;

/* The piece that begins here, or NULL. The last ones are the likeliest: a matrix is read again soon or never. */
static zn_ahead_piece *find(const zn_ahead *a, const void *from)
{
    for (int64_t i = a->count; i-- > 0;)
        if (a->piece[i].from == from)
            return &a->piece[i];
    return NULL;
}

static const zn_map *map_of(const zn_stored *weights, const void *from)
{
    for (int i = 0; i < weights->count; i++) {
        const zn_map *m = &weights->files[i]->map;
        if (m->bytes && (const uint8_t *)from >= m->bytes && (const uint8_t *)from < m->bytes + m->size)
            return m;
    }
    return NULL;
}

static zn_status add(zn_ahead *a, const zn_stored *weights, const zn_node *user, const void *from, size_t bytes)
{
    const zn_map *map = map_of(weights, from);
    zn_ahead_piece *known = find(a, from);
    if (known)
        known->last = user->index;
    if (known || !map)
        return ZN_OK;
    if (!ZN_GROW(a->piece, a->capacity, a->count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a list of weights");
    a->piece[a->count++] = (zn_ahead_piece){ map, from, bytes, user->index, user->index };
    return ZN_OK;
}

static zn_status add_matrix(zn_ahead *a, const zn_stored *weights, const zn_node *user, const zn_node *w)
{
    const zn_packed *p = w->packed;
    const size_t rows = (size_t)w->shape.dim[2], groups = rows * p->groups;
    ZN_TRY(add(a, weights, user, p->data, rows * p->row_bytes));
    if (p->scales && groups)
        ZN_TRY(add(a, weights, user, p->scales, groups * zn_dtype_size(p->scale_dtype)));
    if (p->biases && groups)
        ZN_TRY(add(a, weights, user, p->biases, groups * zn_dtype_size(p->bias_dtype)));
    return ZN_OK;
}

void zn_ahead_end(zn_ahead *a)
{
    zn_free(a->piece);
    *a = (zn_ahead){ 0 };
}

static const zn_ahead_piece *at(const zn_ahead *a, int64_t number) { return &a->piece[number % a->count]; }

/* Goes on to the first piece that no node before this one reads. */
static void advance(zn_ahead *a, int node)
{
    const int64_t first = a->run * a->count;
    while (a->now < first + a->count && (a->now < first || at(a, a->now)->first < node)) {
        if (a->now < a->asked)
            a->lead -= at(a, a->now)->bytes;
        a->now++;
    }
    a->asked = a->asked > a->now ? a->asked : a->now;
}

/* Releases what no later node of this run reads. */
static void let_go(zn_ahead *a, int node)
{
    const int64_t first = a->run * a->count;
    for (; a->released < a->now; a->released++) {
        const zn_ahead_piece *p = at(a, a->released);
        if (a->released >= first && p->last >= node)
            break;
        zn_map_release(p->map, p->from, p->bytes);
    }
}

/* For zn_exec_options.enter. */
static void enter(void *ahead, const zn_node *n)
{
    zn_ahead *a = ahead;
    if (!a->count || n->op != &zn_op_matrix)
        return;
    a->run += n->index <= a->node;
    a->node = n->index;
    advance(a, n->index);
    if (a->release)
        let_go(a, n->index);
    for (; a->lead < wanted_lead && a->asked < a->now + a->count; a->asked++) {
        const zn_ahead_piece *p = at(a, a->asked);
        zn_map_expect(p->map, p->from, p->bytes);
        a->lead += p->bytes;
    }
}

zn_status zn_ahead_start(zn_ahead *a, const zn_graph *g, const zn_stored *weights, bool release,
                         zn_exec_options *options)
{
    zn_ahead_end(a);
    if (options->device)
        return ZN_OK;
    options->enter = enter;
    options->owner = a;
    a->release = release;
    for (int i = 0; i < zn_graph_count(g); i++) {
        const zn_node *n = zn_graph_at(g, i);
        if (n->op == &zn_op_matrix && n->source[1]->packed)
            ZN_TRY(add_matrix(a, weights, n, n->source[1]));
    }
    return ZN_OK;
}
