/* Reading golden files and comparing with them. */
#include "golden.h"

#include "base/alloc.h"
#include "base/convert.h"
#include "base/fail.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const zn_weight *golden_find(const golden *g, const char *prefix, const char *name)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return zn_weights_find(g->file, full);
}

bool golden_has(const golden *g, const char *prefix, const char *name) { return golden_find(g, prefix, name) != NULL; }

int64_t golden_int(const golden *g, const char *key, int64_t fallback)
{
    int64_t value;
    return zn_json_i64(zn_json_get(g->config, key), &value) ? value : fallback;
}

double golden_double(const golden *g, const char *key, double fallback)
{
    double value;
    return zn_json_double(zn_json_get(g->config, key), &value) ? value : fallback;
}

bool golden_flag(const golden *g, const char *key)
{
    const zn_json_node *n = zn_json_get(g->config, key);
    return n && n->kind == ZN_JSON_BOOL && n->value.magnitude;
}

const zn_json_node *golden_network_config(const golden *g)
{
    const zn_json_node *own = zn_json_get(g->config, "config");
    return own ? own : g->config;
}

/* NCHW <-> NHWC of a rank 4 shape given in NHWC. */
static void permute_map(const float *in, float *out, zn_shape s, bool to_file)
{
    const int64_t pixels = s.dim[1] * s.dim[2], c = s.dim[3];
    for (int64_t n = 0; n < s.dim[0]; n++)
        for (int64_t p = 0; p < pixels; p++)
            for (int64_t k = 0; k < c; k++) {
                const int64_t ours = (n * pixels + p) * c + k, file = (n * c + k) * pixels + p;
                if (to_file)
                    out[file] = in[ours];
                else
                    out[ours] = in[file];
            }
}

zn_status golden_load(const golden *g, const char *prefix, const char *name, zn_shape *shape, float **data)
{
    const zn_weight *w = golden_find(g, prefix, name);
    *data = NULL;
    if (!w)
        return ZN_FAIL(ZN_ENOTFOUND, "no tensor '%s%s'", prefix, name);
    zn_shape s = { .rank = w->rank };
    memcpy(s.dim, w->shape, sizeof s.dim);
    const size_t count = (size_t)zn_shape_count(s);
    ZN_TRY(zn_alloc_for(name, sizeof(float) * (count + 1), (void **)data));
    zn_to_f32(*data, w->data, w->dtype, count);
    if (s.rank == 4 && !g->nhwc) {
        s = ZN_SHAPE(s.dim[0], s.dim[2], s.dim[3], s.dim[1]);
        float *ours;
        ZN_TRY(zn_alloc_for(name, sizeof(float) * (count + 1), (void **)&ours));
        permute_map(*data, ours, s, false);
        zn_free(*data);
        *data = ours;
    }
    *shape = s;
    return ZN_OK;
}

static void mark(golden *g, const zn_weight *w)
{
    for (int64_t i = 0; i < zn_weights_count(g->file); i++)
        if (zn_weights_at(g->file, i) == w)
            g->compared[i] = true;
}

static void report(golden *g, const char *name, double worst, double relative, double tolerance, bool pass)
{
    printf("%-48s max abs %.3e  max rel %.3e  tolerance %.3e  %s\n", name, worst, relative, tolerance,
           pass ? "PASS" : "FAIL");
    pass ? g->passed++ : g->failed++;
}

static bool is_nchw(const golden *g, zn_shape s, int layout) { return layout == GOLDEN_MAP && s.rank == 4 && !g->nhwc; }

static bool same_shape(const golden *g, const zn_weight *w, zn_shape s, int layout)
{
    if (is_nchw(g, s, layout))
        s = ZN_SHAPE(s.dim[0], s.dim[3], s.dim[1], s.dim[2]);
    else if (layout != GOLDEN_MAP)
        s = zn_weight_file_shape(s, (zn_layout)layout);
    if (w->rank != s.rank && zn_shape_count(s) != 1)
        return false;
    for (int i = 0; i < w->rank; i++)
        if (w->shape[i] != s.dim[i])
            return false;
    return true;
}

static void to_file_order(const golden *g, const float *in, zn_shape s, int layout, float *out)
{
    if (is_nchw(g, s, layout))
        permute_map(in, out, s, true);
    else
        zn_weight_export(in, s, layout == GOLDEN_MAP ? ZN_LAYOUT_PLAIN : (zn_layout)layout, out);
}

static zn_status compare(golden *g, const char *name, const float *values, zn_shape s, int layout, int how,
                         const float *each)
{
    const zn_weight *w = golden_find(g, "out.", name);
    if (!w)
        return ZN_OK; /* this file does not ask for it */
    mark(g, w);
    if (!same_shape(g, w, s, layout)) {
        printf("%-48s has another shape  FAIL\n", name);
        g->failed++;
        return ZN_OK;
    }
    const size_t count = (size_t)zn_shape_count(s);
    float *got, *limit, *want;
    ZN_TRY(zn_alloc_for(name, 3 * sizeof(float) * count, (void **)&got));
    want = got + count;
    limit = want + count;
    to_file_order(g, values, s, layout, got);
    if (each)
        to_file_order(g, each, s, layout, limit);
    zn_to_f32(want, w->data, w->dtype, count);
    double worst = 0, scale = 0, widest = 0;
    int64_t bad = 0;
    for (size_t i = 0; i < count; i++)
        if (fabs((double)want[i]) > scale)
            scale = fabs((double)want[i]);
    /* Forward: 1e-4 * max(1, max|ref|). Trained: 1e-3 of it. Gradients: likewise and, since they may all be small, an
     * RMS error of at most 1 % (or 1e-7, where they would be zero but for rounding): a ReLU whose input is within
     * rounding of zero may switch and move single values further. */
    const double usual = (how == GOLDEN_FORWARD ? 1e-4 : 1e-3) * fmax(1, scale);
    double error = 0, power = 0;
    for (size_t i = 0; i < count; i++) {
        const double d = fabs((double)got[i] - (double)want[i]), t = each ? (double)limit[i] : usual;
        bad += !(d <= t); /* NaN fails */
        worst = d <= worst ? worst : d;
        widest = t > widest ? t : widest;
        error += d * d;
        power += (double)want[i] * (double)want[i];
    }
    const bool pass = bad == 0 && (how != GOLDEN_GRADIENT || error <= 1e-4 * power + 1e-14 * (double)count);
    report(g, name, worst, scale > 0 ? worst / scale : worst, widest, pass);
    zn_free(got);
    return ZN_OK;
}

zn_status golden_compare(golden *g, const char *name, const float *values, zn_shape shape, int layout, int how)
{
    return compare(g, name, values, shape, layout, how, NULL);
}

zn_status golden_compare_each(golden *g, const char *name, const float *values, zn_shape shape, int layout,
                              const float *tolerance)
{
    return compare(g, name, values, shape, layout, GOLDEN_FORWARD, tolerance);
}

zn_status golden_compare_within(golden *g, const char *name, const float *values, zn_shape shape, double tolerance)
{
    const zn_weight *w = golden_find(g, "out.", name);
    const size_t count = (size_t)zn_shape_count(shape);
    float *each, scale = 0;
    ZN_TRY(zn_alloc_for(name, sizeof *each * (count + 1), (void **)&each));
    if (w && w->bytes == count * sizeof *each && w->dtype == ZN_F32) {
        memcpy(each, w->data, w->bytes);
        for (size_t i = 0; i < count; i++)
            scale = fmaxf(scale, fabsf(each[i]));
    }
    for (size_t i = 0; i < count; i++)
        each[i] = (float)tolerance * scale;
    const zn_status status = compare(g, name, values, shape, ZN_LAYOUT_PLAIN, GOLDEN_FORWARD, each);
    zn_free(each);
    return status;
}

void golden_compare_bytes(golden *g, const char *name, const void *bytes, size_t size)
{
    const zn_weight *w = golden_find(g, "out.", name);
    if (!w)
        return;
    mark(g, w);
    const bool same = w->bytes == size && memcmp(w->data, bytes, size) == 0;
    printf("%-48s %zu bytes %s\n", name, size, same ? "equal  PASS" : "differ  FAIL");
    same ? g->passed++ : g->failed++;
}

zn_status golden_compare_double(golden *g, const char *name, const double *values, int64_t count, double tolerance)
{
    const zn_weight *w = golden_find(g, "out.", name);
    if (!w)
        return ZN_OK;
    mark(g, w);
    int64_t stored = 1;
    for (int i = 0; i < w->rank; i++)
        stored *= w->shape[i];
    if (stored != count || (w->dtype != ZN_F64 && w->dtype != ZN_I64)) {
        printf("%-48s has another shape or type  FAIL\n", name);
        g->failed++;
        return ZN_OK;
    }
    double worst = 0, scale = 0;
    bool same = true;
    for (int64_t i = 0; i < count; i++) {
        double want;
        int64_t whole;
        memcpy(w->dtype == ZN_F64 ? (void *)&want : &whole, (const char *)w->data + 8 * i, 8);
        want = w->dtype == ZN_F64 ? want : (double)whole;
        scale = fmax(scale, fabs(want));
        worst = fmax(worst, fabs(values[i] - want));
        same &= !isnan(values[i]);
    }
    report(g, name, worst, scale > 0 ? worst / scale : worst, tolerance * scale, same && worst <= tolerance * scale);
    return ZN_OK;
}

zn_status golden_compare_exact(golden *g, const char *name, const float *values, int64_t count)
{
    const zn_weight *w = golden_find(g, "out.", name);
    if (!w)
        return ZN_OK;
    mark(g, w);
    int64_t stored = 1, wrong = 0;
    for (int i = 0; i < w->rank; i++)
        stored *= w->shape[i];
    float *want;
    ZN_TRY(zn_alloc_for(name, sizeof(float) * (size_t)(stored + 1), (void **)&want));
    zn_to_f32(want, w->data, w->dtype, (size_t)stored);
    double worst = 0;
    for (int64_t i = 0; i < stored && i < count; i++) {
        const bool same =
            isnan(want[i]) ? isnan(values[i]) : want[i] == values[i] && signbit(want[i]) == signbit(values[i]);
        wrong += !same;
        if (!same)
            worst = fmax(worst, fabs((double)want[i] - (double)values[i]));
    }
    zn_free(want);
    report(g, name, worst, 0, 0, stored == count && wrong == 0);
    return ZN_OK;
}

zn_exec_places golden_places;

zn_status golden_exec_new(const golden *g, zn_graph *graph, zn_node *const *outputs, int count,
                          const zn_exec_options *options, zn_exec **exec)
{
    zn_exec_options all = *options;
    all.pool = g->pool;
    all.device = g->device;
    ZN_TRY(zn_exec_new(graph, outputs, count, &all, exec));
    const zn_exec_places places = zn_exec_count_places(*exec);
    golden_places.steps += places.steps;
    golden_places.on_host += places.on_host;
    return ZN_OK;
}

void golden_skip(golden *g, const char *name, const char *why)
{
    char full[512];
    snprintf(full, sizeof full, "out.%s", name);
    const size_t n = strlen(full);
    for (int64_t i = 0; i < zn_weights_count(g->file); i++) {
        const char *t = zn_weights_at(g->file, i)->name;
        if (strncmp(t, full, n) == 0 && (t[n] == 0 || t[n] == '.' || name[0] == 0) && !g->compared[i]) {
            printf("%-48s SKIP: %s\n", t + 4, why);
            g->compared[i] = true;
            g->skipped++;
        }
    }
}
