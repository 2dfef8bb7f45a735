/* How fast the instructions of the spectral kernels can go: each kernel's own mix of loads, arithmetic and stores, in
 * loops where the data lie in the L1 and nothing waits for a result, beside what the slots of src/ops/slots.h promise.
 * A slot is a quarter of a cycle; but stores take room in the vector units too, few registers can be read that were
 * ready long before, and moves between lanes count for nothing in slots. So this is about what a kernel with these
 * instructions can come to, whoever writes it.
 *
 *     mixes          a Markdown table
 *     mixes --json   {"kernel": share of the slots that its instructions leave, ...}
 *
 * AArch64 only; the loops are written as machine code. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "base/clock.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* STEP: an addition or subtraction of a butterfly; OP: anything else of two operands (additions, products, comparisons,
 * changes of bits); FMA: a sum goes on with a product of results; PRODUCT: with one of a value that was just loaded. */
enum { STEP, OP, FMA, PRODUCT, MATRIX, TURN, LOAD, PAIR, SPREAD, STORE, STORES, KINDS };
static const char *const names[KINDS] = { "step", "op",  "fma",  "product", "bfmmla", "zip",
                                          "ldr",  "ldp", "ld1r", "str",     "stp" };

/* Instructions for a block of `vectors` vectors. */
typedef struct mix {
    const char *name;
    int vectors, count[KINDS];
} mix;

enum {
    TWO_STEPS,
    THREE_STEPS,
    FOUR_STEPS,
    GATED,
    TURN_IN,
    FACTORS,
    FOLDED,
    TURN_OUT,
    TILE_MIDDLE,
    GELU,
    NORM,
    DEPTHWISE,
    QUADS,
    ZIPPED,
    REDUCE,
    SPLIT,
    SPLITTING,
    MIXES
};
static const mix mixes[MIXES] = {
    [TWO_STEPS] = { "transform, two steps", 16, { [PAIR] = 8, [STEP] = 32, [STORES] = 8 } },
    [THREE_STEPS] = { "transform, three steps", 16, { [PAIR] = 8, [STEP] = 48, [STORES] = 8 } },
    [FOUR_STEPS] = { "transform, four steps", 16, { [PAIR] = 8, [STEP] = 64, [STORES] = 8 } },
    [GATED] = { "three steps, gate, three steps",
                16,
                { [PAIR] = 8, [LOAD] = 4, [STEP] = 64, [OP] = 16, [FMA] = 16, [STORES] = 8 } },
    [TURN_IN] = { "pixels turned to lanes, factors, four steps",
                  16,
                  { [PAIR] = 8, [LOAD] = 4, [OP] = 16, [TURN] = 32, [STEP] = 64, [STORES] = 8 } },
    [FACTORS] = { "factors of gathered rows, four steps", 16, { [LOAD] = 20, [OP] = 16, [STEP] = 64, [STORES] = 8 } },
    [FOLDED] = { "gathered rows added in pairs, three steps",
                 16,
                 { [LOAD] = 40, [OP] = 16, [PRODUCT] = 16, [STEP] = 48, [STORES] = 8 } },
    [TURN_OUT] = { "four steps, lanes turned to pixels, bias",
                   16,
                   { [LOAD] = 20, [STEP] = 64, [TURN] = 32, [OP] = 16, [STORES] = 8 } },
    [TILE_MIDDLE] = { "three steps, gate, threshold, three steps",
                      8,
                      { [PAIR] = 16, [STEP] = 48, [OP] = 32, [STORES] = 4 } },
    [GELU] = { "GELU", 4, { [LOAD] = 43, [FMA] = 36, [OP] = 24, [STORE] = 4 } },
    [NORM] = { "RMS norm", 8, { [LOAD] = 16, [FMA] = 8, [OP] = 16, [STORES] = 4 } },
    [DEPTHWISE] = { "depthwise 3x3", 8, { [LOAD] = 38, [PRODUCT] = 72, [STORE] = 8 } },
    [QUADS] = { "grouped product", 16, { [LOAD] = 24, [PRODUCT] = 64 } },
    [ZIPPED] = { "four groups put in order", 16, { [TURN] = 16, [STORES] = 8 } },
    [REDUCE] = { "grouped product of a Lite block", 16, { [LOAD] = 20, [PRODUCT] = 64 } },
    [SPLIT] = { "fp32 by three BFMMLA", 72, { [PAIR] = 13, [MATRIX] = 72 } },
    [SPLITTING] = { "split in high and low", 8, { [LOAD] = 8, [OP] = 32, [STORES] = 4 } },
};

/* A kernel as the blocks that one piece of its work takes, and the slots of that piece. Where a kernel has a choice,
 * such as steps in one pass, or does several sizes, this is the cheapest. */
enum { PARTS = 6 };
typedef struct kernel {
    const char *name, *piece;
    double slots;
    struct {
        int mix;
        double blocks;
    } part[PARTS];
} kernel;

static const kernel kernels[] = {
    { "tile_square",
      "a vector of 32x32 positions",
      2 * (10 + 3.5) + 15,
      { { TWO_STEPS, 2 / 16.0 }, { FOUR_STEPS, 1 / 16.0 }, { TILE_MIDDLE, 2 / 8.0 }, { GELU, 1 / 4.0 } } },
    { "lite_head",
      "a vector of 256 channels, half of them out",
      12 + 32,
      { { NORM, 1 / 8.0 }, { DEPTHWISE, 1 / 8.0 }, { QUADS, 32 / 64.0 }, { ZIPPED, 0.5 / 16 } } },
    { "lite_rows",
      "a vector of 64 channels from 256, rows of 128",
      64 + 14,
      { { REDUCE, 64 / 64.0 }, { FOUR_STEPS, 2 / 16.0 }, { GATED, 1 / 16.0 } } },
    { "lite_columns",
      "a vector of a column of 512",
      18,
      { { FOUR_STEPS, 2 / 16.0 }, { TWO_STEPS, 2 / 16.0 }, { GATED, 1 / 16.0 } } },
    /* 1024 vectors; three stages on all, the last one on half */
    { "spectral_linear",
      "16 pixels from 256 to 128 channels",
      4 * (3 * 256 * 8.5 + 128 + 128 + 128 * 7 + 128),
      { { TURN_IN, 64 }, { FOUR_STEPS, 3 * 64 }, { FACTORS, 2 * 64 }, { FOLDED, 32 }, { TURN_OUT, 32 } } },
    { "pointwise-bf16x3",
      "12 pixels by 4 of 256 channels by 8 of 256",
      72 + 12 * 3 / 32.0,
      { { SPLIT, 1 }, { SPLITTING, 12 / 8.0 / 32 } } },
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

/* Sums and results take turns in registers 0 to 23, loaded values in 24 to 27; 28 to 31 are kept. */
enum { RESULTS = 24, LOADED = 4, KEPT = RESULTS + LOADED, OFFSETS = 31 /* of pairs: signed, 7 bits */ };

/* What has been used up so far. */
typedef struct place {
    int results, loaded, from, to;
} place;

static uint32_t loaded(const place *p, int back) { return RESULTS + (uint32_t)(p->loaded - back + LOADED) % LOADED; }

/* One instruction; x1 is read, x2 written. fresh: the other operand was computed lately, not kept. */
static uint32_t encode(int kind, place *p, bool fresh)
{
    static const uint32_t code[KINDS] = { 0x4e20d400, 0x4e20d400, 0x4e20cc00, 0x4f801000, 0x6e40ec00, 0x4e803800,
                                          0x3dc00000, 0xad400000, 0x4d40c800, 0x3d800000, 0xad000000 };
    p->loaded += kind == PAIR ? 2 : kind == LOAD || kind == SPREAD;
    const uint32_t c = code[kind], d = (uint32_t)(p->results++ % RESULTS), kept = KEPT + d % 4,
                   other = fresh ? (d + RESULTS / 2) % RESULTS : kept, near = loaded(p, 1);
    if (kind == LOAD)
        return c | (uint32_t)(p->from++ % OFFSETS) << 10 | 1 << 5 | loaded(p, 1);
    if (kind == SPREAD)
        return c | 1 << 5 | loaded(p, 1);
    if (kind == PAIR)
        return c | (uint32_t)(p->from++ % OFFSETS * 2) << 15 | loaded(p, 1) << 10 | 1 << 5 | loaded(p, 2);
    if (kind == STORE)
        return c | (uint32_t)(p->to++ % OFFSETS) << 10 | 2 << 5 | d;
    if (kind == STORES)
        return c | (uint32_t)(p->to++ % OFFSETS * 2) << 15 | (d + 1) % RESULTS << 10 | 2 << 5 | d;
    if (kind == STEP) /* two neighbours read the same two results */
        return c | (d / 2 * 2 + 6) % RESULTS << 16 | (d / 2 * 2 + 11) % RESULTS << 5 | d;
    if (kind == PRODUCT || kind == MATRIX) /* neighbours share what was loaded last */
        return c | (fresh ? near : kept) << 16 | (fresh ? kept : near) << 5 | d;
    return c | other << 16 | (kind == TURN ? near : (d + 7) % RESULTS) << 5 | d;
}

/* `blocks` blocks, the kinds spread evenly, in a loop. Returns the number of instructions. */
static int assemble(const mix *m, int blocks, bool fresh, uint32_t *to)
{
    int all = 0, done[KINDS] = { 0 }, n = 0;
    place p = { 0 };
    for (int k = 0; k < KINDS; k++)
        all += m->count[k] * blocks;
    for (; n < all; n++) {
        int next = 0;
        double most = -1e9;
        for (int k = 0; k < KINDS; k++) { /* the kind that is furthest behind */
            const double behind = (double)m->count[k] * blocks * (n + 1) / all - done[k];
            if (m->count[k] && behind > most) {
                most = behind;
                next = k;
            }
        }
        done[next]++;
        to[n] = encode(next, &p, fresh);
    }
    to[n] = 0xf1000400;                                             /* subs x0, x0, 1 */
    to[n + 1] = 0x54000001 | ((uint32_t) - (n + 1) & 0x7ffff) << 5; /* b.ne to the first */
    to[n + 2] = 0xd65f03c0;                                         /* ret */
    return n + 3;
}

enum { CODE_BYTES = 1 << 16, FLOATS = 4096, RUNS = 9 };

/* Machine code that changes every vector register. */
static void call(const uint32_t *code, long turns, float *data)
{
    register long count __asm__("x0") = turns;
    register float *from __asm__("x1") = data;
    register float *to __asm__("x2") = data + FLOATS / 2;
    __asm__ volatile("blr %3"
                     : "+r"(count), "+r"(from), "+r"(to)
                     : "r"(code)
                     : "x30", "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",
                       "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25",
                       "v26", "v27", "v28", "v29", "v30", "v31");
}

/* Seconds of one turn: the least of some runs. */
static double time_code(uint32_t *code, int count, long turns, float *data)
{
    double best = 1e9;
    __builtin___clear_cache((char *)code, (char *)(code + count));
    for (int i = 0; i < RUNS; i++) {
        const double start = zn_clock_ms();
        call(code, turns, data);
        const double s = (zn_clock_ms() - start) * 1e-3 / (double)turns;
        best = s < best ? s : best;
    }
    return best;
}

/* Seconds of a cycle: additions that wait for each other. */
static double cycle(uint32_t *code, float *data)
{
    enum { CHAIN = 1000 };
    for (int i = 0; i < CHAIN; i++)
        code[i] = 0x91000484; /* add x4, x4, 1 */
    code[CHAIN] = 0xf1000400;
    code[CHAIN + 1] = 0x54000001 | ((uint32_t) - (CHAIN + 1) & 0x7ffff) << 5;
    code[CHAIN + 2] = 0xd65f03c0;
    return time_code(code, CHAIN + 3, 20000, data) / CHAIN;
}

/* Cycles of a block: the better of two choices of registers. */
static double cycles(const mix *m, double one, uint32_t *code, float *data)
{
    enum { BLOCKS = 8 };
    double best = 1e9;
    for (int fresh = 0; fresh < 2; fresh++) {
        const int count = assemble(m, BLOCKS, fresh, code);
        const double c = time_code(code, count, 20000, data) / one / BLOCKS;
        best = c < best ? c : best;
    }
    return best;
}

static void print_mixes(const double *of)
{
    printf("| instructions for a block | vectors | slots, cycles | cycles |\n|---|---:|---:|---:|\n");
    for (int i = 0; i < MIXES; i++) {
        const mix *m = &mixes[i];
        const int slots = m->count[STEP] + m->count[OP] + m->count[FMA] + m->count[PRODUCT] + m->count[MATRIX];
        printf("| %s:", m->name);
        for (int k = 0; k < KINDS; k++)
            if (m->count[k])
                printf(" %d %s", m->count[k], names[k]);
        printf(" | %d | %.1f | %.1f |\n", m->vectors, slots / 4.0, of[i]);
    }
}

int main(int argc, char **argv)
{
    const bool json = argc > 1 && strcmp(argv[1], "--json") == 0;
    _Alignas(64) static float data[FLOATS];
    double of[MIXES];
    uint32_t *code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED) {
        fprintf(stderr, "mixes: this system lets no program write its own code\n");
        return 1;
    }
    for (int i = 0; i < FLOATS; i++)
        data[i] = 1;
    const double one = cycle(code, data);
    for (int i = 0; i < MIXES; i++)
        of[i] = cycles(&mixes[i], one, code, data);
    if (!json) {
        printf("%.2f GHz\n\n", 1e-9 / one);
        print_mixes(of);
        printf("\n| kernel | a piece of its work | slots, cycles | cycles | share |\n|---|---|---:|---:|---:|\n");
    }
    for (int i = 0; i < KERNELS; i++) {
        const kernel *k = &kernels[i];
        double sum = 0;
        for (int j = 0; j < PARTS; j++)
            sum += k->part[j].blocks * of[k->part[j].mix];
        if (json)
            printf("%s\"%s\": %.3f%s", i ? ", " : "{", k->name, k->slots / 4 / sum, i == KERNELS - 1 ? "}\n" : "");
        else
            printf("| %s | %s | %.1f | %.1f | %.0f %% |\n", k->name, k->piece, k->slots / 4, sum,
                   100 * k->slots / 4 / sum);
    }
    return 0;
}
