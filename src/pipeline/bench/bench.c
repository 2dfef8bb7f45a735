/* Timing one part of a model, and the profile rows with their distance from the roofline. */
#define _DEFAULT_SOURCE
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "pipeline/bench/profile.h"
#include "pipeline/bench/subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

zn_status zn_profile_rows(const zn_runner_rows *from, const zn_machine *machine, int runs, zn_profile_row **rows,
                          int *count)
{
    *count = 0;
    ZN_TRY(zn_alloc_for("a profile", sizeof **rows * (size_t)(from->count + 1), (void **)rows));
    *count = from->count;
    for (int i = 0; i < from->count; i++) {
        const zn_runner_row *f = &from->row[i];
        const double arithmetic = 2 * f->slots / machine->peak_gflops * 1e-6; /* ms: a multiply-add takes one slot */
        const double memory = f->bytes / machine->bandwidth_gbs * 1e-6;
        const double floor = arithmetic > memory ? arithmetic : memory;
        (*rows)[i] = (zn_profile_row){ .name = f->name,
                                       .kernel = f->kernel,
                                       .ms = f->ms / runs,
                                       .gflop = f->flops * 1e-9 / runs,
                                       .gflop_done = f->flops_done * 1e-9 / runs,
                                       .gslot = f->slots * 1e-9 / runs,
                                       .mbytes = f->bytes * 1e-6 / runs,
                                       .roofline = f->ms > 0 ? floor / f->ms : 0 };
    }
    return ZN_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static zn_shape input_shape(const zn_model *m, zn_part part, const zn_bench_options *o)
{
    const int w = o->width > 0 ? o->width : 512, h = o->height > 0 ? o->height : w, d = m->config.downscale;
    const int64_t lw = (w + d - 1) / d, lh = (h + d - 1) / d;
    const int64_t step = part == ZN_ENCODER ? d : 1;
    return ZN_SHAPE(1, lh * step, lw * step, zn_model_inputs(m, part));
}

enum { WARM_UP = 2 };

/* Where the run in progress lies among all of them. */
typedef struct bench_progress {
    const zn_options *options;
    int done, all;
} bench_progress;

static int on_progress(void *user, double fraction)
{
    const bench_progress *p = user;
    return p->options->progress(p->options->user, (p->done + fraction) / p->all);
}

/* ms has the time of each run, *cpu_ms the mean CPU time. */
static zn_status time_runs(zn_subject *s, int runs, bench_progress *p, double *ms, double *cpu_ms)
{
    for (; p->done < WARM_UP; p->done++)
        ZN_TRY(zn_subject_run(s));
    zn_subject_clear_rows(s);
    const double cpu_start = zn_clock_cpu_ms();
    for (int i = 0; i < runs; i++, p->done++) {
        const double start = zn_clock_ms();
        ZN_TRY(zn_subject_run(s));
        ms[i] = zn_clock_ms() - start;
    }
    *cpu_ms = (zn_clock_cpu_ms() - cpu_start) / runs;
    return ZN_OK;
}

/* Copies of the names, which belong to the subject's graph, and that is about to go. On failure some are NULL. */
static zn_status own_names(zn_profile_row *rows, int count)
{
    for (int i = 0; i < count; i++)
        rows[i].name = zn_strdup(rows[i].name);
    for (int i = 0; i < count; i++)
        if (!rows[i].name)
            return ZN_FAIL(ZN_ENOMEM, "out of memory for a profile");
    return ZN_OK;
}

zn_status zn_bench(const zn_model *model, const zn_bench_options *options, zn_bench_result *out)
{
    static const zn_bench_options defaults = { 0 };
    const zn_bench_options *o = options ? options : &defaults;
    const zn_model_info *info = zn_model_info_of(model);
    const int runs = o->runs > 0 ? o->runs : 7;
    *out = (zn_bench_result){ .runs = runs };
    const zn_part part = info->restores ? ZN_ENCODER : o->part; /* a restorer has one part */
    const bool has = info->diffuses ? model->has[part] : part == ZN_ENCODER ? info->has_encoder : info->has_decoder;
    if (!info->restores && !has)
        return ZN_FAIL(ZN_EUNSUPPORTED, "%s has no %s", info->path, zn_part_name(part));
    if (info->diffuses && ((o->width && o->width != info->image_size) || (o->height && o->height != info->image_size)))
        return ZN_FAIL(ZN_EINVALID, "%s is for images of %dx%d", info->path, info->image_size, info->image_size);
    if (o->width > ZN_MOST_SIDE || o->height > ZN_MOST_SIDE)
        return ZN_FAIL(ZN_EINVALID, "a size of %dx%d is not one", o->width, o->height);
    zn_compute compute;
    ZN_TRY(zn_compute_begin(o->compute, &compute));
    zn_subject *s = NULL;
    double *ms = NULL;
    zn_status status;
    out->threads = zn_pool_threads(compute.pool);
    ZN_TRY_DONE(zn_alloc_for("a benchmark", sizeof *ms * (size_t)runs, (void **)&ms));
    bench_progress progress = { .options = &compute.options, .all = WARM_UP + runs };
    zn_runner_options ro = zn_runner_options_of(&compute);
    ro.progress = ro.progress ? on_progress : NULL;
    ro.user = &progress;
    ZN_TRY_DONE(zn_subject_new(model, part, input_shape(model, part, o), &ro, &s));
    zn_subject_fill(s, o->seed);
    ZN_TRY_DONE(time_runs(s, runs, &progress, ms, &out->cpu_ms));
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    out->rss_mb = (double)usage.ru_maxrss / 1024.0; /* before the bandwidth test takes its own memory */
    qsort(ms, (size_t)runs, sizeof *ms, by_value);
    out->ms_min = ms[0];
    out->ms_median = runs % 2 ? ms[runs / 2] : 0.5 * (ms[runs / 2 - 1] + ms[runs / 2]);
    out->gflop = zn_subject_flops(s) * 1e-9;
    snprintf(out->plan, sizeof out->plan, "%s", zn_subject_plan(s));
    out->gflops = out->gflop / out->ms_median * 1e3;
    const double coarse = zn_subject_coarse(s);
    out->precision = coarse > 0 ? compute.options.precision : ZN_PRECISION_F32;
    out->precision_share = coarse > 0 ? coarse : 1;
    ZN_TRY_DONE(zn_machine_of(&compute, out->precision, &out->machine));
    if (compute.options.profile)
        ZN_TRY_DONE(zn_profile_rows(zn_subject_profile(s), &out->machine, runs, &out->rows, &out->row_count));
    status = own_names(out->rows, out->row_count);
done:
    zn_subject_free(s);
    zn_free(ms);
    zn_compute_end(&compute);
    if (status != ZN_OK)
        zn_bench_result_clear(out);
    return status;
}

void zn_bench_result_clear(zn_bench_result *result)
{
    for (int i = 0; i < result->row_count; i++)
        zn_free((void *)(uintptr_t)result->rows[i].name);
    zn_free(result->rows);
    result->rows = NULL;
    result->row_count = 0;
}
