/* Which maps are 16 bits; see types.h. */
#include "graph/types.h"

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/fail.h"
#include "graph/needs.h"

/* Bytes before the tail, which begins where any kernel may read it. */
static size_t result_bytes(const zn_node *n)
{
    const size_t bytes = zn_type_size(n->type) * (size_t)zn_shape_count(n->shape);
    return n->type == ZN_TYPE_F32 ? bytes : (bytes + 15) / 16 * 16;
}

size_t zn_node_bytes(const zn_node *n)
{
    return n->op->tail ? result_bytes(n) + sizeof(float) * (size_t)n->op->tail(n)
                       : zn_type_size(n->type) * (size_t)zn_shape_count(n->shape);
}

float *zn_node_tail(const zn_node *n) { return (float *)((char *)n->data + result_bytes(n)); }

static bool on_device(const zn_prepare *p) { return (p->cpu & ZN_CPU_CUDA) != 0; }

static bool keeps_values(const zn_graph *g)
{
    for (int i = 0; i < zn_graph_count(g); i++)
        if (zn_graph_at(g, i)->partner)
            return true;
    return false;
}

/* AMX multiplies bf16 maps as they are. Elsewhere they save memory alone, which is most where frames are kept. */
static bool cpu_pays(const zn_graph *g, const zn_prepare *p)
{
    return p->constant_parameters && (p->cpu & ZN_CPU_AMX_BF16 || keeps_values(g));
}

static zn_type type_for(const zn_graph *g, const zn_prepare *p)
{
    return p->math == ZN_PRECISION_BF16 && (on_device(p) || cpu_pays(g, p)) ? ZN_TYPE_BF16
           : p->math == ZN_PRECISION_F16 && on_device(p)                    ? ZN_TYPE_F16
                                                                            : ZN_TYPE_F32;
}

static zn_node_types types_of(const zn_node *n, const zn_prepare *p)
{
    if (!on_device(p))
        return n->op->host_types && !n->constant ? n->op->host_types(n, p) : (zn_node_types){ 0 };
    return n->op->types && !zn_runs_on_host(n, p) ? n->op->types(n, p) : (zn_node_types){ 0 };
}

/* What stays between runs is of the type of what leaves it there. */
static bool is_codes(const zn_node *n)
{
    const zn_node *from = n->op == &zn_op_input && n->partner ? n->partner : n;
    return from->op->codes && from->op->codes(from);
}

static bool may_write(const zn_node *n, const zn_prepare *p)
{
    if (is_codes(n))
        return false;
    if (n->wide && (n->partner || !on_device(p)))
        return false;
    return n->op->is_leaf ? n->partner != NULL : types_of(n, p).result;
}

/* Makes F32 what a node cannot read in 16 bits, and those of its values that must have one type, if one of them is.
 * Returns whether anything changed. */
static bool settle(const zn_node *n, const zn_prepare *p, bool *narrow)
{
    const zn_node_types t = types_of(n, p);
    const bool alone = n->partner && narrow[n->index] && !narrow[n->partner->index];
    bool changed = alone, all = narrow[n->index] &= !alone;
    for (int s = 0; s < n->source_count; s++) {
        bool *source = &narrow[n->source[s]->index];
        const bool reads = t.sources >> s & 1;
        changed |= *source && !reads;
        *source &= reads;
        all &= !(t.alike >> s & 1) || *source;
    }
    if (!t.alike || all)
        return changed;
    changed |= narrow[n->index];
    narrow[n->index] = false;
    for (int s = 0; s < n->source_count; s++) {
        const bool alike = t.alike >> s & 1;
        changed |= alike && narrow[n->source[s]->index];
        narrow[n->source[s]->index] &= !alike;
    }
    return changed;
}

/* Nodes that no output needs do not count. */
static void mark_used(const zn_graph *g, zn_node *const *outputs, int count, bool *used)
{
    for (int i = 0; i < count; i++)
        used[outputs[i]->index] = true;
    for (int i = zn_graph_count(g) - 1; i >= 0; i--)
        for (int s = 0; used[i] && s < zn_graph_at(g, i)->source_count; s++)
            used[zn_graph_at(g, i)->source[s]->index] = true;
}

zn_status zn_types_choose(zn_graph *g, zn_node *const *outputs, int count, const zn_prepare *p)
{
    const int nodes = zn_graph_count(g);
    const zn_type type = type_for(g, p);
    for (int i = 0; i < nodes; i++)
        zn_graph_at(g, i)->type = is_codes(zn_graph_at(g, i)) ? ZN_TYPE_E4M3 : ZN_TYPE_F32;
    if (type == ZN_TYPE_F32)
        return ZN_OK;
    bool *narrow = zn_calloc(2 * (size_t)nodes + 1, sizeof *narrow), *used = narrow + nodes;
    if (!narrow)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for the types of %d nodes", nodes);
    mark_used(g, outputs, count, used);
    for (int i = 0; i < nodes; i++)
        narrow[i] = used[i] && may_write(zn_graph_at(g, i), p);
    for (int i = 0; i < count; i++)
        narrow[outputs[i]->index] &= outputs[i]->partner != NULL;
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = nodes - 1; i >= 0; i--)
            changed |= used[i] && settle(zn_graph_at(g, i), p, narrow);
    }
    for (int i = 0; i < nodes; i++)
        if (narrow[i])
            zn_graph_at(g, i)->type = type;
    zn_free(narrow);
    return ZN_OK;
}
