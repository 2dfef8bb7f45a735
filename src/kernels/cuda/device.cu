/* The CUDA device of device.h: one stream, a list of twins, and the table of kernels. */
#include "kernels/cuda/basic/blas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "base/alloc.h"
#include "base/cpu.h"
#include "base/fail.h"
#include "kernels/conv.h"
#include "kernels/kernels.h"
#include "kernels/norm.h"
}

#if !defined(ZN_CUDA_EMULATED)
#define ZN_CUDA_90A(name) ZN_CUDA(name)
#endif
#if !defined(ZN_CUDA_HOPPER)
#define ZN_CUDA_HOPPER 0 /* whether the architectures of this build include sm_90a (cmake/cuda.cmake) */
#endif

extern "C" {
#define ZN_CUDA(name)                                                                                                  \
    void zn_k_##name(const void *, zn_range);                                                                          \
    void zn_cuda_##name(zn_device *, const void *, int64_t);
#include "kernels/cuda/kernels.def"
#undef ZN_CUDA
}

static const struct {
    zn_body body;
    void (*run)(zn_device *d, const void *args, int64_t units);
    const char *name;
} table[] = {
#define ZN_CUDA(name) { zn_k_##name, zn_cuda_##name, #name },
#include "kernels/cuda/kernels.def"
#undef ZN_CUDA
};

/* ---- opening ---- */

static zn_status open_stream(zn_device *d, int number)
{
    int count = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count < 1)
        return ZN_FAIL(ZN_EUNSUPPORTED, "this machine has no GPU that CUDA can use%s%s",
                       error != cudaSuccess ? ": " : "", error != cudaSuccess ? cudaGetErrorString(error) : "");
    if (number >= count)
        return ZN_FAIL(ZN_EINVALID, "there is no GPU cuda:%d: this machine has %d, from cuda:0", number, count);
    int major = 0, pooled = 0;
    d->number = number;
    zn_cuda_check(d, cudaSetDevice(number), "the GPU");
    zn_cuda_check(d, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number), "the GPU");
    zn_cuda_check(d, cudaDeviceGetAttribute(&d->processors, cudaDevAttrMultiProcessorCount, number), "the GPU");
    zn_cuda_check(d, cudaDeviceGetAttribute(&d->shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, number), "the GPU");
    zn_cuda_check(d, cudaDeviceGetAttribute(&pooled, cudaDevAttrMemoryPoolsSupported, number), "the GPU");
    d->pooled = pooled;
    if (d->status == ZN_OK && major < 8)
        return ZN_FAIL(ZN_EUNSUPPORTED, "the GPU has compute capability %d: 8.0 is the least", major);
    d->hopper = ZN_CUDA_HOPPER && major == 9;
    zn_cuda_check(d, cudaStreamCreateWithFlags(&d->stream, cudaStreamNonBlocking), "a stream");
    static const unsigned zeros[ZN_CUDA_ARRIVED] = { 0 };
    zn_cuda_check(d, cudaMalloc(reinterpret_cast<void **>(&d->arrived), sizeof zeros), "memory of the GPU");
    if (d->status == ZN_OK)
        zn_cuda_check(d, cudaMemcpyAsync(d->arrived, zeros, sizeof zeros, cudaMemcpyHostToDevice, d->stream), "zeros");
    return d->status == ZN_OK ? ZN_OK : ZN_FAIL(d->status, "%s", d->text);
}

zn_status zn_device_open(const char *name, zn_device **out)
{
    *out = NULL;
    if (!name || strcmp(name, "cpu") == 0)
        return ZN_OK;
    int number = 0;
    if (!zn_device_is_cuda(name, &number))
        return ZN_FAIL(ZN_EINVALID, "device '%s' is not known: cpu, cuda or cuda:N", name);
    zn_device *d = static_cast<zn_device *>(zn_calloc(1, sizeof *d));
    if (!d)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a device");
    pthread_mutex_init(&d->lock, nullptr);
    const zn_status status = open_stream(d, number);
    if (status == ZN_OK)
        *out = d;
    else
        zn_device_close(d);
    return status;
}

static void twin_free(zn_device *d, const zn_twin *t)
{
    if (!t->borrowed)
        zn_cuda_free(d, t->device, t->bytes);
    if (t->pinned)
        cudaFreeHost(t->pinned);
}

void zn_device_close(zn_device *d)
{
    if (!d)
        return;
    if (d->stream)
        cudaStreamSynchronize(d->stream);
    for (size_t i = 0; i < d->count; i++)
        twin_free(d, &d->twins[i]);
    if (d->stream) {
        zn_cuda_blas_close(d);
        cudaFree(d->arrived);
        cudaStreamDestroy(d->stream);
    }
    zn_free(d->twins);
    pthread_mutex_destroy(&d->lock);
    zn_free(d);
}

/* The current GPU is a property of each thread. */
void zn_device_lock(zn_device *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    cudaSetDevice(d->number);
}

void zn_device_unlock(zn_device *d)
{
    if (d)
        pthread_mutex_unlock(&d->lock);
}

const char *zn_device_kind(const zn_device *) { return "CUDA"; }

uint32_t zn_device_flags(const zn_device *d)
{
    return !d ? zn_cpu_flags() : d->hopper ? (uint32_t)(ZN_CPU_CUDA | ZN_CPU_HOPPER) : (uint32_t)ZN_CPU_CUDA;
}

void zn_device_describe(const zn_device *d, char *text, size_t size, double *gflops, double *bandwidth)
{
    enum { LANES = 128 }; /* fp32 multiply-adds per multiprocessor and clock; compute capability 8.0 has half as many */
    cudaDeviceProp p;
    int clock = 0, memory_clock = 0, bits = 0; /* kHz, kHz, bus width */
    snprintf(text, size, "%s%s", cudaGetDeviceProperties(&p, d->number) == cudaSuccess ? p.name : "CUDA",
             zn_cuda_blas_text(d));
    cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, d->number);
    cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, d->number);
    cudaDeviceGetAttribute(&bits, cudaDevAttrGlobalMemoryBusWidth, d->number);
    *gflops = 2.0 * LANES * d->processors * clock * 1e-6;
    *bandwidth = 2.0 * memory_clock * 1e-6 * bits / 8;
}

/* The pool keeps what was freed until then. Waiting would end another thread's recording: it has the lock meanwhile. */
size_t zn_device_free_memory(zn_device *d)
{
    size_t unused = 0, all = 0;
    cudaMemPool_t pool;
    zn_device_lock(d);
    cudaStreamSynchronize(d->stream);
    if (d->pooled && cudaDeviceGetDefaultMemPool(&pool, d->number) == cudaSuccess)
        cudaMemPoolTrimTo(pool, 0);
    if (cudaMemGetInfo(&unused, &all) != cudaSuccess)
        unused = 0;
    zn_device_unlock(d);
    return unused;
}

/* A context has stacks for all threads of each multiprocessor. An H200 (132 of these): 527 MiB when it is opened, and
 * kernels, which are loaded when they are first used, cuBLASLt and its workspace. */
size_t zn_device_overhead(const zn_device *d)
{
    enum { MIB = 1 << 20, CONTEXT = 256 * MIB, PROCESSOR = 2 * MIB, LIBRARIES = 96 * MIB };
    return CONTEXT + LIBRARIES + (size_t)d->processors * PROCESSOR;
}

void zn_cuda_check(zn_device *d, cudaError_t error, const char *what)
{
    if (error == cudaSuccess || d->status != ZN_OK)
        return;
    d->status = error == cudaErrorMemoryAllocation ? ZN_ENOMEM : ZN_EIO;
    snprintf(d->text, sizeof d->text, "CUDA: %s failed: %s", what, cudaGetErrorString(error));
}

/* ---- memory ---- */

/* Blocks of a pool share pages: those of cudaMalloc have 2 MiB pages of their own, a seventh of all memory where a
 * network has many small weights. */
void *zn_cuda_alloc(zn_device *d, size_t bytes)
{
    void *memory = nullptr;
    if ((d->pooled ? cudaMallocAsync(&memory, bytes, d->stream) : cudaMalloc(&memory, bytes)) != cudaSuccess) {
        cudaGetLastError(); /* clears the error: callers report it */
        return nullptr;
    }
    d->taken += bytes;
    d->most = d->most < d->taken ? d->taken : d->most;
    return memory;
}

void zn_cuda_free(zn_device *d, void *memory, size_t bytes)
{
    d->taken -= memory ? bytes : 0;
    if (memory && d->pooled)
        cudaFreeAsync(memory, d->stream);
    else
        cudaFree(memory);
}

/* The first twin that ends after the address. */
static size_t position_of(const zn_device *d, const void *host)
{
    size_t low = 0, high = d->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if ((uintptr_t)(d->twins[middle].host + d->twins[middle].bytes) <= (uintptr_t)host)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static zn_twin *twin_of(const zn_device *d, const void *host)
{
    const size_t at = position_of(d, host);
    return at < d->count && (uintptr_t)d->twins[at].host <= (uintptr_t)host ? &d->twins[at] : NULL;
}

bool zn_device_has(const zn_device *d, const void *host, size_t bytes)
{
    const zn_twin *t = twin_of(d, host);
    return t && t->host == host && t->bytes == bytes;
}

/* Finds the place in the list for the twin of a buffer that has none, and grows the list by one. */
static zn_status place_for(zn_device *d, const void *host, size_t bytes, size_t *at)
{
    *at = position_of(d, host);
    if (*at < d->count && (uintptr_t)d->twins[*at].host < (uintptr_t)host + bytes)
        return ZN_FAIL(ZN_EINVALID, "a block of %zu bytes overlaps another that has a twin on the device", bytes);
    if (!ZN_GROW(d->twins, d->capacity, d->count + 1))
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a list of the device's blocks");
    return ZN_OK;
}

static void insert(zn_device *d, size_t at, const void *host, size_t bytes, void *memory, bool borrowed)
{
    memmove(d->twins + at + 1, d->twins + at, sizeof *d->twins * (d->count++ - at));
    d->twins[at] = (zn_twin){ static_cast<const char *>(host), static_cast<char *>(memory), bytes, 1, NULL, borrowed };
}

bool zn_cuda_twin_lend(zn_device *d, const void *host, size_t bytes, void *memory)
{
    size_t at;
    if (zn_device_has(d, host, bytes))
        return false;
    const zn_status status = place_for(d, host, bytes, &at);
    if (status == ZN_OK) {
        insert(d, at, host, bytes, memory, true);
    } else if (d->status == ZN_OK) {
        d->status = status;
        snprintf(d->text, sizeof d->text, "%s", zn_error_text());
    }
    return status == ZN_OK;
}

void zn_cuda_twin_take_back(zn_device *d, const void *host)
{
    zn_twin *twin = twin_of(d, host);
    if (twin && twin->host == host && twin->borrowed)
        memmove(twin, twin + 1, sizeof *twin * (size_t)(d->twins + --d->count - twin));
}

zn_status zn_device_twin(zn_device *d, const void *host, size_t bytes)
{
    if (!bytes)
        return ZN_OK;
    if (zn_device_has(d, host, bytes)) {
        twin_of(d, host)->users++;
        return ZN_OK;
    }
    size_t at;
    ZN_TRY(place_for(d, host, bytes, &at));
    void *memory = zn_cuda_alloc(d, bytes);
    if (!memory)
        return ZN_FAIL(ZN_ENOMEM, "the GPU has no %.0f MiB left", (double)bytes / 1048576.0);
    insert(d, at, host, bytes, memory, false);
    return ZN_OK;
}

void zn_device_keep(zn_device *d, const void *host) { twin_of(d, host)->users++; }

void zn_device_drop(zn_device *d, const void *host)
{
    zn_twin *twin = twin_of(d, host);
    if (!twin || twin->host != host || --twin->users > 0)
        return;
    zn_cuda_check(d, cudaStreamSynchronize(d->stream), "the work before");
    twin_free(d, twin);
    memmove(twin, twin + 1, sizeof *twin * (size_t)(d->twins + --d->count - twin));
}

zn_status zn_device_pinned_twin(zn_device *d, size_t bytes, void **host)
{
    *host = NULL;
    if (cudaHostAlloc(host, bytes, cudaHostAllocDefault) != cudaSuccess) {
        cudaGetLastError();
        return ZN_FAIL(ZN_ENOMEM, "out of memory: %zu bytes for copies to and from the GPU", bytes);
    }
    const zn_status status = zn_device_twin(d, *host, bytes);
    if (status == ZN_OK)
        twin_of(d, *host)->pinned = *host;
    else
        cudaFreeHost(*host);
    return status;
}

void *zn_cuda_address(zn_device *d, const void *host)
{
    const zn_twin *twin = host ? twin_of(d, host) : NULL;
    if (host && !twin && d->status == ZN_OK) {
        const size_t at = position_of(d, host);
        d->status = ZN_EINVALID;
        const int length = snprintf(d->text, sizeof d->text, "CUDA: %s was given memory that is not on the GPU",
                                    d->running ? d->running : "a copy");
        if (at) {
            const zn_twin *before = &d->twins[at - 1];
            snprintf(d->text + length, sizeof d->text - (size_t)length, ", %td bytes after a block of %zu",
                     static_cast<const char *>(host) - (before->host + before->bytes), before->bytes);
        }
    }
    return twin ? twin->device + (static_cast<const char *>(host) - twin->host) : NULL;
}

void zn_device_send(zn_device *d, const void *host, size_t bytes)
{
    void *to = zn_cuda_address(d, host);
    d->sent += bytes;
    if (d->status == ZN_OK)
        zn_cuda_check(d, cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, d->stream), "a copy to the GPU");
}

size_t zn_device_sent(const zn_device *d) { return d->sent; }
size_t zn_device_most(const zn_device *d) { return d->most; }

void zn_device_fetch(zn_device *d, void *host, size_t bytes)
{
    const void *from = zn_cuda_address(d, host);
    if (d->status == ZN_OK)
        zn_cuda_check(d, cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, d->stream), "a copy from the GPU");
}

zn_status zn_device_wait(zn_device *d)
{
    zn_cuda_check(d, cudaStreamSynchronize(d->stream), "a kernel");
    const zn_status status = d->status;
    d->status = ZN_OK;
    return status == ZN_OK ? ZN_OK : ZN_FAIL(status, "%s", d->text);
}

/* ---- kernels ---- */

void zn_device_launch(zn_device *d, zn_body body, int64_t units, const void *args)
{
    size_t i = 0;
    while (i < sizeof table / sizeof *table && table[i].body != body)
        i++;
    if (i == sizeof table / sizeof *table) {
        d->lacking = true;
        if (!d->rehearsing && d->status == ZN_OK) {
            d->status = ZN_EUNSUPPORTED;
            snprintf(d->text, sizeof d->text, "a kernel has no CUDA build");
        }
    } else if (!d->rehearsing && units > 0) {
        d->running = table[i].name;
        table[i].run(d, args, units);
        d->running = NULL;
    }
}

/* ---- recordings: CUDA graphs ---- */

/* zn_recording is never defined: its address is that of the instantiated graph. */
static cudaGraphExec_t graph_of(zn_recording *r) { return reinterpret_cast<cudaGraphExec_t>(r); }

bool zn_device_record(zn_device *d)
{
    const bool begun =
        d->status == ZN_OK && cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess;
    cudaGetLastError();
    return begun;
}

zn_recording *zn_device_recorded(zn_device *d)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    if (cudaStreamEndCapture(d->stream, &graph) != cudaSuccess || cudaGraphInstantiate(&ready, graph, 0) != cudaSuccess)
        ready = nullptr;
    if (graph)
        cudaGraphDestroy(graph);
    cudaGetLastError(); /* a launch that failed here fails again, and is reported, when it is launched by itself */
    d->status = ready ? d->status : ZN_OK;
    return reinterpret_cast<zn_recording *>(ready);
}

void zn_device_replay(zn_device *d, zn_recording *r)
{
    if (d->status == ZN_OK)
        zn_cuda_check(d, cudaGraphLaunch(graph_of(r), d->stream), "a recording");
}

void zn_device_discard(zn_device *d, zn_recording *r)
{
    if (!r)
        return;
    cudaStreamSynchronize(d->stream);
    cudaGraphExecDestroy(graph_of(r));
}

void zn_device_rehearse(zn_device *d)
{
    d->rehearsing = true;
    d->lacking = false;
}

bool zn_device_rehearsed(zn_device *d)
{
    d->rehearsing = false;
    return !d->lacking;
}

/* ---- groups ---- */

zn_cuda_queue *zn_cuda_queue_for(zn_device *d, void (*flush)(zn_device *, zn_cuda_queue *))
{
    zn_cuda_queue *empty = NULL;
    for (int i = 0; i < ZN_CUDA_QUEUES; i++) {
        if (d->queues[i].flush == flush)
            return &d->queues[i];
        if (!d->queues[i].flush)
            empty = &d->queues[i];
    }
    if (!empty) {
        empty = &d->queues[0];
        empty->flush(d, empty);
    }
    return empty;
}

void zn_device_group_begin(zn_device *d)
{
    if (d)
        d->grouping = true;
}

void zn_device_group_end(zn_device *d)
{
    if (!d)
        return;
    d->grouping = false;
    for (int i = 0; i < ZN_CUDA_QUEUES; i++)
        if (d->queues[i].flush)
            d->queues[i].flush(d, &d->queues[i]);
}
