/* Transforms of 2 to 128 rows of a map of any size as one stream: passes work on neighbouring groups at the same
 * time (wht_flow.h), as planned by wht_plan.h. The groups at the ends have no neighbour and are processed
 * separately. */
#ifndef ZN_ARM_WHT_STREAM_H
#define ZN_ARM_WHT_STREAM_H

#include "kernels/arm/spectral/wht_plan.h"
#include "kernels/simd/spectral/wht_strip.h"

/* One pass over one group, for the ends of the stream. */
static inline void wht_group_first(const wht_stream *q, int radix, int64_t i)
{
    const float *from = q->from + wht_group_at(q, i);
    float *to = wht_slot(q, 0, i);
    if (radix == 8) /* in pieces of 32 bytes, the eight of a block contiguous */
        for (int64_t y = 0; y < q->n; y += 8)
            wht_plain(8, &(wht_walk){ .from = from + y * q->row,
                                      .to = to + y * q->width,
                                      .from_step = q->row,
                                      .to_step = 8,
                                      .run = 8,
                                      .runs = q->width / 8,
                                      .from_next = 8,
                                      .to_next = 64 });
    else
        wht_plain(radix, &(wht_walk){ .from = from,
                                      .to = to,
                                      .from_step = q->row,
                                      .to_step = q->width,
                                      .run = q->width,
                                      .runs = q->n / radix,
                                      .from_next = radix * q->row,
                                      .to_next = radix * q->width });
}

/* Four rows of pieces as written by radix 8, 8 rows apart. */
static inline void wht_group_spread(const float *from, float *to, int64_t width, int64_t row, float scale)
{
    for (int64_t c = 0; c < width; c += 8)
        wht_scaled(4, &(wht_walk){ .from = from + 8 * c,
                                   .to = to + c,
                                   .from_step = 8 * width,
                                   .to_step = 8 * row,
                                   .run = 8,
                                   .runs = 8,
                                   .from_next = 8,
                                   .to_next = row,
                                   .scale = scale });
}

static inline void wht_group_middle(const wht_stream *q, const wht_plan *p, int64_t i)
{
    const float *from = wht_slot(q, 0, i);
    float *to = wht_slot(q, 1, i);
    if (p->a == 8) {
        for (int64_t at = 0; at < q->n * q->width; at += 32 * q->width)
            wht_group_spread(from + at, to + at, q->width, q->width, 1);
        return;
    }
    const wht_walk walk = wht_solid(from, to, q->n, p->b, p->a, q->width);
    wht_plain(p->b, &walk);
}

static inline void wht_group_last(const wht_stream *q, const wht_plan *p, int64_t i)
{
    const int radix = wht_plan_last(p);
    const int64_t len = q->n / radix;
    const float *from = wht_slot(q, p->c ? 1 : 0, i);
    float *to = q->to + wht_group_at(q, i);
    if (p->a == 8 && !p->c)
        wht_group_spread(from, to, q->width, q->row, q->scale);
    else
        wht_scaled(radix, &(wht_walk){ .from = from,
                                       .to = to,
                                       .from_step = len * q->width,
                                       .to_step = len * q->row,
                                       .run = q->width,
                                       .runs = len,
                                       .from_next = q->width,
                                       .to_next = q->row,
                                       .scale = q->scale });
}

#define WHT_FLOW(name, flow)                                                                                           \
    static __attribute__((noinline, unused)) void name(const flow_pass *p, int64_t blocks, float scale) { flow; }
#define WHT_FLOWS(name, flow, ...)                                                                                     \
    WHT_FLOW(name, flow(__VA_ARGS__, p, blocks, scale))                                                                \
    WHT_FLOW(name##_scaled, flow(__VA_ARGS__ | FLOW_SCALE, p, blocks, scale))
WHT_FLOWS(wht_flow2, flow_one, 2)
WHT_FLOWS(wht_flow4, flow_one, 4)
WHT_FLOWS(wht_flow42, flow_two, 4, 2)
WHT_FLOWS(wht_flow44, flow_two, 4, 4)
WHT_FLOWS(wht_flow84, flow_two, 8, 4 | FLOW_SPREAD)
WHT_FLOWS(wht_flow444, flow_three, 4, 4, 4)
WHT_FLOWS(wht_flow844, flow_three, 8, 4 | FLOW_SPREAD, 4)
WHT_FLOWS(wht_far44, flow_two, 4 | FLOW_CLOSE, 4) /* for rows that are far apart */
WHT_FLOWS(wht_far424, flow_three, 4 | FLOW_CLOSE, 2, 4)
WHT_FLOWS(wht_far444, flow_three, 4 | FLOW_CLOSE, 4, 4)
#undef WHT_FLOWS
#undef WHT_FLOW

static inline void wht_flow(const wht_stream *q, const flow_pass *passes, int64_t blocks)
{
    const bool near = wht_near(q);
    const struct {
        int64_t n;
        bool near; /* or far */
        void (*plain)(const flow_pass *, int64_t, float), (*scaled)(const flow_pass *, int64_t, float);
    } flows[] = { { 2, near, wht_flow2, wht_flow2_scaled },     { 4, near, wht_flow4, wht_flow4_scaled },
                  { 8, near, wht_flow42, wht_flow42_scaled },   { 16, true, wht_flow44, wht_flow44_scaled },
                  { 16, false, wht_far44, wht_far44_scaled },   { 32, true, wht_flow84, wht_flow84_scaled },
                  { 32, false, wht_far424, wht_far424_scaled }, { 64, true, wht_flow444, wht_flow444_scaled },
                  { 64, false, wht_far444, wht_far444_scaled }, { 128, true, wht_flow844, wht_flow844_scaled } };
    for (size_t i = 0; i < sizeof flows / sizeof *flows; i++)
        if (flows[i].n == q->n && flows[i].near == near)
            (q->scale == 1 ? flows[i].plain : flows[i].scaled)(passes, blocks, q->scale);
}

static inline void wht_stream_begin(const wht_stream *q, const wht_plan *p)
{
    if (p->b)
        wht_group_first(q, p->a, 0);
    if (p->c) {
        wht_group_middle(q, p, 0);
        wht_group_first(q, p->a, 1);
    }
}

static inline void wht_stream_end(const wht_stream *q, const wht_plan *p)
{
    if (p->c) {
        wht_group_middle(q, p, q->total - 1);
        wht_group_last(q, p, q->total - 2);
    }
    if (p->b)
        wht_group_last(q, p, q->total - 1);
}

/* Processes all of a stream that wht_can_stream accepts. */
static inline void wht_stream_all(const wht_stream *q)
{
    const wht_plan plan = wht_plan_of(q);
    const int behind = wht_plan_passes(&plan) - 1; /* groups by which the last pass lags */
    flow_pass passes[3] = { wht_pass_first(q, &plan, behind) };
    if (plan.c)
        passes[1] = wht_pass_middle(q, &plan, 1);
    if (plan.b)
        passes[behind] = wht_pass_last(q, &plan, 0);
    else
        passes[0].to = wht_pass_last(q, &plan, 0).to;
    wht_stream_begin(q, &plan);
    wht_flow(q, passes, (q->total - behind) * q->n * q->width / (16 * VEC_LANES));
    wht_stream_end(q, &plan);
}

#endif
