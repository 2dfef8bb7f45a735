/* One to three passes of a Walsh-Hadamard transform at once, for AArch64: a block of sixteen vectors of each in
 * turn. Memory is read and written at an even rate, and data between the passes stays in rings of a few KB. While
 * one block is computed, the previous one (of another pass) is stored and the next one loaded.
 *
 * Whole cache lines are written, to rings as well as to memory. Half lines make memory several times as slow, even
 * half lines in L1 between whole lines that go to memory. */
#ifndef ZN_ARM_WHT_FLOW_H
#define ZN_ARM_WHT_FLOW_H

#include "kernels/arm/spectral/wht_pass.h"

/* The kind of a pass, a compile-time constant everywhere: its radix (2, 4 or 8), and flags. */
enum {
    FLOW_RADIX = 15,
    FLOW_SCALE = 16,  /* multiply the result by a factor */
    FLOW_SPREAD = 32, /* reads data written by a pass of radix 8: the halves of a line are 256 bytes apart */
    FLOW_CLOSE = 64,  /* also prefetch the next line of each row into L1 */
};
#define FLOW_ACROSS(pass) (16 / ((pass)&FLOW_RADIX)) /* vectors per row of a block */
#define FLOW_STEPS(pass)  (8 * (((pass)&FLOW_RADIX) == 8 ? 3 : ((pass)&FLOW_RADIX) / 2)) /* butterflies per block */

/* Where a pass reads or writes; all in bytes. Blocks form runs, runs form groups, groups form lines. */
typedef struct flow_side {
    char *at;                        /* the next block */
    int64_t step;                    /* distance between its rows; for stores of radix 8, between its lines */
    int64_t block, run, group, line; /* distance to the next block; and more after a run, a group, a line */
    char *end;                       /* end of a ring, or NULL */
    int64_t ring;
} flow_side;

typedef struct flow_pass {
    flow_side from, to;
    int64_t blocks, runs, groups; /* blocks per run, runs per group, groups per line */
    int64_t blocks_left, runs_left, groups_left;
    int64_t total;    /* total groups, or 0 for a pass that reads a ring */
    char *still;      /* an address that may be read after the last of them */
    int64_t to_fetch; /* prefetch distance into L2 in bytes */
} flow_pass;

VEC_INLINE void flow_advance(flow_pass *p)
{
    p->from.at += p->from.block;
    p->to.at += p->to.block;
    if (__builtin_expect(--p->blocks_left != 0, 1))
        return;
    p->blocks_left = p->blocks;
    p->from.at += p->from.run;
    p->to.at += p->to.run;
    if (--p->runs_left != 0)
        return;
    p->runs_left = p->runs;
    p->from.at += p->from.group;
    p->to.at += p->to.group;
    if (p->from.at == p->from.end)
        p->from.at -= p->from.ring;
    if (p->to.at == p->to.end)
        p->to.at -= p->to.ring;
    if (--p->groups_left == 0) {
        p->groups_left = p->groups;
        p->from.at += p->from.line;
        p->to.at += p->to.line;
    }
    if (--p->total == 0)
        p->from.at = p->still;
}

#define FLOW_LOAD(offset)                                                                                              \
    __asm__ volatile("ldp %q0, %q1, [%2, " #offset "]" : "=w"(v[2 * k]), "=w"(v[2 * k + 1]) : "r"(p))
/* Loads pair k of a block. */
VEC_INLINE void flow_load(const int pass, const flow_side *s, vec *v, const int k)
{
    const int pairs = FLOW_ACROSS(pass) / 2, at = k % pairs;
    const char *p = s->at + k / pairs * s->step;
    if (at == 0)
        FLOW_LOAD(0);
    else if (pass & FLOW_SPREAD)
        FLOW_LOAD(256);
    else if (at == 1)
        FLOW_LOAD(32);
    else if (at == 2)
        FLOW_LOAD(64);
    else
        FLOW_LOAD(96);
}
#undef FLOW_LOAD

/* Stores the k-th line of a block that is complete: first, third, second, fourth. */
VEC_INLINE void flow_store(const int pass, char *to, int64_t step, vec *v, vec scale, const int k)
{
    const int line = k / 2 + k % 2 * 2, scaled = pass & FLOW_SCALE ? 4 : 0;
    char *p = (pass & FLOW_RADIX) == 2 ? to + line / 2 * step + line % 2 * 64 : to + line * step;
    v += 4 * line;
    WHT_UNROLL for (int i = 0; i < scaled; i++) wht_times(v + i, scale, 0);
    __asm__ volatile("stp %q0, %q1, [%4]\n\tstp %q2, %q3, [%4, 32]"
                     :
                     : "w"(v[0]), "w"(v[1]), "w"(v[2]), "w"(v[3]), "r"(p));
}

VEC_INLINE void flow_step(const int pass, vec *v, const int k)
{
    const int across = FLOW_ACROSS(pass), i = k % 8 / across, u = k % across, h = 1 << k / 8;
    const int low = i / h * 2 * h + i % h;
    wht_butterfly(v + low * across + u, v + (low + h) * across + u);
}

/* Prefetches four lines; with radix 8, two blocks share eight. */
VEC_INLINE void flow_fetch(const int pass, const flow_pass *p)
{
    const int64_t step = p->from.step;
    const char *at = p->from.at + p->to_fetch;
    if ((pass & FLOW_RADIX) == 8)
        at += p->blocks_left % 2 * 4 * step;
    WHT_UNROLL for (int i = 0; i < 4; i++)
    {
        const int64_t line = (pass & FLOW_RADIX) == 2 ? i / 2 * step + i % 2 * 64 : i * step;
        __asm__ volatile("prfm pldl2keep, [%0]" : : "r"(at + line));
        if (pass & FLOW_CLOSE)
            __asm__ volatile("prfm pldl1keep, [%0, 64]" : : "r"(p->from.at + line));
    }
}

/* A block whose last two lines are not stored yet. */
typedef struct flow_rest {
    char *to;
    int64_t step;
} flow_rest;

/* Computes a block v of p and stores half of it; stores the rest of `old`, a block of old_pass, and loads the next
 * block of n in its place. */
VEC_INLINE void flow_block(const int pass, flow_pass *p, vec *v, const int old_pass, vec *old, flow_rest *rest,
                           const int next_pass, const flow_pass *n, vec scale)
{
    const int steps = FLOW_STEPS(pass), apart = steps / 8;
    vec fresh[16];
    WHT_UNROLL for (int k = 0; k < steps; k++)
    {
        if (k == 0 || k == apart)
            flow_store(old_pass, rest->to, rest->step, old, scale, 2 + k / apart);
        flow_step(pass, v, k);
        if (k == steps - 3 || k == steps - 1)
            flow_store(pass, p->to.at, p->to.step, v, scale, (k - steps + 3) / 2);
        if (k % apart == apart - 1)
            flow_load(next_pass, &n->from, fresh, k / apart);
    }
    WHT_UNROLL for (int k = 0; k < 16; k++) old[k] = fresh[k];
    *rest = (flow_rest){ p->to.at, p->to.step };
    flow_advance(p);
}

/* Before the first block: marks one of the last pass as not stored yet; its destination is overwritten later. */
VEC_INLINE flow_rest flow_begin(const int pass, const flow_pass *first, const flow_pass *last, vec *v, vec *old)
{
    __asm__ volatile("" : : : "memory"); /* loads and stores do not declare their memory: this and flow_end do */
    WHT_UNROLL for (int k = 0; k < 8; k++) flow_load(pass, &first->from, v, k);
    WHT_UNROLL for (int k = 0; k < 16; k++) old[k] = vec_splat(0);
    return (flow_rest){ last->to.at, last->to.step };
}

VEC_INLINE void flow_end(const int pass, const flow_rest *rest, vec *old, vec scale)
{
    flow_store(pass, rest->to, rest->step, old, scale, 2);
    flow_store(pass, rest->to, rest->step, old, scale, 3);
    __asm__ volatile("" : : : "memory");
}

/* A pass from map to map, of an even number of blocks. */
VEC_INLINE void flow_one(const int a, const flow_pass *passes, int64_t blocks, float factor)
{
    flow_pass p = *passes, read = p; /* which is one block ahead */
    const vec scale = vec_splat(factor);
    vec v[16], w[16];
    flow_rest rest = flow_begin(a, &p, &p, v, w);
    flow_advance(&read);
    for (; blocks > 0; blocks -= 2) {
        flow_fetch(a, &read);
        flow_block(a, &p, v, a, w, &rest, a, &read, scale);
        flow_advance(&read);
        flow_fetch(a, &read);
        flow_block(a, &p, w, a, v, &rest, a, &read, scale);
        flow_advance(&read);
    }
    flow_end(a, &rest, w, scale);
}

/* Passes a and b, of `blocks` blocks each; b reads what a wrote one group earlier. */
VEC_INLINE void flow_two(const int a, const int b, const flow_pass *passes, int64_t blocks, float factor)
{
    flow_pass p = passes[0], q = passes[1];
    const vec scale = vec_splat(factor);
    vec v[16], w[16];
    flow_rest rest = flow_begin(a, &p, &q, v, w);
    for (; blocks > 0; blocks--) {
        flow_block(a, &p, v, b, w, &rest, b, &q, scale);
        flow_fetch(a, &p);
        flow_block(b, &q, w, a, v, &rest, a, &p, scale);
    }
    flow_end(b, &rest, w, scale);
}

/* Passes a, b and c; an even number of blocks. */
VEC_INLINE void flow_three(const int a, const int b, const int c, const flow_pass *passes, int64_t blocks, float factor)
{
    flow_pass p = passes[0], q = passes[1], r = passes[2];
    const vec scale = vec_splat(factor);
    vec v[16], w[16];
    flow_rest rest = flow_begin(a, &p, &r, v, w);
    for (; blocks > 0; blocks -= 2) {
        flow_block(a, &p, v, c, w, &rest, b, &q, scale);
        flow_block(b, &q, w, a, v, &rest, c, &r, scale);
        flow_fetch(a, &p);
        flow_block(c, &r, v, b, w, &rest, a, &p, scale);
        flow_block(a, &p, w, c, v, &rest, b, &q, scale);
        flow_block(b, &q, v, a, w, &rest, c, &r, scale);
        flow_fetch(a, &p);
        flow_block(c, &r, w, b, v, &rest, a, &p, scale);
    }
    flow_end(c, &rest, w, scale);
}

#endif
