/* Cuts, and how far back what lies between two of them looks; see segment.h. */
#include "pipeline/codec/segment.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <string.h>

/* What is computed from parameters has no positions. */
static bool is_global(const zn_node *n) { return n->op->global && !n->constant; }

/* Tiles are of single maps: inside a network a picture may be several frames for a while. */
static bool has_samples_of(const zn_node *n, const zn_node *input)
{
    return n->shape.rank != 4 || n->shape.dim[0] == input->shape.dim[0];
}

/* cut[i]: no node before i is read after i. */
static void find_cuts(const zn_graph *g, const zn_node *input, int *last, bool *cut)
{
    const int count = zn_graph_count(g);
    for (int i = 0; i < count; i++) {
        const zn_node *n = zn_graph_at(g, i);
        last[i] = i;
        for (int s = 0; s < n->source_count; s++)
            last[n->source[s]->index] = i;
    }
    int furthest = 0;
    for (int i = input->index; i < count; i++) {
        const zn_node *n = zn_graph_at(g, i);
        if (zn_is_constant(n))
            continue;
        cut[i] = furthest <= i && has_samples_of(n, input);
        furthest = last[i] > furthest ? last[i] : furthest;
    }
}

/* A segment ends at cut i if the resolution changes there or a global op begins or has just ended. */
static bool ends_at(const zn_graph *g, const bool *cut, int i, int end)
{
    const zn_node *n = zn_graph_at(g, i);
    if (n->source_count && !n->op->is_leaf && n->source[0]->shape.dim[1] > n->shape.dim[1])
        return true; /* just halved */
    for (int k = i + 1; k <= end; k++) {
        const zn_node *m = zn_graph_at(g, k);
        if (zn_is_constant(m))
            continue;
        if (m->shape.dim[1] > n->shape.dim[1] || m->op->global)
            return true; /* about to grow, or a global op before the next cut */
        if (cut[k])
            break;
    }
    for (int k = i; k >= 0; k--) { /* global ops since the previous cut */
        if (is_global(zn_graph_at(g, k)))
            return true;
        if (k < i && cut[k])
            break;
    }
    return false;
}

static bool holds_global(const zn_graph *g, int from, int to)
{
    for (int i = from + 1; i <= to; i++)
        if (is_global(zn_graph_at(g, i)))
            return true;
    return false;
}

zn_status zn_segments_find(const zn_graph *g, const zn_node *input, const zn_node *output,
                           zn_segment segments[ZN_MAX_SEGMENTS], int *count)
{
    const size_t nodes = (size_t)zn_graph_count(g) + 1;
    int *last = zn_calloc(nodes, sizeof *last);
    bool *cut = zn_calloc(nodes, sizeof *cut);
    if (!last || !cut) {
        zn_free(last);
        zn_free(cut);
        return ZN_FAIL(ZN_ENOMEM, "out of memory while planning tiles");
    }
    find_cuts(g, input, last, cut);
    const zn_node *from = input;
    *count = 0;
    for (int i = input->index + 1; i <= output->index; i++) {
        const zn_node *n = zn_graph_at(g, i);
        const bool end = n == output;
        if (!end && (!cut[i] || *count >= ZN_MAX_SEGMENTS - 1 || !ends_at(g, cut, i, output->index)))
            continue;
        const bool global = holds_global(g, from->index, i);
        zn_segment *previous = *count ? &segments[*count - 1] : NULL;
        if (previous && previous->global && global)
            previous->to = n; /* neighbours that must both run whole are one */
        else
            segments[(*count)++] = (zn_segment){ from, n, global };
        from = n;
    }
    zn_free(last);
    zn_free(cut);
    return ZN_OK;
}

void zn_segments_join(zn_segment segments[ZN_MAX_SEGMENTS], int *count)
{
    int kept = 0;
    for (int i = 1; i < *count; i++)
        if (segments[i].global || segments[kept].global)
            segments[++kept] = segments[i];
        else
            segments[kept].to = segments[i].to;
    *count = kept + 1;
}

typedef struct interval {
    int64_t lo, hi; /* empty when lo >= hi */
} interval;

zn_status zn_segment_reach(const zn_graph *g, const zn_node *input, const zn_node *output, const zn_prepare *p,
                           int64_t *lo, int64_t *hi)
{
    interval *need = zn_calloc((size_t)zn_graph_count(g) + 1, sizeof *need);
    if (!need)
        return ZN_FAIL(ZN_ENOMEM, "out of memory while planning tiles");
    need[output->index] = (interval){ *lo, *hi };
    for (int i = output->index; i > input->index; i--) {
        const zn_node *n = zn_graph_at(g, i);
        const interval want = need[i];
        if (want.lo >= want.hi || n->op->is_leaf || n->constant)
            continue;
        for (int s = 0; s < n->source_count; s++) {
            interval *source = &need[n->source[s]->index];
            interval reached = want;
            if (n->op->reach && s == 0) /* only the first source is moved: residuals are read where they are written */
                n->op->reach(n, p, &reached.lo, &reached.hi);
            if (source->lo >= source->hi)
                *source = reached;
            source->lo = reached.lo < source->lo ? reached.lo : source->lo;
            source->hi = reached.hi > source->hi ? reached.hi : source->hi;
        }
    }
    *lo = need[input->index].lo;
    *hi = need[input->index].hi;
    zn_free(need);
    return ZN_OK;
}

static int64_t greatest_common_divisor(int64_t a, int64_t b) { return b ? greatest_common_divisor(b, a % b) : a; }

int64_t zn_segment_alignment(const zn_graph *g, const zn_node *input, const zn_prepare *p)
{
    int64_t alignment = 1;
    for (int i = 0; i < zn_graph_count(g); i++) {
        const zn_node *n = zn_graph_at(g, i);
        if (n->op->is_leaf || n->constant || n->shape.rank != 4)
            continue;
        /* start * out / in must be a whole number and a multiple of the block */
        const int64_t in = input->shape.dim[1], out = n->shape.dim[1], block = n->op->block ? n->op->block(n, p) : 1;
        const int64_t shrink = in > out ? in / out : 1, grow = out > in ? out / in : 1;
        const int64_t step = shrink * (block / greatest_common_divisor(block, grow));
        alignment = alignment / greatest_common_divisor(alignment, step) * step;
    }
    return alignment;
}
