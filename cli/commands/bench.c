/* zenith bench: times one part of a model on random input and compares the result with the peak of the machine. */
#include "commands.h"
#include "options/compute.h"
#include "session/session.h"
#include "ui/facts.h"
#include "ui/layers.h"
#include "ui/report.h"

#include <stdlib.h>

static void report(const options *o, const zn_model_info *info, const zn_bench_options *b, const zn_bench_result *r)
{
    facts f;
    facts_begin(&f, o->json);
    fact_text(&f, "model", info->architecture);
    fact_text(&f, "weights", info->path);
    fact_text(&f, "part", info->restores ? "restore" : b->part == ZN_ENCODER ? "encode" : "decode");
    fact_integer(&f, "width", b->width);
    fact_integer(&f, "height", b->height);
    fact_integer(&f, "threads", r->threads);
    const int asked = o->precision ? o->precision : ZN_PRECISION_F32;
    fact_precision(&f, zn_precision_name(asked), (int)r->precision == asked ? r->precision_share : 0);
    fact_text(&f, "isa", r->machine.isa);
    fact_real(&f, "ms_median", r->ms_median, 3, " ms");
    fact_real(&f, "ms_min", r->ms_min, 3, " ms");
    fact_real(&f, "cpu_ms", r->cpu_ms, 3, " ms, of all threads");
    fact_integer(&f, "runs", r->runs);
    fact_real(&f, "gflop", r->gflop, 2, " GFLOP, counted as direct convolutions");
    fact_real(&f, "gflops", r->gflops, 1, " GFLOP/s");
    fact_real(&f, "peak_gflops", r->machine.peak_gflops, 1, " GFLOP/s");
    fact_real(&f, "rss_mb", r->rss_mb, 1, " MiB");
    if (o->profile) {
        fact_real(&f, "bandwidth", r->machine.bandwidth_gbs, 1, " GB/s");
        if (f.json)
            layers_json(&f.out, r);
        else
            layers_text(r);
    }
    facts_end(&f);
}

/* Opens the model of the command line, or the default model of other commands. If there is none at all, uses random
 * weights, which take the same time. */
static int open_model(const options *o, zn_model **out)
{
    if (o->model)
        return model_open(o, o->model, out);
    const zn_status status = zn_model_find(NULL, out);
    if (status == ZN_ENOTFOUND)
        return model_open(o, "random:taesd", out);
    if (status != ZN_OK)
        complain("%s", zn_error_text());
    return status == ZN_OK ? 0 : EXIT_FAILURE;
}

int bench_run(const options *o)
{
    zn_model *model = NULL;
    if (open_model(o, &model))
        return EXIT_FAILURE;
    const zn_model_info *info = zn_model_info_of(model);
    progress bar = { .quiet = o->quiet };
    progress_begin(&bar, o->part == ZN_ENCODER ? "encode" : "decode", 0, 1);
    interrupt_catch();
    const zn_options compute = compute_options(o, &bar);
    const int side = info->diffuses ? info->image_size : 512;
    const zn_bench_options b = { .part = (zn_part)o->part,
                                 .width = o->size[0] ? o->size[0] : side,
                                 .height = o->size[1] ? o->size[1] : side,
                                 .runs = o->runs,
                                 .seed = o->seed,
                                 .compute = &compute };
    zn_bench_result result = { 0 };
    const int failed = zn_bench(model, &b, &result) != ZN_OK;
    progress_erase();
    if (failed) {
        complain_about(info->path);
    } else {
        if (o->verbose)
            print_plan(o, result.plan);
        report(o, info, &b, &result);
    }
    zn_bench_result_clear(&result);
    zn_model_free(model);
    return failed ? EXIT_FAILURE : 0;
}
