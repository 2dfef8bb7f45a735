/* The gradient of the selective scan, channel by channel. With g[t] the gradient by h[t], from the last token to the
 * first:
 *
 *     g = c[t] dy + a[t+1] g[t+1]      d c[t] = sum over channels of dy h[t]     d b[t] = sum of g delta u
 *     du = d dy + delta sum(g b)       d delta = sum of g (rate a h[t-1] + b u)  d rate = sum over t of g h[t-1] a
 * delta
 */
#include "kernels/scan.h"

#include <math.h>
#include <string.h>

void zn_ref_scan_grad(const void *args, zn_range r);

size_t zn_scan_grad_scratch(const zn_scan_args *a)
{
    const size_t cell = (size_t)zn_scan_cell(a), map = ZN_SCAN_CHUNK * ZN_SCAN_BLOCK;
    const size_t kept = ZN_SCAN_GROUP * (3 * cell + 2 * ZN_SCAN_BLOCK); /* per group: rates, carries, their sums */
    const size_t reference = (size_t)a->states * (ZN_SCAN_CHUNK + 2);
    const size_t vectors = kept + 6 * map + 2 * map * 4;
    return sizeof(float) * (vectors > reference ? vectors : reference);
}

/* Offsets of a channel's values, and its sums. */
typedef struct lane {
    const zn_scan_args *a;
    int64_t sequence, channel;
    float *db, *dc; /* of the group: [length][states] */
    float *da, *dd, *dbias;
} lane;

static float delta_at(const lane *l, int64_t row, float *slope)
{
    const float x = l->a->dt[row * l->a->channels + l->channel] + l->a->bias[l->channel];
    *slope = 1 / (1 + expf(-x));
    return x > 20 ? x : log1pf(expf(x));
}

/* Recomputes h before each token of a chunk, [tokens][states], followed by h after the last token. */
static void again(const lane *l, int64_t begin, int64_t end, float *h)
{
    const zn_scan_args *a = l->a;
    const int64_t block = l->channel / ZN_SCAN_BLOCK;
    const float *mark = a->marks + zn_scan_mark(a, l->sequence, begin / zn_scan_chunk(a), block);
    for (int i = 0; i < a->states; i++)
        h[i] = mark[i * ZN_SCAN_BLOCK + l->channel % ZN_SCAN_BLOCK];
    for (int64_t t = begin; t < end; t++, h += a->states) {
        const int64_t row = l->sequence * a->length + t;
        float slope;
        const float delta = delta_at(l, row, &slope), u = a->u[row * a->channels + l->channel];
        for (int i = 0; i < a->states; i++) {
            const float rate = -expf(a->a_log[l->channel * a->states + i]);
            h[i + a->states] = expf(delta * rate) * h[i] + delta * u * a->b[row * a->states + i];
        }
    }
}

/* Backward step of one token: carry is a[t+1] g[t+1] on entry, a[t] g[t] on return; h is the state before the token. */
static void token(const lane *l, int64_t t, const float *h, float *carry)
{
    const zn_scan_args *a = l->a;
    const int64_t row = l->sequence * a->length + t, at = row * a->channels + l->channel;
    float slope;
    const float delta = delta_at(l, row, &slope), u = a->u[at], dy = a->dy[at];
    float through = 0, ddelta = 0;
    for (int i = 0; i < a->states; i++) {
        const float rate = -expf(a->a_log[l->channel * a->states + i]), decay = expf(delta * rate);
        const float b = a->b[row * a->states + i], g = a->c[row * a->states + i] * dy + carry[i];
        l->db[t * a->states + i] += g * delta * u;
        l->dc[t * a->states + i] += dy * h[i + a->states];
        through += g * b;
        ddelta += g * rate * decay * h[i];
        l->da[i] += g * h[i] * decay * delta * rate;
        carry[i] = decay * g;
    }
    const float ddt = (ddelta + u * through) * slope;
    a->du[at] = a->d[l->channel] * dy + delta * through;
    a->ddt[at] = ddt;
    *l->dd += u * dy;
    *l->dbias += ddt;
}

static void channel_back(const lane *l, zn_scan_part p, float *scratch)
{
    const zn_scan_args *a = l->a;
    const int64_t block = l->channel / ZN_SCAN_BLOCK, place = l->channel % ZN_SCAN_BLOCK;
    float *carry = scratch, *h = scratch + a->states;
    for (int i = 0; i < a->states; i++) {
        carry[i] = a->apart ? a->ends[zn_scan_inner(a, p.sequence, p.chunk, block) + i * ZN_SCAN_BLOCK + place] : 0;
        l->da[i] = 0;
    }
    *l->dd = *l->dbias = 0;
    for (int64_t chunk = p.end - 1; chunk >= p.chunk; chunk--) {
        const int64_t begin = chunk * zn_scan_chunk(a), full = begin + zn_scan_chunk(a);
        const int64_t end = full < a->length ? full : a->length;
        again(l, begin, end, h);
        for (int64_t t = end - 1; t >= begin; t--)
            token(l, t, h + (t - begin) * a->states, carry);
    }
    if (a->dfirst && !a->apart)
        memcpy(a->dfirst + (p.sequence * a->channels + l->channel) * a->states, carry,
               sizeof(float) * (size_t)a->states);
}

void zn_ref_scan_grad(const void *args, zn_range r)
{
    const zn_scan_args *a = args;
    const int64_t groups = zn_scan_groups(a), map = a->length * a->states, width = ZN_SCAN_GROUP * ZN_SCAN_BLOCK;
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const zn_scan_part p = zn_scan_part_of(a, unit, groups);
        float *db = a->partial_bc + (2 * p.block * a->sequences + p.sequence) * map, *dc = db + a->sequences * map;
        float *da = a->partial + p.run * zn_scan_parameters(a), *dd = da + (int64_t)a->channels * a->states;
        const int64_t begin = p.chunk * zn_scan_chunk(a), full = p.end * zn_scan_chunk(a);
        const size_t tokens = (size_t)((full < a->length ? full : a->length) - begin);
        memset(db + begin * a->states, 0, sizeof(float) * tokens * (size_t)a->states);
        memset(dc + begin * a->states, 0, sizeof(float) * tokens * (size_t)a->states);
        for (int64_t k = p.block * width; k < (p.block + 1) * width && k < a->channels; k++) {
            const lane l = { .a = a,
                             .sequence = p.sequence,
                             .channel = k,
                             .db = db,
                             .dc = dc,
                             .da = da + k * a->states,
                             .dd = dd + k,
                             .dbias = dd + a->channels + k };
            channel_back(&l, p, r.scratch);
        }
    }
}
