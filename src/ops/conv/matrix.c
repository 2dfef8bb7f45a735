/* The product with weights in their file format (kernels/matrix.h). With float weights its gradients are
 * convolutions: w is [1,1,out,in], which are the convolution weights that map dy to dx.
 *
 * With ZN_PRECISION_INT8, products with quantised weights are computed in 8-bit integers (kernels/matrix_i8.h), or,
 * where that is faster, in bf16 (kernels/matrix_bf16.h), which has less error; those with bf16 weights too. Layers with
 * a bias are not: in transformers they embed, modulate and finish, which is little work and needs the precision. A
 * device multiplies in bf16 instead. */
#include "kernels/matrix.h"

#include "base/cpu.h"
#include "base/fail.h"
#include "kernels/matrix_bf16.h"
#include "kernels/matrix_i8.h"
#include "ops/conv/matrix.h"
#include "ops/ops.h"

static zn_status shape(zn_node *n)
{
    ZN_TRY(zn_need_rank(n, 4));
    const zn_shape x = n->source[0]->shape, w = n->source[1]->shape;
    char a[96], b[96];
    if (w.rank != 4 || w.dim[0] * w.dim[1] != 1 || w.dim[3] != x.dim[3])
        return ZN_FAIL(ZN_ESHAPE, "input %s does not fit a matrix %s", zn_shape_text(x, a, sizeof a),
                       zn_shape_text(w, b, sizeof b));
    if (n->source_count > 2 && zn_shape_count(n->source[2]->shape) != w.dim[2])
        return ZN_FAIL(ZN_ESHAPE, "the bias needs %lld values", (long long)w.dim[2]);
    n->shape = x;
    n->shape.dim[3] = w.dim[2];
    return ZN_OK;
}

/* Kept between runs; the format of the weights is looked at in each run, as their owner may exchange them. */
typedef struct choice {
    zn_precision math; /* that may be used on a CPU, where the weights allow it */
    uint32_t cpu;
    zn_type type; /* of the numbers that are multiplied */
} choice;

static int64_t row_count(const zn_node *n) { return zn_shape_count(n->shape) / n->shape.dim[3]; }

/* Of one sample: what is chosen, and so the bits of the result, does not depend on the size of a batch. */
static int64_t sample_rows(const zn_node *n) { return n->shape.dim[1] * n->shape.dim[2]; }

static zn_precision math_on_cpu(const zn_node *n, const zn_prepare *p)
{
    return n->source_count > 2 || p->cpu & ZN_CPU_CUDA ? ZN_PRECISION_F32 : p->math;
}

static bool may_use_i8(const zn_node *n, const choice *k)
{
    return k->math == ZN_PRECISION_INT8 && n->source[0]->shape.dim[3] % ZN_I8_GROUP == 0;
}
static bool may_use_bf16(const zn_node *n, const choice *k)
{
    return (k->math == ZN_PRECISION_INT8 || k->math == ZN_PRECISION_BF16) &&
           zn_matrix_bf16_pays(sample_rows(n), k->cpu);
}

/* The type of the numbers that a device multiplies. */
static zn_type type_on_device(const zn_prepare *p)
{
    return p->math == ZN_PRECISION_BF16 || p->math == ZN_PRECISION_INT8 ? ZN_TYPE_BF16
           : p->math == ZN_PRECISION_F16                                ? ZN_TYPE_F16
                                                                        : ZN_TYPE_F32;
}

static zn_matrix_args arguments(const zn_node *n, const choice *k)
{
    const zn_node *x = n->source[0], *w = n->source[1];
    return (zn_matrix_args){ .x = x->data,
                             .w = w->packed ? *w->packed : zn_packed_floats(w->data, w->shape.dim[3]),
                             .bias = n->source_count > 2 ? n->source[2]->data : NULL,
                             .y = n->data,
                             .rows = row_count(n),
                             .in = (int)w->shape.dim[3],
                             .out = (int)w->shape.dim[2],
                             .type = k->type,
                             .x_type = x->type,
                             .y_type = n->type };
}

/* Scratch of a device: full precision reads floats where they are. */
static size_t device_scratch(const zn_node *n, const choice *k)
{
    const zn_matrix_args a = arguments(n, k);
    return k->type == ZN_TYPE_F32 && !n->source[1]->packed ? 0 : zn_matrix_shared(&a);
}

static choice choose(const zn_node *n, const zn_prepare *p)
{
    return (choice){ math_on_cpu(n, p), p->cpu, p->cpu & ZN_CPU_CUDA ? type_on_device(p) : ZN_TYPE_F32 };
}

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    const choice k = choose(n, p);
    if (p->cpu & ZN_CPU_CUDA)
        return (zn_needs){ .shared_scratch = device_scratch(n, &k), .prepared = sizeof(choice) };
    const int in = (int)n->source[0]->shape.dim[3];
    const bool bf16 = may_use_bf16(n, &k);
    const size_t codes = may_use_i8(n, &k) ? zn_i8_rows_bytes(row_count(n), in) : 0,
                 runs = bf16 ? zn_matrix_runs_bytes(row_count(n), in) : 0;
    return (zn_needs){ .thread_scratch = bf16 ? (size_t)ZN_BF16_SCRATCH : (size_t)ZN_MATRIX_SCRATCH,
                       .shared_scratch = codes > runs ? codes : runs,
                       .prepared = sizeof(choice) };
}
_Static_assert((int)ZN_I8_SCRATCH <= (int)ZN_MATRIX_SCRATCH && (int)ZN_MATRIX_SCRATCH <= (int)ZN_BF16_SCRATCH,
               "enough for the others");

static void prepare(const zn_node *n, const zn_prepare *p, void *prepared) { *(choice *)prepared = choose(n, p); }

static bool uses_i8(const zn_node *n, const choice *k)
{
    const zn_packed *w = n->source[1]->packed;
    return w && may_use_i8(n, k) && zn_matrix_i8_pays(w, sample_rows(n), k->cpu);
}

bool zn_matrix_is_quantised(const zn_node *n)
{
    const zn_packed *w = n->source[1]->packed;
    return w && (zn_matrix_i8_bits(w) || w->dtype == ZN_F8_E4M3 || w->dtype == ZN_F8_E5M2);
}

/* Whether the weights are no more precise than bf16. */
static bool is_coarse(const zn_node *n)
{
    const zn_packed *w = n->source[1]->packed;
    return zn_matrix_is_quantised(n) || (w && !w->form.bits && w->dtype == ZN_BF16);
}

/* With int8 only where the format of the weights costs more than rounding to bf16 does. */
static bool uses_bf16(const zn_node *n, const choice *k)
{
    return n->source[1]->packed && may_use_bf16(n, k) && (k->math == ZN_PRECISION_BF16 || is_coarse(n)) &&
           (zn_matrix_bf16_beats_i8(k->cpu) || !uses_i8(n, k));
}

static void run_i8(const zn_node *n, const zn_launch_context *c)
{
    const int64_t rows = row_count(n);
    const int in = (int)n->source[0]->shape.dim[3];
    const zn_i8_rows x = zn_i8_rows_at(c->shared, rows, in);
    const zn_packed *w = n->source[1]->packed;
    const zn_matrix_codes_args codes = {
        .x = n->source[0]->data, .q = x, .in = in, .rotated = w->rotated, .centred = zn_matrix_i8_centred(w)
    };
    const zn_matrix_i8_args product = { .x = x,
                                        .w = *w,
                                        .y = n->data,
                                        .rows = rows,
                                        .in = in,
                                        .out = (int)n->shape.dim[3],
                                        .few = sample_rows(n) <= ZN_I8_FEW };
    zn_launch(c, zn_k_matrix_codes, rows, 8, &codes);
    zn_launch(c, zn_k_matrix_i8, zn_matrix_i8_units(&product), zn_matrix_i8_grain(&product, zn_pool_threads(c->pool)),
              &product);
}

static void run_bf16(const zn_node *n, const zn_launch_context *c)
{
    const int64_t rows = row_count(n);
    const int in = (int)n->source[0]->shape.dim[3];
    const zn_packed *w = n->source[1]->packed;
    const zn_matrix_runs_args runs = {
        .x = n->source[0]->data, .runs = c->shared, .rows = rows, .in = in, .rotated = w->rotated
    };
    const zn_matrix_bf16_args product = {
        .x = c->shared, .w = *w, .y = n->data, .rows = rows, .in = in, .out = (int)n->shape.dim[3]
    };
    zn_launch(c, zn_k_matrix_runs, zn_matrix_panels(rows), 1, &runs);
    zn_launch(c, zn_k_matrix_bf16, zn_matrix_bf16_units(&product), 1, &product);
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    if (uses_bf16(n, c->prepared)) {
        run_bf16(n, c);
        return;
    }
    if (uses_i8(n, c->prepared)) {
        run_i8(n, c);
        return;
    }
    zn_matrix_args a = arguments(n, c->prepared);
    a.shared = c->shared;
    zn_launch(c, zn_k_matrix, zn_matrix_units(&a), 1, &a);
}

static void gradient(zn_node *n, zn_node *dy)
{
    static const zn_conv_spec one = { .stride = 1 };
    zn_node *x = n->source[0], *w = n->source[1], *bias = n->source_count > 2 ? n->source[2] : NULL;
    if (zn_needs_gradient(x))
        zn_accumulate(x, zn_conv(dy, w, NULL, one));
    if (zn_needs_gradient(w))
        zn_accumulate(w, zn_conv_weight_gradient(dy, x, &one, w->shape.dim));
    if (bias && zn_needs_gradient(bias))
        zn_accumulate(bias, zn_apply(&zn_op_channel_sum, NULL, 0, (zn_node *[]){ dy }, 1));
}

static double flops(const zn_node *n)
{
    return 2.0 * (double)zn_shape_count(n->shape) * (double)n->source[0]->shape.dim[3];
}

static zn_precision math(const zn_node *n, const zn_prepare *p)
{
    const choice k = choose(n, p);
    return k.type == ZN_TYPE_BF16 || uses_bf16(n, &k) ? ZN_PRECISION_BF16
           : k.type == ZN_TYPE_F16                    ? ZN_PRECISION_F16
           : uses_i8(n, &k)                           ? ZN_PRECISION_INT8
                                                      : ZN_PRECISION_F32;
}

static const char *kernel(const zn_node *n, const zn_prepare *p)
{
    const zn_precision m = math(n, p);
    return m == ZN_PRECISION_INT8                              ? "matrix-i8"
           : m == ZN_PRECISION_BF16 && !(p->cpu & ZN_CPU_CUDA) ? "matrix-bf16"
                                                               : "matrix";
}

static zn_node_types types(const zn_node *n, const zn_prepare *p)
{
    const bool narrow = choose(n, p).type != ZN_TYPE_F32;
    return (zn_node_types){ .result = narrow, .sources = narrow };
}

const zn_op zn_op_matrix = { .name = "matrix",
                             .shape = shape,
                             .run = run,
                             .launches = zn_launches,
                             .types = types,
                             .gradient = gradient,
                             .needs = needs,
                             .prepare = prepare,
                             .math = math,
                             .kernel = kernel,
                             .flops = flops,
                             .takes_packed = true };

zn_node *zn_matrix(zn_node *x, zn_node *w, zn_node *bias)
{
    return zn_apply(&zn_op_matrix, NULL, 0, (zn_node *[]){ x, w, bias }, bias ? 3 : 2);
}

/* w [1,1,out,in] are the weights of a convolution from `out` to `in` channels, so the product is its gradient. */
void zn_graph_multiply_by_convolutions(zn_graph *g)
{
    for (int i = 0; i < zn_graph_count(g); i++) {
        zn_node *n = zn_graph_at(g, i);
        if (n->op != &zn_op_matrix || n->source[1]->packed)
            continue;
        zn_conv_spec *k = zn_arena_alloc(zn_graph_arena(g), sizeof *k);
        if (!k) {
            zn_graph_poison(g, ZN_ENOMEM, "out of memory while building a graph");
            return;
        }
        *k = (zn_conv_spec){ .stride = 1, .flipped = true, .bias = n->source_count > 2 };
        n->op = &zn_op_conv;
        n->attribute = k;
        n->attribute_size = sizeof *k;
    }
}
