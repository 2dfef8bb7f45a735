/* Wan: numbers in 8 bits and attention by themselves (specification 6 and 1). */
#include "golden.h"

#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"
#include "ops/ops.h"

#include <stdio.h>
#include <string.h>

static bool is_case(const golden *g, const char *name)
{
    const char *own = zn_weights_metadata(g->file, "case");
    return own && strcmp(own, name) == 0;
}

/* ---- F8_E4M3 ---- */

static bool fp8_matches(const golden *g) { return is_case(g, "fp8") && golden_has(g, "out.", "table"); }

static zn_status compare_codes(golden *g, const char *name, const uint8_t *codes, int64_t count)
{
    float *values;
    ZN_TRY(zn_alloc_for(name, sizeof(float) * (size_t)(count + 1), (void **)&values));
    zn_to_f32(values, codes, ZN_U8, (size_t)count);
    const zn_status status = golden_compare_exact(g, name, values, count);
    zn_free(values);
    return status;
}

static zn_status check_table(golden *g)
{
    uint8_t codes[256];
    float values[256];
    for (int i = 0; i < 256; i++)
        codes[i] = (uint8_t)i;
    zn_to_f32(values, codes, ZN_F8_E4M3, 256);
    return golden_compare_exact(g, "table", values, 256);
}

/* in.x to codes and back, plain and saturating. */
static zn_status check_casts(golden *g)
{
    zn_shape shape;
    float *x = NULL;
    uint8_t *codes = NULL;
    zn_status status;
    ZN_TRY_DONE(golden_load(g, "in.", "x", &shape, &x));
    const int64_t count = zn_shape_count(shape);
    ZN_TRY_DONE(zn_alloc_for("codes", 2 * (size_t)count + 1, (void **)&codes));
    zn_from_f32(codes, ZN_F8_E4M3, x, (size_t)count);
    zn_to_e4m3(codes + count, x, 1, (size_t)count);
    ZN_TRY_DONE(compare_codes(g, "code_plain", codes, count));
    ZN_TRY_DONE(compare_codes(g, "code_saturate", codes + count, count));
    zn_to_f32(x, codes, ZN_F8_E4M3, (size_t)count);
    ZN_TRY_DONE(golden_compare_exact(g, "value_plain", x, count));
    zn_to_f32(x, codes + count, ZN_F8_E4M3, (size_t)count);
    status = golden_compare_exact(g, "value_saturate", x, count);
done:
    zn_free(codes);
    zn_free(x);
    return status;
}

/* a [rows,in] and w [out,in] and what is made of them. */
typedef struct product {
    zn_shape shape_a, shape_w;
    float *a, *w, *y, *scales;
    uint8_t *codes;
} product;

static void product_free(product *p)
{
    zn_free(p->a);
    zn_free(p->w);
    zn_free(p->y);
    zn_free(p->scales);
    zn_free(p->codes);
}

static zn_status product_load(const golden *g, product *p)
{
    ZN_TRY(golden_load(g, "in.", "a", &p->shape_a, &p->a));
    ZN_TRY(golden_load(g, "in.", "w", &p->shape_w, &p->w));
    const int64_t rows = p->shape_a.dim[0], out = p->shape_w.dim[0];
    ZN_TRY(zn_alloc_for("a product", sizeof(float) * (size_t)(rows * out), (void **)&p->y));
    ZN_TRY(zn_alloc_for("scales", sizeof(float) * (size_t)out, (void **)&p->scales));
    return zn_alloc_for("codes", (size_t)(zn_shape_count(p->shape_a) + zn_shape_count(p->shape_w)), (void **)&p->codes);
}

static void multiply(const product *p, const float *a, const float *w, float *y)
{
    const int64_t rows = p->shape_a.dim[0], out = p->shape_w.dim[0], in = p->shape_a.dim[1];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out; o++) {
            float sum = 0;
            for (int64_t i = 0; i < in; i++)
                sum += a[r * in + i] * w[o * in + i];
            y[r * out + o] = sum;
        }
}

/* The product of codes with one scale for a and one for w (tensor) or for each of its rows (channel). */
static zn_status check_product(golden *g, product *p, const char *form, bool each)
{
    const int64_t rows = p->shape_a.dim[0], out = p->shape_w.dim[0], in = p->shape_a.dim[1];
    uint8_t *qa = p->codes, *qw = qa + rows * in;
    char name[64];
    float sa;
    ZN_TRY(zn_e4m3_scale(p->a, (size_t)(rows * in), &sa));
    zn_to_e4m3(qa, p->a, sa, (size_t)(rows * in));
    const int64_t groups = each ? out : 1, length = out / groups * in;
    for (int64_t o = 0; o < groups; o++) {
        ZN_TRY(zn_e4m3_scale(p->w + o * length, (size_t)length, &p->scales[o]));
        zn_to_e4m3(qw + o * length, p->w + o * length, p->scales[o], (size_t)length);
    }
#define NAME(what) (snprintf(name, sizeof name, "%s.%s", form, what), name)
    ZN_TRY(golden_compare_exact(g, NAME("sa"), &sa, 1));
    ZN_TRY(golden_compare_exact(g, NAME("sw"), p->scales, groups));
    ZN_TRY(compare_codes(g, NAME("qa"), qa, rows * in));
    ZN_TRY(compare_codes(g, NAME("qw"), qw, out * in));
    float *values;
    ZN_TRY(zn_alloc_for("values", sizeof(float) * (size_t)((rows + out) * in), (void **)&values));
    zn_to_f32(values, p->codes, ZN_F8_E4M3, (size_t)((rows + out) * in));
    multiply(p, values, values + rows * in, p->y);
    for (int64_t i = 0; i < rows * out; i++)
        p->y[i] *= sa * p->scales[each ? i % out : 0];
    zn_free(values);
    return golden_compare(g, NAME("y"), p->y, ZN_SHAPE(rows, out), GOLDEN_MAP, GOLDEN_FORWARD);
#undef NAME
}

static zn_status check_products(golden *g)
{
    product p = { 0 };
    zn_status status = product_load(g, &p);
    if (status == ZN_OK)
        status = check_product(g, &p, "tensor", false);
    if (status == ZN_OK)
        status = check_product(g, &p, "channel", true);
    if (status == ZN_OK) {
        multiply(&p, p.a, p.w, p.y);
        status =
            golden_compare(g, "y_exact", p.y, ZN_SHAPE(p.shape_a.dim[0], p.shape_w.dim[0]), GOLDEN_MAP, GOLDEN_FORWARD);
    }
    product_free(&p);
    return status;
}

static zn_status fp8_run(golden *g)
{
    ZN_TRY(check_table(g));
    ZN_TRY(check_casts(g));
    return check_products(g);
}

const golden_kind golden_wan_fp8 = { "wan fp8", fp8_matches, fp8_run };

/* ---- attention ---- */

static bool sdpa_matches(const golden *g) { return is_case(g, "sdpa"); }

/* in.<name>.<which> [B,heads,L,d], which the reader has turned to [B,L,d,heads], into rows [B,1,L,3C] or, for a result,
 * back. */
static void into_rows(const float *x, zn_shape s, int which, float *rows)
{
    const int64_t heads = s.dim[3], width = s.dim[2], c = heads * width;
    for (int64_t i = 0; i < s.dim[0] * s.dim[1]; i++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t k = 0; k < width; k++)
                rows[i * 3 * c + which * c + h * width + k] = x[(i * width + k) * heads + h];
}

static zn_status attend(golden *g, const char *name, zn_shape s, const float *qkv, float *out)
{
    const int64_t heads = s.dim[3], width = s.dim[2], c = heads * width, positions = s.dim[0] * s.dim[1];
    char result[128];
    zn_graph *graph = zn_graph_new();
    zn_exec *e = NULL;
    zn_status status = graph ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory for a graph");
    ZN_TRY_DONE(status);
    zn_node *x = zn_graph_input(graph, "qkv", ZN_SHAPE(s.dim[0], 1, s.dim[1], 3 * c));
    zn_node *y = zn_attention_apart(x, (int)heads);
    ZN_TRY_DONE(zn_graph_status(graph));
    ZN_TRY_DONE(golden_exec_new(g, graph, &y, 1, &(zn_exec_options){ .training = false }, &e));
    memcpy(x->data, qkv, sizeof(float) * (size_t)(3 * positions * c));
    ZN_TRY_DONE(zn_exec_run(e));
    for (int64_t i = 0; i < positions; i++)
        for (int64_t k = 0; k < c; k++)
            out[i * c + k % width * heads + k / width] = y->data[i * c + k];
    snprintf(result, sizeof result, "%s.y", name);
    status = golden_compare(g, result, out, s, GOLDEN_MAP, GOLDEN_FORWARD);
done:
    zn_exec_free(e);
    zn_graph_free(graph);
    return status;
}

static zn_status check_attention(golden *g, const char *name)
{
    static const char *const parts[] = { "q", "k", "v" };
    float *x = NULL, *qkv = NULL;
    zn_shape s;
    zn_status status = ZN_OK;
    for (int i = 0; i < 3; i++) {
        char part[128];
        snprintf(part, sizeof part, "%s.%s", name, parts[i]);
        zn_free(x);
        x = NULL;
        ZN_TRY_DONE(golden_load(g, "in.", part, &s, &x));
        if (!qkv)
            ZN_TRY_DONE(zn_alloc_for(name, 4 * sizeof(float) * (size_t)zn_shape_count(s), (void **)&qkv));
        into_rows(x, s, i, qkv);
    }
    status = attend(g, name, s, qkv, qkv + 3 * zn_shape_count(s));
done:
    zn_free(x);
    zn_free(qkv);
    return status;
}

static zn_status sdpa_run(golden *g)
{
    for (int64_t i = 0; i < zn_weights_count(g->file); i++) {
        const char *name = zn_weights_at(g->file, i)->name, *end = strrchr(name, '.');
        char own[64];
        if (strncmp(name, "out.", 4) != 0 || strcmp(end, ".y") != 0)
            continue;
        snprintf(own, sizeof own, "%.*s", (int)(end - name) - 4, name + 4);
        ZN_TRY(check_attention(g, own));
    }
    return ZN_OK;
}

const golden_kind golden_wan_sdpa = { "wan attention", sdpa_matches, sdpa_run };
