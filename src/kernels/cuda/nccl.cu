/* Groups of devices over NCCL, found with dlopen. */
#include "kernels/cuda/cuda.h"
#include "kernels/device_group.h"

extern "C" {
#include "base/alloc.h"
#include "base/fail.h"
}

int zn_device_count(void)
{
    int count = 0;
    const bool known = cudaGetDeviceCount(&count) == cudaSuccess;
    cudaGetLastError(); /* no driver: no GPUs */
    return known ? count : 0;
}

#if defined(ZN_CUDA_EMULATED) || !__has_include(<nccl.h>)

bool zn_device_group_make(zn_device_group_id *) { return false; }
zn_status zn_device_group_join(zn_device *, const zn_device_group_id *, int, int, zn_device_group **out)
{
    *out = nullptr;
    return ZN_FAIL(ZN_EUNSUPPORTED, "this build has no NCCL");
}
void zn_device_group_leave(zn_device_group *) {}
void zn_device_group_sum(zn_device_group *, float *, int64_t) {}

#else

#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <string.h>

static_assert(sizeof(zn_device_group_id) == sizeof(ncclUniqueId), "the size of an id");

#define FUNCTIONS(F)                                                                                                   \
    F(GetUniqueId)                                                                                                     \
    F(CommInitRank)                                                                                                    \
    F(CommDestroy)                                                                                                     \
    F(AllReduce)                                                                                                       \
    F(GetErrorString)

static struct {
#define F(name) decltype(&nccl##name) name;
    FUNCTIONS(F)
#undef F
} nccl;

struct zn_device_group {
    zn_device *device;
    ncclComm_t comm;
};

/* The library stays loaded until the program ends: it may have started threads. */
static bool load(void)
{
    static const char *const names[] = { "libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2" };
    void *library = nullptr;
    for (const char *name : names)
        library = library ? library : dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return false;
    bool all = true;
#define F(name)                                                                                                        \
    nccl.name = reinterpret_cast<decltype(nccl.name)>(dlsym(library, "nccl" #name));                                   \
    all &= nccl.name != nullptr;
    FUNCTIONS(F)
#undef F
    return all;
}

static bool is_loaded(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static bool good;
    pthread_once(&once, [] { good = load(); });
    return good;
}

bool zn_device_group_make(zn_device_group_id *out)
{
    ncclUniqueId id;
    if (!is_loaded() || nccl.GetUniqueId(&id) != ncclSuccess)
        return false;
    memcpy(out->bytes, id.internal, sizeof out->bytes);
    return true;
}

zn_status zn_device_group_join(zn_device *d, const zn_device_group_id *id, int rank, int count, zn_device_group **out)
{
    ncclUniqueId own;
    *out = nullptr;
    if (!is_loaded())
        return ZN_FAIL(ZN_EUNSUPPORTED, "this machine has no NCCL");
    zn_device_group *g = static_cast<zn_device_group *>(zn_calloc(1, sizeof *g));
    if (!g)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a group of devices");
    memcpy(own.internal, id->bytes, sizeof id->bytes);
    g->device = d;
    zn_device_lock(d);
    const ncclResult_t result = nccl.CommInitRank(&g->comm, count, own, rank);
    zn_device_unlock(d);
    if (result != ncclSuccess) {
        zn_free(g);
        return ZN_FAIL(ZN_EUNSUPPORTED, "NCCL cannot join %d GPUs: %s", count, nccl.GetErrorString(result));
    }
    *out = g;
    return ZN_OK;
}

void zn_device_group_leave(zn_device_group *g)
{
    if (!g)
        return;
    zn_device_lock(g->device);
    cudaStreamSynchronize(g->device->stream);
    nccl.CommDestroy(g->comm);
    zn_device_unlock(g->device);
    zn_free(g);
}

void zn_device_group_sum(zn_device_group *g, float *values, int64_t count)
{
    zn_device *d = g->device;
    void *x = zn_cuda_address(d, values);
    if (d->status != ZN_OK)
        return;
    const ncclResult_t result = nccl.AllReduce(x, x, (size_t)count, ncclFloat, ncclSum, g->comm, d->stream);
    if (result != ncclSuccess) {
        d->status = ZN_EIO;
        snprintf(d->text, sizeof d->text, "NCCL: a sum over GPUs failed: %s", nccl.GetErrorString(result));
    }
}

#endif
