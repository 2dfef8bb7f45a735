/* Windows of device.h: a second stream copies, and events order it with the launches. */
#include "kernels/cuda/cuda.h"

extern "C" {
#include "base/alloc.h"
#include "base/fail.h"
}

enum { MOST_BUFFERS = 4 };

typedef struct slot {
    const void *held[MOST_BUFFERS]; /* buffers whose twins are here */
    int count;
    cudaEvent_t arrived, done;
} slot;

struct zn_window {
    zn_device *device;
    cudaStream_t stream;
    char *memory;
    size_t slot_bytes, bytes; /* of a slot, and of all */
    int count;
    slot slots[];
};

/* The window is complete or can be freed. */
static bool fill(zn_window *w, int slots, size_t slot_bytes)
{
    w->slot_bytes = zn_window_round(slot_bytes);
    bool good = cudaStreamCreateWithFlags(&w->stream, cudaStreamNonBlocking) == cudaSuccess;
    for (w->count = 0; good && w->count < slots; w->count++) {
        slot *s = &w->slots[w->count];
        good = cudaEventCreateWithFlags(&s->arrived, cudaEventDisableTiming) == cudaSuccess &&
               cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming) == cudaSuccess;
    }
    w->bytes = w->slot_bytes * (size_t)slots;
    w->memory = good ? static_cast<char *>(zn_cuda_alloc(w->device, w->bytes)) : nullptr;
    return w->memory && cudaStreamSynchronize(w->device->stream) == cudaSuccess;
}

zn_status zn_device_window(zn_device *d, int slots, size_t slot_bytes, zn_window **out)
{
    zn_window *w = static_cast<zn_window *>(zn_calloc(1, sizeof *w + sizeof *w->slots * (size_t)slots));
    *out = nullptr;
    if (!w)
        return ZN_FAIL(ZN_ENOMEM, "out of memory for a window of weights");
    w->device = d;
    if (fill(w, slots, slot_bytes)) {
        *out = w;
        return ZN_OK;
    }
    cudaGetLastError(); /* clears the error: it is reported here */
    zn_window_free(w);
    return ZN_FAIL(ZN_ENOMEM, "the GPU has no %.0f MiB left for weights that take turns there",
                   (double)slot_bytes * slots / 1048576.0);
}

void zn_window_free(zn_window *w)
{
    if (!w)
        return;
    if (w->stream)
        cudaStreamSynchronize(w->stream);
    cudaStreamSynchronize(w->device->stream);
    zn_window_clear(w);
    for (int i = 0; i < w->count; i++) {
        if (w->slots[i].arrived)
            cudaEventDestroy(w->slots[i].arrived);
        if (w->slots[i].done)
            cudaEventDestroy(w->slots[i].done);
    }
    if (w->stream)
        cudaStreamDestroy(w->stream);
    zn_cuda_free(w->device, w->memory, w->bytes);
    zn_free(w);
}

static void empty(zn_window *w, slot *s)
{
    for (int i = 0; i < s->count; i++)
        zn_cuda_twin_take_back(w->device, s->held[i]);
    s->count = 0;
}

/* Waiting for an event that was never recorded is no wait. */
void zn_window_load(zn_window *w, int number, const zn_window_buffer *buffers, int count)
{
    zn_device *d = w->device;
    slot *s = &w->slots[number];
    char *to = w->memory + (size_t)number * w->slot_bytes;
    empty(w, s);
    zn_cuda_check(d, cudaStreamWaitEvent(w->stream, s->done, 0), "a wait for launches");
    for (int i = 0; i < count && i < MOST_BUFFERS && d->status == ZN_OK; i++) {
        const zn_window_buffer *b = &buffers[i];
        if (!zn_cuda_twin_lend(d, b->host, b->bytes, to))
            continue; /* it is on the GPU already */
        s->held[s->count++] = b->host;
        zn_cuda_check(d, cudaMemcpyAsync(to, b->from, b->bytes, cudaMemcpyHostToDevice, w->stream),
                      "a copy of weights to the GPU");
        d->sent += b->bytes;
        to += zn_window_round(b->bytes);
    }
    zn_cuda_check(d, cudaEventRecord(s->arrived, w->stream), "a copy of weights to the GPU");
}

void zn_window_use(zn_window *w, int number)
{
    zn_cuda_check(w->device, cudaStreamWaitEvent(w->device->stream, w->slots[number].arrived, 0), "a wait for weights");
}

void zn_window_done(zn_window *w, int number)
{
    zn_cuda_check(w->device, cudaEventRecord(w->slots[number].done, w->device->stream), "a launch");
}

void zn_window_clear(zn_window *w)
{
    for (int i = 0; i < w->count; i++)
        empty(w, &w->slots[i]);
}

void *zn_device_pinned(zn_device *, size_t bytes)
{
    void *host = nullptr;
    if (cudaHostAlloc(&host, bytes, cudaHostAllocDefault) == cudaSuccess)
        return host;
    cudaGetLastError(); /* no failure: copies from other memory work as well */
    return nullptr;
}

void zn_device_unpin(zn_device *, void *host)
{
    if (host)
        cudaFreeHost(host);
}
