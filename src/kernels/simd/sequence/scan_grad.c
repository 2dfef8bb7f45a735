/* The gradient of the selective scan, for a group of blocks at a time. Within a chunk, four states of one vector of
 * channels run forward again and store their decays, then run backward. The stored values fit L1. The sums over
 * channels for b and c are computed across lanes, four states at once. */
#include "kernels/simd/sequence/scan.h"

void ZN_KERNEL(scan_grad)(const void *args, zn_range r);

enum { CHUNK_MAP = ZN_SCAN_CHUNK * ZN_SCAN_BLOCK };

/* A thread's buffers. Maps are [token][ZN_SCAN_BLOCK] of one chunk and block. */
typedef struct workspace {
    float *rate, *carry, *da;                         /* cells of the group's blocks */
    float *dd, *dbias;                                /* [group][ZN_SCAN_BLOCK] */
    float *delta, *w, *dy, *slope, *through, *ddelta; /* maps; w = delta u, through = sum of g b */
    float *decay, *rest;                              /* [token][SCAN_U][VEC_LANES]; rest = decay h */
} workspace;

static workspace workspace_of(const zn_scan_args *a, float *at)
{
    const int64_t cells = ZN_SCAN_GROUP * zn_scan_cell(a), lines = ZN_SCAN_GROUP * ZN_SCAN_BLOCK;
    workspace m = { .rate = at, .carry = at + cells, .da = at + 2 * cells };
    at += 3 * cells;
    m.dd = at;
    m.dbias = at + lines;
    at += 2 * lines;
    float **const maps[] = { &m.delta, &m.w, &m.dy, &m.slope, &m.through, &m.ddelta };
    for (int i = 0; i < 6; i++, at += CHUNK_MAP)
        *maps[i] = at;
    m.decay = at;
    m.rest = at + SCAN_U * CHUNK_MAP;
    return m;
}

/* One block of one chunk. */
typedef struct piece {
    const zn_scan_args *a;
    int64_t sequence, block, chunk, begin;
    int tokens, width;
    float *rate, *carry, *da, *dd, *dbias; /* of the block */
    float *db, *dc;                        /* of the chunk: [tokens][states] */
} piece;

static int64_t row_of(const piece *p, int64_t t) { return p->sequence * p->a->length + p->begin + t; }
static int64_t map_of(const piece *p, int64_t t) { return row_of(p, t) * p->a->channels + channel_of(p->block); }

/* to[u] += sum of v[u] */
VEC_INLINE void add_sums(const int count, const vec *v, float *to)
{
    if (count < SCAN_U) {
        for (int u = 0; u < count; u++)
            to[u] += vec_sum(v[u]);
        return;
    }
#if defined(__ARM_NEON)
    vec_store(to, vec_load(to) + vpaddq_f32(vpaddq_f32(v[0], v[1]), vpaddq_f32(v[2], v[3])));
#else
    quad s[SCAN_U];
    SCAN_EACH(SCAN_U)
    {
        float t[VEC_LANES];
        vec_store(t, v[u]);
        s[u] = quad_load(t);
        for (int k = 4; k < VEC_LANES; k += 4)
            s[u] = s[u] + quad_load(t + k);
    }
    quad_transpose(s);
    quad_store(to, quad_load(to) + ((s[0] + s[1]) + (s[2] + s[3])));
#endif
}

static void prepare(const piece *p, const workspace *m)
{
    const zn_scan_args *a = p->a;
    const int64_t channel = channel_of(p->block);
    for (int64_t t = 0; t < p->tokens; t++) {
        const int64_t at = map_of(p, t), to = t * ZN_SCAN_BLOCK;
        vec delta[SCAN_V], slope[SCAN_V];
        SCAN_EACH_VECTOR delta[v] = block_load(a->dt + at, v, p->width) + block_load(a->bias + channel, v, p->width);
        softplus(delta, slope);
        SCAN_EACH_VECTOR
        {
            const int64_t lane = v * VEC_LANES;
            const vec u = block_load(a->u + at, v, p->width), dy = block_load(a->dy + at, v, p->width);
            vec_store(m->delta + to + lane, delta[v]);
            vec_store(m->w + to + lane, delta[v] * u);
            vec_store(m->dy + to + lane, dy);
            vec_store(m->slope + to + lane, slope[v]);
            vec_store(m->through + to + lane, vec_splat(0));
            vec_store(m->ddelta + to + lane, vec_splat(0));
            vec_store(p->dd + lane, vec_fma(u, dy, vec_load(p->dd + lane)));
        }
    }
}

/* `steps` tokens (a compile-time constant) from t; b of the first of them. */
VEC_INLINE void tokens_on(const int steps, const int count, const piece *p, const workspace *m, int64_t t, int64_t lane,
                          const vec *rate, vec *h, const float *b)
{
    vec decay[SCAN_CHAINS];
    decays_of(steps, count, m->delta + t * ZN_SCAN_BLOCK + lane, rate, decay);
#pragma GCC unroll 2
    for (int k = 0; k < steps; k++, t++, b += p->a->states) {
        const vec w = vec_load(m->w + t * ZN_SCAN_BLOCK + lane);
        SCAN_EACH(count)
        {
            const vec rest = decay[k * count + u] * h[u];
            vec_store(m->decay + (t * SCAN_U + u) * VEC_LANES, decay[k * count + u]);
            vec_store(m->rest + (t * SCAN_U + u) * VEC_LANES, rest);
            h[u] = vec_fma(w, vec_splat(b[u]), rest);
        }
    }
}

/* States [i, i + count) of one vector, from the mark before the chunk. */
VEC_INLINE void forwards(const int count, const piece *p, const workspace *m, int i, int64_t lane)
{
    const zn_scan_args *a = p->a;
    const int64_t cell = i * ZN_SCAN_BLOCK + lane;
    const float *mark = a->marks + zn_scan_mark(a, p->sequence, p->chunk, p->block) + cell;
    const float *b = a->b + row_of(p, 0) * a->states + i;
    vec h[SCAN_U], rate[SCAN_U];
    SCAN_EACH(count) h[u] = vec_load(mark + u * ZN_SCAN_BLOCK);
    SCAN_EACH(count) rate[u] = vec_load(p->rate + cell + u * ZN_SCAN_BLOCK);
    int64_t t = 0;
    for (; t + SCAN_T <= p->tokens; t += SCAN_T)
        tokens_on(SCAN_T, count, p, m, t, lane, rate, h, b + t * a->states);
    for (; t < p->tokens; t++)
        tokens_on(1, count, p, m, t, lane, rate, h, b + t * a->states);
}

VEC_INLINE void backwards(const int count, const piece *p, const workspace *m, int i, int64_t lane)
{
    const zn_scan_args *a = p->a;
    const int64_t cell = i * ZN_SCAN_BLOCK + lane, first = row_of(p, 0) * a->states + i;
    vec carry[SCAN_U], rate[SCAN_U], da[SCAN_U];
    SCAN_EACH(count) carry[u] = vec_load(p->carry + cell + u * ZN_SCAN_BLOCK);
    SCAN_EACH(count) rate[u] = vec_load(p->rate + cell + u * ZN_SCAN_BLOCK);
    SCAN_EACH(count) da[u] = vec_splat(0);
    for (int64_t t = p->tokens - 1; t >= 0; t--) {
        const int64_t at = t * ZN_SCAN_BLOCK + lane, row = t * a->states;
        const float *b = a->b + first + row, *c = a->c + first + row;
        const vec delta = vec_load(m->delta + at), w = vec_load(m->w + at), dy = vec_load(m->dy + at);
        vec through = vec_load(m->through + at), ddelta = vec_load(m->ddelta + at), db[SCAN_U], dc[SCAN_U];
        SCAN_EACH(count)
        {
            const vec rest = vec_load(m->rest + (t * SCAN_U + u) * VEC_LANES), bu = vec_splat(b[u]);
            const vec g = vec_fma(dy, vec_splat(c[u]), carry[u]), along = g * rest;
            db[u] = g * w;
            dc[u] = dy * vec_fma(w, bu, rest);
            through = vec_fma(g, bu, through);
            ddelta = vec_fma(along, rate[u], ddelta);
            da[u] = vec_fma(along, delta, da[u]);
            carry[u] = g * vec_load(m->decay + (t * SCAN_U + u) * VEC_LANES);
        }
        vec_store(m->through + at, through);
        vec_store(m->ddelta + at, ddelta);
        add_sums(count, db, p->db + row + i);
        add_sums(count, dc, p->dc + row + i);
    }
    SCAN_EACH(count) vec_store(p->carry + cell + u * ZN_SCAN_BLOCK, carry[u]);
    SCAN_EACH(count)
    {
        float *sum = p->da + cell + u * ZN_SCAN_BLOCK;
        vec_store(sum, vec_load(sum) + da[u]);
    }
}

static void finish(const piece *p, const workspace *m)
{
    const zn_scan_args *a = p->a;
    for (int64_t t = 0; t < p->tokens; t++) {
        const int64_t at = map_of(p, t);
        SCAN_EACH_VECTOR
        {
            const int64_t lane = v * VEC_LANES, to = t * ZN_SCAN_BLOCK + lane;
            const vec through = vec_load(m->through + to), u = block_load(a->u + at, v, p->width);
            const vec direct = vec_load(m->dy + to) * block_load(a->d + channel_of(p->block), v, p->width);
            const vec ddelta = vec_fma(u, through, vec_splat(0.693147181f) * vec_load(m->ddelta + to));
            const vec ddt = ddelta * vec_load(m->slope + to);
            block_store(a->du + at, v, p->width, vec_fma(vec_load(m->delta + to), through, direct));
            block_store(a->ddt + at, v, p->width, ddt);
            vec_store(p->dbias + lane, vec_load(p->dbias + lane) + ddt);
        }
    }
}

static void piece_back(const piece *p, const workspace *m)
{
    prepare(p, m);
    int i = 0;
    for (; i + SCAN_U <= p->a->states; i += SCAN_U)
        for (int lane = 0; lane < p->width; lane += VEC_LANES) {
            forwards(SCAN_U, p, m, i, lane);
            backwards(SCAN_U, p, m, i, lane);
        }
    for (; i < p->a->states; i++)
        for (int lane = 0; lane < p->width; lane += VEC_LANES) {
            forwards(1, p, m, i, lane);
            backwards(1, p, m, i, lane);
        }
    finish(p, m);
}

/* Converts cells and lines to [channels][states] and [channels]. d a_log = da rate, with the rate for base e. */
static void write_block(const zn_scan_args *a, zn_scan_part part, int64_t block, const piece *p)
{
    const int64_t channel = channel_of(block);
    float *da = a->partial + part.run * zn_scan_parameters(a), *dd = da + (int64_t)a->channels * a->states;
    float *dfirst = a->dfirst && !a->apart ? a->dfirst + part.sequence * a->channels * a->states : NULL;
    for (int k = 0; k < p->width; k++) {
        for (int i = 0; i < a->states; i++) {
            const int64_t to = (channel + k) * a->states + i, from = i * ZN_SCAN_BLOCK + k;
            da[to] = 0.693147181f * p->da[from] * p->rate[from];
            if (dfirst)
                dfirst[to] = p->carry[from];
        }
        dd[channel + k] = p->dd[k];
        dd[a->channels + channel + k] = p->dbias[k];
    }
}

static piece piece_of(const zn_scan_args *a, zn_scan_part part, int index, const workspace *m)
{
    const int64_t cell = index * zn_scan_cell(a), line = index * ZN_SCAN_BLOCK;
    const int64_t map = a->length * a->states, block = part.block * ZN_SCAN_GROUP + index;
    float *db = a->partial_bc + (2 * part.block * a->sequences + part.sequence) * map;
    return (piece){ .a = a,
                    .sequence = part.sequence,
                    .block = block,
                    .width = width_of(a, block),
                    .rate = m->rate + cell,
                    .carry = m->carry + cell,
                    .da = m->da + cell,
                    .dd = m->dd + line,
                    .dbias = m->dbias + line,
                    .db = db,
                    .dc = db + a->sequences * map };
}

static void start(const zn_scan_args *a, zn_scan_part part, const piece *p)
{
    const size_t cell = sizeof(float) * (size_t)zn_scan_cell(a), line = sizeof(float) * ZN_SCAN_BLOCK;
    rates_of(a, p->block, p->rate);
    memset(p->da, 0, cell);
    memset(p->dd, 0, line);
    memset(p->dbias, 0, line);
    if (a->apart)
        memcpy(p->carry, a->ends + zn_scan_inner(a, part.sequence, part.chunk, p->block), cell);
    else
        memset(p->carry, 0, cell);
}

void ZN_KERNEL(scan_grad)(const void *args, zn_range r)
{
    const zn_scan_args *a = args;
    const workspace m = workspace_of(a, r.scratch);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const zn_scan_part part = zn_scan_part_of(a, unit, zn_scan_groups(a));
        const int64_t left = zn_scan_blocks(a) - part.block * ZN_SCAN_GROUP;
        const int blocks = left < ZN_SCAN_GROUP ? (int)left : ZN_SCAN_GROUP;
        piece p[ZN_SCAN_GROUP];
        for (int k = 0; k < blocks; k++) {
            p[k] = piece_of(a, part, k, &m);
            start(a, part, &p[k]);
        }
        for (int64_t chunk = part.end - 1; chunk >= part.chunk; chunk--) {
            const int64_t begin = end_of(a, chunk), tokens = end_of(a, chunk + 1) - begin;
            const size_t bytes = sizeof(float) * (size_t)(tokens * a->states);
            memset(p[0].db + begin * a->states, 0, bytes);
            memset(p[0].dc + begin * a->states, 0, bytes);
            for (int k = 0; k < blocks; k++) {
                piece at = p[k];
                at.chunk = chunk;
                at.begin = begin;
                at.tokens = (int)tokens;
                at.db += begin * a->states;
                at.dc += begin * a->states;
                piece_back(&at, &m);
            }
        }
        for (int k = 0; k < blocks; k++)
            write_block(a, part, p[k].block, &p[k]);
    }
}
