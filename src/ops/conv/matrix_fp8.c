/* The product with FP8 factors (kernels/fp8.h), which ops/passes/fp8.c makes of a product without bias. Weights are
 * used as stored if their file has them in E4M3, otherwise each row gets a scale once. x are codes already, or become
 * codes here. A CPU multiplies the numbers that codes stand for.
 *
 * A trial can be turned off and on between runs: off, it multiplies as zn_op_matrix does in bf16. */
#include "kernels/fp8.h"

#include "base/alloc.h"
#include "base/convert.h"
#include "base/cpu.h"
#include "graph/types.h"
#include "kernels/matrix.h"
#include "ops/passes/fuse.h"

static int64_t row_count(const zn_node *n) { return zn_shape_count(n->shape) / n->shape.dim[3]; }
static int depth(const zn_node *n) { return (int)n->source[1]->shape.dim[3]; }
static int width(const zn_node *n) { return (int)n->source[1]->shape.dim[2]; }
static size_t round_up(size_t bytes) { return (bytes + 255) / 256 * 256; }
static const zn_fp8_product *attribute(const zn_node *n) { return n->attribute; }

/* ---- weights: codes, unless they are used as stored, then a scale for each row ---- */

static bool is_stored(const zn_node *n)
{
    const zn_packed *w = n->source[1]->packed;
    return w && !w->form.bits && !w->rotated && w->dtype == ZN_F8_E4M3 && w->row_bytes == (size_t)depth(n);
}

static size_t code_bytes(const zn_node *n) { return is_stored(n) ? 0 : round_up((size_t)depth(n) * (size_t)width(n)); }

static const uint8_t *codes_of(const zn_node *n, const void *packed)
{
    return is_stored(n) ? n->source[1]->packed->data : packed;
}

static const float *scales_of(const zn_node *n, const void *packed)
{
    return (const float *)((const char *)packed + code_bytes(n));
}

static zn_packed weights_of(const zn_node *n)
{
    const zn_node *w = n->source[1];
    return w->packed ? *w->packed : zn_packed_floats(w->data, depth(n));
}

static float stored_scale(const zn_packed *w, int64_t row)
{
    float scale = 1;
    if (w->scales)
        zn_to_f32(&scale, w->scales + zn_dtype_size(w->scale_dtype) * (size_t)row * w->groups, w->scale_dtype, 1);
    return scale;
}

static void pack(const zn_node *n, const zn_prepare *p, void *packed)
{
    (void)p;
    const zn_packed w = weights_of(n);
    float row[ZN_FP8_DEPTH], *scales = (float *)((char *)packed + code_bytes(n));
    for (int64_t j = 0; j < width(n); j++) {
        if (is_stored(n)) {
            scales[j] = stored_scale(&w, j);
            continue;
        }
        zn_packed_row(&w, j, 0, depth(n), row);
        scales[j] = zn_quantise_row(row, depth(n), (uint8_t *)packed + j * depth(n));
    }
}

static zn_packing packing(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return (zn_packing){ .kernel = (const void *)(uintptr_t)zn_k_matrix_fp8,
                         .geometry = { depth(n), width(n), is_stored(n) },
                         .sources = 1u << 1 };
}

/* ---- running ---- */

static zn_matrix_args as_matrix(const zn_node *n, const float *x, zn_packed w)
{
    return (zn_matrix_args){
        .x = x, .w = w, .y = n->data, .rows = row_count(n), .in = depth(n), .out = width(n), .y_type = n->type
    };
}

/* Scratch: codes of x and their scales; then what the product needs where a GPU has none for FP8. */
static size_t x_bytes(const zn_node *n) { return round_up((size_t)row_count(n) * (size_t)depth(n)); }
static size_t scale_bytes(const zn_node *n) { return round_up(sizeof(float) * (size_t)row_count(n)); }

static zn_needs needs(const zn_node *n, const zn_prepare *p)
{
    const size_t numbers = sizeof(float) * (size_t)row_count(n) * (size_t)depth(n);
    zn_matrix_args off = as_matrix(n, NULL, (zn_packed){ 0 });
    off.type = ZN_TYPE_BF16;
    const size_t fp8 = x_bytes(n) + scale_bytes(n) + zn_matrix_fp8_shared(row_count(n), depth(n), width(n));
    const size_t bf16 = zn_matrix_shared(&off);
    const bool device = p->cpu & ZN_CPU_CUDA;
    return (zn_needs){ .thread_scratch = device ? 0 : (size_t)ZN_MATRIX_SCRATCH,
                       .shared_scratch = !device      ? numbers
                                         : fp8 > bf16 ? fp8
                                                      : bf16,
                       .packed = code_bytes(n) + sizeof(float) * (size_t)width(n),
                       .replaces = !is_stored(n) && !attribute(n)->trial };
}

static zn_quantise_args quantising(const zn_node *n, void *y, float *scales)
{
    const zn_node *x = n->source[0];
    return (zn_quantise_args){ .x = x->data,
                               .y = y,
                               .scales = scales,
                               .c = depth(n),
                               .x_type = x->type,
                               .y_type = scales ? ZN_TYPE_E4M3 : ZN_TYPE_F32 };
}

static void run_codes(const zn_node *n, const zn_launch_context *c)
{
    const zn_node *x = n->source[0];
    const bool ready = x->type == ZN_TYPE_E4M3;
    uint8_t *codes = ready ? (uint8_t *)x->data : c->shared;
    float *scales = ready ? zn_node_tail(x) : (float *)((char *)c->shared + x_bytes(n));
    const zn_quantise_args q = quantising(n, codes, scales);
    const zn_matrix_fp8_args a = { .x = codes,
                                   .w = codes_of(n, c->packed),
                                   .x_scales = scales,
                                   .w_scales = scales_of(n, c->packed),
                                   .y = n->data,
                                   .rows = row_count(n),
                                   .in = depth(n),
                                   .out = width(n),
                                   .y_type = n->type,
                                   .shared = c->device ? (char *)c->shared + x_bytes(n) + scale_bytes(n) : NULL };
    if (!ready)
        zn_launch(c, zn_k_quantise, row_count(n), 8, &q);
    zn_launch(c, zn_k_matrix_fp8, row_count(n), 8, &a);
}

/* On a CPU: x is rounded to what its codes stand for, and multiplied with weights in the format of FP8 files. */
static void run_numbers(const zn_node *n, const zn_launch_context *c)
{
    const zn_quantise_args q = quantising(n, c->shared, NULL);
    const zn_packed w = { .data = codes_of(n, c->packed),
                          .row_bytes = (size_t)depth(n),
                          .dtype = ZN_F8_E4M3,
                          .scales = (const uint8_t *)scales_of(n, c->packed),
                          .scale_dtype = ZN_F32,
                          .groups = 1 };
    const zn_matrix_args a = as_matrix(n, c->shared, w);
    zn_launch(c, zn_k_quantise, row_count(n), 8, &q);
    zn_launch(c, zn_k_matrix, zn_matrix_units(&a), 1, &a);
}

static void run_off(const zn_node *n, const zn_launch_context *c)
{
    zn_matrix_args a = as_matrix(n, n->source[0]->data, weights_of(n));
    a.type = c->device ? ZN_TYPE_BF16 : ZN_TYPE_F32;
    a.x_type = n->source[0]->type;
    a.shared = c->shared;
    zn_launch(c, zn_k_matrix, zn_matrix_units(&a), 1, &a);
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    if (attribute(n)->off)
        run_off(n, c);
    else if (c->device || n->source[0]->type == ZN_TYPE_E4M3)
        run_codes(n, c);
    else
        run_numbers(n, c);
}

static double flops(const zn_node *n) { return 2.0 * (double)zn_shape_count(n->shape) * (double)depth(n); }

static zn_precision math(const zn_node *n, const zn_prepare *p)
{
    (void)n, (void)p;
    return ZN_PRECISION_FP8;
}

static const char *kernel(const zn_node *n, const zn_prepare *p)
{
    (void)n, (void)p;
    return "matrix-fp8";
}

static zn_node_types types(const zn_node *n, const zn_prepare *p)
{
    (void)n, (void)p;
    return (zn_node_types){ .result = true, .sources = 1 };
}

static zn_status shape(zn_node *n) { return zn_op_matrix.shape(n); }

const zn_op zn_op_matrix_fp8 = { .name = "matrix_fp8",
                                 .shape = shape,
                                 .run = run,
                                 .launches = zn_launches,
                                 .types = types,
                                 .needs = needs,
                                 .pack = pack,
                                 .packing = packing,
                                 .math = math,
                                 .kernel = kernel,
                                 .flops = flops,
                                 .takes_packed = true };
