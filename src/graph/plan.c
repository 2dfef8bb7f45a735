/* Liveness analysis and first fit: places nodes in execution order, each at the lowest free offset of one block; then
 * once more, the largest first, which leaves fewer gaps where maps of several sizes follow each other. The smaller
 * block is taken. */
#include "graph/plan.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "graph/types.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

/* Lifetime of each node, by index. */
typedef struct life {
    bool used;
    int last;   /* index of its last reader; INT32_MAX for inputs and outputs */
    bool taken; /* another node has reused its memory */
    int room;   /* the first node in this memory */
    size_t bytes;
} life;

/* Memory of one node, or of several that reuse it one after the other. */
typedef struct room {
    int node;        /* the first one */
    int begin, last; /* indices of nodes */
    size_t bytes;
    int64_t offset;
} room;

static void mark(zn_graph *g, zn_node *const *outputs, int count, life *lives)
{
    for (int i = 0; i < count; i++) {
        lives[outputs[i]->index].used = true;
        lives[outputs[i]->index].last = INT32_MAX;
    }
    for (int i = zn_graph_count(g) - 1; i >= 0; i--) {
        const zn_node *n = zn_graph_at(g, i);
        if (n->op == &zn_op_input || n->constant)
            lives[i].last = INT32_MAX;
        if (!lives[i].used)
            continue;
        lives[i].bytes = (zn_node_bytes(n) + ALIGN - 1) / ALIGN * ALIGN;
        for (int s = 0; s < n->source_count; s++) {
            life *source = &lives[n->source[s]->index];
            source->used = true;
            if (source->last < i)
                source->last = i;
        }
    }
}

/* Lowest offset with `bytes` free bytes between the memory of the nodes alive at step `index`. */
static int64_t first_fit(const zn_graph *g, const life *lives, const int64_t *offset, int index, size_t bytes)
{
    int64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < zn_graph_count(g); i++) {
            const life *l = &lives[i];
            if (offset[i] < 0 || l->taken || l->last < index)
                continue;
            if (at < offset[i] + (int64_t)l->bytes && offset[i] < at + (int64_t)bytes) {
                at = offset[i] + (int64_t)l->bytes;
                moved = true;
            }
        }
    }
    return at;
}

/* Source whose memory n may reuse: no later node reads it, and n reads it once. Of another type, a kernel would
 * overwrite what it has not read yet. */
static zn_node *take_over(const zn_node *n, const life *lives, const int64_t *offset)
{
    const int index = n->op->in_place ? n->op->in_place(n) : -1;
    if (index < 0)
        return NULL;
    zn_node *source = n->source[index];
    int reads = 0;
    for (int s = 0; s < n->source_count; s++)
        reads += n->source[s] == source;
    const life *l = &lives[source->index];
    const bool fits = l->bytes == lives[n->index].bytes && source->type == n->type;
    return offset[source->index] >= 0 && l->last == n->index && reads == 1 && fits ? source : NULL;
}

/* Whether n is a part of a parameter, and has been set to it. One that is read later has no address yet. */
static bool view(zn_node *n)
{
    if (!n->op->view || n->source[0]->op != &zn_op_parameter || !(n->source[0]->data || n->source[0]->deferred))
        return false;
    n->data = n->source[0]->data ? n->op->view(n) : NULL;
    return true;
}

/* Sets the offset of node i, and adds a step if the node is computed. */
static void place(zn_graph *g, int i, life *lives, bool in_place, zn_plan *plan)
{
    zn_node *n = zn_graph_at(g, i);
    if (!lives[i].used || n->op == &zn_op_parameter || (n->op == &zn_op_input && n->data))
        return;
    if (n->placed) {
        plan->steps[plan->step_count++] = n;
        return;
    }
    zn_node *source = n->constant || !in_place ? NULL : take_over(n, lives, plan->offset);
    if (source)
        lives[source->index].taken = true;
    lives[i].room = source ? lives[source->index].room : i;
    plan->offset[i] = source ? plan->offset[source->index] : first_fit(g, lives, plan->offset, i, lives[i].bytes);
    const size_t end = (size_t)plan->offset[i] + lives[i].bytes;
    plan->block = end > plan->block ? end : plan->block;
    if (!n->op->is_leaf)
        plan->steps[plan->step_count++] = n;
}

/* ---- the largest first ---- */

static int larger_first(const void *a, const void *b)
{
    const room *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : x->node - y->node;
}

static int lower_first(const void *a, const void *b)
{
    const room *x = *(const room *const *)a, *y = *(const room *const *)b;
    return x->offset != y->offset ? (x->offset < y->offset ? -1 : 1) : 0;
}

/* What nodes have been given memory of the block, by room. Returns the number of rooms. */
static int list_rooms(const zn_graph *g, const life *lives, const int64_t *offset, room *rooms, int *number)
{
    int count = 0;
    for (int i = 0; i < zn_graph_count(g); i++) {
        const zn_node *n = zn_graph_at(g, i);
        if (offset[i] < 0)
            continue;
        if (lives[i].room == i) {
            const bool before = n->constant || n->op == &zn_op_input;
            number[i] = count;
            rooms[count++] = (room){ .node = i, .begin = before ? -1 : i, .bytes = lives[i].bytes };
        }
        rooms[number[lives[i].room]].last = lives[i].last;
    }
    return count;
}

/* The lowest offset for a room, between those that are there at the same time. `at`: those, to be filled. */
static int64_t lowest(const room *rooms, int placed, const room *r, const room **at)
{
    int count = 0;
    int64_t offset = 0;
    for (int i = 0; i < placed; i++)
        if (rooms[i].begin <= r->last && r->begin <= rooms[i].last)
            at[count++] = &rooms[i];
    qsort(at, (size_t)count, sizeof *at, lower_first);
    for (int i = 0; i < count && offset + (int64_t)r->bytes > at[i]->offset; i++) {
        const int64_t end = at[i]->offset + (int64_t)at[i]->bytes;
        offset = end > offset ? end : offset;
    }
    return offset;
}

/* Places all nodes anew if that makes the block smaller. */
static zn_status place_by_size(const zn_graph *g, const life *lives, zn_plan *plan)
{
    const size_t nodes = (size_t)zn_graph_count(g) + 1;
    room *rooms = zn_calloc(nodes, sizeof *rooms);
    const room **at = zn_calloc(nodes, sizeof *at);
    int *number = zn_calloc(nodes, sizeof *number);
    int64_t block = 0;
    const bool enough = rooms && at && number;
    const int count = enough ? list_rooms(g, lives, plan->offset, rooms, number) : 0;
    if (count)
        qsort(rooms, (size_t)count, sizeof *rooms, larger_first);
    for (int i = 0; i < count; i++) {
        rooms[i].offset = lowest(rooms, i, &rooms[i], at);
        number[rooms[i].node] = i;
        block = rooms[i].offset + (int64_t)rooms[i].bytes > block ? rooms[i].offset + (int64_t)rooms[i].bytes : block;
    }
    if (enough && (size_t)block < plan->block) {
        plan->block = (size_t)block;
        for (int i = 0; i < zn_graph_count(g); i++)
            if (plan->offset[i] >= 0)
                plan->offset[i] = rooms[number[lives[i].room]].offset;
    }
    zn_free(rooms);
    zn_free(at);
    zn_free(number);
    return enough ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a plan of %d nodes", zn_graph_count(g));
}

zn_status zn_plan_make(zn_graph *g, zn_node *const *outputs, int count, bool in_place, bool views, zn_plan *plan)
{
    const int nodes = zn_graph_count(g);
    *plan = (zn_plan){ .steps = zn_calloc((size_t)nodes + 1, sizeof(zn_node *)),
                       .offset = zn_calloc((size_t)nodes + 1, sizeof(int64_t)) };
    life *lives = zn_calloc((size_t)nodes + 1, sizeof *lives);
    if (!plan->steps || !plan->offset || !lives) {
        zn_plan_free(plan);
        zn_free(lives);
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a plan of %d nodes", nodes);
    }
    mark(g, outputs, count, lives);
    memset(plan->offset, -1, sizeof(int64_t) * (size_t)nodes);
    for (int i = 0; i < nodes; i++) { /* nodes filled before a run */
        zn_node *n = zn_graph_at(g, i);
        const bool before = n->constant || n->op == &zn_op_input;
        if (before && !(views && lives[i].used && !n->placed && view(n)))
            place(g, i, lives, in_place, plan);
    }
    plan->constant_count = plan->step_count;
    for (int i = 0; i < nodes; i++)
        if (!zn_graph_at(g, i)->constant && zn_graph_at(g, i)->op != &zn_op_input)
            place(g, i, lives, in_place, plan);
    const zn_status status = place_by_size(g, lives, plan);
    if (status != ZN_OK)
        zn_plan_free(plan);
    zn_free(lives);
    return status;
}

zn_status zn_plan_check_parameters(const zn_plan *plan)
{
    for (int i = 0; i < plan->step_count; i++)
        for (int s = 0; s < plan->steps[i]->source_count; s++) {
            const zn_node *n = plan->steps[i]->source[s];
            if (n->op != &zn_op_parameter || n->data || n->deferred)
                continue;
            if (!n->packed)
                return ZN_FAIL(ZN_ENOTFOUND, "parameter '%s' has no values", n->name);
            if (!plan->steps[i]->op->takes_packed)
                return ZN_FAIL(ZN_EUNSUPPORTED, "parameter '%s' is packed, but %s needs floats", n->name,
                               plan->steps[i]->op->name);
        }
    return ZN_OK;
}

void zn_plan_free(zn_plan *plan)
{
    zn_free(plan->steps);
    zn_free(plan->offset);
    *plan = (zn_plan){ 0 };
}
