/* Speed of the products with packed weights, of one thread, in CPU time: the machine may be busy with other work.
 *
 *     matrix [SECONDS [FORMAT]]         at least this long for each product (0.5); only this format
 *
 * For each format and shape of Z-Image and its text encoder: fp32 after unpacking, 8-bit integers where the format has
 * them, and bf16 where the CPU has matrix instructions for it, in GFLOP/s and GOP/s, as a share of the CPU's peak for
 * that arithmetic. "not used": the other one is. */
#define _POSIX_C_SOURCE 200809L
#include "kernels/matrix.h"
#include "base/alloc.h"
#include "base/convert.h"
#include "base/cpu.h"
#include "kernels/matrix_bf16.h"
#include "kernels/matrix_i8.h"
#include "kernels/peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct format {
    const char *name;
    zn_dtype dtype;
    zn_mlx_form form;
} format;

static const format formats[] = {
    { "q4_0", ZN_Q4_0, { 0, 0 } },    { "q4_k", ZN_Q4_K, { 0, 0 } }, { "mlx4/32", ZN_F32, { 4, 32 } },
    { "mlx4/64", ZN_F32, { 4, 64 } }, { "q5_k", ZN_Q5_K, { 0, 0 } }, { "q6_k", ZN_Q6_K, { 0, 0 } },
    { "q8_0", ZN_Q8_0, { 0, 0 } },    { "bf16", ZN_BF16, { 0, 0 } }, { "f32", ZN_F32, { 0, 0 } },
};
static const int shapes[][3] = {
    { 1056, 3840, 3840 }, { 1056, 3840, 10240 }, { 1056, 10240, 3840 }, { 32, 2560, 9728 }
};
enum { FORMATS = sizeof formats / sizeof *formats, SHAPES = sizeof shapes / sizeof *shapes };

static double seconds = 0.5;

static double cpu_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Any codes do: their values do not change the speed, but a scale that is not finite might. */
static zn_packed weights(const format *f, int in, int out, uint8_t *data, uint8_t *scales)
{
    const size_t bits = (size_t)f->form.bits, block = zn_dtype_block(f->dtype), size = zn_dtype_size(f->dtype);
    const size_t row = bits ? (size_t)in * bits / 8 : (size_t)in / block * size;
    const size_t groups = bits ? (size_t)(in / f->form.group) : 0;
    return (zn_packed){ .data = data,
                        .row_bytes = row,
                        .dtype = f->dtype,
                        .form = f->form,
                        .scales = bits ? scales : NULL,
                        .biases = scales + groups * (size_t)out * 2,
                        .scale_dtype = ZN_F16,
                        .bias_dtype = ZN_F16,
                        .groups = groups };
}

/* GFLOP/s of some units at a time, in turn. */
static double rate(zn_body body, const void *args, int64_t units, double flops, void *scratch)
{
    const int64_t step = (units + 9) / 10;
    int64_t done = 0;
    body(args, (zn_range){ 0, step, scratch });
    const double start = cpu_time();
    double took;
    do {
        const int64_t begin = done % units / step * step, end = begin + step < units ? begin + step : units;
        body(args, (zn_range){ begin, end, scratch });
        done += end - begin;
        took = cpu_time() - start;
    } while (took < seconds);
    return flops * (double)done / (double)units / took * 1e-9;
}

typedef struct memory {
    float *x, *y;
    uint8_t *data, *scales;
    void *codes, *scratch;
} memory;

typedef struct peaks {
    double f32, i8, bf16; /* bf16: 0 without matrix instructions */
} peaks;

static void measure_bf16(const zn_packed *w, const int *z, const memory *m, double peak, uint32_t cpu)
{
    const zn_matrix_runs_args runs = { .x = m->x, .runs = m->codes, .rows = z[0], .in = z[1] };
    const zn_matrix_bf16_args a = { .x = m->codes, .w = *w, .y = m->y, .rows = z[0], .in = z[1], .out = z[2] };
    zn_k_matrix_runs(&runs, (zn_range){ 0, zn_matrix_panels(z[0]), NULL });
    const double quick = rate(zn_k_matrix_bf16, &a, zn_matrix_bf16_units(&a), 2.0 * z[0] * z[1] * z[2], m->scratch);
    printf("  %7.1f  %3.0f%%%s", quick, 100 * quick / peak, zn_matrix_bf16_pays(z[0], cpu) ? "" : "  not used");
}

static void measure(const format *f, const int *z, const memory *m, const peaks *most, uint32_t cpu)
{
    const double flops = 2.0 * z[0] * z[1] * z[2];
    const zn_matrix_args a = {
        .x = m->x, .w = weights(f, z[1], z[2], m->data, m->scales), .y = m->y, .rows = z[0], .in = z[1], .out = z[2]
    };
    const double plain = rate(zn_k_matrix, &a, zn_matrix_units(&a), flops, m->scratch);
    printf("%-8s %4d x %5d -> %5d  %7.1f  %3.0f%%", f->name, z[0], z[1], z[2], plain, 100 * plain / most->f32);
    if (zn_matrix_i8_bits(&a.w)) {
        const zn_matrix_i8_args b = {
            .x = zn_i8_rows_at(m->codes, z[0], z[1]), .w = a.w, .y = m->y, .rows = z[0], .in = z[1], .out = z[2]
        };
        const zn_matrix_codes_args c = { .x = m->x, .q = b.x, .in = z[1], .centred = zn_matrix_i8_centred(&a.w) };
        zn_k_matrix_codes(&c, (zn_range){ 0, z[0], NULL });
        const double quick = rate(zn_k_matrix_i8, &b, zn_matrix_i8_units(&b), flops, m->scratch);
        printf("  %7.1f  %3.0f%%  %5.2f%s", quick, 100 * quick / most->i8, quick / plain,
               zn_matrix_i8_pays(&a.w, z[0], cpu) ? "" : "  not used");
    } else
        printf("%22s", "");
    if (most->bf16 > 0)
        measure_bf16(&a.w, z, m, most->bf16, cpu);
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    enum { ROWS = 1056, WIDE = 10240, NARROW = 3840 };
    const size_t most = (size_t)NARROW * WIDE * sizeof(float);
    const uint32_t cpu = zn_cpu_flags();
    memory m = { zn_calloc(ROWS * WIDE, sizeof(float)),
                 zn_calloc(ROWS * WIDE, sizeof(float)),
                 zn_calloc(most, 1),
                 zn_calloc(most / 4, 1),
                 zn_calloc(zn_matrix_runs_bytes(ROWS, WIDE), 1),
                 zn_calloc(ZN_BF16_SCRATCH, 1) };
    seconds = argc > 1 ? atof(argv[1]) : seconds;
    if (!m.x || !m.y || !m.data || !m.scales || !m.codes || !m.scratch) {
        fprintf(stderr, "matrix: out of memory\n");
        return 1;
    }
    for (size_t i = 0; i < ROWS * WIDE; i++)
        m.x[i] = (float)(i * 2654435761u >> 16 & 255) / 128 - 1;
    for (size_t i = 0; i < most; i++)
        m.data[i] = (uint8_t)(i % 2 ? 0x3d : i * 2654435761u >> 13); /* every pair is a sound number in any format */
    for (size_t i = 0; i < most / 4; i++)
        m.scales[i] = i % 2 ? 0x2c : 0;
    const bool tiles = cpu & ZN_CPU_AMX_I8, dots = cpu & (ZN_CPU_AVX512VNNI | ZN_CPU_AVXVNNI | ZN_CPU_DOTPROD);
    const zn_peak loop = zn_peak_choose(ZN_PRECISION_F32, cpu), half = zn_peak_choose(ZN_PRECISION_BF16, cpu);
    const double peak = rate(loop.body, NULL, 10, 10 * loop.flops_per_unit, NULL);
    const peaks best = { peak,
                         peak * (tiles  ? 32
                                 : dots ? 4
                                        : 2),
                         cpu & (ZN_CPU_AMX_BF16 | ZN_CPU_BF16)
                             ? rate(half.body, NULL, 10, 10 * half.flops_per_unit, NULL)
                             : 0 };
    char text[128];
    zn_cpu_text(cpu, text, sizeof text);
    printf("%s; peak of fp32 %.0f GFLOP/s, of 8-bit integers %.0f GOP/s (%s)\n", text, peak, best.i8,
           tiles  ? "tiles: 32 times fp32"
           : dots ? "one instruction for four products"
                  : "two instructions for four products");
    if (best.bf16 > 0)
        printf("peak of bf16 %.0f GFLOP/s\n", best.bf16);
    printf("weights  rows   inputs outputs   fp32  of peak   int8  of peak  ratio%s\n",
           best.bf16 > 0 ? "     bf16  of peak" : "");
    for (int f = 0; f < FORMATS; f++)
        for (int s = 0; s < SHAPES && (argc < 3 || !strcmp(argv[2], formats[f].name)); s++)
            measure(&formats[f], shapes[s], &m, &best, cpu);
    return 0;
}
