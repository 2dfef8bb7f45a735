/* Plans of clips; see clip_plan.h. */
#include "pipeline/video/clip_plan.h"

#include "base/fail.h"
#include "base/memory.h"

#include <stdint.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static int greatest_common_divisor(int a, int b) { return b ? greatest_common_divisor(b, a % b) : a; }

static size_t machine_memory(zn_device *device)
{
    if (device)
        return zn_device_free_memory(device);
    const long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (size_t)pages * (size_t)size : SIZE_MAX;
}

static size_t total(const zn_clip_work *w, const zn_clip_plan *p)
{
    return w->options->held + w->options->reserved + p->run + p->kept + p->packed;
}

/* What pieces of one kind take: of stages, one runs at a time, while results of those before it wait. */
static zn_status measure_pieces(const zn_clip_work *w, int frames, bool later, zn_clip_plan *p)
{
    zn_clip_plan own = { 0 };
    size_t waiting = 0; /* a piece's frames too */
    double flops = 0;
    for (int i = 0; i < (p->stages ? p->stages : 1); i++) {
        const int parts = p->stages ? p->parts[i] : 1;
        zn_clip_bytes b;
        ZN_TRY(zn_clip_stage_measure(w, p->stages ? i + 1 : 0, parts, frames, later, &b));
        waiting += p->stages ? b.made + (i ? 0 : b.given * (size_t)(later ? parts : 1)) : 0;
        if (i + 1 == p->stages) /* all results of the piece */
            waiting += b.made * (size_t)(later ? parts : 1);
        own.kept += b.kept;
        const size_t run = larger(b.run, b.fetched) + waiting; /* maps are touched after packing */
        if (p->turns && run + b.prepared > own.run + own.packed) {
            own.run = run;
            own.packed = b.prepared;
            own.peak = i;
        } else if (!p->turns) {
            own.run = larger(own.run, run);
            own.packed += b.prepared;
        }
        flops += b.flops * (later ? parts : 1);
    }
    *(later ? &p->later : &p->first) = flops;
    if (total(w, &own) > total(w, p)) {
        p->run = own.run;
        p->kept = own.kept;
        p->packed = own.packed;
        p->peak = own.peak;
    }
    return ZN_OK;
}

static zn_status measure(const zn_clip_work *w, int first_frames, int later_frames, zn_clip_plan *p)
{
    ZN_TRY(measure_pieces(w, first_frames, false, p));
    return measure_pieces(w, later_frames, true, p);
}

/* A stage takes as few frames at a time as make whole results. */
static zn_status divide(const zn_clip_work *w, int later_frames, zn_clip_plan *p)
{
    int counts[ZN_CUTS + 2], cuts;
    ZN_TRY(zn_clip_count_frames(w, later_frames, true, counts, &cuts));
    p->stages = cuts + 1;
    for (int i = 0; i < p->stages; i++)
        p->parts[i] = greatest_common_divisor(counts[i], counts[i + 1]);
    return ZN_OK;
}

static zn_status refuse(const zn_clip_work *w, size_t need, size_t capacity)
{
    const int scale = w->part == ZN_ENCODER ? 1 : w->model->config.downscale;
    const long long width = (long long)w->frame.dim[2] * scale, height = (long long)w->frame.dim[1] * scale;
    const unsigned long long least = (need + MIB - 1) / MIB;
    if (w->options->memory)
        return ZN_FAIL(ZN_ELIMIT,
                       "a memory budget of %.6g MiB is too small for a clip of %lldx%lld: the least is %llu MiB",
                       (double)capacity / MIB, width, height, least);
    return ZN_FAIL(ZN_ELIMIT, "a clip of %lldx%lld takes %llu MiB of memory, more than the %s has (%.0f MiB)", width,
                   height, least, w->options->device ? "device" : "machine", (double)capacity / MIB);
}

/* Makes weights leaner, always those of the stage that takes most, until the plan fits or gains nothing. */
static zn_status slim(zn_clip_work *w, int first_frames, int later_frames, size_t wanted, zn_clip_plan *best)
{
    enum { LEANEST = 2 };
    bool gains = true;
    while (total(w, best) > wanted && gains) {
        const int shift = 2 * best->peak;
        const unsigned lean = best->lean;
        gains = false;
        for (unsigned level = (lean >> shift & 3) + 1; level <= LEANEST && !gains; level++) {
            zn_clip_plan p = { .turns = true, .lean = w->lean = (lean & ~(3u << shift)) | level << shift };
            ZN_TRY(divide(w, later_frames, &p));
            ZN_TRY(measure(w, first_frames, later_frames, &p));
            gains = total(w, &p) < total(w, best);
            if (gains)
                *best = p;
        }
    }
    return ZN_OK;
}

/* The first plan that takes no more than `wanted`, or the one that takes least. */
static zn_status choose(zn_clip_work *w, int first_frames, int later_frames, size_t wanted, zn_clip_plan *out)
{
    enum { WHOLE, STAGES, TURNS, WAYS };
    const zn_clip_options *o = w->options;
    zn_clip_plan best = { 0 };
    w->lean = 0;
    ZN_TRY(zn_clip_agree_types(w, first_frames, later_frames));
    for (int way = WHOLE; way < WAYS; way++) {
        zn_clip_plan p = { .turns = way == TURNS };
        if (way != WHOLE && o->device)
            break;
        if (way != WHOLE)
            ZN_TRY(divide(w, later_frames, &p));
        ZN_TRY(measure(w, first_frames, later_frames, &p));
        if (way == WHOLE || total(w, &p) < total(w, &best))
            best = p;
        if (total(w, &best) <= wanted)
            break;
    }
    if (!o->device)
        ZN_TRY(slim(w, first_frames, later_frames, wanted, &best));
    w->turns = best.turns;
    w->lean = best.lean;
    *out = best;
    return ZN_OK;
}

zn_status zn_clip_plan_least(zn_clip_work *w, int first_frames, int later_frames, zn_clip_plan *out)
{
    return choose(w, first_frames, later_frames, 0, out);
}

zn_status zn_clip_plan_make(zn_clip_work *w, int first_frames, int later_frames, zn_clip_plan *out)
{
    const zn_clip_options *o = w->options;
    const size_t wanted = o->memory ? o->memory : zn_memory_available(ZN_MEMINFO) / 2;
    const size_t capacity = o->memory ? o->memory : machine_memory(o->device);
    ZN_TRY(choose(w, first_frames, later_frames, wanted, out));
    return total(w, out) > capacity ? refuse(w, total(w, out), capacity) : ZN_OK;
}
