/* Rounds rows to bf16 and orders them by panels (kernels/matrix_bf16.h): a panel is converted piece by piece, and the
 * runs of a piece are transposed, those of two as if each were one number of four bytes. */
#include "base/least.h"
#include "kernels/matrix_bf16.h"
#include "kernels/narrow.h"
#include "kernels/simd/spectral/turn.h"

void ZN_KERNEL(matrix_runs)(const void *args, zn_range r);

enum { PIECE = ZN_PACKED_ROTATED, ROWS = ZN_BF16_PANEL, RUN = ZN_BF16_RUN };
_Static_assert((int)PIECE % (int)ZN_BF16_STEP == 0, "only the last piece is padded");

/* Elements [i,i+count) of row p. */
static void round_row(const zn_matrix_runs_args *a, int64_t p, int64_t i, int64_t count, uint16_t *to)
{
    float rotated[PIECE];
    const float *x = a->x + p * a->in + i;
    if (a->rotated) {
        memcpy(rotated, x, sizeof *x * (size_t)count);
        zn_packed_rotate(rotated, count, a->rotated);
        x = rotated;
    }
    zn_k_round(&(zn_round_args){ x, to }, (zn_range){ 0, count, NULL });
}

/* Orders `count` inputs of a panel. */
static void order(const uint16_t (*lines)[PIECE], int count, uint16_t *to)
{
#if defined __aarch64__
    for (int i = 0; i < count; i += RUN)
        for (int p = 0; p < ROWS; p++)
            memcpy(to + i * ROWS + p * RUN, lines[p] + i, sizeof *to * RUN);
#else
    turn((const float *)(const void *)lines, PIECE / RUN, ROWS, count / RUN, (float *)(void *)to, ROWS);
#endif
}

static void panel(const zn_matrix_runs_args *a, int64_t first)
{
    const int64_t padded = zn_matrix_padded(a->in);
    uint16_t *to = a->runs + first * padded;
    uint16_t lines[ROWS][PIECE];
    for (int64_t i = 0; i < padded; i += PIECE) {
        const int64_t count = zn_least(PIECE, a->in - i), all = zn_least(PIECE, padded - i);
        for (int64_t p = 0; p < ROWS; p++) {
            const int64_t there = first + p < a->rows ? count : 0;
            if (there)
                round_row(a, first + p, i, there, lines[p]);
            memset(lines[p] + there, 0, sizeof **lines * (size_t)(all - there));
        }
        order((const uint16_t(*)[PIECE])lines, (int)all, to + i * ROWS);
    }
}

void ZN_KERNEL(matrix_runs)(const void *args, zn_range r)
{
    for (int64_t p = r.begin; p < r.end; p++)
        panel(args, p * ROWS);
}
