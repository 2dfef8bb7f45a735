/* Causal convolution over frames: the sum of one 2D convolution for each frame of the kernel, as one step. Only fusion
 * makes it (passes/fuse_frames.c), for devices.
 *
 * Few input channels would leave most of a matrix unit idle, so the frames of the kernel become channels of one map
 * (zn_k_stack_frames), and there is one 2D convolution of that. Otherwise the kernel takes all frames at once if it
 * can, as for codes of FP8, or each 2D convolution adds to the result of the one before. */
#include "base/convert.h"
#include "base/cpu.h"
#include "kernels/frames.h"
#include "ops/passes/fuse.h"

/* Sources: x [T,H,W,I], w [kt,kh,kw,I,O], then those of: kt-1 frames before x, bias [O], residual. */
enum { X, WEIGHTS, OTHERS };

static const zn_conv_frames *spec_of(const zn_node *n) { return n->attribute; }

static const zn_node *before_of(const zn_node *n) { return spec_of(n)->before ? n->source[OTHERS] : NULL; }
static int bias_index(const zn_node *n) { return OTHERS + spec_of(n)->before; }
static int residual_index(const zn_node *n) { return bias_index(n) + spec_of(n)->bias; }
static const zn_node *residual_of(const zn_node *n)
{
    return spec_of(n)->residual ? n->source[residual_index(n)] : NULL;
}

static int depth_of(const zn_node *n) { return (int)n->source[WEIGHTS]->shape.dim[0]; }

/* The 2D convolution of `frames` frames. */
static zn_conv_shape shape_of(const zn_node *n, int64_t frames)
{
    const int64_t *x = n->source[X]->shape.dim, *w = n->source[WEIGHTS]->shape.dim;
    return (zn_conv_shape){ .n = (int)frames,
                            .h = (int)x[1],
                            .w = (int)x[2],
                            .cin = (int)x[3],
                            .cout = (int)w[4],
                            .kh = (int)w[1],
                            .kw = (int)w[2],
                            .stride = 1,
                            .pad = spec_of(n)->pad,
                            .oh = (int)n->shape.dim[1],
                            .ow = (int)n->shape.dim[2] };
}

static const zn_conv_kernel *choose(const zn_conv_shape *s, const zn_prepare *p)
{
    return zn_conv_choose(s, (zn_conv_wish){ .math = p->math, .whole = p->whole, .cpu = p->cpu, .lean = p->lean });
}

/* What prepare stores for run. */
typedef struct plan {
    const zn_conv_kernel *kernel;
    zn_conv_shape s; /* of all frames; of the stacked map if stacked */
    bool stacked;
    zn_type type; /* of the stacked map */
} plan;

static plan plan_of(const zn_node *n, const zn_prepare *p)
{
    plan q = { .s = shape_of(n, n->shape.dim[0]), .type = p->math == ZN_PRECISION_F16 ? ZN_TYPE_F16 : ZN_TYPE_BF16 };
    if (spec_of(n)->codes) {
        q.kernel = zn_conv_of_codes(&q.s, p->cpu);
        return q;
    }
    q.stacked = p->cpu & ZN_CPU_CUDA && p->math != ZN_PRECISION_F32 && zn_can_stack_frames(depth_of(n), q.s.cin);
    q.s.cin = q.stacked ? ZN_STACKED : q.s.cin;
    q.kernel = choose(&q.s, p);
    return q;
}

const zn_conv_kernel *zn_conv_frames_of_codes(const zn_node *n, uint32_t cpu)
{
    const zn_conv_shape s = shape_of(n, n->shape.dim[0]);
    return zn_conv_of_codes(&s, cpu);
}

static zn_status shape(zn_node *n)
{
    n->shape = n->source[X]->shape;
    n->shape.dim[3] = n->source[WEIGHTS]->shape.dim[4];
    return ZN_OK;
}

/* ---- weights ---- */

static size_t stacked_weights(const plan *q)
{
    return q->stacked ? sizeof(float) * (size_t)q->s.kh * (size_t)q->s.kw * ZN_STACKED * (size_t)q->s.cout : 0;
}

static float rounded(float x, zn_type type)
{
    return type == ZN_TYPE_F16 ? zn_f16_to_f32(zn_f32_to_f16(x)) : zn_bf16_to_f32(zn_f32_to_bf16(x));
}

/* Weights for the channels of zn_k_stack_frames: [high][high][low][zeros]. */
static void stack_weights(const zn_node *n, const plan *q, float *to)
{
    const int depth = depth_of(n), cin = (int)n->source[X]->shape.dim[3], each = depth * cin, taps = q->s.kh * q->s.kw;
    const float *w = n->source[WEIGHTS]->data;
    for (int tap = 0; tap < taps; tap++)
        for (int k = 0; k < ZN_STACKED; k++) {
            const int frame = depth - 1 - k % each / cin;
            const float *from = w + (((int64_t)frame * taps + tap) * cin + k % cin) * q->s.cout;
            for (int o = 0; o < q->s.cout; o++) {
                const float high = rounded(from[o], q->type);
                *to++ = k < 2 * each ? high : k < 3 * each ? from[o] - high : 0;
            }
        }
}

/* Those of each frame of the kernel follow each other, the last frame first: it is that of the result. */
static void pack(const zn_node *n, const zn_prepare *p, void *packed)
{
    const plan q = plan_of(n, p);
    const int depth = depth_of(n);
    const size_t each = zn_aligned(q.kernel->packed_bytes(&q.s));
    const float *w = n->source[WEIGHTS]->data;
    const int64_t count = zn_shape_count(n->source[WEIGHTS]->shape) / depth;
    if (!q.stacked) {
        for (int age = 0; age < depth; age++)
            q.kernel->pack(&q.s, w + (depth - 1 - age) * count, (char *)packed + (size_t)age * each);
        return;
    }
    float *stacked = (float *)((char *)packed + each);
    stack_weights(n, &q, stacked);
    q.kernel->pack(&q.s, stacked, packed);
}

static zn_packing packing(const zn_node *n, const zn_prepare *p)
{
    const plan q = plan_of(n, p);
    return (zn_packing){ .kernel = q.kernel,
                         .geometry = { depth_of(n), q.s.kh, q.s.kw, q.s.cin, q.s.cout, q.s.pad },
                         .sources = 1u << WEIGHTS };
}

static size_t stacked_map(const plan *q)
{
    return q->stacked
               ? zn_aligned(zn_type_size(q->type) * (size_t)q->s.n * (size_t)q->s.h * (size_t)q->s.w * ZN_STACKED)
               : 0;
}

static size_t room_for(const plan *q, zn_type x)
{
    return q->kernel->workspace_bytes ? q->kernel->workspace_bytes(&q->s, x) : 0;
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    plan q = plan_of(n, p);
    const zn_node *before = before_of(n);
    const size_t own = room_for(&q, q.stacked ? q.type : n->source[X]->type);
    const size_t kept = before ? room_for(&q, before->type) : 0, each = zn_aligned(q.kernel->packed_bytes(&q.s));
    q.s.threads = p->threads;
    return (zn_needs){ .thread_scratch = q.kernel->scratch_bytes(&q.s),
                       .shared_scratch = stacked_map(&q) + (own > kept ? own : kept),
                       .packed = q.stacked ? each + stacked_weights(&q) : each * (size_t)depth_of(n),
                       .prepared = sizeof(plan),
                       .replaces = true };
}

static void prepare(const zn_node *n, const zn_prepare *p, void *memory) { *(plan *)memory = plan_of(n, p); }

/* ---- runs ---- */

static void launch(const zn_launch_context *c, const plan *q, zn_conv_args *a)
{
    enum { PARTS = 48 };
    a->s.threads = zn_pool_threads(c->pool);
    if (room_for(q, a->x_type)) /* otherwise the stacked map may be the last that the scratch holds */
        a->workspace = (char *)c->shared + stacked_map(q);
    const int64_t units = q->kernel->units(&a->s), grain = units / (PARTS * a->s.threads);
    zn_launch(c, q->kernel->run, units, grain < 1 ? 1 : grain, a);
}

/* The frames of x or before it that are `age` frames older than a result. */
static void add_frames(const zn_node *n, const zn_launch_context *c, const zn_node *x, int lag, int age)
{
    const plan *q = c->prepared;
    const zn_node *residual = age ? n : residual_of(n);
    const int64_t frames = n->shape.dim[0], from = zn_shape_count(n->source[X]->shape) / frames,
                  to = zn_shape_count(n->shape) / frames;
    const zn_overlap o = zn_conv_overlap(x->shape.dim[0], frames, lag);
    if (o.count < 1)
        return;
    zn_conv_args a = { .s = shape_of(n, o.count),
                       .x = zn_values_at(x, o.first * from),
                       .packed = (const char *)c->packed + (size_t)age * zn_aligned(q->kernel->packed_bytes(&q->s)),
                       .bias = !age && spec_of(n)->bias ? n->source[bias_index(n)]->data : NULL,
                       .residual = residual ? zn_values_at(residual, o.to * to) : NULL,
                       .y = zn_values_at(n, o.to * to),
                       .x_type = x->type,
                       .residual_type = residual ? residual->type : ZN_TYPE_F32,
                       .y_type = n->type };
    launch(c, q, &a);
}

static void run_stacked(const zn_node *n, const zn_launch_context *c)
{
    const plan *q = c->prepared;
    const zn_node *before = before_of(n), *residual = residual_of(n);
    const zn_stack_args stack = { .x = n->source[X]->data,
                                  .before = before ? before->data : NULL,
                                  .y = c->shared,
                                  .frames = q->s.n,
                                  .depth = depth_of(n),
                                  .pixels = (int64_t)q->s.h * q->s.w,
                                  .c = (int)n->source[X]->shape.dim[3],
                                  .type = q->type };
    zn_conv_args a = { .s = q->s,
                       .x = c->shared,
                       .packed = c->packed,
                       .bias = spec_of(n)->bias ? n->source[bias_index(n)]->data : NULL,
                       .residual = residual ? residual->data : NULL,
                       .y = n->data,
                       .x_type = q->type,
                       .residual_type = residual ? residual->type : ZN_TYPE_F32,
                       .y_type = n->type };
    zn_launch(c, zn_k_stack_frames, stack.frames * stack.pixels, 1 << 12, &stack);
    launch(c, q, &a);
}

static bool takes_frames(const zn_node *n, const plan *q)
{
    const zn_node *before = before_of(n), *residual = residual_of(n);
    const zn_type type = n->source[X]->type;
    if (spec_of(n)->codes)
        return true;
    return q->kernel->run_frames && q->kernel->takes_frames(&q->s) && type != ZN_TYPE_F32 && n->type == type &&
           (!before || before->type == type) && (!residual || residual->type == type);
}

/* Without frames before it, a single frame is not multiplied with zeros. */
static void run_frames(const zn_node *n, const zn_launch_context *c)
{
    const plan *q = c->prepared;
    const zn_node *before = before_of(n), *residual = residual_of(n);
    const zn_conv_frames_args a = { .a = { .s = q->s,
                                           .x = n->source[X]->data,
                                           .packed = c->packed,
                                           .bias = spec_of(n)->bias ? n->source[bias_index(n)]->data : NULL,
                                           .residual = residual ? residual->data : NULL,
                                           .y = n->data,
                                           .x_type = n->source[X]->type,
                                           .residual_type = residual ? residual->type : ZN_TYPE_F32,
                                           .y_type = n->type },
                                    .before = before ? before->data : NULL,
                                    .depth = before || q->s.n > depth_of(n) ? depth_of(n) : q->s.n,
                                    .scale = spec_of(n)->codes ? zn_norm_code_scale(n->source[X]) : 1 };
    zn_launch(c, q->kernel->run_frames, q->kernel->units(&q->s), 1, &a);
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    const plan *q = c->prepared;
    const int depth = depth_of(n);
    if (q->stacked) {
        run_stacked(n, c);
        return;
    }
    if (takes_frames(n, q)) {
        run_frames(n, c);
        return;
    }
    for (int age = 0; age < depth; age++) {
        add_frames(n, c, n->source[X], age, age);
        if (age && spec_of(n)->before)
            add_frames(n, c, before_of(n), age - (depth - 1), age);
    }
}

/* Frames that are stacked stay floats. */
static zn_node_types types(const zn_node *n, const zn_prepare *p)
{
    const plan q = plan_of(n, p);
    const unsigned narrow = q.kernel->narrow ? q.kernel->narrow(&q.s) : 0;
    const unsigned x = narrow & ZN_CONV_NARROW_X && !q.stacked ? 1u << X | (spec_of(n)->before ? 1u << OTHERS : 0) : 0;
    const unsigned residual = narrow & ZN_CONV_NARROW_Y && spec_of(n)->residual ? 1u << residual_index(n) : 0;
    return (zn_node_types){ .result = narrow & ZN_CONV_NARROW_Y, .sources = x | residual };
}

/* Frames before the first are not multiplied. */
static double flops(const zn_node *n)
{
    const int64_t frames = n->shape.dim[0];
    int64_t all = 0;
    for (int age = 0; age < depth_of(n); age++)
        all += spec_of(n)->before ? frames : frames > age ? frames - age : 0;
    const zn_conv_shape s = shape_of(n, all);
    return zn_conv_direct_flops(&s);
}

static const char *kernel_name(const zn_node *n, const zn_prepare *p) { return plan_of(n, p).kernel->name; }
static zn_precision math(const zn_node *n, const zn_prepare *p) { return plan_of(n, p).kernel->math; }

static void reach(const zn_node *n, const zn_prepare *p, int64_t *lo, int64_t *hi)
{
    (void)p;
    *lo -= spec_of(n)->pad;
    *hi += n->source[WEIGHTS]->shape.dim[1] - 1 - spec_of(n)->pad;
}

static int in_place(const zn_node *n) { return spec_of(n)->residual ? residual_index(n) : -1; }

const zn_op zn_op_conv_frames = { .name = "conv_frames",
                                  .shape = shape,
                                  .run = run,
                                  .types = types,
                                  .launches = zn_launches,
                                  .needs = needs,
                                  .prepare = prepare,
                                  .pack = pack,
                                  .packing = packing,
                                  .flops = flops,
                                  .kernel = kernel_name,
                                  .math = math,
                                  .reach = reach,
                                  .in_place = in_place };
