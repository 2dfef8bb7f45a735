/* Gradient of the spectral half of a Prune block, and SRIG by itself: a thread block takes one pixel after the other.
 * Each step writes a line of channels to scratch (zn_line_args.lines), which the caches hold. Parameter gradients are
 * added to the block's partial sums by the thread that has the channel. ref/spectral/line.c and ref/prune/gates.c are
 * the reference.
 */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/spectral/srig.h"
#include "kernels/cuda/spectral/transform.h"

extern "C" {
#include "kernels/gates.h"
#include "kernels/line.h"
#include "kernels/mix.h"
}

struct grad_task {
    zn_line_args a;
    int64_t all, size;  /* pixels of all images, and of one block */
    tile_of_lines tile; /* one line */
};

/* The scratch lines of a thread block, each of c floats. */
struct lines_of {
    float *dm, *u, *t, *dt, *du;
    float *est[SRIG_ROUNDS], *dest, *next, *dd, *dr; /* SRIG */
};

static __device__ lines_of lines_at(float *memory, int c)
{
    lines_of l;
    float **all[] = {
        &l.dm, &l.u, &l.t, &l.dt, &l.du, &l.est[0], &l.est[1], &l.est[2], &l.dest, &l.next, &l.dd, &l.dr
    };
    static_assert(sizeof all / sizeof *all == ZN_LINE_GPU_LINES && ZN_LINE_GPU_LINES == (int)ZN_SRIG_GPU_LINES,
                  "the ops make room for all lines");
    for (int i = 0; i < ZN_LINE_GPU_LINES; i++)
        *all[i] = memory + (int64_t)i * c;
    return l;
}

/* Calls f(k) for every channel, then waits for all threads. A channel is always handled by the same thread. */
template <typename F> static __device__ void for_line(int c, F f)
{
    for (int k = (int)threadIdx.x; k < c; k += THREADS)
        f(k);
    __syncthreads();
}

/* to = unit H from; from(k) gives the values. */
template <typename From>
static __device__ void transform_line(const tile_of_lines &tile, float unit, From from, float *to)
{
    extern __shared__ __align__(16) float zn_cuda_shared[];
    for_line(tile.n, [&](int k) { zn_cuda_shared[tile.at(k, 0)] = from(k); });
    transform_shared(tile, zn_cuda_shared);
    for_line(tile.n, [&](int k) { to[k] = zn_cuda_shared[tile.at(k, 0)] * unit; });
}

/* ---- SRIG ---- */

static __device__ srig_window window_of(const float *est, int k, int c, const float *w, const float *b)
{
    float around[SRIG_TAPS];
    for (int j = 0; j < SRIG_TAPS; j++) {
        const int q = k + j - SRIG_REACH;
        around[j] = q >= 0 && q < c ? est[q] : 0;
    }
    return srig_look(around, w + SRIG_TAPS * k, b[k]);
}

/* The estimates of all rounds, and to = u G. */
static __device__ void srig_forward(const float *w, const float *b, int c, const lines_of &l, float *to)
{
    for_line(c, [&](int k) { l.est[0][k] = fabsf(l.u[k]); });
    for (int round = 0; round < SRIG_ROUNDS; round++)
        for_line(c, [&](int k) {
            const float g = window_of(l.est[round], k, c, w, b).g;
            if (round + 1 < SRIG_ROUNDS)
                l.est[round + 1][k] = l.est[0][k] * g;
            else
                to[k] = l.u[k] * g;
        });
}

/* Where the gradients of the taps are summed: floats from tap to tap and from channel to channel; those of b follow.
 * taps may be NULL. */
struct srig_sums {
    float *taps;
    int tap, channel;
};

/* One round for one channel: the gradient dg of its gate gives those of the parameters, and what its window gets. */
static __device__ void srig_back(const float *w, const float *b, int c, const lines_of &l, int round, int k, float dg,
                                 const srig_sums &sums)
{
    const srig_window f = window_of(l.est[round], k, c, w, b);
    l.dd[k] = l.dr[k] = 0;
    if (f.act <= 0)
        return;
    const float dact = dg * f.g * (1 - f.g), den = f.r * f.nw + 1e-6f;
    const float dcos = dact * f.gain, dgain = dact * f.cosine, dd = dcos / den;
    const float dr = dgain * 0.5f / f.gain - dcos * f.d * f.nw / (den * den), dnw = -dcos * f.d * f.r / (den * den);
    l.dd[k] = dd;
    l.dr[k] = dr / (5 * f.r);
    if (!sums.taps)
        return;
    for (int j = 0; j < SRIG_TAPS; j++) {
        const int q = k + j - SRIG_REACH;
        sums.taps[j * sums.tap + k * sums.channel] +=
            dd * (q >= 0 && q < c ? l.est[round][q] : 0) + dnw * w[SRIG_TAPS * k + j] / f.nw;
    }
    sums.taps[SRIG_TAPS * c + k] += dact;
}

/* du from dy (in l.dt), and the gradients of the parameters. */
static __device__ void srig_backward(const float *w, const float *b, int c, const lines_of &l, const srig_sums &sums)
{
    for (int round = SRIG_ROUNDS - 1; round >= 0; round--) {
        const bool last = round == SRIG_ROUNDS - 1;
        for_line(c, [&](int k) {
            const float down = last ? 0 : l.next[k];
            l.dest[k] = last ? 0 : l.dest[k] + down * window_of(l.est[round], k, c, w, b).g;
            srig_back(w, b, c, l, round, k, last ? l.dt[k] * l.u[k] : down * l.est[0][k], sums);
        });
        for_line(c, [&](int k) {
            float sum = 0;
            for (int from = k - SRIG_REACH; from <= k + SRIG_REACH; from++)
                if (from >= 0 && from < c)
                    sum += l.dd[from] * w[SRIG_TAPS * from + k - from + SRIG_REACH] + l.dr[from] * l.est[round][k];
            l.next[k] = sum;
        });
    }
    for_line(c, [&](int k) {
        const float g = window_of(l.est[SRIG_ROUNDS - 1], k, c, w, b).g, u = l.u[k];
        l.du[k] = l.dt[k] * g + (l.dest[k] + l.next[k]) * (u > 0 ? 1.0f : u < 0 ? -1.0f : 0.0f);
    });
}

/* ---- the other steps of a pixel ---- */

static __device__ void nonlinear(const zn_line_args &a, const lines_of &l)
{
    if (a.kind == ZN_LINE_SRIG)
        srig_forward(a.w, a.b, a.c, l, l.t);
    else
        for_line(a.c, [&](int k) {
            const float u = l.u[k], size = a.kind == ZN_LINE_THRESHOLD ? fabsf(u) - fabsf(a.w[k]) : fabsf(u);
            l.t[k] = size > 0 ? copysignf(size, u) : size <= 0 ? 0 : size;
        });
}

static __device__ float sign_of(float v) { return v > 0 ? 1.0f : v < 0 ? -1.0f : 0.0f; }

static __device__ void nonlinear_grad(const zn_line_args &a, const lines_of &l, float *rows)
{
    if (a.kind == ZN_LINE_SRIG)
        srig_backward(a.w, a.b, a.c, l, srig_sums{ rows, a.c, 1 });
    else
        for_line(a.c, [&](int k) {
            const bool limited = a.kind == ZN_LINE_THRESHOLD, open = !limited || fabsf(l.u[k]) > fabsf(a.w[k]);
            l.du[k] = open ? l.dt[k] : 0;
            if (limited && open)
                rows[k] -= sign_of(l.u[k]) * sign_of(a.w[k]) * l.dt[k];
        });
}

/* The gradient of z for channel k of pixel p. */
static __device__ float begin(const zn_line_args &a, int64_t p, int k)
{
    const float dy = a.dy[p * a.c + k];
    if (!a.gamma)
        return dy;
    const float *s = a.stats + 4 * (p / a.pixels * a.groups + k / (a.c / a.groups));
    const float r = a.r[p * a.c + k], xh = (r - s[0]) * s[1];
    return r > 0 ? (dy * a.gamma[k] - s[2] - xh * s[3]) * s[1] : 0;
}

static __device__ void pixel_grad(const grad_task &t, int64_t p, const lines_of &l, float *rows)
{
    const zn_line_args &a = t.a;
    const int c = a.c;
    const float *left = a.mixer, *centre = left + c, *right = centre + c;
    transform_line(
        t.tile, a.unit, [&](int k) { return begin(a, p, k); }, l.dm);
    transform_line(
        t.tile, a.unit, [&](int k) { return a.e[p * c + k]; }, l.u);
    nonlinear(a, l);
    for_line(c, [&](int k) {
        const float dm = l.dm[k], own = l.t[k];
        const float ds =
            centre[k] * dm + (k + 1 < c ? left[k + 1] * l.dm[k + 1] : 0) + (k ? right[k - 1] * l.dm[k - 1] : 0);
        rows[k] += ds * own;
        rows[c + k] += k ? dm * a.scale[k - 1] * l.t[k - 1] : 0;
        rows[2 * c + k] += dm * a.scale[k] * own;
        rows[3 * c + k] += k + 1 < c ? dm * a.scale[k + 1] * l.t[k + 1] : 0;
        l.dt[k] = ds * a.scale[k];
    });
    nonlinear_grad(a, l, rows + 4 * (int64_t)c);
    transform_line(
        t.tile, a.unit, [&](int k) { return l.du[k]; }, a.y + p * c);
}

__global__ void __launch_bounds__(THREADS, 2) line_grad(grad_task t)
{
    const zn_line_args &a = t.a;
    const int count = (a.kind == ZN_LINE_SRIG ? 10 : a.kind == ZN_LINE_THRESHOLD ? 5 : 4);
    const int64_t begin = (int64_t)blockIdx.x * t.size, end = begin + t.size < t.all ? begin + t.size : t.all;
    float *rows = a.partial + (int64_t)blockIdx.x * count * a.c;
    const lines_of l = lines_at(a.lines + (int64_t)blockIdx.x * ZN_LINE_GPU_LINES * a.c, a.c);
    for (int row = 0; row < count; row++)
        for_line(a.c, [&](int k) { rows[row * a.c + k] = 0; });
    for (int64_t p = begin; p < end; p++)
        if (a.gamma && a.pruned[p] != 0) /* z = 0, and no gradient passes the ReLU */
            for_line(a.c, [&](int k) { a.y[p * a.c + k] = 0; });
        else
            pixel_grad(t, p, l, rows);
}

/* ---- SRIG by itself ---- */

struct srig_task {
    zn_srig_args a;
    int64_t pixels, size; /* all pixels, and those of one block */
};

enum srig_kind { SRIG_FORWARD, SRIG_GRAD, SRIG_PARAM_GRAD };

template <srig_kind KIND> __global__ void __launch_bounds__(THREADS, 2) srig(srig_task t)
{
    const zn_srig_args &a = t.a;
    const int64_t begin = (int64_t)blockIdx.x * t.size, end = begin + t.size < t.pixels ? begin + t.size : t.pixels;
    const lines_of l = lines_at(a.lines + (int64_t)blockIdx.x * ZN_SRIG_GPU_LINES * a.c, a.c);
    const srig_sums sums = { KIND == SRIG_PARAM_GRAD ? a.partial + (int64_t)blockIdx.x * (SRIG_TAPS + 1) * a.c : NULL,
                             1, SRIG_TAPS };
    for (int i = 0; i <= SRIG_TAPS && sums.taps; i++)
        for_line(a.c, [&](int k) { sums.taps[i * a.c + k] = 0; });
    for (int64_t p = begin; p < end; p++) {
        for_line(a.c, [&](int k) {
            l.u[k] = a.u[p * a.c + k];
            l.dt[k] = KIND == SRIG_FORWARD ? 0 : a.dy[p * a.c + k];
        });
        srig_forward(a.w, a.b, a.c, l, KIND == SRIG_FORWARD ? a.y + p * a.c : l.t);
        if (KIND != SRIG_FORWARD)
            srig_backward(a.w, a.b, a.c, l, sums);
        if (KIND == SRIG_GRAD)
            for_line(a.c, [&](int k) { a.y[p * a.c + k] = l.du[k]; });
    }
}

template <srig_kind KIND> static void launch_srig(zn_device *d, const void *args, int64_t pixels, int64_t size)
{
    srig_task t = { *static_cast<const zn_srig_args *>(args), pixels, size };
    to_device(d, t.a.u);
    to_device(d, t.a.w);
    to_device(d, t.a.b);
    to_device(d, t.a.dy);
    to_device(d, t.a.y);
    to_device(d, t.a.partial);
    to_device(d, t.a.lines);
    launch(d, srig<KIND>, dim3((unsigned)((pixels + size - 1) / size)), THREADS, 0, t);
}

/* Pixels of one of the blocks that have scratch. */
static int64_t srig_size(int64_t pixels) { return (pixels + ZN_SRIG_GPU_BLOCKS - 1) / ZN_SRIG_GPU_BLOCKS; }

extern "C" void zn_cuda_srig(zn_device *d, const void *args, int64_t pixels)
{
    launch_srig<SRIG_FORWARD>(d, args, pixels, srig_size(pixels));
}

extern "C" void zn_cuda_srig_grad(zn_device *d, const void *args, int64_t pixels)
{
    launch_srig<SRIG_GRAD>(d, args, pixels, srig_size(pixels));
}

extern "C" void zn_cuda_srig_param_grad(zn_device *d, const void *args, int64_t)
{
    launch_srig<SRIG_PARAM_GRAD>(d, args, static_cast<const zn_srig_args *>(args)->pixels, ZN_MIX_BLOCK);
}

extern "C" void zn_cuda_line_grad(zn_device *d, const void *args, int64_t blocks)
{
    grad_task t = {};
    t.a = *static_cast<const zn_line_args *>(args);
    t.all = t.a.n * t.a.pixels;
    t.size = blocks == zn_line_blocks(t.all) ? zn_line_block(t.all) : (t.all + blocks - 1) / blocks;
    t.tile = tile_of(t.a.c, 1, true);
    const float **inputs[] = { &t.a.e, &t.a.scale, &t.a.mixer, &t.a.w, &t.a.b, &t.a.gamma, &t.a.dy };
    float **others[] = { &t.a.y, &t.a.r, &t.a.pruned, &t.a.stats, &t.a.partial, &t.a.lines };
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        to_device(d, *inputs[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        to_device(d, *others[i]);
    launch(d, line_grad, dim3((unsigned)blocks), THREADS, sizeof(float) * (size_t)t.tile.floats(), t);
}
