/* Clips piece by piece, see clip.h: all layers at once, or stage by stage. The first piece and the later ones are
 * different graphs, of which one exists at a time; their packed weights are the same and stay. */
#include "pipeline/video/clip.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "base/least.h"
#include "pipeline/video/clip_plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct zn_clip {
    zn_clip_work work;
    zn_clip_options options;
    zn_clip_plan plan;
    bool planned;
    bool later;                        /* what is to come is not the first piece */
    zn_clip_stage stages[ZN_CUTS + 1]; /* the first one is the whole network if there are no others */
    float *input, *output;             /* of stages: a piece's */
    int filled;                        /* frames of the result */
    zn_shape made;                     /* of the result, [T,H,W,C] */
    double done, share;                /* of stages: operations of a piece that are done, and those of the run */
};

void zn_clip_free(zn_clip *c)
{
    if (!c)
        return;
    for (int i = 0; i <= ZN_CUTS; i++)
        zn_clip_stage_clear(&c->stages[i]);
    zn_free(c->input);
    zn_free(c->output);
    zn_free(c);
}

zn_status zn_clip_new(const zn_model *model, zn_part part, zn_shape frame, const zn_clip_options *options,
                      zn_clip **out)
{
    zn_clip *c = *out = zn_calloc(1, sizeof **out);
    if (!c)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a clip");
    c->options = *options;
    c->work = (zn_clip_work){ .model = model, .part = part, .frame = frame, .options = &c->options };
    return ZN_OK;
}

zn_shape zn_clip_frame(const zn_clip *c) { return c->work.frame; }

static size_t frame_bytes(zn_shape s) { return sizeof(float) * (size_t)(zn_shape_count(s) / s.dim[0]); }

/* Frames of the first piece, or of each later one. */
static int piece_frames(const zn_model *model, zn_part part, bool later)
{
    return part == ZN_DECODER ? 1 : later ? model->config.frames : model->config.first_frames;
}

static int frames_of(const zn_clip *c) { return piece_frames(c->work.model, c->work.part, c->later); }

zn_status zn_clip_least(const zn_model *model, zn_part part, zn_shape frame, const zn_clip_options *options,
                        size_t *bytes)
{
    zn_clip_work w = { .model = model, .part = part, .frame = frame, .options = options };
    zn_clip_plan p;
    ZN_TRY(zn_clip_plan_least(&w, piece_frames(model, part, false), piece_frames(model, part, true), &p));
    *bytes = p.run + p.kept + p.packed;
    return ZN_OK;
}

static zn_status plan(zn_clip *c)
{
    const int first = piece_frames(c->work.model, c->work.part, false),
              later = piece_frames(c->work.model, c->work.part, true);
    ZN_TRY(zn_clip_check_fp8(&c->work, first, later));
    ZN_TRY(zn_clip_plan_make(&c->work, first, later, &c->plan));
    for (int i = 0; i < c->plan.stages; i++) {
        c->stages[i].number = i + 1;
        c->stages[i].parts = c->plan.parts[i];
    }
    c->planned = true;
    return ZN_OK;
}

/* Room for a piece's frames and results, of which the first piece has no more than others. */
static zn_status make_room(zn_clip *c)
{
    const zn_config *k = &c->work.model->config;
    const int most = k->frames > k->first_frames ? k->frames : k->first_frames;
    const size_t frames = c->work.part == ZN_DECODER ? 1 : (size_t)most;
    if (!c->input)
        ZN_TRY(zn_alloc_for("frames of a clip", frames * frame_bytes(c->work.frame), (void **)&c->input));
    return ZN_OK;
}

zn_status zn_clip_begin(zn_clip *c, float **input, int *frames)
{
    *frames = frames_of(c);
    if (!c->planned)
        ZN_TRY(plan(c));
    if (c->plan.stages)
        ZN_TRY(make_room(c));
    else
        ZN_TRY(zn_clip_stage_start(&c->stages[0], &c->work, *frames, c->later, c->options.progress, c->options.user));
    *input = c->plan.stages ? c->input : c->stages[0].x->data;
    return ZN_OK;
}

/* ---- stages ---- */

/* Progress of a run as progress of the piece. */
static int stage_progress(void *user, double fraction)
{
    const zn_clip *c = user;
    const double all = c->later ? c->plan.later : c->plan.first;
    return c->options.progress(c->options.user, all > 0 ? (c->done + fraction * c->share) / all : 0);
}

/* Only one stage has memory for its maps. */
static zn_status start(zn_clip *c, int stage)
{
    for (int i = 0; i < c->plan.stages; i++)
        if (i != stage)
            zn_clip_stage_stop(&c->stages[i]);
    return zn_clip_stage_start(&c->stages[stage], &c->work, frames_of(c), c->later,
                               c->options.progress ? stage_progress : NULL, c);
}

static zn_status feed(zn_clip *c, int stage, float *frames, int64_t count);

/* The results of the last stage are the piece's. */
static zn_status take_result(zn_clip *c, const zn_clip_stage *s)
{
    const size_t bytes = frame_bytes(s->y->shape);
    const int count = (int)s->y->shape.dim[0], all = count * (c->later ? s->parts : 1);
    if (!c->filled) {
        zn_free(c->output);
        c->output = NULL;
        ZN_TRY(zn_alloc_for("frames of a clip", bytes * (size_t)all, (void **)&c->output));
    }
    memcpy((char *)c->output + bytes * (size_t)c->filled, s->made, bytes * (size_t)count);
    c->filled += count;
    c->made = s->y->shape;
    c->made.dim[0] = c->filled;
    return ZN_OK;
}

static zn_status run_stage(zn_clip *c, int stage, float *frames)
{
    zn_clip_stage *s = &c->stages[stage];
    s->x->data = frames;
    c->share = s->flops;
    ZN_TRY(zn_clip_stage_run(s));
    c->done += c->share;
    return stage + 1 < c->plan.stages ? feed(c, stage + 1, s->made, s->y->shape.dim[0]) : take_result(c, s);
}

/* Frames for a stage, which runs whenever it has enough of them. Where one result of the stage before is not enough,
 * they are collected. */
static zn_status feed(zn_clip *c, int stage, float *frames, int64_t count)
{
    zn_clip_stage *s = &c->stages[stage];
    while (count) {
        ZN_TRY(start(c, stage));
        const int64_t each = s->x->shape.dim[0], taken = zn_least(count, each - s->filled);
        const size_t bytes = frame_bytes(s->x->shape);
        float *from = frames;
        if (taken < each) {
            if (!s->given)
                ZN_TRY(zn_alloc_for("frames of a clip", bytes * (size_t)each, (void **)&s->given));
            memcpy((char *)s->given + bytes * (size_t)s->filled, frames, bytes * (size_t)taken);
            from = s->given;
        }
        s->filled += (int)taken;
        frames += bytes / sizeof *frames * (size_t)taken;
        count -= taken;
        if (s->filled < each)
            continue;
        s->filled = 0;
        ZN_TRY(run_stage(c, stage, from));
    }
    return ZN_OK;
}

static zn_status run_stages(zn_clip *c)
{
    c->filled = 0;
    c->done = 0;
    for (int i = 0; i < c->plan.stages; i++)
        c->stages[i].filled = 0;
    ZN_TRY(feed(c, 0, c->input, frames_of(c)));
    return ZN_OK;
}

zn_status zn_clip_run(zn_clip *c, const float **output, zn_shape *shape)
{
    if (c->plan.stages)
        ZN_TRY(run_stages(c));
    else
        ZN_TRY(zn_clip_stage_run(&c->stages[0]));
    c->later = true;
    *output = c->plan.stages ? c->output : c->stages[0].y->data;
    *shape = c->plan.stages ? c->made : c->stages[0].y->shape;
    return ZN_OK;
}

size_t zn_clip_bytes_of(const zn_clip *c) { return c->plan.run + c->plan.kept + c->plan.packed; }

double zn_clip_coarse(const zn_clip *c)
{
    double all = 0, coarse = 0;
    for (int i = 0; i <= ZN_CUTS; i++) {
        all += c->stages[i].flops;
        coarse += c->stages[i].coarse;
    }
    return all > 0 ? coarse / all : NAN;
}

bool zn_clip_retains_16(const zn_clip *c)
{
    bool any = false;
    for (int i = 0; i <= ZN_CUTS; i++)
        for (int k = 0; k < c->stages[i].kept_count; k++)
            any |= c->stages[i].kept_type[k] != ZN_TYPE_F32;
    return any;
}

/* On a device: how many steps of a piece run there, and whether others have to be copied for. */
static void add_places(const zn_clip *c, char *text, size_t size)
{
    const zn_exec *e = c->stages[0].exec;
    const size_t used = strlen(text);
    if (!c->options.device || !e)
        return;
    const zn_exec_places places = zn_exec_count_places(e);
    snprintf(text + used, size - used, ", %d of %d steps on %s%s", places.steps - places.on_host, places.steps,
             zn_device_kind(c->options.device), places.on_host ? ", the others on the CPU" : "");
}

void zn_clip_describe(const zn_clip *c, char *text, size_t size)
{
    const double unit = 1 << 20;
    const zn_clip_plan *p = &c->plan;
    char how[64] = "at once";
    *text = 0;
    if (!c->planned)
        return;
    if (p->stages)
        snprintf(how, sizeof how, "in %d stage%s%s%s", p->stages, p->stages == 1 ? "" : "s",
                 p->turns ? " whose weights take turns" : "", p->lean ? ", some lean" : "");
    snprintf(
        text, size,
        "%s: clip of %lldx%lldx%lld %s, %.1f MiB, %.1f MiB of weights, %.1f MiB kept between pieces, %.1f MiB in all",
        zn_part_name(c->work.part), (long long)c->work.frame.dim[2], (long long)c->work.frame.dim[1],
        (long long)c->work.frame.dim[3], how, (double)p->run / unit, (double)p->packed / unit, (double)p->kept / unit,
        (double)(zn_clip_bytes_of(c) + c->options.held) / unit);
    add_places(c, text, size);
}

void zn_clip_end(zn_clip *c) { c->later = false; }
