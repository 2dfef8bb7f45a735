/* The selective scan with channels as lanes. u, dt and y are read and written in place, b and c are the same for all
 * lanes, and no sum crosses lanes. Four states are computed side by side through a chunk in registers. The powers
 * take nearly all of the time. */
#include "kernels/simd/sequence/scan.h"

void ZN_KERNEL(scan)(const void *args, zn_range r);
void ZN_KERNEL(scan_ends)(const void *args, zn_range r);
void ZN_KERNEL(scan_grad_ends)(const void *args, zn_range r);

/* A thread's buffers: cells, and maps [token][ZN_SCAN_BLOCK] of one chunk. */
typedef struct workspace {
    float *rate, *h;
    float *delta, *w, *y; /* w = delta u */
} workspace;

static workspace workspace_of(const zn_scan_args *a, float *at)
{
    const int64_t cell = zn_scan_cell(a), map = ZN_SCAN_CHUNK * ZN_SCAN_BLOCK;
    float *maps = at + 2 * cell;
    return (workspace){ .rate = at, .h = at + cell, .delta = maps, .w = maps + map, .y = maps + 2 * map };
}

/* Computes the maps of a chunk that begins with this token, and y with its direct term. delta is computed for all
 * tokens in advance: each is a long dependency chain, whose latency the states of its own token could not hide. */
static void prepare(const zn_scan_args *a, zn_scan_part p, int64_t begin, int64_t tokens, const workspace *m)
{
    const int width = width_of(a, p.block);
    const int64_t channel = channel_of(p.block);
    for (int64_t t = 0; t < tokens; t++) {
        const int64_t at = (p.sequence * a->length + begin + t) * a->channels + channel;
        vec delta[SCAN_V], slope[SCAN_V];
        SCAN_EACH_VECTOR delta[v] = block_load(a->dt + at, v, width) + block_load(a->bias + channel, v, width);
        softplus(delta, slope);
        SCAN_EACH_VECTOR
        {
            const int64_t to = t * ZN_SCAN_BLOCK + v * VEC_LANES;
            const vec u = block_load(a->u + at, v, width);
            vec_store(m->delta + to, delta[v]);
            vec_store(m->w + to, delta[v] * u);
            vec_store(m->y + to, u * block_load(a->d + channel, v, width));
        }
    }
}

/* `steps` tokens (a compile-time constant) from t; b, c of the first of them. */
VEC_INLINE void tokens_on(const int steps, const int count, const zn_scan_args *a, const workspace *m, int64_t at,
                          const vec *rate, vec *h, const float *b, const float *c)
{
    vec decay[SCAN_CHAINS];
    decays_of(steps, count, m->delta + at, rate, decay);
#pragma GCC unroll 2
    for (int k = 0; k < steps; k++, at += ZN_SCAN_BLOCK, b += a->states, c += a->states) {
        const vec w = vec_load(m->w + at);
        vec y = vec_load(m->y + at);
        SCAN_EACH(count) h[u] = vec_fma(decay[k * count + u], h[u], w * vec_splat(b[u]));
        SCAN_EACH(count) y = vec_fma(h[u], vec_splat(c[u]), y);
        vec_store(m->y + at, y);
    }
}

/* States [i, i + count) of one vector of channels through a chunk; b, c [tokens][states] of state i. */
VEC_INLINE void advance(const int count, const zn_scan_args *a, const workspace *m, int64_t cell, int64_t tokens,
                        const float *b, const float *c)
{
    vec h[SCAN_U], rate[SCAN_U];
    SCAN_EACH(count) h[u] = vec_load(m->h + cell + u * ZN_SCAN_BLOCK);
    SCAN_EACH(count) rate[u] = vec_load(m->rate + cell + u * ZN_SCAN_BLOCK);
    int64_t t = 0, at = cell % ZN_SCAN_BLOCK;
    for (; t + SCAN_T <= tokens; t += SCAN_T, at += SCAN_T * ZN_SCAN_BLOCK)
        tokens_on(SCAN_T, count, a, m, at, rate, h, b + t * a->states, c + t * a->states);
    for (; t < tokens; t++, at += ZN_SCAN_BLOCK)
        tokens_on(1, count, a, m, at, rate, h, b + t * a->states, c + t * a->states);
    SCAN_EACH(count) vec_store(m->h + cell + u * ZN_SCAN_BLOCK, h[u]);
}

/* Runs a chunk of a block from state h; y stays in its map. */
static void chunk_forwards(const zn_scan_args *a, zn_scan_part p, int64_t chunk, const workspace *m)
{
    const int64_t begin = end_of(a, chunk), tokens = end_of(a, chunk + 1) - begin;
    const int64_t row = (p.sequence * a->length + begin) * a->states;
    const int width = width_of(a, p.block);
    prepare(a, p, begin, tokens, m);
    int i = 0;
    for (; i + SCAN_U <= a->states; i += SCAN_U)
        for (int lane = 0; lane < width; lane += VEC_LANES)
            advance(SCAN_U, a, m, i * ZN_SCAN_BLOCK + lane, tokens, a->b + row + i, a->c + row + i);
    for (; i < a->states; i++)
        for (int lane = 0; lane < width; lane += VEC_LANES)
            advance(1, a, m, i * ZN_SCAN_BLOCK + lane, tokens, a->b + row + i, a->c + row + i);
}

static void write_chunk(const zn_scan_args *a, zn_scan_part p, int64_t chunk, const workspace *m)
{
    const int width = width_of(a, p.block);
    for (int64_t t = end_of(a, chunk), from = 0; t < end_of(a, chunk + 1); t++, from += ZN_SCAN_BLOCK) {
        float *y = a->y + (p.sequence * a->length + t) * a->channels + channel_of(p.block);
        SCAN_EACH_VECTOR block_store(y, v, width, vec_load(m->y + from + v * VEC_LANES));
    }
}

static void begin_of(const zn_scan_args *a, zn_scan_part p, float *h)
{
    const size_t bytes = sizeof(float) * (size_t)zn_scan_cell(a);
    if (a->apart) {
        memcpy(h, a->marks + zn_scan_mark(a, p.sequence, p.chunk, p.block), bytes);
        return;
    }
    memset(h, 0, bytes);
    const float *first = a->first + (p.sequence * a->channels + channel_of(p.block)) * a->states;
    for (int k = 0; a->first && k < width_of(a, p.block); k++)
        for (int i = 0; i < a->states; i++)
            h[i * ZN_SCAN_BLOCK + k] = first[(int64_t)k * a->states + i];
}

static void keep(const zn_scan_args *a, zn_scan_part p, int64_t chunk, const float *h)
{
    memcpy(a->marks + zn_scan_mark(a, p.sequence, chunk, p.block), h, sizeof(float) * (size_t)zn_scan_cell(a));
}

void ZN_KERNEL(scan)(const void *args, zn_range r)
{
    const zn_scan_args *a = args;
    const workspace m = workspace_of(a, r.scratch);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const zn_scan_part p = zn_scan_part_of(a, unit, zn_scan_blocks(a));
        rates_of(a, p.block, m.rate);
        begin_of(a, p, m.h);
        for (int64_t chunk = p.chunk; chunk < p.end; chunk++) {
            if (!a->apart)
                keep(a, p, chunk, m.h);
            chunk_forwards(a, p, chunk, &m);
            write_chunk(a, p, chunk, &m);
        }
        if (!a->apart)
            keep(a, p, p.end, m.h);
    }
}

/* decay = 2^(sum of delta * rate) */
static void decay_of(const zn_scan_args *a, zn_scan_part p, const workspace *m)
{
    const int64_t tokens = end_of(a, p.end) - end_of(a, p.chunk);
    float *out = a->decay + zn_scan_inner(a, p.sequence, p.chunk, p.block), sum[ZN_SCAN_BLOCK] = { 0 };
    for (int64_t t = 0; t < tokens; t++)
        SCAN_EACH_VECTOR vec_store(sum + v * VEC_LANES, vec_load(sum + v * VEC_LANES) +
                                                            vec_load(m->delta + t * ZN_SCAN_BLOCK + v * VEC_LANES));
    for (int64_t i = 0; i < zn_scan_cell(a); i += VEC_LANES) {
        vec x = vec_load(m->rate + i) * vec_load(sum + i % ZN_SCAN_BLOCK);
        vec_power2(1, &x);
        vec_store(out + i, x);
    }
}

void ZN_KERNEL(scan_ends)(const void *args, zn_range r)
{
    const zn_scan_args *a = args;
    workspace m = workspace_of(a, r.scratch);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const zn_scan_part p = zn_scan_part_of(a, unit, zn_scan_blocks(a));
        m.h = a->ends + zn_scan_inner(a, p.sequence, p.chunk, p.block);
        rates_of(a, p.block, m.rate);
        memset(m.h, 0, sizeof(float) * (size_t)zn_scan_cell(a));
        chunk_forwards(a, p, p.chunk, &m);
        decay_of(a, p, &m);
    }
}

/* States [i, i + count) of one vector, backward: g = decay (c dy + g). g is stored in h, dy in y. */
VEC_INLINE void retreat(const int count, const zn_scan_args *a, const workspace *m, int64_t cell, int64_t tokens,
                        const float *c)
{
    const int64_t lane = cell % ZN_SCAN_BLOCK;
    vec g[SCAN_U], rate[SCAN_U];
    SCAN_EACH(count) g[u] = vec_splat(0);
    SCAN_EACH(count) rate[u] = vec_load(m->rate + cell + u * ZN_SCAN_BLOCK);
    for (int64_t t = tokens - 1; t >= 0; t--) {
        const int64_t at = t * ZN_SCAN_BLOCK + lane;
        const vec dy = vec_load(m->y + at);
        vec decay[SCAN_U];
        decays_of(1, count, m->delta + at, rate, decay);
        SCAN_EACH(count) g[u] = decay[u] * vec_fma(dy, vec_splat(c[t * a->states + u]), g[u]);
    }
    SCAN_EACH(count) vec_store(m->h + cell + u * ZN_SCAN_BLOCK, g[u]);
}

static void chunk_backwards(const zn_scan_args *a, zn_scan_part p, const workspace *m)
{
    const int64_t begin = end_of(a, p.chunk), tokens = end_of(a, p.end) - begin;
    const int64_t row = p.sequence * a->length + begin;
    const float *c = a->c + row * a->states;
    const int width = width_of(a, p.block);
    prepare(a, p, begin, tokens, m);
    for (int64_t t = 0; t < tokens; t++)
        SCAN_EACH_VECTOR vec_store(m->y + t * ZN_SCAN_BLOCK + v * VEC_LANES,
                                   block_load(a->dy + (row + t) * a->channels + channel_of(p.block), v, width));
    int i = 0;
    for (; i + SCAN_U <= a->states; i += SCAN_U)
        for (int lane = 0; lane < ZN_SCAN_BLOCK; lane += VEC_LANES)
            retreat(SCAN_U, a, m, i * ZN_SCAN_BLOCK + lane, tokens, c + i);
    for (; i < a->states; i++)
        for (int lane = 0; lane < ZN_SCAN_BLOCK; lane += VEC_LANES)
            retreat(1, a, m, i * ZN_SCAN_BLOCK + lane, tokens, c + i);
}

void ZN_KERNEL(scan_grad_ends)(const void *args, zn_range r)
{
    const zn_scan_args *a = args;
    workspace m = workspace_of(a, r.scratch);
    for (int64_t unit = r.begin; unit < r.end; unit++) {
        const zn_scan_part p = zn_scan_part_of(a, unit, zn_scan_blocks(a));
        m.h = a->ends + zn_scan_inner(a, p.sequence, p.chunk, p.block);
        rates_of(a, p.block, m.rate);
        chunk_backwards(a, p, &m);
        decay_of(a, p, &m);
    }
}
