/* Reorders video frames, and makes channels of them; ref/basic/frames.c is the reference. The list of frames is in the
 * settings of a node, which a device does not see, so it travels with the launch. */
#include "kernels/cuda/cuda.h"
#include "kernels/cuda/rows.h"

extern "C" {
#include "kernels/frames.h"
}

enum { LISTED = 512 }; /* frames per launch; longer lists take several */

/* Frames [begin, begin + listed) of the result. */
struct frame_list {
    zn_frames_args a;
    int begin, listed;
    int32_t from[LISTED];
};

/* Rows are frames of the result, columns are floats. */
struct reordered {
    frame_list l;
    int64_t rows, columns;
    template <int N> __device__ void at(int64_t t, int64_t i) const
    {
        const int64_t from = l.from[t], f = from - l.a.first, to = (l.begin + t) * l.a.size + i;
        if (from < 0 && l.a.clear)
            store(l.a.y + to, 0, floats<N>{});
        else if (f >= 0 && f < l.a.count)
            store(l.a.y + to, 0, load<N>(l.a.x + f * l.a.size + i, 0));
    }
};

/* Rows are frames of the source. */
struct reordered_back {
    frame_list l;
    int64_t rows, columns;
    template <int N> __device__ void at(int64_t f, int64_t i) const
    {
        floats<N> sum = {};
        if (l.begin > 0)
            sum = load<N>(l.a.y + f * l.a.size + i, 0);
        for (int t = 0; t < l.listed; t++)
            if (l.from[t] == l.a.first + f) {
                const floats<N> dy = load<N>(l.a.x + (l.begin + t) * l.a.size + i, 0);
                for (int k = 0; k < N; k++)
                    sum.v[k] += dy.v[k];
            }
        store(l.a.y + f * l.a.size + i, 0, sum);
    }
};

/* Frames from t on that follow each other in the source as well, or that all are zero, or of other sources. */
static int run_from(const zn_frames_args &a, int t)
{
    const auto kind = [&](int i) {
        const int f = a.from[i];
        return f < 0 ? 0 : f < a.first || f >= a.first + a.count ? 1 : 2;
    };
    int end = t + 1;
    while (end < a.frames && kind(end) == kind(t) && (kind(t) < 2 || a.from[end] == a.from[end - 1] + 1))
        end++;
    return end - t;
}

/* Tokens of pictures are thousands of small frames in a few runs: each run is one frame of a launch. Returns false if
 * there are many. */
static bool launch_runs(zn_device *d, const zn_frames_args &all)
{
    enum { MOST_RUNS = 4 };
    int runs = 0;
    for (int t = 0; t < all.frames; t += run_from(all, t))
        if (++runs > MOST_RUNS)
            return false;
    for (int t = 0, length; t < all.frames; t += length) {
        length = run_from(all, t);
        const int from = all.from[t];
        frame_list l = { all, 0, 1, { from < 0 ? -1 : 0 } };
        const int64_t f = from - all.first;
        if (from < 0 ? !all.clear : f < 0 || f >= all.count)
            continue;
        l.a.x += from < 0 ? 0 : f * all.size;
        l.a.y += t * all.size;
        l.a.size = length * all.size;
        l.a.from = nullptr;
        l.a.first = 0;
        l.a.count = 1;
        to_device(d, l.a.x);
        to_device(d, l.a.y);
        launch_rows(d, reordered{ l, 1, l.a.size }, is_aligned(l.a.x) && is_aligned(l.a.y));
    }
    return true;
}

template <typename F> static void launch_lists(zn_device *d, const void *args, bool back)
{
    frame_list l = { *static_cast<const zn_frames_args *>(args), 0, 0, {} };
    const int32_t *from = l.a.from;
    l.a.from = nullptr;
    to_device(d, l.a.x);
    to_device(d, l.a.y);
    for (l.begin = 0; l.begin < l.a.frames; l.begin += LISTED) {
        l.listed = l.a.frames - l.begin < LISTED ? l.a.frames - l.begin : LISTED;
        for (int t = 0; t < l.listed; t++)
            l.from[t] = from[l.begin + t];
        launch_rows(d, F{ l, back ? l.a.count : l.listed, l.a.size }, is_aligned(l.a.x) && is_aligned(l.a.y));
    }
}

/* Rows are pixels of all frames, columns are channels of the result. */
struct stacked {
    zn_stack_args a;
    int64_t rows;
    int columns;
    __device__ float number(int64_t row, int age, int channel) const
    {
        const int64_t frame = quotient(row, a.pixels) - age, at = row - age * a.pixels;
        if (frame >= 0)
            return a.x[at * a.c + channel];
        return a.before ? a.before[(at + (a.depth - 1) * a.pixels) * a.c + channel] : 0;
    }
    template <int N> __device__ void at(int64_t row, int64_t column) const
    {
        const int each = a.depth * a.c;
        floats<N> y = {};
#pragma unroll
        for (int i = 0; i < N; i++) {
            const int k = (int)column + i, place = k % each;
            if (k >= 3 * each)
                continue;
            const float x = number(row, place / a.c, place % a.c), high = rounded(x);
            y.v[i] = k / each == 1 ? x - high : high;
        }
        store_as<N>(a.y, (row * columns + column) / N, a.type, y);
    }
    __device__ float rounded(float x) const
    {
        return a.type == ZN_TYPE_F16 ? f16_pair::low(f16_pair::of(x, 0)) : bf16_pair::low(bf16_pair::of(x, 0));
    }
};

extern "C" {
void zn_cuda_stack_frames(zn_device *d, const void *args, int64_t)
{
    zn_stack_args a = *static_cast<const zn_stack_args *>(args);
    to_device(d, a.x);
    to_device(d, a.before);
    to_device(d, a.y);
    launch_rows(d, stacked{ a, a.frames * a.pixels, ZN_STACKED }, is_aligned(a.y));
}
void zn_cuda_frames(zn_device *d, const void *args, int64_t)
{
    if (!launch_runs(d, *static_cast<const zn_frames_args *>(args)))
        launch_lists<reordered>(d, args, false);
}
void zn_cuda_frames_grad(zn_device *d, const void *args, int64_t) { launch_lists<reordered_back>(d, args, true); }
}
