/* The product in bf16, scalar, with sums in double. */
#include "kernels/matrix_bf16.h"

#include "base/convert.h"
#include "base/cpu.h"
#include "base/least.h"

#include <string.h>

void zn_ref_matrix_runs(const void *matrix_runs_args, zn_range panels);
void zn_ref_matrix_bf16(const void *matrix_bf16_args, zn_range units);

static bool has_tiles(uint32_t cpu) { return cpu & ZN_CPU_AMX_BF16 && cpu & ZN_CPU_AVX512BF16; }

bool zn_matrix_bf16_pays(int64_t rows, uint32_t cpu)
{
    enum { FEW_ROWS = 64 }; /* unpacking takes most of the time, and tiles have 32 rows */
    return rows >= FEW_ROWS && (has_tiles(cpu) || cpu & ZN_CPU_BF16) && !(cpu & ZN_CPU_CUDA);
}

/* SMMLA does twice the products of BFMMLA in an instruction, but its sums are scaled for every 32 inputs. */
bool zn_matrix_bf16_beats_i8(uint32_t cpu) { return has_tiles(cpu) || cpu & ZN_CPU_BF16; }

/* Where element i of row p is. */
static int64_t run_at(int64_t p, int64_t i, int in)
{
    enum { RUN = ZN_BF16_RUN };
    const int64_t panel = p / ZN_BF16_PANEL, row = p % ZN_BF16_PANEL;
    return ((panel * zn_matrix_padded(in) / RUN + i / RUN) * ZN_BF16_PANEL + row) * RUN + i % RUN;
}

void zn_ref_matrix_runs(const void *args, zn_range r)
{
    const zn_matrix_runs_args *a = args;
    float x[ZN_PACKED_ROTATED];
    for (int64_t p = r.begin * ZN_BF16_PANEL; p < r.end * ZN_BF16_PANEL; p++)
        for (int64_t i = 0; i < zn_matrix_padded(a->in); i++) {
            const int64_t within = i % ZN_PACKED_ROTATED;
            if (within == 0) {
                const int64_t count = p < a->rows ? zn_least(ZN_PACKED_ROTATED, a->in - i) : 0;
                memset(x, 0, sizeof x);
                memcpy(x, a->x + p * a->in + i, sizeof *x * (size_t)count);
                zn_packed_rotate(x, count, a->rotated);
            }
            a->runs[run_at(p, i, a->in)] = zn_f32_to_bf16(x[within]);
        }
}

/* One element of the result; w: scratch for some of its weights. */
static float element(const zn_matrix_bf16_args *a, int64_t p, int64_t j, float *w)
{
    zn_packed stored = a->w;
    double sum = 0;
    stored.rotated = 0; /* x is rotated instead */
    for (int64_t i = 0; i < a->in; i++) {
        if (i % ZN_BF16_DEPTH == 0)
            zn_packed_row(&stored, j, i, zn_least(ZN_BF16_DEPTH, a->in - i), w);
        const float rounded = zn_bf16_to_f32(zn_f32_to_bf16(w[i % ZN_BF16_DEPTH]));
        sum += (double)zn_bf16_to_f32(a->x[run_at(p, i, a->in)]) * (double)rounded;
    }
    return (float)sum;
}

void zn_ref_matrix_bf16(const void *args, zn_range r)
{
    const zn_matrix_bf16_args *a = args;
    const int64_t strips = zn_matrix_bf16_strips(a);
    for (int64_t u = r.begin; u < r.end; u++) {
        const int64_t first = u / strips * ZN_BF16_ROWS, begin = u % strips * ZN_BF16_STRIP;
        for (int64_t p = first; p < zn_least(first + ZN_BF16_ROWS, a->rows); p++)
            for (int64_t j = begin; j < zn_least(begin + ZN_BF16_STRIP, a->out); j++)
                a->y[p * a->out + j] = element(a, p, j, r.scratch);
    }
}
