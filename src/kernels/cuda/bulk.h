/* Copies of whole tiles of a map of 16-bit numbers or of codes into lines of shared memory (wgmma.h) by the copy engine
 * of Hopper GPUs: one thread starts them, and a barrier counts the bytes. Included only by .cu files; not emulated. */
#ifndef ZN_CUDA_BULK_H
#define ZN_CUDA_BULK_H

#include "kernels/cuda/wgmma.h"
#include "kernels/type.h"

#include <cuda.h>

/* Describes to the copy engine numbers [size 3][size 2][size 1][size 0] with `apart` numbers between neighbours of the
 * upper three indices, of which tiles of [high][wide][64] are copied; of codes [high][wide][128]. What lies outside is
 * zero. Returns false if the address or a size does not allow it. The driver's function is asked for by name, so that
 * no program needs the driver to start. */
static inline bool bulk_describe(CUtensorMap *map, const void *x, zn_type type, const int64_t size[4],
                                 const int64_t apart[3], int high, int wide)
{
    typedef CUresult (*encoder)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                                const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                                CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    static encoder encode;
    cudaDriverEntryPointQueryResult found;
    void *address = nullptr;
    if (!encode &&
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &address, 12000, cudaEnableDefault, &found) ==
            cudaSuccess &&
        found == cudaDriverEntryPointSuccess)
        encode = reinterpret_cast<encoder>(address);
    const int64_t each = (int64_t)zn_type_size(type);
    if (!encode || type == ZN_TYPE_F32 || (apart[0] | apart[1] | apart[2]) * each % 16 != 0 || (uintptr_t)x % 16 != 0)
        return false;
    const cuuint64_t sizes[] = { (cuuint64_t)size[0], (cuuint64_t)size[1], (cuuint64_t)size[2], (cuuint64_t)size[3] };
    const cuuint64_t bytes[] = { (cuuint64_t)(each * apart[0]), (cuuint64_t)(each * apart[1]),
                                 (cuuint64_t)(each * apart[2]) };
    const cuuint32_t box[] = { (cuuint32_t)(128 / each), (cuuint32_t)wide, (cuuint32_t)high, 1 },
                     step[] = { 1, 1, 1, 1 };
    const CUtensorMapDataType data = type == ZN_TYPE_E4M3   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                                     : type == ZN_TYPE_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                            : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    return encode(map, data, 4, const_cast<void *>(x), sizes, bytes, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                  CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* The same for a map [n][h][w][c], of which tiles of `high` x `wide` pixels by 64 channels are copied. */
static inline bool bulk_map(CUtensorMap *map, const void *x, zn_type type, int64_t n, int64_t h, int64_t w, int64_t c,
                            int high, int wide)
{
    const int64_t size[] = { c, w, h, n }, apart[] = { c, c * w, c * w * h };
    return bulk_describe(map, x, type, size, apart, high, wide);
}

/* Starts the copy of a tile from its first channel, column and row. */
static __device__ void bulk_copy(char *to, const CUtensorMap *map, int channel, int x, int y, int image, uint64_t *b)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
                 "%5}], [%6];\n" ::"r"(shared_address(to)),
                 "l"(map), "r"(channel), "r"(x), "r"(y), "r"(image), "r"(shared_address(b))
                 : "memory");
}

#endif
