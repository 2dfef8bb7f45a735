/* 3x3 convolution from many channels to at most three on NEON. */
enum { SIDE = 3 }; /* with four, sums and operands would not fit the registers */
#include "kernels/simd/conv/to_few.h"

/* v8-v14, v15-v21 and v22-v28 are the sums of three pixels, v0-v2 four channels of each, v3-v7, v29 and v30 a row of
 * weights. Each is reloaded for the next channel as soon as it has been used. */
/* clang-format off */
#define FMLA(op, sum, b, pixel, lane) op " v" #sum ".4s, v" #b ".4s, v" #pixel ".s[" #lane "]\n"
#define LOAD_W(b, next) "ldr q" #b ", [%[w], #" next "]\n"
#define LOAD_X(pixel) "ldr q" #pixel ", [%[x" #pixel "]], #16\n"
#define COLUMN(op, b, lane, s0, s1, s2, next)                                                                          \
    FMLA(op, s0, b, 0, lane) FMLA(op, s1, b, 1, lane) FMLA(op, s2, b, 2, lane) LOAD_W(b, next)
#define SIX_COLUMNS(op, lane, row)                                                                                     \
    COLUMN(op, 3, lane, 8, 15, 22, row "*112")                                                                         \
    COLUMN(op, 4, lane, 9, 16, 23, row "*112+16")                                                                      \
    COLUMN(op, 5, lane, 10, 17, 24, row "*112+32")                                                                     \
    COLUMN(op, 6, lane, 11, 18, 25, row "*112+48")                                                                     \
    COLUMN(op, 7, lane, 12, 19, 26, row "*112+64")                                                                     \
    COLUMN(op, 29, lane, 13, 20, 27, row "*112+80")
#define CHANNEL(op, lane, row) SIX_COLUMNS(op, lane, row) COLUMN(op, 30, lane, 14, 21, 28, row "*112+96")
#define CHANNELS(op, load0, load1, load2)                                                                              \
    CHANNEL(op, 0, "1") CHANNEL("fmla", 1, "2") CHANNEL("fmla", 2, "3") SIX_COLUMNS("fmla", 3, "4")                    \
    FMLA("fmla", 14, 30, 0, 3) load0 FMLA("fmla", 21, 30, 1, 3) load1 FMLA("fmla", 28, 30, 2, 3) load2                 \
    LOAD_W(30, "4*112+96") "add %[w], %[w], #448\n"
/* clang-format on */

/* In assembly, because compilers load weights just before they are needed: 3.0 instead of 3.5
 * multiply-adds per cycle of a Neoverse-V1. */
static void multiply(const float *const x[SIDE], int channels, int64_t ahead, const float *w, float *z)
{
    for (int c = 0; c < channels; c += 16)
        for (int i = 0; i < SIDE; i++)
            __builtin_prefetch(x[i] + c + ahead);
    const float *x0 = x[0], *x1 = x[1], *x2 = x[2];
    int64_t groups = channels / 4 - 2;
    /* clang-format off */
    __asm__ volatile(
        LOAD_X(0) LOAD_X(1) LOAD_X(2) LOAD_W(3, "0") LOAD_W(4, "16") LOAD_W(5, "32") LOAD_W(6, "48") LOAD_W(7, "64")
        LOAD_W(29, "80") LOAD_W(30, "96")
        CHANNELS("fmul", LOAD_X(0), LOAD_X(1), LOAD_X(2))
        "0:\n"
        CHANNELS("fmla", LOAD_X(0), LOAD_X(1), LOAD_X(2))
        "subs %[groups], %[groups], #1\n"
        "b.gt 0b\n"
        CHANNELS("fmla", "", "", "")
        "stp q8, q9, [%[z]]\nstp q10, q11, [%[z], #32]\nstp q12, q13, [%[z], #64]\nstp q14, q15, [%[z], #96]\n"
        "stp q16, q17, [%[z], #128]\nstp q18, q19, [%[z], #160]\nstp q20, q21, [%[z], #192]\n"
        "stp q22, q23, [%[z], #224]\nstp q24, q25, [%[z], #256]\nstp q26, q27, [%[z], #288]\nstr q28, [%[z], #320]\n"
        : [x0] "+r"(x0), [x1] "+r"(x1), [x2] "+r"(x2), [w] "+r"(w), [groups] "+r"(groups)
        : [z] "r"(z)
        : "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29",
          "v30");
    /* clang-format on */
}
