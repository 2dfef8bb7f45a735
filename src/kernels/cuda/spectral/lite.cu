/* The passes of a Lite block: the grouped product and the transforms of other files, on maps that may be stored in
 * bands of columns. The bands are for the caches of CPUs; here they only change addresses. ref/spectral/lite.c is the
 * reference.
 */
#include "kernels/cuda/cuda.h"

#include "kernels/cuda/conv/grouped.h"
#include "kernels/cuda/spectral/spectral.h"

extern "C" {
#include "kernels/lite.h"
}

static zn_lite_args args_of(zn_device *d, const void *args)
{
    zn_lite_args a = *static_cast<const zn_lite_args *>(args);
    to_device(d, a.x);
    to_device(d, a.t);
    to_device(d, a.w);
    to_device(d, a.b);
    to_device(d, a.gate);
    to_device(d, a.y);
    return a;
}

static pixel_map plain_map(const zn_lite_args &a) { return { a.c, 0, a.h, a.wide }; }
static pixel_map band_map(const zn_lite_args &a) { return { a.ci, a.band, a.h, a.wide }; }

/* y = M(gate) x along rows: the lines of a map are the channels of one row. */
static void mix_rows(zn_device *d, const zn_lite_args &a, const float *x)
{
    spectral_task t = {};
    t.x = x;
    t.gate = a.gate;
    t.y = a.y;
    t.scale = 1 / (float)a.wide;
    t.outer = (int64_t)a.n * a.h;
    t.lanes = a.ci;
    t.lane = { 1, 0, 1 };
    t.map = { 1, 0, (int64_t)a.wide * a.ci };
    t.k = { 1, 0, a.ci };
    if (a.band) {
        t.map = { a.h, (int64_t)a.band * a.ci, a.wide / a.band * zn_lite_apart(&a) };
        t.k = { a.band, a.ci, zn_lite_apart(&a) };
    }
    zn_cuda_spectral_launch(d, t, a.wide, false);
}

/* The same along columns: the lines are all channels of all columns. */
static void mix_columns(zn_device *d, const zn_lite_args &a, const float *x)
{
    const int64_t row = (int64_t)a.wide * a.ci;
    spectral_task t = {};
    t.x = x;
    t.gate = a.gate;
    t.y = a.y;
    t.scale = 1 / (float)a.h;
    t.outer = a.n;
    t.lanes = row;
    t.lane = { 1, 0, 1 };
    t.map = { 1, 0, a.h * row };
    t.k = { 1, 0, row };
    if (a.band) {
        t.lane = { a.band * a.ci, 1, zn_lite_apart(&a) };
        t.map = { 1, 0, a.wide / a.band * zn_lite_apart(&a) };
        t.k = { 1, 0, (int64_t)a.band * a.ci };
        t.end = (int64_t)a.band * a.ci;
    }
    zn_cuda_spectral_launch(d, t, a.h, false);
}

extern "C" {
void zn_cuda_lite_rows(zn_device *d, const void *args, int64_t)
{
    const zn_lite_args a = args_of(d, args);
    grouped_task t = {};
    t.k = { a.w, a.b, a.groups, a.c / a.groups, a.ci / a.groups, false, false };
    t.x = a.x;
    t.y = a.y;
    t.in = plain_map(a);
    t.out = band_map(a);
    t.pixels = (int64_t)a.n * a.h * a.wide;
    zn_cuda_grouped_launch(d, t);
    mix_rows(d, a, a.y);
}

void zn_cuda_lite_columns(zn_device *d, const void *args, int64_t)
{
    const zn_lite_args a = args_of(d, args);
    mix_columns(d, a, a.t);
}

void zn_cuda_lite_expand(zn_device *d, const void *args, int64_t)
{
    const zn_lite_args a = args_of(d, args);
    grouped_task t = {};
    t.k = { a.w, a.b, a.groups, a.ci / a.groups, a.c / a.groups, false, false };
    t.x = a.t;
    t.residual = a.x;
    t.y = a.y;
    t.in = band_map(a);
    t.out = plain_map(a);
    t.pixels = (int64_t)a.n * a.h * a.wide;
    zn_cuda_grouped_launch(d, t);
}
}
