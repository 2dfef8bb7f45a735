/* Liveness analysis and first fit: places nodes in execution order, each at the lowest free offset of one block. */
#include "graph/plan.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "graph/types.h"

#include <string.h>

enum { ALIGN = 64 };

/* Lifetime of each node, by index. */
typedef struct life {
    bool used;
    int last;   /* index of its last reader; INT32_MAX for inputs and outputs */
    bool taken; /* another node has reused its memory */
    size_t bytes;
} life;

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

/* Source whose memory n may reuse: no later node reads it, and n reads it once. */
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
    const bool fits = l->bytes == lives[n->index].bytes;
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
    plan->offset[i] = source ? plan->offset[source->index] : first_fit(g, lives, plan->offset, i, lives[i].bytes);
    const size_t end = (size_t)plan->offset[i] + lives[i].bytes;
    plan->block = end > plan->block ? end : plan->block;
    if (!n->op->is_leaf)
        plan->steps[plan->step_count++] = n;
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
    zn_free(lives);
    return ZN_OK;
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
