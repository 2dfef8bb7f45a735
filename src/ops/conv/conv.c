/* Convolution; the parts of its gradient are in conv_grad.c. The forward pass chooses a kernel (kernels/conv.h) and
 * packs the weights for it: once if they are constant, otherwise in every run, several convolutions at once. A device
 * packs changing weights itself. */
#include "base/cpu.h"
#include "base/fail.h"
#include "graph/packs.h"
#include "kernels/coded.h"
#include "kernels/narrow.h"
#include "ops/ops.h"

#include <string.h>

static const zn_conv_spec *spec_of(const zn_node *n) { return n->attribute; }

zn_overlap zn_conv_overlap(int64_t samples, int64_t results, int lag)
{
    const int64_t first = lag < 0 ? -lag : 0, to = lag > 0 ? lag : 0;
    const int64_t end = samples < results - lag ? samples : results - lag;
    return (zn_overlap){ first, to, end > first ? end - first : 0 };
}

static zn_overlap overlap_of(const zn_node *n, int64_t results)
{
    return zn_conv_overlap(n->source[0]->shape.dim[0], results, spec_of(n)->lag);
}

static zn_conv_shape shape_of(const zn_node *n)
{
    const int64_t *x = n->source[0]->shape.dim, *w = n->source[1]->shape.dim;
    const zn_conv_spec *k = spec_of(n);
    const int in = k->unshuffle ? 2 : 1, out = k->shuffle ? 2 : 1;
    return (zn_conv_shape){ .n = (int)overlap_of(n, n->shape.dim[0]).count,
                            .h = (int)x[1] / in,
                            .w = (int)x[2] / in,
                            .cin = (int)x[3] * in * in,
                            .cout = (int)w[k->flipped ? 2 : 3],
                            .kh = (int)w[0],
                            .kw = (int)w[1],
                            .stride = k->stride,
                            .pad = k->pad,
                            .up2 = k->up2,
                            .oh = (int)n->shape.dim[1] / out,
                            .ow = (int)n->shape.dim[2] / out,
                            .unshuffle = k->unshuffle,
                            .shuffle = k->shuffle };
}

static zn_status shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const zn_conv_spec *k = spec_of(n);
    zn_shape x = n->source[0]->shape, w = n->source[1]->shape;
    char a[96], b[96];
    if (k->unshuffle)
        x = ZN_SHAPE(x.dim[0], x.dim[1] / 2, x.dim[2] / 2, x.dim[3] * 4);
    if (k->flipped) {
        w.dim[2] = n->source[1]->shape.dim[3];
        w.dim[3] = n->source[1]->shape.dim[2];
    }
    if (w.rank != 4 || w.dim[2] != x.dim[3])
        return ZN_FAIL(ZN_ESHAPE, "input %s does not fit weights %s", zn_shape_text(x, a, sizeof a),
                       zn_shape_text(w, b, sizeof b));
    if (k->bias && zn_shape_count(n->source[2]->shape) != w.dim[3])
        return ZN_FAIL(ZN_ESHAPE, "the bias needs %lld values", (long long)w.dim[3]);
    const int64_t results = k->results ? k->results : x.dim[0];
    const zn_overlap o = overlap_of(n, results);
    if (o.count < 1 || (o.count < results && k->bias))
        return ZN_FAIL(ZN_ESHAPE, "%lld samples make no %lld results with a lag of %d%s", (long long)x.dim[0],
                       (long long)results, k->lag, k->bias ? " and a bias" : "");
    const int up = k->up2 ? 2 : 1;
    const int64_t more = 2 * k->pad + k->beyond, h = x.dim[1] * up + more, wide = x.dim[2] * up + more;
    n->shape = ZN_SHAPE(results, (h - w.dim[0]) / k->stride + 1, (wide - w.dim[1]) / k->stride + 1, w.dim[3]);
    if (h < w.dim[0] || wide < w.dim[1])
        return ZN_FAIL(ZN_ESHAPE, "input %s is smaller than the kernel", zn_shape_text(x, a, sizeof a));
    if (k->shuffle)
        n->shape = ZN_SHAPE(n->shape.dim[0], n->shape.dim[1] * 2, n->shape.dim[2] * 2, n->shape.dim[3] / 4);
    return ZN_OK;
}

static const zn_conv_kernel *kernel_of(const zn_node *n, const zn_prepare *p)
{
    zn_conv_shape s = shape_of(n);
    s.h = (int)(zn_whole_rows(n->source[0]) / (spec_of(n)->unshuffle ? 2 : 1));
    s.oh = (int)(zn_whole_rows(n) / (spec_of(n)->shuffle ? 2 : 1));
    return zn_conv_choose(&s,
                          (zn_conv_wish){ .math = p->math,
                                          .whole = p->whole,
                                          .cpu = p->cpu,
                                          .changing = !p->constant_parameters,
                                          .lean = p->lean,
                                          .largest = p->math == ZN_PRECISION_F32 ? 0 : zn_graph_largest_map(n->graph),
                                          .grows = p->math != ZN_PRECISION_F32 && zn_graph_grows(n->graph) });
}

/* What prepare stores for run. */
typedef struct prepared {
    const zn_conv_kernel *kernel;
    /* Never change; likewise, as codes in the order of the kernel; as codes in the order of the layer, packed in every
     * run; change between runs; computed in the same run; the last two on a device. */
    enum { PACKED, CODED, STORED, REFRESHED, COMPUTED, REFRESHED_ON_DEVICE, COMPUTED_ON_DEVICE } weights;
} prepared;

static zn_type type_of(const zn_conv_kernel *k) { return k->math == ZN_PRECISION_F32 ? ZN_TYPE_F32 : ZN_TYPE_BF16; }

/* How weights that never change are kept. */
static int kept_as(const zn_node *n, const zn_conv_kernel *k)
{
    const zn_conv_shape s = shape_of(n);
    if (spec_of(n)->flipped || !zn_is_coded(n->source[1]))
        return PACKED;
    return k->rearranges && k->rearranges(&s) ? CODED : k->pack_some ? STORED : PACKED;
}

static size_t weight_bytes(const zn_node *n) { return sizeof(float) * (size_t)zn_shape_count(n->source[1]->shape); }

static int weights_of(const zn_node *n, const zn_prepare *p)
{
    if (zn_is_constant(n->source[1]) && p->constant_parameters)
        return kept_as(n, kernel_of(n, p));
    const bool on_device = kernel_of(n, p)->pack_on_device != NULL;
    if (zn_is_constant(n->source[1]))
        return on_device ? REFRESHED_ON_DEVICE : REFRESHED;
    return on_device ? COMPUTED_ON_DEVICE : COMPUTED;
}

static size_t flipped_bytes(const zn_node *n) { return spec_of(n)->flipped ? weight_bytes(n) : 0; }

/* Bytes of shared scratch that hold weights packed or expanded in the same run, and the numbers of stored ones after
 * them; the kernel's workspace follows. */
static size_t packed_now(const zn_node *n, const zn_conv_kernel *k, const zn_conv_shape *s, int weights)
{
    if (weights == STORED)
        return zn_aligned(k->packed_bytes(s)) + zn_aligned(weight_bytes(n));
    return weights == COMPUTED || weights == COMPUTED_ON_DEVICE || weights == CODED ? zn_aligned(k->packed_bytes(s))
                                                                                    : 0;
}

static size_t room_of(const zn_node *n, const zn_conv_kernel *k)
{
    const zn_conv_shape s = shape_of(n);
    return k->workspace_bytes ? k->workspace_bytes(&s, n->source[0]->type) : 0;
}

static bool reads_narrow(const zn_node *n, const zn_conv_kernel *k)
{
    const zn_conv_shape s = shape_of(n);
    return k->narrow && k->narrow(&s) & ZN_CONV_NARROW_X;
}

/* Bytes for the samples that are read, as floats, where the kernel reads nothing else but the map is 16 bits. They
 * follow the workspace. */
static size_t wide_bytes(const zn_node *n, const zn_conv_kernel *k)
{
    const zn_node *x = n->source[0];
    const int64_t count = zn_shape_count(x->shape) / x->shape.dim[0] * overlap_of(n, n->shape.dim[0]).count;
    return x->type == ZN_TYPE_F32 || reads_narrow(n, k) ? 0 : sizeof(float) * (size_t)count;
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    zn_conv_shape s = shape_of(n);
    s.threads = p->threads;
    const zn_conv_kernel *k = kernel_of(n, p);
    const int weights = weights_of(n, p);
    const size_t packed = k->packed_bytes(&s), scratch = k->scratch_bytes(&s);
    const bool by_device = weights == REFRESHED_ON_DEVICE || weights == COMPUTED_ON_DEVICE;
    const size_t flipped = by_device ? 0 : flipped_bytes(n);
    return (zn_needs){ .thread_scratch = scratch > flipped ? scratch : flipped,
                       .shared_scratch = packed_now(n, k, &s, weights) + zn_aligned(room_of(n, k)) + wide_bytes(n, k),
                       .refreshed = weights == REFRESHED || weights == REFRESHED_ON_DEVICE ? packed : 0,
                       .packed = weights == PACKED   ? zn_aligned(packed) + flipped
                                 : weights == CODED  ? zn_aligned(zn_coded_bytes(packed, type_of(k)))
                                 : weights == STORED ? zn_aligned(zn_coded_bytes(weight_bytes(n), ZN_TYPE_F32))
                                                     : 0,
                       .prepared = sizeof(prepared),
                       .replaces = weights == PACKED };
}

/* workspace: a buffer of flipped_bytes. constant: the weights never change. */
static void pack_for(const zn_node *n, const zn_conv_kernel *k, bool constant, void *packed, void *workspace)
{
    const zn_conv_shape s = shape_of(n);
    const float *w = n->source[1]->data;
    if (spec_of(n)->flipped) {
        const zn_flip_args a = { .w = w, .y = workspace, .taps = s.kh * s.kw, .cin = s.cout, .cout = s.cin };
        zn_k_flip_weights(&a, (zn_range){ 0, a.taps, NULL });
        w = workspace;
    }
    (constant && k->pack_constant ? k->pack_constant : k->pack)(&s, w, packed);
}

static void prepare(const zn_node *n, const zn_prepare *p, void *memory)
{
    *(prepared *)memory = (prepared){ .kernel = kernel_of(n, p), .weights = weights_of(n, p) };
}

static void pack(const zn_node *n, const zn_prepare *p, void *packed)
{
    const zn_conv_kernel *k = kernel_of(n, p);
    const zn_conv_shape s = shape_of(n);
    if (weights_of(n, p) == STORED)
        memcpy(packed, n->source[1]->data, weight_bytes(n));
    else
        pack_for(n, k, weights_of(n, p) == PACKED, packed, (char *)packed + zn_aligned(k->packed_bytes(&s)));
}

static zn_packing packing(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_shape s = shape_of(n);
    const zn_conv_kernel *k = kernel_of(n, p);
    const int kept = kept_as(n, k);
    return (zn_packing){ .kernel = k,
                         .geometry = { s.kh, s.kw, s.cin, s.cout, s.stride, s.pad, s.up2, s.unshuffle, s.shuffle,
                                       spec_of(n)->flipped },
                         .sources = 1u << 1,
                         .coded = kept == CODED    ? k->packed_bytes(&s)
                                  : kept == STORED ? weight_bytes(n)
                                                   : 0,
                         .type = kept == STORED ? ZN_TYPE_F32 : type_of(k) };
}

static void refresh(const zn_node *n, const void *memory, void *refreshed, void *scratch)
{
    const prepared *q = memory;
    pack_for(n, q->kernel, false, refreshed, scratch);
}

static void pack_on_device(const zn_node *n, const zn_launch_context *c, void *to)
{
    const prepared *q = c->prepared;
    zn_launch(c, q->kernel->pack_on_device, 1, 1,
              &(zn_conv_pack_args){
                  .s = shape_of(n), .w = n->source[1]->data, .packed = to, .flipped = spec_of(n)->flipped });
}

static void launch_refresh(const zn_node *n, const zn_launch_context *c) { pack_on_device(n, c, c->refreshed); }

static void pack_stored(const zn_node *n, const zn_conv_kernel *k, const zn_launch_context *c)
{
    const zn_conv_shape s = shape_of(n);
    float *numbers = (float *)(void *)((char *)c->shared + zn_aligned(k->packed_bytes(&s)));
    zn_launch(c, zn_k_expand, zn_shape_count(n->source[1]->shape), 1 << 16,
              &(zn_expand_args){ .coded = c->packed, .type = ZN_TYPE_F32, .y = numbers });
    zn_launch(c, k->pack_some, k->pack_units(&s), 1, &(zn_conv_pack_args){ .s = s, .w = numbers, .packed = c->shared });
}

/* Packs weights that are computed in the same run, and expands codes. */
static void pack_now(const zn_node *n, const prepared *q, const zn_launch_context *c)
{
    const zn_conv_shape s = shape_of(n);
    if (q->weights == CODED)
        zn_launch(c, zn_k_expand, (int64_t)(q->kernel->packed_bytes(&s) / zn_type_size(type_of(q->kernel))), 1 << 16,
                  &(zn_expand_args){ .coded = c->packed, .type = type_of(q->kernel), .y = c->shared });
    else if (q->weights == STORED)
        pack_stored(n, q->kernel, c);
    else if (q->weights == COMPUTED_ON_DEVICE)
        pack_on_device(n, c, c->shared);
    else if (q->weights == COMPUTED)
        pack_for(n, q->kernel, false, c->shared, c->scratch);
}

/* Results without a sample: only the residual (NULL: 0). */
static void fill(const zn_node *n, const zn_launch_context *c, const zn_node *residual, int64_t begin, int64_t end)
{
    const int64_t size = zn_shape_count(n->shape) / n->shape.dim[0], count = (end - begin) * size;
    if (begin >= end || (residual && residual->data == n->data))
        return;
    float *y = zn_values_at(n, begin * size);
    const float *x = residual ? zn_values_at(residual, begin * size) : NULL;
    if (!x || residual->type == n->type)
        zn_launch(c, x ? zn_k_copy : zn_k_fill, zn_floats_of(n, count), 1 << 16, &(zn_unary_args){ .x = x, .y = y });
    else if (n->type == ZN_TYPE_F32)
        zn_launch(c, zn_k_widen, count, 1 << 16, &(zn_widen_args){ (const uint16_t *)x, y });
    else
        zn_launch(c, zn_k_round, count, 1 << 16, &(zn_round_args){ x, (uint16_t *)y });
}

static void widen(const zn_node *n, const zn_launch_context *c, zn_conv_args *a)
{
    const prepared *q = c->prepared;
    const size_t before = packed_now(n, q->kernel, &a->s, q->weights) + zn_aligned(room_of(n, q->kernel));
    const zn_widen_args w = { .x = (const uint16_t *)a->x, .y = (float *)(void *)((char *)c->shared + before) };
    zn_launch(c, zn_k_widen, (int64_t)(wide_bytes(n, q->kernel) / sizeof(float)), 1 << 16, &w);
    a->x = w.y;
    a->x_type = ZN_TYPE_F32;
}

/* Minimum number of tasks per thread. If there are more units, a thread gets several consecutive ones, so that it
 * reads memory in order. */
enum { PARTS = 48 };

static void run(const zn_node *n, const zn_launch_context *c)
{
    const prepared *q = c->prepared;
    const zn_conv_spec *k = spec_of(n);
    const zn_node *residual = k->residual ? n->source[2 + k->bias] : NULL;
    const zn_node *mask = k->mask ? n->source[n->source_count - 1] : NULL;
    const zn_overlap o = overlap_of(n, n->shape.dim[0]);
    const int64_t from = o.first * (zn_shape_count(n->source[0]->shape) / n->source[0]->shape.dim[0]);
    const int64_t to = o.to * (zn_shape_count(n->shape) / n->shape.dim[0]);
    zn_conv_args a = { .s = shape_of(n),
                       .x = zn_values_at(n->source[0], from),
                       .packed = q->weights == PACKED                                           ? c->packed
                                 : q->weights == REFRESHED || q->weights == REFRESHED_ON_DEVICE ? c->refreshed
                                                                                                : c->shared,
                       .bias = k->bias ? n->source[2]->data : NULL,
                       .residual = residual ? zn_values_at(residual, to) : NULL,
                       .y = zn_values_at(n, to),
                       .relu = k->relu,
                       .x_type = n->source[0]->type,
                       .residual_type = residual ? residual->type : ZN_TYPE_F32,
                       .y_type = n->type,
                       .mask = mask && q->kernel->masks ? mask->data : NULL };
    a.s.threads = zn_pool_threads(c->pool);
    if (room_of(n, q->kernel))
        a.workspace = (char *)c->shared + packed_now(n, q->kernel, &a.s, q->weights);
    pack_now(n, q, c);
    if (wide_bytes(n, q->kernel))
        widen(n, c, &a);
    fill(n, c, residual, 0, o.to);
    fill(n, c, residual, o.to + o.count, n->shape.dim[0]);
    const int64_t units = q->kernel->units(&a.s), grain = units / (PARTS * a.s.threads);
    zn_launch(c, q->kernel->run, units, grain < 1 ? 1 : grain, &a);
    if (mask && !a.mask)
        zn_launch(c, zn_k_relu_grad, zn_shape_count(n->shape), 1 << 14,
                  &(zn_unary_args){ .x = mask->data, .dy = n->data, .y = n->data, .type = n->type });
}

static zn_node_types types_of_kernel(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_spec *k = spec_of(n);
    const zn_conv_kernel *kernel = kernel_of(n, p);
    const zn_conv_shape s = shape_of(n);
    if (!kernel->narrow)
        return (zn_node_types){ 0 };
    const unsigned narrow = kernel->narrow(&s), residual = k->residual ? 1u << (2 + k->bias) : 0;
    const unsigned mask = k->mask ? 1u << (n->source_count - 1) : 0;
    return (zn_node_types){ .result = narrow & ZN_CONV_NARROW_Y,
                            .sources = (narrow & ZN_CONV_NARROW_X ? 1u : 0) |
                                       (narrow & ZN_CONV_NARROW_Y ? residual | mask : 0),
                            .alike = mask };
}

static bool has_lone_results(const zn_node *n) { return overlap_of(n, n->shape.dim[0]).count < n->shape.dim[0]; }

/* A device copies or zeroes results without a sample two at a time, so they have the type of the residual; in training
 * they are floats. */
static zn_node_types types(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_spec *k = spec_of(n);
    zn_node_types t = types_of_kernel(n, p);
    if (!has_lone_results(n))
        return t;
    if (!p->constant_parameters)
        return (zn_node_types){ 0 };
    if (n->shape.dim[3] % 2)
        return (zn_node_types){ .sources = t.sources & 1 };
    t.alike = t.result && k->residual ? 1u << (2 + k->bias) : 0;
    return t;
}

/* The CPU copies them two at a time, or converts them; whether there are any depends on the number of frames, on which
 * the rounding must not: a residual of 16 bits is not added up to floats. A map that is read as a residual is rounded
 * once more for it, so it is 16 bits only where that saves memory: in the largest maps of the network. So is one that a
 * convolution with a stride reads: the sum of all blocks before it. Where convolutions do not multiply maps of bf16,
 * they are widened first. */
static bool is_large(const zn_node *n)
{
    enum { LARGE_SHARE = 2 };
    return zn_whole_rows(n) * n->shape.dim[2] * LARGE_SHARE >= zn_graph_largest_map(n->graph);
}

static zn_node_types host_types(const zn_node *n, const zn_prepare *p)
{
    zn_node_types t = types_of_kernel(n, p);
    if (!(p->cpu & ZN_CPU_AMX_BF16))
        t.sources |= 1;
    if (spec_of(n)->mask)
        return (zn_node_types){ 0 };
    if (spec_of(n)->results && n->shape.dim[3] % 2)
        t = (zn_node_types){ .sources = t.sources & 1 };
    if (!is_large(n))
        t.sources &= 1;
    if (spec_of(n)->stride > 1 && !is_large(n->source[0]))
        t.sources &= ~1u;
    if (spec_of(n)->results)
        t.alike = t.sources & ~1u;
    return t;
}

static double flops(const zn_node *n)
{
    const zn_conv_shape s = shape_of(n);
    return zn_conv_direct_flops(&s);
}

static double flops_done(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_shape s = shape_of(n);
    return kernel_of(n, p)->flops(&s);
}

/* The sum starts with the bias, otherwise with the residual. */
static double slots(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_shape s = shape_of(n);
    const zn_conv_kernel *k = kernel_of(n, p);
    const zn_conv_spec *c = spec_of(n);
    const int more = (c->bias && c->residual) + c->relu + c->mask;
    return (k->slots ? k->slots(&s) : 0.5 * k->flops(&s)) + more * (double)zn_shape_count(n->shape);
}

static const char *kernel_name(const zn_node *n, const zn_prepare *p) { return kernel_of(n, p)->name; }
static zn_precision math(const zn_node *n, const zn_prepare *p) { return kernel_of(n, p)->math; }

static int block(const zn_node *n, const zn_prepare *p)
{
    const zn_conv_shape s = shape_of(n);
    const zn_conv_kernel *k = kernel_of(n, p);
    return k->block ? k->block(&s) : 1;
}

static int64_t floor_to(int64_t n, int64_t to) { return (n >= 0 ? n / to : -((-n + to - 1) / to)) * to; }

/* Whole squares of outputs, because rounding depends on all inputs of a square; with a stride of 2 they are read in
 * pairs. */
static void reach(const zn_node *n, const zn_prepare *p, int64_t *lo, int64_t *hi)
{
    const zn_conv_spec *k = spec_of(n);
    const int64_t kernel = n->source[1]->shape.dim[0], side = block(n, p), before = k->up2 ? 1 : 0;
    if (k->shuffle) {
        *lo = *lo >> 1;
        *hi = (*hi + 1) >> 1;
    }
    *lo = floor_to(*lo + before, side) - before;
    *hi = floor_to(*hi + before + side - 1, side) - before;
    *lo = *lo * k->stride - k->pad;
    *hi = (*hi - 1) * k->stride - k->pad + kernel + (side > 1 ? k->stride - 1 : 0);
    if (k->up2) {
        *lo = *lo >> 1;
        *hi = (*hi + 1) >> 1;
    }
    if (k->unshuffle) {
        *lo *= 2;
        *hi *= 2;
    }
}

static void gradient(zn_node *n, zn_node *dy)
{
    const zn_conv_spec *k = spec_of(n);
    if (k->flipped) {
        zn_graph_poison(n->graph, ZN_EUNSUPPORTED, "the gradient of a convolution has no gradient itself");
        return;
    }
    if (zn_needs_gradient(n->source[0]))
        zn_accumulate(n->source[0], zn_conv_input_gradient(n, dy));
    zn_node *weights =
        zn_needs_gradient(n->source[1]) ? zn_conv_weight_gradient(n->source[0], dy, k, n->source[1]->shape.dim) : NULL;
    if (weights)
        zn_accumulate(n->source[1], weights);
    if (k->bias && zn_needs_gradient(n->source[2]))
        zn_accumulate(n->source[2], zn_conv_bias_gradient(dy, weights));
}

static int in_place(const zn_node *n) { return spec_of(n)->residual ? 2 + spec_of(n)->bias : -1; }

const zn_op zn_op_conv = { .name = "conv",
                           .shape = shape,
                           .run = run,
                           .types = types,
                           .host_types = host_types,
                           .launches = zn_launches,
                           .gradient = gradient,
                           .needs = needs,
                           .prepare = prepare,
                           .pack = pack,
                           .packing = packing,
                           .refresh = refresh,
                           .launch_refresh = launch_refresh,
                           .flops = flops,
                           .flops_done = flops_done,
                           .slots = slots,
                           .kernel = kernel_name,
                           .math = math,
                           .reach = reach,
                           .block = block,
                           .in_place = in_place,
                           .cuts_rows = true };

zn_node *zn_conv(zn_node *x, zn_node *w, zn_node *bias, zn_conv_spec k)
{
    k.bias = bias != NULL;
    return zn_apply(&zn_op_conv, &k, sizeof k, (zn_node *[]){ x, w, bias }, bias ? 3 : 2);
}
