/* Held-out conditions through a latent net or a classifier, a few at a time. */
#include "train/score/scores.h"

#include "base/alloc.h"
#include "base/fail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 64, NOISE_SEED = 78 };

typedef struct sheet {
    const zn_scoring *how;
    zn_graph *graph;
    zn_exec *exec;
    zn_node *input, *output;
    zn_noising noising; /* of a latent net */
    zn_diffusion *diffusion;
    float *logits; /* [count][classes], of a classifier */
    double error;  /* of a latent net: sum over rows */
} sheet;

static zn_status sheet_open(sheet *s)
{
    const zn_model *m = s->how->model;
    s->graph = zn_graph_new();
    if (!s->graph)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for an evaluation");
    s->input = zn_graph_input(s->graph, "input", ZN_SHAPE(1, 1, BATCH, m->config.latent));
    if (s->how->goal == ZN_GOAL_LATENT_NET) {
        ZN_TRY(zn_diffusion_new("const0.008", ZN_SPACING_ALL, 0, &s->diffusion));
        s->noising = zn_noising_of_conditions(m, s->input);
        s->output = s->noising.predicted;
    } else {
        const zn_scope scope = { s->graph, m->arch->scope[ZN_CLASSIFIER] };
        const size_t count = (size_t)s->how->count * (size_t)m->config.classes;
        s->output = m->arch->network(scope, ZN_CLASSIFIER, &s->input, &m->config);
        ZN_TRY(zn_alloc_for("an evaluation", sizeof(float) * count, (void **)&s->logits));
    }
    ZN_TRY(zn_graph_status(s->graph));
    zn_model_bind(m, s->graph, "");
    zn_graph_fuse(s->graph, &s->output, 1);
    const zn_exec_options options = { .pool = s->how->pool, .training = true, .whole = true };
    return zn_exec_new(s->graph, &s->output, 1, &options, &s->exec);
}

static void sheet_close(sheet *s)
{
    zn_exec_free(s->exec);
    zn_graph_free(s->graph);
    zn_diffusion_free(s->diffusion);
    zn_free(s->logits);
}

static void set_noise(const sheet *s, int place, int64_t row)
{
    const int width = zn_channels(s->input);
    zn_rng rng = zn_rng_new(zn_seed_for(NOISE_SEED, "scores") + (uint64_t)row);
    for (int i = 0; i < width; i++)
        s->noising.noise->data[place * width + i] = zn_rng_normal(&rng);
    zn_noising_set(&s->noising, s->diffusion, place, (int)(zn_rng_next(&rng) % (uint64_t)s->diffusion->count));
}

static void take_result(sheet *s, int place, int64_t row)
{
    const int width = zn_channels(s->output);
    const float *result = s->output->data + place * width;
    if (s->logits) {
        memcpy(s->logits + row * width, result, sizeof(float) * (size_t)width);
        return;
    }
    double sum = 0;
    for (int i = 0; i < width; i++)
        sum += fabs((double)result[i] - (double)s->noising.noise->data[place * width + i]);
    s->error += sum / width;
}

static zn_status run_rows(sheet *s)
{
    const int width = zn_channels(s->input);
    for (int64_t first = 0; first < s->how->count; first += BATCH) {
        const int used = (int)(s->how->count - first < BATCH ? s->how->count - first : BATCH);
        memcpy(s->input->data, s->how->rows + first * width, sizeof(float) * (size_t)(used * width));
        for (int i = 0; i < used && s->diffusion; i++)
            set_noise(s, i, first + i);
        ZN_TRY(zn_exec_run(s->exec));
        for (int i = 0; i < used; i++)
            take_result(s, i, first + i);
    }
    return ZN_OK;
}

/* ---- classifiers ---- */

static int by_logit(const void *a, const void *b)
{
    const float x = ((const zn_opinion *)a)->logit, y = ((const zn_opinion *)b)->logit;
    return (x > y) - (x < y);
}

double zn_area_under_curve(zn_opinion *list, int64_t count)
{
    double with = 0, sum = 0;
    qsort(list, (size_t)count, sizeof *list, by_logit);
    for (int64_t first = 0, last; first < count; first = last) {
        last = first + 1; /* NaN is not even like itself */
        while (last < count && list[last].logit == list[first].logit)
            last++;
        const double place = 0.5 * (double)(first + last + 1); /* of all that are alike, counted from 1 */
        for (int64_t i = first; i < last; i++) {
            with += list[i].has;
            sum += list[i].has ? place : 0;
        }
    }
    const double without = (double)count - with;
    return with > 0 && without > 0 ? (sum - 0.5 * with * (with + 1)) / (with * without) : NAN;
}

static zn_status judge_logits(const sheet *s, zn_measures *out)
{
    const int64_t count = s->how->count;
    const int classes = zn_channels(s->output);
    double loss = 0, right = 0, area = 0;
    int64_t all = 0;
    int both = 0;
    zn_opinion *list;
    ZN_TRY(zn_alloc_for("an evaluation", sizeof *list * (size_t)count, (void **)&list));
    for (int c = 0; c < classes; c++) {
        int64_t known = 0;
        for (int64_t i = 0; i < count; i++) {
            const double x = (double)s->logits[i * classes + c];
            const float label = s->how->labels[i * classes + c];
            const bool has = label > 0.5f;
            if (label == 0.5f)
                continue;
            list[known++] = (zn_opinion){ (float)x, has };
            loss += fmax(x, 0) - (has ? x : 0) + log1p(exp(-fabs(x)));
            right += (x > 0) == has;
        }
        const double one = zn_area_under_curve(list, known);
        all += known;
        both += isfinite(one) != 0;
        area += isfinite(one) ? one : 0;
    }
    zn_free(list);
    out->loss = all ? loss / (double)all : NAN;
    out->accuracy = all ? right / (double)all : NAN;
    out->auroc = both ? area / both : NAN;
    return ZN_OK;
}

zn_status zn_score_conditions(const zn_scoring *how, zn_measures *out)
{
    sheet s = { .how = how };
    *out = zn_no_measures();
    if (!how->count)
        return ZN_OK;
    zn_status status = sheet_open(&s);
    if (status == ZN_OK)
        status = run_rows(&s);
    if (status == ZN_OK && s.logits)
        status = judge_logits(&s, out);
    else if (status == ZN_OK)
        out->loss = s.error / (double)how->count;
    sheet_close(&s);
    return status;
}
