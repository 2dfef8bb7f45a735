/* cuBLASLt, found with dlopen. It thinks in columns: our y[rows][columns] is its matrix of `columns` rows, the product
 * of the weights and the transposed x. */
#include "kernels/cuda/basic/blas.h"

#if defined(ZN_CUDA_EMULATED) || !__has_include(<cublasLt.h>)

bool zn_cuda_blas_product(zn_device *, const half_product &) { return false; }
bool zn_cuda_blas_is_there(zn_device *) { return false; }
const char *zn_cuda_blas_text(const zn_device *) { return ""; }
void zn_cuda_blas_close(zn_device *) {}

#else

#include <cublasLt.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "base/alloc.h"
}

/* ---- the library ---- */

#define FUNCTIONS(F)                                                                                                   \
    F(Create)                                                                                                          \
    F(Destroy)                                                                                                         \
    F(Matmul)                                                                                                          \
    F(MatmulAlgoGetHeuristic)                                                                                          \
    F(MatmulDescCreate)                                                                                                \
    F(MatmulDescDestroy)                                                                                               \
    F(MatmulDescSetAttribute)                                                                                          \
    F(MatrixLayoutCreate)                                                                                              \
    F(MatrixLayoutDestroy)                                                                                             \
    F(MatmulPreferenceCreate)                                                                                          \
    F(MatmulPreferenceDestroy)                                                                                         \
    F(MatmulPreferenceSetAttribute)

typedef struct functions {
#define F(name) decltype(&cublasLt##name) name;
    FUNCTIONS(F)
#undef F
} functions;

/* What a choice depends on; compared byte by byte. */
typedef struct shape {
    int64_t rows, depth, columns, x_stride, w_stride, y_stride;
    int32_t turned, x_turned, bias, residual, type, y_type;
    int32_t scaled, unused; /* no byte is left unset */
} shape;

/* How a product of one shape is computed. */
typedef struct choice {
    shape of;
    bool known; /* false: the library has no way */
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t w, x, y;
    cublasLtMatmulAlgo_t algorithm;
} choice;

struct zn_cuda_blas {
    void *library;
    functions call;
    cublasLtHandle_t handle;
    void *workspace;
    choice *choices;
    size_t count, capacity;
};

enum { WORKSPACE = 32 << 20, ALIGNED = 64 };

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define SONAME     "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR)

static void *find_library(void)
{
    static const char *const names[] = { SONAME, "/usr/local/cuda/lib64/" SONAME, "/usr/local/cuda/lib/" SONAME };
    void *library = nullptr;
    for (const char *name : names)
        library = library ? library : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    return library;
}

static bool find_functions(zn_cuda_blas *b)
{
    bool all = true;
#define F(name)                                                                                                        \
    b->call.name = reinterpret_cast<decltype(b->call.name)>(dlsym(b->library, "cublasLt" #name));                      \
    all &= b->call.name != nullptr;
    FUNCTIONS(F)
#undef F
    return all;
}

static void close_blas(zn_cuda_blas *b)
{
    for (size_t i = 0; i < b->count; i++) {
        const choice *c = &b->choices[i];
        const cublasLtMatrixLayout_t layouts[] = { c->w, c->x, c->y };
        for (cublasLtMatrixLayout_t layout : layouts)
            if (layout)
                b->call.MatrixLayoutDestroy(layout);
        if (c->how)
            b->call.MatmulDescDestroy(c->how);
    }
    if (b->handle)
        b->call.Destroy(b->handle);
    cudaFree(b->workspace);
    zn_free(b->choices);
    zn_free(b);
}

/* The library stays loaded until the program ends: it may have started threads. */
static zn_cuda_blas *open_blas(void)
{
    zn_cuda_blas *b = static_cast<zn_cuda_blas *>(zn_calloc(1, sizeof *b));
    if (!b)
        return nullptr;
    b->library = find_library();
    const bool ready = b->library && find_functions(b) && b->call.Create(&b->handle) == CUBLAS_STATUS_SUCCESS &&
                       cudaMalloc(&b->workspace, WORKSPACE) == cudaSuccess;
    if (ready)
        return b;
    cudaGetLastError(); /* no failure: the other kernels are used */
    close_blas(b);
    return nullptr;
}

/* ---- choices ---- */

static cudaDataType_t blas_type(int32_t type)
{
    return type == ZN_TYPE_BF16   ? CUDA_R_16BF
           : type == ZN_TYPE_F16  ? CUDA_R_16F
           : type == ZN_TYPE_E4M3 ? CUDA_R_8F_E4M3
                                  : CUDA_R_32F;
}

/* Where the scales of a product of FP8 numbers are: one for each row of x and of w. */
static bool set_scales(const functions &call, cublasLtMatmulDesc_t how, const half_product &p)
{
#if CUBLAS_VERSION >= 120900
    const cublasLtMatmulMatrixScale_t rows = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    return !call.MatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &rows, sizeof rows) &&
           !call.MatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &rows, sizeof rows) &&
           !call.MatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &p.w_scales, sizeof p.w_scales) &&
           !call.MatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &p.x_scales, sizeof p.x_scales);
#else
    (void)call, (void)how, (void)p;
    return false;
#endif
}

/* Sums stay in the matrix unit, which keeps about 14 bits of them: many more than the 4 of the factors. */
static bool set_fp8(const functions &call, cublasLtMatmulDesc_t how, const half_product &p)
{
    const int8_t fast = 1;
    return !call.MatmulDescSetAttribute(how, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast) &&
           (!p.x_scales || set_scales(call, how, p));
}

static bool describe(const functions &call, const shape &s, const half_product &p, choice *c)
{
    const cublasOperation_t turn = CUBLAS_OP_T, keep = CUBLAS_OP_N;
    const cublasLtEpilogue_t with_bias = CUBLASLT_EPILOGUE_BIAS;
    const cublasOperation_t w = s.turned ? keep : turn, x = s.x_turned ? turn : keep;
    const cudaDataType_t type = blas_type(s.type);
    const uint64_t width = (uint64_t)s.columns, depth = (uint64_t)s.depth, rows = (uint64_t)s.rows;
    bool good = call.MatmulDescCreate(&c->how, CUBLAS_COMPUTE_32F, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS;
    good = good && !call.MatmulDescSetAttribute(c->how, CUBLASLT_MATMUL_DESC_TRANSA, &w, sizeof w);
    good = good && !call.MatmulDescSetAttribute(c->how, CUBLASLT_MATMUL_DESC_TRANSB, &x, sizeof x);
    if (s.bias)
        good =
            good && !call.MatmulDescSetAttribute(c->how, CUBLASLT_MATMUL_DESC_EPILOGUE, &with_bias, sizeof with_bias);
    if (p.type == ZN_TYPE_E4M3)
        good = good && set_fp8(call, c->how, p);
    good =
        good && !call.MatrixLayoutCreate(&c->w, type, s.turned ? width : depth, s.turned ? depth : width, s.w_stride);
    good =
        good && !call.MatrixLayoutCreate(&c->x, type, s.x_turned ? rows : depth, s.x_turned ? depth : rows, s.x_stride);
    return good && !call.MatrixLayoutCreate(&c->y, blas_type(s.y_type), width, rows, s.y_stride);
}

/* The library's first proposal, which is the same every time. Sums of parts of the depth are added in order. */
static bool propose(const zn_cuda_blas *b, choice *c)
{
    const size_t most = WORKSPACE;
    const uint32_t in_order = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, aligned = ALIGNED;
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t result;
    int found = 0;
    if (b->call.MatmulPreferenceCreate(&wish) != CUBLAS_STATUS_SUCCESS)
        return false;
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const void *value, size_t size) {
        return b->call.MatmulPreferenceSetAttribute(wish, name, value, size) == CUBLAS_STATUS_SUCCESS;
    };
    const bool good = set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most) &&
                      set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &in_order, sizeof in_order) &&
                      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &aligned, sizeof aligned) &&
                      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &aligned, sizeof aligned) &&
                      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &aligned, sizeof aligned) &&
                      set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &aligned, sizeof aligned) &&
                      b->call.MatmulAlgoGetHeuristic(b->handle, c->how, c->w, c->x, c->y, c->y, wish, 1, &result,
                                                     &found) == CUBLAS_STATUS_SUCCESS;
    b->call.MatmulPreferenceDestroy(wish);
    if (good && found)
        c->algorithm = result.algo;
    return good && found;
}

static const choice *choose(zn_cuda_blas *b, const shape &s, const half_product &p)
{
    for (size_t i = 0; i < b->count; i++)
        if (memcmp(&b->choices[i].of, &s, sizeof s) == 0)
            return &b->choices[i];
    if (!ZN_GROW(b->choices, b->capacity, b->count + 1))
        return nullptr;
    choice *c = &b->choices[b->count++];
    memset(c, 0, sizeof *c);
    c->of = s;
    c->known = describe(b->call, s, p, c) && propose(b, c);
    return c;
}

/* ---- products ---- */

static const void *bias_of(const half_product &p) { return p.y_type == ZN_TYPE_F32 ? p.bias : p.narrow_bias; }

/* Few rows are limited by reading the weights, which our kernels do as well. Bias and residual must have the type of y.
 * Its ReLU may lose values that are not numbers. */
static bool may_take(const half_product &p)
{
    const uintptr_t addresses = (uintptr_t)p.x | (uintptr_t)p.w | (uintptr_t)p.y | (uintptr_t)p.residual;
    return (p.rows >= 64 || p.x_turned) && addresses % ALIGNED == 0 && p.columns % 8 == 0 && (!p.bias || bias_of(p)) &&
           (!p.residual || p.residual_type == p.y_type) && !p.relu;
}

bool zn_cuda_blas_is_there(zn_device *d)
{
    if (!d->blas && !d->blas_missing)
        d->blas = open_blas();
    d->blas_missing = !d->blas;
    return d->blas != nullptr;
}

bool zn_cuda_blas_product(zn_device *d, const half_product &p)
{
    if (d->status != ZN_OK || !may_take(p) || !zn_cuda_blas_is_there(d))
        return false;
    zn_cuda_blas *b = d->blas;
    const shape s = { p.rows,
                      p.depth,
                      p.columns,
                      p.x_stride,
                      p.w_stride,
                      p.y_stride ? p.y_stride : p.columns,
                      p.turned,
                      p.x_turned,
                      p.bias != nullptr,
                      p.residual != nullptr,
                      p.type,
                      p.y_type,
                      p.x_scales != nullptr,
                      0 };
    const choice *c = choose(b, s, p);
    if (!c || !c->known)
        return false;
    const float one = 1, more = p.residual ? 1 : 0;
    const void *bias = bias_of(p), *added = p.residual ? p.residual : p.y;
    if (p.bias && b->call.MatmulDescSetAttribute(c->how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias))
        return false;
    if (p.x_scales && !set_scales(b->call, c->how, p))
        return false;
    return b->call.Matmul(b->handle, c->how, &one, p.w, c->w, p.x, c->x, &more, added, c->y, p.y, c->y, &c->algorithm,
                          b->workspace, WORKSPACE, d->stream) == CUBLAS_STATUS_SUCCESS;
}

const char *zn_cuda_blas_text(const zn_device *d)
{
    static const char *const texts[] = { " with cuBLASLt", " with cuBLASLt, FP8 without scales",
                                         " with cuBLASLt, FP8 with a scale for each row" };
    int fp8 = 0;
    for (size_t i = 0; d->blas && i < d->blas->count; i++) {
        const choice *c = &d->blas->choices[i];
        const int now = !c->known || c->of.type != ZN_TYPE_E4M3 ? 0 : 1 + c->of.scaled;
        fp8 = now > fp8 ? now : fp8;
    }
    return d->blas ? texts[fp8] : "";
}

void zn_cuda_blas_close(zn_device *d)
{
    if (d->blas)
        close_blas(d->blas);
    d->blas = nullptr;
}

#endif
