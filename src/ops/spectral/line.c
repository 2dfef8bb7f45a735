/* The spectral half of a Prune block as one op (kernels/line.h): a pixel whose blocks are all pruned costs almost
 * nothing, and the others pass through memory once.
 *
 * A node with a norm stores what its gradient needs after its result. The gradient node stores the gradients of all
 * parameters after that of e; line_param_grad reads them from there. */
#include "kernels/line.h"

#include "base/cpu.h"
#include "base/fail.h"
#include "kernels/gates.h"
#include "kernels/kernels.h"
#include "kernels/mix.h"
#include "ops/ops.h"

#include <string.h>

enum { E, SCALE, MIXER, FIRST_OPTION }; /* sources; then in the order of the spec: mask, w, b, gamma, beta */

static const zn_line_spec *spec_of(const zn_node *n) { return n->attribute; }

static const float *option(const zn_node *n, bool there, int *next)
{
    return there ? n->source[(*next)++]->data : NULL;
}

/* Arguments from the sources; both nodes begin with the same ones. */
static zn_line_args args_of(const zn_node *n)
{
    const zn_line_spec *k = spec_of(n);
    const int64_t *d = n->source[E]->shape.dim;
    int next = FIRST_OPTION;
    zn_line_args a = { .e = n->source[E]->data,
                       .scale = n->source[SCALE]->data,
                       .mixer = n->source[MIXER]->data,
                       .n = d[0],
                       .pixels = d[1] * d[2],
                       .c = (int)d[3],
                       .groups = k->groups,
                       .unit = k->unit,
                       .eps = k->eps,
                       .kind = k->kind };
    a.mask = option(n, k->mask, &next);
    a.w = option(n, k->kind != ZN_LINE_PLAIN, &next);
    a.b = option(n, k->kind == ZN_LINE_SRIG, &next);
    a.gamma = option(n, k->groups > 0, &next);
    a.beta = option(n, k->groups > 0, &next);
    return a;
}

static int options_of(const zn_line_spec *k)
{
    const int nonlinear = k->kind == ZN_LINE_PLAIN ? 0 : k->kind == ZN_LINE_SRIG ? 2 : 1;
    return FIRST_OPTION + k->mask + nonlinear + (k->groups > 0 ? 2 : 0);
}

/* ---- forward ---- */

static zn_status shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const zn_line_spec *k = spec_of(n);
    const zn_shape e = n->source[E]->shape;
    const int64_t c = e.dim[3];
    n->shape = e;
    if (c < 1 || (c & (c - 1)))
        return ZN_FAIL(ZN_ESHAPE, "a Walsh-Hadamard transform needs a power of two, not %lld", (long long)c);
    if (k->groups < 0 || (k->groups > 0 && c % k->groups))
        return ZN_FAIL(ZN_ESHAPE, "%lld channels do not divide into %d groups", (long long)c, k->groups);
    if (k->mask && (!k->groups || zn_shape_count(n->source[FIRST_OPTION]->shape) * ZN_GATE_BLOCK != zn_shape_count(e)))
        return ZN_FAIL(ZN_ESHAPE, "the mask does not fit the tensor");
    for (int i = SCALE; i < options_of(k); i++) {
        const int64_t rows = i == MIXER ? 3 : i == FIRST_OPTION + k->mask && k->kind == ZN_LINE_SRIG ? 5 : 1;
        if (!(k->mask && i == FIRST_OPTION) && zn_shape_count(n->source[i]->shape) != rows * c)
            return ZN_FAIL(ZN_ESHAPE, "parameter %d of a line of %lld channels has the wrong size", i, (long long)c);
    }
    return ZN_OK;
}

/* r, the flags, the moments and the statistics. */
static int64_t tail(const zn_node *n)
{
    const zn_line_args a = args_of(n);
    return a.groups ? a.n * (a.pixels * (a.c + 1 + 2 * a.groups) + 4 * a.groups) : 0;
}

static void place_tail(const zn_node *n, zn_line_args *a)
{
    a->r = n->data + zn_shape_count(n->shape);
    a->pruned = a->r + a->n * a->pixels * a->c;
    a->moments = a->pruned + a->n * a->pixels;
    a->stats = a->moments + a->n * a->pixels * 2 * a->groups;
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    const int c = (int)n->shape.dim[3];
    return (zn_needs){ .thread_scratch = zn_line_scratch(c),
                       .shared_scratch = sizeof(float) * 6 * (size_t)zn_line_length(c) };
}

/* Transposes the taps of SRIG for the vector builds; a GPU reads them as they are. */
static void turn(zn_line_args *a, const zn_launch_context *c)
{
    if (a->kind != ZN_LINE_SRIG || c->device)
        return;
    const zn_line_turn_args t = { .w = a->w, .turned = c->shared, .c = a->c };
    zn_launch(c, zn_k_line_turn, a->c, 1024, &t);
    a->turned = c->shared;
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    zn_line_args a = args_of(n);
    const int64_t all = a.n * a.pixels, grain = 1 + 4096 / a.c;
    turn(&a, c);
    a.y = n->data;
    if (a.gamma)
        place_tail(n, &a);
    zn_launch(c, zn_k_line, all, grain, &a);
    if (!a.gamma)
        return;
    zn_launch(c, zn_k_line_stats, a.n * a.groups, 32, &a);
    zn_launch(c, zn_k_line_norm, all, grain, &a);
}

static void gradient(zn_node *n, zn_node *dy)
{
    zn_line_spec k = *spec_of(n);
    const int count = options_of(&k);
    zn_node *sources[ZN_MAX_SOURCES];
    memcpy(sources, n->source, sizeof sources);
    sources[count] = n;
    sources[count + 1] = dy;
    zn_node *all = zn_apply(&zn_op_line_grad, &k, sizeof k, sources, count + 2);
    zn_accumulate(n->source[E], all);
    for (k.which = SCALE; k.which < count; k.which++)
        if (!(k.mask && k.which == FIRST_OPTION) && zn_needs_gradient(n->source[k.which]))
            zn_accumulate(n->source[k.which],
                          zn_apply(&zn_op_line_param_grad, &k, sizeof k, (zn_node *[]){ all, n->source[k.which] }, 2));
}

static double log2_of(const zn_node *n)
{
    double log2c = 0;
    for (int64_t c = n->shape.dim[3]; c > 1; c /= 2)
        log2c++;
    return log2c;
}

/* Per element: two transforms, scale 1, mixer 5, SRIG 84, threshold 2, ReLU and norm 7. */
static double flops(const zn_node *n)
{
    const zn_line_spec *k = spec_of(n);
    const double nonlinear = k->kind == ZN_LINE_SRIG ? 84 : k->kind == ZN_LINE_THRESHOLD ? 2 : 0;
    const double unit = k->unit != 1 ? 2 : 0;
    return (double)zn_shape_count(n->shape) * (2 * log2_of(n) + 6 + unit + nonlinear + (k->groups ? 7 : 0));
}

/* Without a norm a pixel depends only on itself. The op is global because of the norm; segments are cut by maps in
 * any case. */
const zn_op zn_op_line = { .name = "line",
                           .shape = shape,
                           .run = run,
                           .launches = zn_launches,
                           .gradient = gradient,
                           .needs = needs,
                           .flops = flops,
                           .global = true,
                           .tail = tail };

zn_node *zn_line(zn_node *e, const zn_line_sources *s, zn_line_spec k)
{
    zn_node *all[] = { e, s->scale, s->mixer, s->mask, s->w, s->b, s->gamma, s->beta }, *sources[ZN_MAX_SOURCES];
    int count = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            sources[count++] = all[i];
    k.mask = s->mask != NULL;
    k.kind = s->b ? ZN_LINE_SRIG : s->w ? ZN_LINE_THRESHOLD : ZN_LINE_PLAIN;
    k.groups = s->gamma ? k.groups : 0;
    return zn_apply(&zn_op_line, &k, sizeof k, sources, count);
}

/* ---- gradient: de, followed by the rows of parameters, then the sums for beta and gamma ---- */

static zn_status grad_shape(zn_node *n)
{
    n->shape = n->source[E]->shape;
    return ZN_OK;
}

static int64_t rows_of(const zn_line_spec *k) { return zn_line_rows(k->kind) + (k->groups ? 2 : 0); }
static int64_t grad_tail(const zn_node *n) { return rows_of(spec_of(n)) * n->shape.dim[3]; }

static zn_needs grad_needs(const zn_node *n, const zn_prepare *p)
{
    zn_needs k = needs(n, p);
    const bool gpu = p->cpu & ZN_CPU_CUDA;
    const int64_t *d = n->shape.dim, blocks = zn_line_parts(d[0] * d[1] * d[2], gpu);
    const int64_t rows = zn_line_rows(spec_of(n)->kind) + (gpu ? ZN_LINE_GPU_LINES : 0);
    k.shared_scratch += sizeof(float) * (size_t)((blocks * rows + 2 * d[0]) * d[3]);
    return k;
}

static void fold(const zn_launch_context *c, const float *partial, int64_t blocks, int64_t count, float *y)
{
    const zn_line_fold_args a = { .partial = partial, .y = y, .blocks = blocks, .count = count };
    zn_launch(c, zn_k_line_fold, (count + ZN_LINE_FOLD - 1) / ZN_LINE_FOLD, 4, &a);
}

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    const zn_line_spec *k = spec_of(n);
    const int count = options_of(k);
    zn_line_args a = args_of(n);
    const int64_t blocks = zn_line_parts(a.n * a.pixels, c->device), rows = zn_line_rows(a.kind) * (int64_t)a.c;
    turn(&a, c);
    a.dy = n->source[count + 1]->data;
    a.y = n->data;
    a.partial = (float *)c->shared + 6 * zn_line_length(a.c);
    float *totals = n->data + zn_shape_count(n->shape);
    a.sums = a.partial + blocks * rows;
    a.lines = c->device ? a.sums + 2 * a.n * a.c : NULL;
    if (a.gamma) {
        place_tail(n->source[count], &a);
        zn_launch(c, zn_k_line_sums, zn_line_strips(&a), 1, &a);
        zn_launch(c, zn_k_line_means, a.n * a.groups, 8, &a);
        fold(c, a.sums, a.n, 2 * (int64_t)a.c, totals + rows);
    }
    zn_launch(c, zn_k_line_grad, blocks, 1, &a);
    fold(c, a.partial, blocks, rows, totals);
}

/* One more transform than the forward pass, and the gradients of the steps between the transforms. */
static double grad_flops(const zn_node *n)
{
    const zn_line_spec *k = spec_of(n);
    const double nonlinear = k->kind == ZN_LINE_SRIG ? 300 : k->kind == ZN_LINE_THRESHOLD ? 5 : 0;
    return (double)zn_shape_count(n->shape) * (3 * log2_of(n) + 16 + nonlinear + (k->groups ? 12 : 0));
}

const zn_op zn_op_line_grad = { .name = "line_grad",
                                .shape = grad_shape,
                                .run = grad_run,
                                .launches = zn_launches,
                                .needs = grad_needs,
                                .flops = grad_flops,
                                .global = true,
                                .tail = grad_tail };

/* Sources: the gradient node, and the parameter for its shape. */
static void param_grad_run(const zn_node *n, const zn_launch_context *context)
{
    const zn_node *all = n->source[0];
    const zn_line_spec *k = spec_of(n);
    const int64_t c = all->shape.dim[3];
    const int option = k->which - FIRST_OPTION - k->mask, norm = options_of(k) - 2 - k->which; /* gamma 0, beta -1 */
    const float *rows = all->data + zn_shape_count(all->shape);
    if (k->which == MIXER)
        rows += c;
    else if (k->which != SCALE && k->groups && norm <= 0)
        rows += (zn_line_rows(k->kind) + (norm == 0)) * c;
    else if (k->which != SCALE)
        rows += (option == 0 ? 4 : 9) * c;
    if (option == 0 && k->kind == ZN_LINE_SRIG) { /* from [5][c] to [c][5] */
        for (int j = 0; j < 5; j++)
            zn_launch(
                context, zn_k_copy_channels, c, 1 << 14,
                &(zn_channel_copy_args){ .x = rows + j * c, .y = n->data, .from = 1, .to = 5, .count = 1, .skip = j });
        return;
    }
    zn_launch(context, zn_k_copy, zn_shape_count(n->shape), 1 << 14, &(zn_unary_args){ .x = rows, .y = n->data });
}

const zn_op zn_op_line_param_grad = {
    .name = "line_param_grad", .shape = zn_like_second, .run = param_grad_run, .launches = zn_launches, .global = true
};
