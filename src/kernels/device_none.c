/* A build without devices: only the CPU is available. A request for a device fails with a message. */
#include "kernels/device_group.h"

#include "base/cpu.h"
#include "base/fail.h"

#include <string.h>

zn_status zn_device_open(const char *name, zn_device **out)
{
    *out = NULL;
    if (!name || strcmp(name, "cpu") == 0)
        return ZN_OK;
    if (zn_device_is_cuda(name, &(int){ 0 }))
        return ZN_FAIL(ZN_EUNSUPPORTED, "this build has no CUDA: build with cmake -DZENITH_CUDA=ON");
    return ZN_FAIL(ZN_EINVALID, "device '%s' is not known: cpu, cuda or cuda:N", name);
}

uint32_t zn_device_flags(const zn_device *d)
{
    (void)d;
    return zn_cpu_flags();
}

/* No device exists: these functions get NULL or are never called. */
void zn_device_close(zn_device *d) { (void)d; }
void zn_device_lock(zn_device *d) { (void)d; }
void zn_device_unlock(zn_device *d) { (void)d; }
const char *zn_device_kind(const zn_device *d) { return (void)d, ""; }
size_t zn_device_free_memory(zn_device *d) { return (void)d, 0; }
size_t zn_device_overhead(const zn_device *d) { return (void)d, 0; }
void zn_device_describe(const zn_device *d, char *text, size_t size, double *gflops, double *bandwidth)
{
    (void)d, (void)text, (void)size, (void)gflops, (void)bandwidth;
}
zn_status zn_device_twin(zn_device *d, const void *host, size_t bytes)
{
    return (void)d, (void)host, (void)bytes, ZN_EUNSUPPORTED;
}
void zn_device_keep(zn_device *d, const void *host) { (void)d, (void)host; }
void zn_device_drop(zn_device *d, const void *host) { (void)d, (void)host; }
bool zn_device_has(const zn_device *d, const void *host, size_t bytes)
{
    return (void)d, (void)host, (void)bytes, false;
}
size_t zn_device_sent(const zn_device *d) { return (void)d, 0; }
size_t zn_device_most(const zn_device *d) { return (void)d, 0; }
zn_status zn_device_window(zn_device *d, int slots, size_t slot_bytes, zn_window **out)
{
    return (void)d, (void)slots, (void)slot_bytes, (void)out, ZN_EUNSUPPORTED;
}
void zn_window_free(zn_window *w) { (void)w; }
void zn_window_load(zn_window *w, int slot, const zn_window_buffer *buffers, int count)
{
    (void)w, (void)slot, (void)buffers, (void)count;
}
void zn_window_use(zn_window *w, int slot) { (void)w, (void)slot; }
void zn_window_done(zn_window *w, int slot) { (void)w, (void)slot; }
void zn_window_clear(zn_window *w) { (void)w; }
void *zn_device_pinned(zn_device *d, size_t bytes) { return (void)d, (void)bytes, NULL; }
void zn_device_unpin(zn_device *d, void *host) { (void)d, (void)host; }
zn_status zn_device_pinned_twin(zn_device *d, size_t bytes, void **host)
{
    return (void)d, (void)bytes, (void)host, ZN_EUNSUPPORTED;
}
void zn_device_send(zn_device *d, const void *host, size_t bytes) { (void)d, (void)host, (void)bytes; }
void zn_device_fetch(zn_device *d, void *host, size_t bytes) { (void)d, (void)host, (void)bytes; }
void zn_device_launch(zn_device *d, zn_body body, int64_t units, const void *args)
{
    (void)d, (void)body, (void)units, (void)args;
}
void zn_device_group_begin(zn_device *d) { (void)d; }
void zn_device_group_end(zn_device *d) { (void)d; }
zn_status zn_device_wait(zn_device *d) { return (void)d, ZN_EUNSUPPORTED; }
bool zn_device_record(zn_device *d) { return (void)d, false; }
zn_recording *zn_device_recorded(zn_device *d) { return (void)d, NULL; }
void zn_device_replay(zn_device *d, zn_recording *r) { (void)d, (void)r; }
void zn_device_discard(zn_device *d, zn_recording *r) { (void)d, (void)r; }
void zn_device_rehearse(zn_device *d) { (void)d; }
bool zn_device_rehearsed(zn_device *d) { return (void)d, false; }

int zn_device_count(void) { return 0; }
bool zn_device_group_make(zn_device_group_id *out) { return (void)out, false; }
zn_status zn_device_group_join(zn_device *d, const zn_device_group_id *id, int rank, int count, zn_device_group **out)
{
    return (void)d, (void)id, (void)rank, (void)count, (void)out, ZN_EUNSUPPORTED;
}
void zn_device_group_leave(zn_device_group *g) { (void)g; }
void zn_device_group_sum(zn_device_group *g, float *values, int64_t count) { (void)g, (void)values, (void)count; }
