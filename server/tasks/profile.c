/* Where the time of a model goes: what `zenith bench --profile` measures, as facts. */
#include "base/fail.h"
#include "server/tasks/tasks.h"
#include "ui/layers.h"

enum { SIDE = 256, RUNS = 3 };

static void facts(sv_job *job, const char *part, const zn_bench_options *b, const zn_bench_result *r)
{
    json *j = &job->facts;
    json_text(j, "part", part);
    json_integer(j, "width", b->width);
    json_integer(j, "height", b->height);
    json_integer(j, "threads", r->threads);
    json_text(j, "isa", r->machine.isa);
    json_real(j, "ms_median", r->ms_median);
    json_real(j, "gflops", r->gflops);
    json_real(j, "peak_gflops", r->machine.peak_gflops);
    json_real(j, "bandwidth", r->machine.bandwidth_gbs);
    layers_json(j, r);
}

static zn_status measure(sv_job *job, const sv_engine *e)
{
    const options *o = &job->o;
    const serve_settings *s = job->server->settings;
    const zn_options compute = { .size = sizeof compute,
                                 .context = job->server->context,
                                 .precision = (zn_precision)o->precision,
                                 .device = s->device,
                                 .memory = sv_handle_memory(job->server),
                                 .profile = 1,
                                 .progress = sv_job_tick,
                                 .user = job };
    const zn_bench_options b = { .part = (zn_part)o->part,
                                 .width = o->size[0] ? o->size[0] : SIDE,
                                 .height = o->size[1] ? o->size[1] : SIDE,
                                 .runs = o->runs ? o->runs : RUNS,
                                 .seed = o->seed,
                                 .compute = &compute };
    zn_bench_result r = { 0 };
    if (!e->codec)
        return ZN_FAIL(ZN_EINVALID, "the model %s is not an autoencoder or a restorer", e->info->architecture);
    if ((int64_t)b.width * b.height > s->most_pixels)
        return ZN_FAIL(ZN_ELIMIT, "%dx%d pixels are more than the server allows", b.width, b.height);
    const zn_status status = zn_bench(e->model, &b, &r);
    if (status == ZN_OK)
        facts(job, e->info->restores ? "restore" : b.part == ZN_ENCODER ? "encode" : "decode", &b, &r);
    zn_bench_result_clear(&r);
    return status;
}

static zn_status run(sv_job *job)
{
    sv_engine *e = NULL;
    ZN_TRY(sv_engine_take(job, job->model, &e));
    const zn_status status = measure(job, e);
    sv_engine_return(e);
    return status;
}

const sv_task sv_task_profile = { .name = "profile",
                                  .command = CMD_BENCH,
                                  .options = "part size runs seed precision",
                                  .least = 0,
                                  .most = 0,
                                  .run = run };
