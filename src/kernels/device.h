/* Devices: processors with their own memory and their own builds of the kernels.
 *
 *     zn_device *d;
 *     ZN_TRY(zn_device_open("cuda", &d));
 *     ZN_TRY(zn_device_twin(d, x, bytes));             // allocates the device copy (twin) of x; the same for y
 *     zn_device_send(d, x, bytes);
 *     zn_device_launch(d, zn_k_relu, count, &(zn_unary_args){ .x = x, .y = y });
 *     zn_device_fetch(d, y, bytes);
 *     ZN_TRY(zn_device_wait(d));                       // everything is done, or the first error is returned
 *     zn_device_drop(d, x);
 *     zn_device_close(d);
 *
 * A launch always names the CPU kernel and host addresses. The device has a table from CPU kernels to its own builds
 * (cuda/kernels.def). These take the same argument struct and look up the twin of every address in it. Code above
 * this folder is therefore the same for all devices. An address without a twin is an error, never a wrong result.
 *
 * Sends, launches and fetches are asynchronous and run in the order of the calls. A device is not thread-safe:
 * threads that share one must lock it. */
#ifndef ZN_DEVICE_H
#define ZN_DEVICE_H

#include "base/threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_device zn_device;

/* True if the name is "cuda" or "cuda:N"; *number is N, or 0. */
static inline bool zn_device_is_cuda(const char *name, int *number)
{
    if (strncmp(name, "cuda", 4) != 0)
        return false;
    const char *digits = name[4] == ':' ? name + 5 : "0";
    const size_t length = strspn(digits, "0123456789");
    *number = atoi(digits);
    return (!name[4] || name[4] == ':') && length > 0 && length < 4 && !digits[length];
}

/* name: NULL or "cpu" sets *out to NULL, which means the CPU wherever a device is passed; "cuda" opens the first GPU,
 * "cuda:N" the one with that number. */
ZN_MUST_USE zn_status zn_device_open(const char *name, zn_device **out);
void zn_device_close(zn_device *d); /* NULL is fine */

/* Locks the device around calls that belong together, up to the wait. Does nothing if d is NULL: the CPU needs no
 * lock. */
void zn_device_lock(zn_device *d);
void zn_device_unlock(zn_device *d);

const char *zn_device_kind(const zn_device *d); /* "CUDA", for messages */
/* Describes the device and its data-sheet limits: GFLOP/s of fp32 multiply-adds without matrix units, and GB/s. */
void zn_device_describe(const zn_device *d, char *text, size_t size, double *gflops, double *bandwidth);
size_t zn_device_free_memory(zn_device *d); /* locks it */
/* Bytes that the driver, kernels and libraries take beside all twins and windows: an estimate that is not too small. */
size_t zn_device_overhead(const zn_device *d);
/* The ZN_CPU_ flags that kernels are chosen by: those of this CPU if d is NULL, otherwise ZN_CPU_CUDA
 * and what the GPU has. */
uint32_t zn_device_flags(const zn_device *d);

/* Allocates a twin of a host buffer, with undefined content. Repeated calls for the same buffer increase its
 * reference count. */
ZN_MUST_USE zn_status zn_device_twin(zn_device *d, const void *host, size_t bytes);
void zn_device_keep(zn_device *d, const void *host); /* increases the reference count of a buffer that has a twin */
/* Decreases the reference count and frees the twin when it reaches zero. Buffers without a twin are ignored. */
void zn_device_drop(zn_device *d, const void *host);
/* Whether this very buffer has a twin. */
bool zn_device_has(const zn_device *d, const void *host, size_t bytes);
/* Allocates host memory with the fastest transfers to the device, and its twin. zn_device_drop frees both. */
ZN_MUST_USE zn_status zn_device_pinned_twin(zn_device *d, size_t bytes, void **host);

void zn_device_send(zn_device *d, const void *host, size_t bytes);
void zn_device_fetch(zn_device *d, void *host, size_t bytes);
void zn_device_launch(zn_device *d, zn_body body, int64_t units, const void *args);
/* Returns the first failure since the last call, from any caller. */
ZN_MUST_USE zn_status zn_device_wait(zn_device *d);

/* Bytes sent since the device was opened, windows included. */
size_t zn_device_sent(const zn_device *d);
/* The most bytes that twins and windows have taken at once. */
size_t zn_device_most(const zn_device *d);

/* A window: device memory in which buffers take turns, so that a device can run a network that it cannot hold. Its
 * copies run beside the launches.
 *
 *     ZN_TRY(zn_device_window(d, 3, bytes, &w));
 *     zn_window_load(w, slot, &buffer, 1);   // the slot's buffers now; copies start when launches that used it are
 * done zn_window_use(w, slot);                // launches from here on wait until these buffers have arrived
 *     zn_device_launch(...);
 *     zn_window_done(w, slot);               // no later launch reads them
 *     zn_window_clear(w);                    // no buffer has a twin in the window any more
 *     zn_window_free(w);
 *
 * Nothing here fails by itself: zn_device_wait does. */
typedef struct zn_window zn_window;
typedef struct zn_window_buffer {
    const void *host; /* the address that launches name; it must have no other twin, or one that stays */
    const void *from; /* the bytes: at `host`, or a copy of them from zn_device_pinned, which is faster */
    size_t bytes;
} zn_window_buffer;
ZN_MUST_USE zn_status zn_device_window(zn_device *d, int slots, size_t slot_bytes, zn_window **out);
void zn_window_free(zn_window *w); /* NULL is fine */
void zn_window_load(zn_window *w, int slot, const zn_window_buffer *buffers, int count);
void zn_window_use(zn_window *w, int slot);
void zn_window_done(zn_window *w, int slot);
void zn_window_clear(zn_window *w);
/* Bytes that a buffer takes in a slot. */
static inline size_t zn_window_round(size_t size) { return (size + 255) / 256 * 256; }
/* Host memory that the device copies from while others work; NULL if there is not enough. */
void *zn_device_pinned(zn_device *d, size_t bytes);
void zn_device_unpin(zn_device *d, void *host); /* NULL is fine */

/* A recording of launches, which the device runs again with one call, in less time than it takes to launch each.
 * Between zn_device_record and zn_device_recorded nothing runs, and only launches are allowed. The recording refers to
 * the memory and to the arguments of that time. zn_device_record returns false, and zn_device_recorded NULL, if this
 * device cannot record. */
typedef struct zn_recording zn_recording;
ZN_MUST_USE bool zn_device_record(zn_device *d);
ZN_MUST_USE zn_recording *zn_device_recorded(zn_device *d);
void zn_device_replay(zn_device *d, zn_recording *r);
void zn_device_discard(zn_device *d, zn_recording *r); /* NULL is fine */

/* Launches between these two calls do not depend on each other: the device may run them in any order or as one. No
 * other call may come between them. NULL is fine. */
void zn_device_group_begin(zn_device *d);
void zn_device_group_end(zn_device *d);

/* Between these two calls nothing is launched. The second returns whether the device has a build of every kernel
 * requested in between. */
void zn_device_rehearse(zn_device *d);
ZN_MUST_USE bool zn_device_rehearsed(zn_device *d);

#ifdef __cplusplus
}
#endif
#endif
