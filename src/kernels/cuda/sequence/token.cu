/* Tokens of transformers: rotary position embeddings, and rows of a table by index. ref/sequence/rope.c and
 * ref/sequence/lookup.c are the reference. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/rows.h"

extern "C" {
#include "kernels/lookup.h"
#include "kernels/rope.h"
}

/* ---- rope: rows are heads of tokens, columns are pairs ---- */

struct rotated {
    zn_rope_args a;
    int64_t rows;
    int columns;
    template <int N> __device__ void at(int64_t head, int64_t i) const
    {
        const int64_t angle = quotient(head, a.heads) % a.period * a.pairs + i,
                      first = head * 2 * a.pairs + (a.halves ? i : 2 * i);
        const int64_t apart = a.halves ? a.pairs : N;
        const floats<N> c = load<N>(a.cos + angle, 0), s = load<N>(a.sin + angle, 0);
        floats<N> x[2] = { load_as<N>(a.x, first / N, a.type), load_as<N>(a.x, (first + apart) / N, a.type) };
        for (int k = 0; k < N; k++) {
            /* neighbours: pair k is floats 2k and 2k + 1 of both vectors together */
            float &u = a.halves ? x[0].v[k] : x[2 * k / N].v[2 * k % N];
            float &v = a.halves ? x[1].v[k] : x[(2 * k + 1) / N].v[(2 * k + 1) % N];
            const float turn = a.back ? -s.v[k] : s.v[k], old = u;
            u = old * c.v[k] - v * turn;
            v = v * c.v[k] + old * turn;
        }
        store_as<N>(a.y, first / N, a.type, x[0]);
        store_as<N>(a.y, (first + apart) / N, a.type, x[1]);
    }
};

/* ---- lookup ---- */

static __device__ int64_t row_of(const zn_lookup_args &a, int64_t i)
{
    return a.ids[i] >= 0 && a.ids[i] < (float)a.rows ? (int64_t)a.ids[i] : -1;
}

struct looked_up {
    zn_lookup_args a;
    const float *table;
    int64_t rows;
    int columns;
    template <int N> __device__ void at(int64_t i, int64_t c) const
    {
        const int64_t row = row_of(a, i);
        floats<N> y = {};
        if (row >= 0)
            y = load<N>(table + row * a.c + c, 0);
        store(a.y + i * a.c + c, 0, y);
    }
};

/* One thread block per row of the table. It looks at THREADS ids at a time and adds the gradients of those that have
 * this row in their order; threads are channels. */
__global__ void lookup_grad(task<zn_lookup_args> t)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    const zn_lookup_args &a = t.a;
    const int64_t row = blockIdx.x;
    float *is_mine = zn_cuda_shared, *any = is_mine + THREADS;
    for (int64_t c = threadIdx.x; c < a.c; c += THREADS)
        a.y[row * a.c + c] = 0;
    for (int64_t first = 0; first < a.count; first += THREADS) {
        const int64_t i = first + threadIdx.x;
        if (threadIdx.x == 0)
            *any = 0;
        __syncthreads();
        is_mine[threadIdx.x] = i < a.count && row_of(a, i) == row ? 1 : 0;
        if (is_mine[threadIdx.x] > 0)
            *any = 1;
        __syncthreads();
        for (int64_t c = threadIdx.x; *any > 0 && c < a.c; c += THREADS)
            for (int k = 0; k < THREADS; k++)
                if (is_mine[k] > 0)
                    a.y[row * a.c + c] += a.dy[(first + k) * a.c + c];
        __syncthreads(); /* all have read which are mine */
    }
}

extern "C" {
void zn_cuda_rope(zn_device *d, const void *args, int64_t tokens)
{
    zn_rope_args a = *static_cast<const zn_rope_args *>(args);
    to_device(d, a.x);
    to_device(d, a.cos);
    to_device(d, a.sin);
    to_device(d, a.y);
    launch_rows(d, rotated{ a, tokens * a.heads, a.pairs },
                is_aligned(a.x) && is_aligned(a.cos) && is_aligned(a.sin) && is_aligned(a.y));
}

/* Of a table of floats; the op asks for no other. */
void zn_cuda_lookup(zn_device *d, const void *args, int64_t ids)
{
    zn_lookup_args a = *static_cast<const zn_lookup_args *>(args);
    const float *table = reinterpret_cast<const float *>(a.table.data);
    to_device(d, table);
    to_device(d, a.ids);
    to_device(d, a.y);
    launch_rows(d, looked_up{ a, table, ids, a.c }, is_aligned(table) && is_aligned(a.y));
}

void zn_cuda_lookup_grad(zn_device *d, const void *args, int64_t)
{
    task<zn_lookup_args> t = { *static_cast<const zn_lookup_args *>(args), 0 };
    to_device(d, t.a.ids);
    to_device(d, t.a.dy);
    to_device(d, t.a.y);
    launch(d, lookup_grad, dim3((unsigned)t.a.rows), THREADS, (THREADS + 1) * sizeof(float), t);
}
}
