/* RMS norm over the channels of each pixel: y = x min(1 / sqrt(mean x^2 + eps), most) * w[k]. Both gradients read
 * the same maps, so one op computes them: dx is its result, dw is stored in its tail. */
#include "base/cpu.h"
#include "base/fail.h"
#include "graph/types.h"
#include "kernels/fp8.h"
#include "kernels/kernels.h"
#include "kernels/mix.h"
#include "kernels/narrow.h"
#include "ops/passes/fuse.h"

#include <math.h>

typedef struct norm_spec {
    float eps;
    float most; /* upper limit of the factor */
    bool silu;  /* of the result; set by fusion, for devices */
    bool codes; /* the result is FP8 codes; with silu */
} norm_spec;

static zn_mix_args args_of(const zn_node *n)
{
    const zn_shape s = n->source[0]->shape;
    const int c = (int)s.dim[s.rank - 1];
    return (zn_mix_args){ .x = n->source[0]->data,
                          .w = n->source[1]->data,
                          .y = n->data,
                          .c = c,
                          .pixels = zn_shape_count(s) / c,
                          .eps = ((norm_spec *)n->attribute)->eps,
                          .most = ((norm_spec *)n->attribute)->most };
}

static zn_status shape(zn_node *n)
{
    const zn_shape s = n->source[0]->shape;
    n->shape = s;
    if (zn_shape_count(n->source[1]->shape) != s.dim[s.rank - 1])
        return ZN_FAIL(ZN_ESHAPE, "a norm of %lld channels needs as many gains", (long long)s.dim[s.rank - 1]);
    return ZN_OK;
}

static void run(const zn_node *n, const zn_launch_context *c)
{
    zn_mix_args a = args_of(n);
    a.x_type = n->source[0]->type;
    a.y_type = n->type;
    a.inverse = ((norm_spec *)n->attribute)->codes ? 1 / zn_norm_code_scale(n) : 1;
    if (((norm_spec *)n->attribute)->silu) {
        zn_launch(c, zn_k_rms_norm_silu, a.pixels, 1 + (1 << 14) / a.c, &a);
        return;
    }
    const bool narrow = !c->device && (a.x_type != ZN_TYPE_F32 || a.y_type != ZN_TYPE_F32);
    zn_launch(c, narrow ? zn_k_narrow_rms_norm : zn_k_rms_norm, a.pixels, 1 + (1 << 14) / a.c, &a);
}

static void gradient(zn_node *n, zn_node *dy)
{
    zn_node *x = n->source[0], *w = n->source[1];
    zn_node *both = zn_apply(&zn_op_rms_norm_grad, n->attribute, n->attribute_size, (zn_node *[]){ x, w, dy }, 3);
    zn_accumulate(x, both);
    zn_accumulate_tail(w, both, 0);
}

/* A square and its sum, the products with the factor and with the gain. */
static double flops(const zn_node *n) { return 4.0 * (double)zn_shape_count(n->shape); }

/* A squared sum (one multiply-add) and two factors. */
static double slots(const zn_node *n, const zn_prepare *p)
{
    (void)p;
    return 3.0 * (double)zn_shape_count(n->shape);
}

static bool writes_codes(const zn_node *n) { return ((norm_spec *)n->attribute)->codes; }

const zn_op zn_op_rms_norm = { .name = "rms_norm",
                               .shape = shape,
                               .run = run,
                               .launches = zn_launches,
                               .types = zn_types_of_map,
                               .host_types = zn_host_types_of_map,
                               .gradient = gradient,
                               .flops = flops,
                               .slots = slots,
                               .codes = writes_codes,
                               .in_place = zn_first_source };

zn_node *zn_rms_norm(zn_node *x, zn_node *w, float eps)
{
    const norm_spec k = { .eps = eps, .most = INFINITY };
    return zn_apply(&zn_op_rms_norm, &k, sizeof k, (zn_node *[]){ x, w }, 2);
}

/* x / max(|x|, floor) * sqrt(C) is an RMS norm whose factor is at most sqrt(C) / floor. */
zn_node *zn_unit_norm(zn_node *x, zn_node *w, float floor)
{
    const norm_spec k = { .most = sqrtf((float)zn_channels(x)) / floor };
    return zn_apply(&zn_op_rms_norm, &k, sizeof k, (zn_node *[]){ x, w }, 2);
}

void zn_fuse_rms_norm(zn_node *n, int *uses)
{
    zn_node *norm = n->op == &zn_op_silu ? n->source[0] : NULL;
    if (!norm || norm->op != &zn_op_rms_norm || uses[norm->index] != 1)
        return;
    norm_spec k = *(norm_spec *)norm->attribute;
    if (k.silu)
        return;
    k.silu = true;
    zn_fuse_become(n, uses, &zn_op_rms_norm, &k, sizeof k, norm->source, 2);
}

bool zn_norm_can_write_codes(const zn_node *n)
{
    return n->op == &zn_op_rms_norm && ((norm_spec *)n->attribute)->silu && n->source[1]->op == &zn_op_parameter;
}

void zn_norm_write_codes(zn_node *n) { ((norm_spec *)n->attribute)->codes = true; }

/* A number divided by the root of the mean square of C numbers is at most sqrt(C), and SiLU makes none larger. */
float zn_norm_code_scale(const zn_node *n)
{
    const int64_t c = zn_shape_count(n->source[1]->shape);
    const float *gains = n->source[1]->data;
    float most = 0;
    for (int64_t i = 0; i < c; i++)
        most = fmaxf(most, fabsf(gains[i]));
    return most < ZN_E4M3_LEAST ? 1 : most * sqrtf((float)c) / ZN_E4M3_MOST;
}

float zn_rms_norm_eps(const zn_node *n) { return ((norm_spec *)n->attribute)->eps; }
bool zn_rms_norm_has_limit(const zn_node *n) { return ((norm_spec *)n->attribute)->most < INFINITY; }

static zn_needs grad_needs(const zn_node *n, const zn_prepare *p)
{
    const zn_mix_args a = args_of(n);
    const int64_t blocks = zn_sum_parts(a.pixels, p->cpu & ZN_CPU_CUDA);
    return (zn_needs){ .shared_scratch = sizeof(float) * (size_t)(blocks * a.c) };
}

static int64_t grad_tail(const zn_node *n) { return zn_shape_count(n->source[1]->shape); }

static void grad_run(const zn_node *n, const zn_launch_context *c)
{
    zn_mix_args a = args_of(n);
    const int64_t blocks = zn_sum_parts(a.pixels, c->device);
    a.dy = n->source[2]->data;
    a.partial = c->shared;
    a.x_type = n->source[0]->type;
    a.dy_type = n->source[2]->type;
    a.y_type = n->type;
    zn_launch(c, zn_k_rms_norm_grad, blocks, 1, &a);
    const zn_reduce_args sum = { .x = a.partial, .y = zn_node_tail(n), .rows = a.c, .c = (int)blocks };
    zn_launch(c, zn_k_sum_partials, sum.rows, 1024, &sum);
}

static double grad_flops(const zn_node *n) { return 11.0 * (double)zn_shape_count(n->shape); }

const zn_op zn_op_rms_norm_grad = { .name = "rms_norm_grad",
                                    .shape = shape,
                                    .run = grad_run,
                                    .launches = zn_launches,
                                    .types = zn_types_of_norm_grad,
                                    .needs = grad_needs,
                                    .flops = grad_flops,
                                    .tail = grad_tail };
