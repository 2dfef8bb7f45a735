/* Z-Image: noise, flow schedules, time embeddings and rotary positions (specification 4.2, 4.3, 5). */
#include "golden.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "diffusion/flow.h"
#include "diffusion/noise.h"
#include "diffusion/schedule.h"
#include "kernels/rope.h"
#include "nn/rope.h"
#include "probe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls `check` for every out.* tensor until one fails. */
static zn_status for_each_output(golden *g, zn_status (*check)(golden *, const char *, const zn_weight *))
{
    for (int64_t i = 0; i < zn_weights_count(g->file); i++) {
        const zn_weight *w = zn_weights_at(g->file, i);
        if (strncmp(w->name, "out.", 4) == 0 && !g->compared[i])
            ZN_TRY(check(g, w->name + 4, w));
    }
    return ZN_OK;
}

/* ---- noise: out.cpu.seedS.nN, out.cpu.seedS.second_call (two calls, one behind the other), out.cuda.seedS.nN ---- */

static bool noise_matches(const golden *g)
{
    return probe_holds(g, "out.", "cpu.seed") || probe_holds(g, "out.", "cuda.seed");
}

static zn_status check_noise(golden *g, const char *name, const zn_weight *w)
{
    const int64_t count = w->rank == 1 ? w->shape[0] : 0;
    const char *seed = strstr(name, ".seed");
    zn_torch_noise n;
    float *x;
    if (!seed)
        return ZN_OK;
    ZN_TRY(zn_alloc_for(name, sizeof *x * (size_t)(count + 1), (void **)&x));
    const uint64_t number = strtoull(seed + 5, NULL, 10);
    zn_torch_noise_seed(&n, number);
    if (strncmp(name, "cuda", 4) == 0) {
        zn_torch_cuda_noise(number, 0, x, count);
    } else if (strstr(name, ".second_call")) {
        zn_torch_noise_fill(&n, x, count / 2, NULL);
        zn_torch_noise_fill(&n, x + count / 2, count - count / 2, NULL);
    } else {
        zn_torch_noise_fill(&n, x, count, NULL);
    }
    const zn_status status = golden_compare_within(g, name, x, ZN_SHAPE(count), 5e-6);
    zn_free(x);
    return status;
}

static zn_status noise_run(golden *g) { return for_each_output(g, check_noise); }

const golden_kind golden_zimage_noise = { "z-image noise", noise_matches, noise_run };

/* ---- schedules: out.nN_shiftS.{sigmas,timesteps,model_t}, out.dyn_nN_seqT.{mu,sigmas}, out.legacyN_shiftS.sigmas ----
 */

enum { MAX_STEPS = 1000 };

static bool schedule_matches(const golden *g)
{
    return golden_int(g, "num_train_timesteps", 0) == 1000 && zn_json_get(g->config, "entries") != NULL;
}

static zn_status check_schedule(golden *g, const char *name, const zn_weight *w)
{
    float sigma[MAX_STEPS + 2] = { 0 }, derived[MAX_STEPS + 1];
    int steps = 0;
    double shift = 0;
    long tokens = 0;
    const char *part = strrchr(name, '.');
    if (sscanf(name, "dyn_n%d_seq%ld", &steps, &tokens) == 2 && steps > 0 && steps <= MAX_STEPS) {
        const float mu = (float)zn_flow_mu(tokens);
        zn_flow_sigmas_dynamic(steps, zn_flow_mu(tokens), sigma);
        if (strcmp(part, ".mu") == 0)
            return golden_compare_within(g, name, &mu, ZN_SHAPE(1), 3e-7);
    } else if (sscanf(name, "legacy%d_shift%lf", &steps, &shift) == 2 && steps > 1 && steps <= MAX_STEPS) {
        zn_flow_sigmas(steps - 1, (float)shift, sigma); /* the last of its steps stood still */
    } else if (sscanf(name, "n%d_shift%lf", &steps, &shift) == 2 && steps > 0 && steps <= MAX_STEPS) {
        zn_flow_sigmas(steps, (float)shift, sigma);
    } else {
        return ZN_OK;
    }
    if (strcmp(part, ".sigmas") == 0)
        return golden_compare_within(g, name, sigma, ZN_SHAPE(w->shape[0]), 3e-7);
    for (int i = 0; i < steps; i++)
        derived[i] = strcmp(part, ".timesteps") == 0 ? 1000 * sigma[i] : zn_flow_time(sigma[i]);
    return golden_compare_within(g, name, derived, ZN_SHAPE(steps), 3e-7);
}

static zn_status schedule_run(golden *g) { return for_each_output(g, check_schedule); }

const golden_kind golden_zimage_schedule = { "z-image schedules", schedule_matches, schedule_run };

/* ---- out.embedding of in.t. Where exp() rounds a frequency the other way, angles of up to 1000 make 3e-5 of it: the
 * tolerance is that of any forward pass. ---- */

static bool timestep_matches(const golden *g)
{
    return golden_has(g, "out.", "embedding") && zn_json_get(g->config, "t_scale") != NULL;
}

static zn_status timestep_run(golden *g)
{
    const int width = (int)golden_int(g, "dim", 256);
    const float scale = (float)golden_double(g, "t_scale", 1000);
    zn_shape shape;
    float *t, *out = NULL;
    ZN_TRY(golden_load(g, "in.", "t", &shape, &t));
    zn_status status = zn_alloc_for("embeddings", sizeof *out * (size_t)(shape.dim[0] * width), (void **)&out);
    for (int64_t i = 0; status == ZN_OK && i < shape.dim[0]; i++)
        zn_time_embedding((double)(scale * t[i]), width, out + i * width);
    if (status == ZN_OK)
        status = golden_compare(g, "embedding", out, ZN_SHAPE(shape.dim[0], width), GOLDEN_MAP, GOLDEN_FORWARD);
    zn_free(out);
    zn_free(t);
    return status;
}

const golden_kind golden_zimage_timestep = { "z-image timesteps", timestep_matches, timestep_run };

/* ---- rotary positions: out.inv_freq.A, out.cos, out.sin of in.ids, out.x_rotated of in.x ---- */

static bool rope_matches(const golden *g) { return golden_has(g, "out.", "inv_freq.0") && golden_has(g, "in.", "ids"); }

/* The frequencies are the angles at position 1. */
static zn_status compare_frequencies(golden *g, const zn_rope_axes *axes)
{
    for (int a = 0; a < axes->count; a++) {
        const zn_rope_axes one = { .count = 1, .width = { axes->width[a] }, .theta = axes->theta };
        float cosines[256], sines[256];
        char name[32];
        zn_rope_table(&one, &(int32_t){ 1 }, 1, cosines, sines);
        for (int i = 0; i < axes->width[a] / 2; i++)
            cosines[i] = atan2f(sines[i], cosines[i]);
        snprintf(name, sizeof name, "inv_freq.%d", a);
        ZN_TRY(golden_compare_within(g, name, cosines, ZN_SHAPE(axes->width[a] / 2), 2e-6));
    }
    return ZN_OK;
}

/* in.x is [1][tokens][heads][channels], laid out as it is here. */
static zn_status compare_rotated(golden *g, const float *cosines, const float *sines, int pairs)
{
    const zn_weight *x = golden_find(g, "in.", "x");
    float *y;
    if (!x || x->rank != 4 || x->shape[3] != 2 * pairs || x->dtype != ZN_F32)
        return ZN_FAIL(ZN_EFORMAT, "in.x is not [1][tokens][heads][%d]", 2 * pairs);
    ZN_TRY(zn_alloc_for("in.x", x->bytes, (void **)&y));
    memcpy(y, x->data, x->bytes);
    const zn_rope_args args = {
        .x = y, .cos = cosines, .sin = sines, .y = y, .period = x->shape[1], .heads = (int)x->shape[2], .pairs = pairs
    };
    zn_k_rope(&args, (zn_range){ .begin = 0, .end = x->shape[1] });
    const zn_status status =
        golden_compare_within(g, "x_rotated", y, ZN_SHAPE(x->shape[0], x->shape[1], x->shape[2], x->shape[3]), 2e-6);
    zn_free(y);
    return status;
}

static zn_status rope_run(golden *g)
{
    const zn_weight *ids = golden_find(g, "in.", "ids");
    zn_rope_axes axes = { .theta = golden_double(g, "theta", 256) };
    int pairs = 0;
    ZN_JSON_EACH(width, zn_json_get(g->config, "axes_dims"))
    {
        int64_t value;
        if (axes.count == 4 || !zn_json_i64(width, &value) || value < 2 || value > 512)
            return ZN_FAIL(ZN_EFORMAT, "axes_dims are not up to four widths");
        axes.width[axes.count++] = (int)value;
        pairs += (int)value / 2;
    }
    if (ids->rank != 2 || ids->shape[1] != axes.count || ids->dtype != ZN_I32)
        return ZN_FAIL(ZN_EFORMAT, "in.ids are not [tokens][%d] of I32", axes.count);
    const int64_t tokens = ids->shape[0];
    int32_t *position = zn_alloc(ids->bytes);
    float *cosines = zn_alloc(2 * sizeof *cosines * (size_t)(tokens * pairs)), *sines = cosines + tokens * pairs;
    zn_status status = position && cosines ? ZN_OK : ZN_FAIL(ZN_ENOMEM, "out of memory: tables");
    if (status == ZN_OK) {
        memcpy(position, ids->data, ids->bytes);
        zn_rope_table(&axes, position, tokens, cosines, sines);
        status = golden_compare_within(g, "cos", cosines, ZN_SHAPE(tokens, pairs), 2e-6);
    }
    if (status == ZN_OK)
        status = golden_compare_within(g, "sin", sines, ZN_SHAPE(tokens, pairs), 2e-6);
    if (status == ZN_OK)
        status = compare_frequencies(g, &axes);
    if (status == ZN_OK)
        status = compare_rotated(g, cosines, sines, pairs);
    zn_free(position);
    zn_free(cosines);
    return status;
}

const golden_kind golden_zimage_rope = { "z-image rotary positions", rope_matches, rope_run };
