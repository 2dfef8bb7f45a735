/* DiffAE: schedules, editing, the classifier and metrics (specification A9, A10, A13). */
#include "network.h"

#include "../similarity.h"
#include "base/alloc.h"
#include "base/fail.h"
#include "diffusion/edit.h"
#include "nn/nn.h"
#include "train/score/metrics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_case(const golden *g, const char *name)
{
    const char *own = zn_weights_metadata(g->file, "case");
    return own && strcmp(own, name) == 0 && strstr(g->path, "diffae");
}

/* ---- schedules ---- */

static bool schedule_matches(const golden *g) { return is_case(g, "schedule"); }

static zn_status compare_table(golden *g, const char *begin, const char *name, const double *values, int count)
{
    char full[192];
    snprintf(full, sizeof full, "%s.%s", begin, name);
    return golden_compare_double(g, full, values, count, 1e-12);
}

static zn_status compare_schedule(golden *g, const char *begin, const zn_diffusion *s)
{
    double derived[ZN_DIFFUSION_STEPS];
    ZN_TRY(compare_table(g, begin, "betas", s->beta, s->count));
    ZN_TRY(compare_table(g, begin, "alphas_cumprod", s->kept, s->count));
    ZN_TRY(compare_table(g, begin, "alphas_cumprod_prev", s->before, s->count));
    ZN_TRY(compare_table(g, begin, "alphas_cumprod_next", s->behind, s->count));
    ZN_TRY(compare_table(g, begin, "posterior_variance", s->posterior, s->count));
    ZN_TRY(compare_table(g, begin, "posterior_mean_coef1", s->mean_image, s->count));
    ZN_TRY(compare_table(g, begin, "posterior_mean_coef2", s->mean_noisy, s->count));
    for (int i = 0; i < s->count; i++)
        derived[i] = s->step[i];
    ZN_TRY(compare_table(g, begin, "timestep_map", derived, s->count));
    for (int i = 0; i < s->count; i++)
        derived[i] = sqrt(s->kept[i]);
    ZN_TRY(compare_table(g, begin, "sqrt_alphas_cumprod", derived, s->count));
    for (int i = 0; i < s->count; i++)
        derived[i] = sqrt(1 - s->kept[i]);
    ZN_TRY(compare_table(g, begin, "sqrt_one_minus_alphas_cumprod", derived, s->count));
    for (int i = 0; i < s->count; i++)
        derived[i] = sqrt(1 / s->kept[i]);
    ZN_TRY(compare_table(g, begin, "sqrt_recip_alphas_cumprod", derived, s->count));
    for (int i = 0; i < s->count; i++)
        derived[i] = sqrt(1 / s->kept[i] - 1);
    ZN_TRY(compare_table(g, begin, "sqrt_recipm1_alphas_cumprod", derived, s->count));
    for (int i = 0; i < s->count; i++)
        derived[i] = log(s->posterior[i ? i : 1]);
    return compare_table(g, begin, "posterior_log_variance_clipped", derived, s->count);
}

/* out.BETAS.ddimN.*, out.BETAS.ddpmN.*, out.BETAS.T1000.*: every schedule that the file names. */
static zn_status check_tables(golden *g, const char *name)
{
    char begin[128], betas[64];
    const char *rest = strrchr(name, '.');
    snprintf(begin, sizeof begin, "%.*s", (int)(rest - name), name);
    const char *form = strrchr(begin, '.');
    if (!form)
        return ZN_OK;
    snprintf(betas, sizeof betas, "%.*s", (int)(form - begin), begin);
    const zn_spacing spacing = strncmp(form, ".ddim", 5) == 0   ? ZN_SPACING_DDIM
                               : strncmp(form, ".ddpm", 5) == 0 ? ZN_SPACING_DDPM
                                                                : ZN_SPACING_ALL;
    zn_diffusion *s;
    ZN_TRY(zn_diffusion_new(betas, spacing, atoi(form + 5), &s));
    const zn_status status = compare_schedule(g, begin, s);
    zn_diffusion_free(s);
    return status;
}

static zn_status check_embedding(golden *g, const char *name)
{
    zn_shape shape;
    float *t = NULL, *out = NULL;
    const int width = atoi(strrchr(name, '.') + 1);
    ZN_TRY(golden_load(g, "in.", "t", &shape, &t));
    zn_status status = zn_alloc_for(name, sizeof(float) * (size_t)(shape.dim[0] * width), (void **)&out);
    for (int64_t i = 0; i < shape.dim[0] && status == ZN_OK; i++)
        zn_time_embedding((double)t[i], width, out + i * width);
    if (status == ZN_OK)
        status = golden_compare(g, name, out, ZN_SHAPE(shape.dim[0], width), GOLDEN_MAP, GOLDEN_FORWARD);
    zn_free(out);
    zn_free(t);
    return status;
}

static zn_status schedule_run(golden *g)
{
    double values[ZN_DIFFUSION_STEPS];
    for (int64_t i = 0; i < zn_weights_count(g->file); i++) {
        const char *name = zn_weights_at(g->file, i)->name + 4;
        if (strncmp(name - 4, "out.", 4) != 0 || g->compared[i])
            continue;
        if (strncmp(name, "betas.", 6) == 0) {
            ZN_TRY(zn_diffusion_betas(name + 6, values));
            ZN_TRY(golden_compare_double(g, name, values, ZN_DIFFUSION_STEPS, 1e-12));
        } else if (strncmp(name, "timestep_embedding.", 19) == 0) {
            ZN_TRY(check_embedding(g, name));
        } else if (strcmp(name, "ddim_T_accepted") == 0) { /* for N = 1 to 1000 */
            for (int n = 0; n < ZN_DIFFUSION_STEPS; n++)
                values[n] = zn_ddim_stride(n + 1) > 0;
            ZN_TRY(golden_compare_double(g, name, values, ZN_DIFFUSION_STEPS, 0));
        } else {
            ZN_TRY(check_tables(g, name));
        }
    }
    return ZN_OK;
}

const golden_kind golden_diffae_schedule = { "diffae schedules", schedule_matches, schedule_run };

/* ---- editing, classifier, metrics ---- */

static bool ops_matches(const golden *g) { return is_case(g, "ops"); }

/* in.NAME, NULL with the error kept in *status when it is missing. */
static float *take(const golden *g, const char *name, zn_shape *shape, zn_status *status)
{
    float *data = NULL;
    if (*status == ZN_OK)
        *status = golden_load(g, "in.", name, shape, &data);
    return data;
}

static zn_status check_interpolation(golden *g)
{
    zn_shape sc, sx, sa, other;
    zn_status status = ZN_OK;
    float *cond = take(g, "cond", &sc, &status), *alpha = take(g, "alpha", &sa, &status), *out = NULL;
    float *a = take(g, "xT_a", &sx, &status), *b = take(g, "xT_b", &other, &status);
    if (status == ZN_OK)
        status = zn_alloc_for("a path", sizeof(float) * (size_t)(sa.dim[0] * (zn_shape_count(sx) + sc.dim[1])),
                              (void **)&out);
    if (status == ZN_OK) {
        const int64_t width = sc.dim[1], count = zn_shape_count(sx);
        float theta = 0;
        for (int64_t i = 0; i < sa.dim[0]; i++)
            zn_lerp(cond, cond + width, (double)alpha[i], out + i * width, width);
        status = golden_compare(g, "interp.lerp", out, ZN_SHAPE(sa.dim[0], width), GOLDEN_MAP, GOLDEN_FORWARD);
        for (int64_t i = 0; i < sa.dim[0]; i++)
            theta = (float)zn_slerp(a, b, (double)alpha[i], out + i * count, count);
        if (status == ZN_OK)
            status = golden_compare(g, "interp.slerp", out, ZN_SHAPE(sa.dim[0], sx.dim[0], sx.dim[1], sx.dim[2]),
                                    ZN_LAYOUT_PLAIN, GOLDEN_FORWARD);
        if (status == ZN_OK)
            status = golden_compare(g, "interp.theta", &theta, ZN_SHAPE(1), GOLDEN_MAP, GOLDEN_FORWARD);
    }
    zn_free(cond);
    zn_free(alpha);
    zn_free(a);
    zn_free(b);
    zn_free(out);
    return status;
}

/* out.manipulate.clsK.sS: all conditions moved by S along row K of the classifier. */
static zn_status check_manipulation(golden *g, const char *name)
{
    zn_shape sc, s;
    zn_status status = ZN_OK;
    float *cond = take(g, "cond", &sc, &status), *mean = take(g, "conds_mean", &s, &status);
    float *deviation = take(g, "conds_std", &s, &status), *rows = NULL;
    const int row = atoi(strstr(name, ".cls") + 4);
    const double strength = atof(strstr(name + 14, ".s") + 2);
    if (status == ZN_OK)
        status = golden_load(g, "w.", "classifier.weight", &s, &rows);
    if (status == ZN_OK) {
        const int width = (int)sc.dim[1];
        for (int64_t i = 0; i < sc.dim[0]; i++)
            zn_move_condition(cond + i * width, mean, deviation, rows + (int64_t)row * width, strength,
                              cond + i * width, width);
        status = golden_compare(g, name, cond, sc, GOLDEN_MAP, GOLDEN_FORWARD);
    }
    zn_free(cond);
    zn_free(mean);
    zn_free(deviation);
    zn_free(rows);
    return status;
}

static zn_status check_metrics(golden *g)
{
    zn_shape s, other;
    zn_status status = ZN_OK;
    float *a = take(g, "img1", &s, &status), *b = take(g, "img2", &other, &status), rows[3][64];
    for (int64_t i = 0; i < s.dim[0] && i < 64 && status == ZN_OK; i++) {
        const int64_t count = zn_shape_count(s) / s.dim[0];
        const double mse = zn_mean_square(a + i * count, b + i * count, count);
        double ssim;
        status = similarity(a + i * count, b + i * count, ZN_SHAPE(1, s.dim[1], s.dim[2], s.dim[3]), 5, 1, &ssim);
        rows[0][i] = (float)mse;
        rows[1][i] = (float)zn_psnr(mse, 1);
        rows[2][i] = (float)ssim;
    }
    static const char *const names[] = { "metric.mse", "metric.psnr", "metric.ssim" };
    for (int i = 0; i < 3 && status == ZN_OK; i++)
        status = golden_compare(g, names[i], rows[i], ZN_SHAPE(s.dim[0]), GOLDEN_MAP, GOLDEN_FORWARD);
    zn_free(a);
    zn_free(b);
    return status;
}

/* out.cls.*: the classifier on normalised conditions, its loss and gradients. */
static zn_status check_classifier(golden *g)
{
    zn_shape sc, sl, s;
    zn_status status = ZN_OK;
    float *cond = take(g, "cond", &sc, &status), *mean = take(g, "conds_mean", &s, &status);
    float *deviation = take(g, "conds_std", &s, &status), *labels = take(g, "labels", &sl, &status);
    zn_graph *graph = zn_graph_new();
    zn_exec *e = NULL;
    if (status == ZN_OK) {
        for (int64_t i = 0; i < zn_shape_count(sc); i++)
            cond[i] = (cond[i] - mean[i % sc.dim[1]]) / deviation[i % sc.dim[1]];
        for (int64_t i = 0; i < zn_shape_count(sl); i++)
            labels[i] = labels[i] > 0;
        zn_node *x = zn_graph_input(graph, "cond", ZN_SHAPE(1, 1, sc.dim[0], sc.dim[1]));
        zn_node *t = zn_graph_input(graph, "labels", ZN_SHAPE(1, 1, sl.dim[0], sl.dim[1]));
        x->data = cond;
        t->data = labels;
        zn_node *logits = zn_linear((zn_scope){ graph, "classifier" }, x, (int)sl.dim[1]);
        zn_node *loss = zn_logistic_loss(logits, t);
        zn_node *wrt[] = { logits->source[1], logits->source[2] }, *outputs[4] = { logits, loss };
        status = network_bind(g, graph, "w.");
        if (status == ZN_OK)
            status = zn_graph_differentiate(graph, loss, NULL, wrt, 2, outputs + 2);
        if (status == ZN_OK)
            status = golden_exec_new(g, graph, outputs, 4, &(zn_exec_options){ .training = true }, &e);
        if (status == ZN_OK)
            status = zn_exec_run(e);
        static const char *const names[] = { "cls.logits", "cls.loss", "cls.grad.weight", "cls.grad.bias" };
        const zn_shape shapes[] = { sl, ZN_SHAPE(1), wrt[0]->shape, wrt[1]->shape };
        for (int i = 0; i < 4 && status == ZN_OK; i++)
            status = golden_compare(g, names[i], outputs[i]->data, shapes[i], i == 2 ? ZN_LAYOUT_LINEAR : GOLDEN_MAP,
                                    i < 2 ? GOLDEN_FORWARD : GOLDEN_GRADIENT);
    }
    zn_exec_free(e);
    zn_graph_free(graph);
    zn_free(cond);
    zn_free(mean);
    zn_free(deviation);
    zn_free(labels);
    return status;
}

static zn_status ops_run(golden *g)
{
    ZN_TRY(check_interpolation(g));
    for (int64_t i = 0; i < zn_weights_count(g->file); i++)
        if (strncmp(zn_weights_at(g->file, i)->name, "out.manipulate.", 15) == 0)
            ZN_TRY(check_manipulation(g, zn_weights_at(g->file, i)->name + 4));
    ZN_TRY(check_metrics(g));
    return check_classifier(g);
}

const golden_kind golden_diffae_ops = { "diffae editing", ops_matches, ops_run };
