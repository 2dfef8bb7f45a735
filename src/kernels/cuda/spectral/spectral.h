/* Transforms along an axis of a map, which the Lite block uses too. Included only by .cu files, after cuda.h. */
#ifndef ZN_CUDA_SPECTRAL_H
#define ZN_CUDA_SPECTRAL_H

#include "kernels/cuda/spectral/transform.h"

/* Offset of index i: blocks of `fold` indices `far` floats apart, inside a block `near` floats apart. */
struct folded {
    int fold;
    int64_t near, far;
    __device__ int64_t at(int64_t i) const { return fold == 1 ? i * far : i / fold * far + i % fold * near; }
};

/* y = scale H (gate .* H x), or scale H x without a gate, for `outer` maps of `lanes` lines of n values. */
struct spectral_task {
    const float *x, *gate;
    float *y; /* may be x */
    float scale;
    int64_t outer, lanes; /* maps, and lines of a map */
    folded map, lane, k;  /* offsets of the maps, of the lines of a map, and of the values of a line */
    int64_t end;          /* if not 0: writes a 0 so many floats after the last value of each line */
    int64_t chunks;       /* tiles per map; the launch sets it and the tile */
    tile_of_lines tile;
};

/* All addresses are device addresses. `along`: the values of a line are neighbours in memory, not the lines. */
void zn_cuda_spectral_launch(zn_device *d, spectral_task t, int64_t n, bool along);

#endif
