/* Reorders the frames of videos [T,H,W,C]: selects, repeats and concatenates frames, with zero frames in between. */
#include "kernels/frames.h"

#include "base/fail.h"
#include "kernels/narrow.h"
#include "ops/ops.h"

#include <string.h>

/* first and count: for the gradient, the frames that belong to the source. rounds: see zn_frames_to_multiply. */
typedef struct frames_spec {
    int32_t frames, first, count, rounds, from[];
} frames_spec;

static int64_t size_of(const zn_node *n) { return zn_shape_count(n->shape) / n->shape.dim[0]; }

static zn_status frames_shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const frames_spec *k = n->attribute;
    int64_t all = 0;
    char a[96], b[96];
    for (int i = 0; i < n->source_count; i++) {
        zn_shape other = n->source[i]->shape;
        other.dim[0] = n->source[0]->shape.dim[0];
        if (!zn_shape_equal(other, n->source[0]->shape))
            return ZN_FAIL(ZN_ESHAPE, "frames of %s and %s are not of one clip",
                           zn_shape_text(n->source[0]->shape, a, sizeof a),
                           zn_shape_text(n->source[i]->shape, b, sizeof b));
        all += n->source[i]->shape.dim[0];
    }
    for (int t = 0; t < k->frames; t++)
        if (k->from[t] >= all)
            return ZN_FAIL(ZN_ESHAPE, "of %lld frames there is no %d", (long long)all, (int)k->from[t]);
    n->shape = n->source[0]->shape;
    n->shape.dim[0] = k->frames;
    return k->frames > 0 ? ZN_OK : ZN_FAIL(ZN_ESHAPE, "a clip needs a frame");
}

/* Frames of a source of the other type. */
static void convert_frames(const zn_node *n, const zn_node *x, int first, const zn_launch_context *c)
{
    const frames_spec *k = n->attribute;
    const int64_t size = size_of(n);
    for (int t = 0; t < k->frames; t++) {
        const int from = k->from[t] - first;
        void *y = zn_values_at(n, t * size);
        if (k->from[t] < 0 && first == 0)
            zn_launch(c, zn_k_fill, zn_floats_of(n, size), 1 << 16, &(zn_unary_args){ .y = y });
        else if (from < 0 || from >= x->shape.dim[0])
            continue;
        else if (n->type == ZN_TYPE_F32)
            zn_launch(c, zn_k_widen, size, 1 << 16, &(zn_widen_args){ zn_values_at(x, from * size), y });
        else
            zn_launch(c, zn_k_round, size, 1 << 16, &(zn_round_args){ zn_values_at(x, from * size), y });
    }
}

static void frames_run(const zn_node *n, const zn_launch_context *c)
{
    const frames_spec *k = n->attribute;
    int first = 0;
    for (int i = 0; i < n->source_count; first += (int)n->source[i++]->shape.dim[0]) {
        if (n->source[i]->type != n->type) {
            convert_frames(n, n->source[i], first, c);
            continue;
        }
        const zn_frames_args a = { .x = n->source[i]->data,
                                   .y = n->data,
                                   .from = k->from,
                                   .frames = k->frames,
                                   .first = first,
                                   .count = (int)n->source[i]->shape.dim[0],
                                   .size = zn_floats_of(n, size_of(n)),
                                   .clear = i == 0 };
        zn_launch(c, zn_k_frames, a.frames * zn_frame_pieces(a.size), 1, &a);
    }
}

static void frames_gradient(zn_node *n, zn_node *dy)
{
    frames_spec *k = zn_arena_alloc(zn_graph_arena(n->graph), n->attribute_size);
    if (!k) {
        zn_graph_poison(n->graph, ZN_ENOMEM, "out of memory while building a graph");
        return;
    }
    memcpy(k, n->attribute, n->attribute_size);
    k->first = 0;
    for (int i = 0; i < n->source_count; i++) {
        k->count = (int32_t)n->source[i]->shape.dim[0];
        if (zn_needs_gradient(n->source[i]))
            zn_accumulate(n->source[i], zn_apply(&zn_op_frames_grad, k, n->attribute_size, (zn_node *[]){ dy }, 1));
        k->first += k->count;
    }
}

/* On a device; the gradient adds floats. */
static zn_node_types frames_types(const zn_node *n, const zn_prepare *p)
{
    return p->constant_parameters ? zn_host_types_of_pairs(n, p) : (zn_node_types){ 0 };
}

/* What stayed between runs, the first of two sources, is of the result's type; the other one is converted. */
static zn_node_types frames_host_types(const zn_node *n, const zn_prepare *p)
{
    zn_node_types t = zn_host_types_of_pairs(n, p);
    if (((const frames_spec *)n->attribute)->rounds)
        t.alike &= n->source_count > 1;
    return t;
}

/* The last source is never what stays between runs, whose type follows from this. */
static bool frames_codes(const zn_node *n)
{
    const zn_node *x = n->source[n->source_count - 1];
    return x->op->codes && x->op->codes(x);
}

const zn_op zn_op_frames = { .name = "frames",
                             .shape = frames_shape,
                             .run = frames_run,
                             .types = frames_types,
                             .host_types = frames_host_types,
                             .launches = zn_launches,
                             .codes = frames_codes,
                             .gradient = frames_gradient };

static zn_node *make_frames(zn_node *const *sources, int count, const int32_t *from, int frames, bool rounds)
{
    const size_t bytes = sizeof(frames_spec) + sizeof(int32_t) * (size_t)frames;
    zn_graph *g = sources[0]->graph;
    frames_spec *k = zn_arena_alloc(zn_graph_arena(g), bytes);
    if (!k)
        return zn_graph_poison(g, ZN_ENOMEM, "out of memory while building a graph");
    *k = (frames_spec){ .frames = frames, .rounds = rounds };
    memcpy(k->from, from, sizeof(int32_t) * (size_t)frames);
    return zn_apply(&zn_op_frames, k, bytes, sources, count);
}

zn_node *zn_frames(zn_node *const *sources, int count, const int32_t *from, int frames)
{
    return make_frames(sources, count, from, frames, false);
}

zn_node *zn_frames_to_multiply(zn_node *const *sources, int count, const int32_t *from, int frames)
{
    return make_frames(sources, count, from, frames, true);
}

static zn_status frames_grad_shape(zn_node *n)
{
    n->shape = n->source[0]->shape;
    n->shape.dim[0] = ((frames_spec *)n->attribute)->count;
    return ZN_OK;
}

static void frames_grad_run(const zn_node *n, const zn_launch_context *c)
{
    const frames_spec *k = n->attribute;
    const zn_frames_args a = { .x = n->source[0]->data,
                               .y = n->data,
                               .from = k->from,
                               .frames = k->frames,
                               .first = k->first,
                               .count = k->count,
                               .size = size_of(n) };
    zn_launch(c, zn_k_frames_grad, a.count * zn_frame_pieces(a.size), 1, &a);
}

const zn_op zn_op_frames_grad = {
    .name = "frames_grad", .shape = frames_grad_shape, .run = frames_grad_run, .launches = zn_launches
};
