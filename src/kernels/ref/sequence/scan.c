/* The selective scan, channel by channel. */
#include "kernels/scan.h"

#include <math.h>
#include <string.h>

/* One channel of one part: its tokens, and its offset in a cell. `inside` is false for the channels that pad the
 * last block; all their values are 0. */
typedef struct lane {
    const zn_scan_args *a;
    int64_t sequence, block, begin, end;
    int64_t channel;
    int place;
    bool inside;
} lane;

static lane lane_of(const zn_scan_args *a, zn_scan_part p, int place)
{
    const int64_t channel = p.block * ZN_SCAN_BLOCK + place, end = p.end * zn_scan_chunk(a);
    return (lane){ .a = a,
                   .sequence = p.sequence,
                   .block = p.block,
                   .begin = p.chunk * zn_scan_chunk(a),
                   .end = end < a->length ? end : a->length,
                   .channel = channel,
                   .place = place,
                   .inside = channel < a->channels };
}

static int64_t token_of(const lane *l, int64_t t) { return l->sequence * l->a->length + t; }

static float map_at(const lane *l, const float *map, int64_t t)
{
    return l->inside ? map[token_of(l, t) * l->a->channels + l->channel] : 0;
}

static float decay_rate(const lane *l, int i)
{
    return l->inside ? -expf(l->a->a_log[l->channel * l->a->states + i]) : 0;
}

static float raw_delta(const lane *l, int64_t t)
{
    return l->inside ? map_at(l, l->a->dt, t) + l->a->bias[l->channel] : 0;
}

static float softplus(float x) { return x > 20 ? x : log1pf(expf(x)); }

static float first_at(const lane *l, int i)
{
    const zn_scan_args *a = l->a;
    return l->inside && a->first ? a->first[(l->sequence * a->channels + l->channel) * a->states + i] : 0;
}

static float *mark_of(const lane *l, int64_t chunk)
{
    return l->a->marks + zn_scan_mark(l->a, l->sequence, chunk, l->block) + l->place;
}

static float *inner_of(const lane *l, float *cells)
{
    return cells + zn_scan_inner(l->a, l->sequence, l->begin / zn_scan_chunk(l->a), l->block) + l->place;
}

/* Size for the vector builds; the reference needs less. */
size_t zn_scan_scratch(const zn_scan_args *a)
{
    return sizeof(float) * (size_t)(2 * zn_scan_cell(a) + 3 * ZN_SCAN_CHUNK * ZN_SCAN_BLOCK);
}

static void save(const lane *l, const float *h, int64_t chunk)
{
    for (int i = 0; i < l->a->states; i++)
        mark_of(l, chunk)[i * ZN_SCAN_BLOCK] = h[i];
}

void zn_ref_scan(const void *args, zn_range r);
void zn_ref_scan_ends(const void *args, zn_range r);
void zn_ref_scan_grad_ends(const void *args, zn_range r);

/* One token: updates h; returns y without the direct term. */
static float step(const lane *l, int64_t t, const float *rate, float *h)
{
    const zn_scan_args *a = l->a;
    const int64_t row = token_of(l, t) * a->states;
    const float delta = softplus(raw_delta(l, t)), w = delta * map_at(l, a->u, t);
    float y = 0;
    for (int i = 0; i < a->states; i++) {
        h[i] = expf(delta * rate[i]) * h[i] + w * a->b[row + i];
        y += a->c[row + i] * h[i];
    }
    return y;
}

static void scan_lane(const lane *l, float *rate, float *h)
{
    const zn_scan_args *a = l->a;
    for (int i = 0; i < a->states; i++) {
        rate[i] = decay_rate(l, i);
        h[i] = a->apart ? mark_of(l, l->begin / zn_scan_chunk(a))[i * ZN_SCAN_BLOCK] : first_at(l, i);
    }
    for (int64_t t = l->begin; t < l->end; t++) {
        if (!a->apart && t % zn_scan_chunk(a) == 0)
            save(l, h, t / zn_scan_chunk(a));
        const float y = step(l, t, rate, h);
        if (l->inside)
            a->y[token_of(l, t) * a->channels + l->channel] = y + a->d[l->channel] * map_at(l, a->u, t);
    }
    if (!a->apart)
        save(l, h, zn_scan_chunks(a));
}

void zn_ref_scan(const void *args, zn_range r)
{
    const zn_scan_args *a = args;
    float *rate = r.scratch;
    for (int64_t unit = r.begin; unit < r.end; unit++)
        for (int k = 0; k < ZN_SCAN_BLOCK; k++) {
            const lane l = lane_of(a, zn_scan_part_of(a, unit, zn_scan_blocks(a)), k);
            scan_lane(&l, rate, rate + a->states);
        }
}

/* exp(rate * sum of delta), which equals the product of a over the tokens. */
static void decay_lane(const lane *l)
{
    float sum = 0;
    for (int64_t t = l->begin; t < l->end; t++)
        sum += softplus(raw_delta(l, t));
    for (int i = 0; i < l->a->states; i++)
        inner_of(l, l->a->decay)[i * ZN_SCAN_BLOCK] = expf(decay_rate(l, i) * sum);
}

void zn_ref_scan_ends(const void *args, zn_range r)
{
    const zn_scan_args *a = args;
    float *rate = r.scratch, *h = rate + a->states;
    for (int64_t unit = r.begin; unit < r.end; unit++)
        for (int k = 0; k < ZN_SCAN_BLOCK; k++) {
            const lane l = lane_of(a, zn_scan_part_of(a, unit, zn_scan_blocks(a)), k);
            decay_lane(&l);
            memset(h, 0, sizeof(float) * (size_t)a->states);
            for (int i = 0; i < a->states; i++)
                rate[i] = decay_rate(&l, i);
            for (int64_t t = l.begin; t < l.end; t++)
                step(&l, t, rate, h);
            for (int i = 0; i < a->states; i++)
                inner_of(&l, a->ends)[i * ZN_SCAN_BLOCK] = h[i];
        }
}

/* The gradient that leaves the start of the chunk if none enters its end. */
void zn_ref_scan_grad_ends(const void *args, zn_range r)
{
    const zn_scan_args *a = args;
    for (int64_t unit = r.begin; unit < r.end; unit++)
        for (int k = 0; k < ZN_SCAN_BLOCK; k++) {
            const lane l = lane_of(a, zn_scan_part_of(a, unit, zn_scan_blocks(a)), k);
            decay_lane(&l);
            for (int i = 0; i < a->states; i++) {
                const float rate = decay_rate(&l, i);
                float g = 0;
                for (int64_t t = l.end - 1; t >= l.begin; t--)
                    g = expf(softplus(raw_delta(&l, t)) * rate) *
                        (a->c[token_of(&l, t) * a->states + i] * map_at(&l, a->dy, t) + g);
                inner_of(&l, a->ends)[i * ZN_SCAN_BLOCK] = g;
            }
        }
}

/* ---- chunks in order; no vector build, since there is little to do ---- */

void zn_k_scan_join(const void *args, zn_range r)
{
    const zn_scan_args *a = args;
    const int64_t cell = zn_scan_cell(a), blocks = zn_scan_blocks(a);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const int64_t sequence = unit / blocks, block = unit % blocks;
        for (int k = 0; k < ZN_SCAN_BLOCK; k++) {
            const lane l = lane_of(a, (zn_scan_part){ sequence, block, 0, 1, 0 }, k);
            for (int i = 0; i < a->states; i++)
                mark_of(&l, 0)[i * ZN_SCAN_BLOCK] = first_at(&l, i);
        }
        for (int64_t chunk = 0; chunk < zn_scan_chunks(a); chunk++) {
            const float *h = a->marks + zn_scan_mark(a, sequence, chunk, block);
            const int64_t inner = zn_scan_inner(a, sequence, chunk, block);
            float *next = a->marks + zn_scan_mark(a, sequence, chunk + 1, block);
            for (int64_t i = 0; i < cell; i++)
                next[i] = a->ends[inner + i] + a->decay[inner + i] * h[i];
        }
    }
}

static void write_first(const zn_scan_args *a, int64_t sequence, int64_t block, const float *cell)
{
    for (int k = 0; k < ZN_SCAN_BLOCK && block * ZN_SCAN_BLOCK + k < a->channels; k++)
        for (int i = 0; i < a->states; i++)
            a->dfirst[(sequence * a->channels + block * ZN_SCAN_BLOCK + k) * a->states + i] =
                cell[i * ZN_SCAN_BLOCK + k];
}

void zn_k_scan_grad_join(const void *args, zn_range r)
{
    const zn_scan_args *a = args;
    const int64_t cell = zn_scan_cell(a), blocks = zn_scan_blocks(a);
    float *carry = r.scratch;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const int64_t sequence = unit / blocks, block = unit % blocks;
        memset(carry, 0, sizeof(float) * (size_t)cell);
        for (int64_t chunk = zn_scan_chunks(a) - 1; chunk >= 0; chunk--) {
            float *out = a->ends + zn_scan_inner(a, sequence, chunk, block);
            const float *decay = a->decay + zn_scan_inner(a, sequence, chunk, block);
            for (int64_t i = 0; i < cell; i++) {
                const float next = out[i] + decay[i] * carry[i];
                out[i] = carry[i];
                carry[i] = next;
            }
        }
        if (a->dfirst)
            write_first(a, sequence, block, carry);
    }
}
