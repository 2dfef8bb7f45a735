/* Devices: processors with memory of their own and their own builds of kernels.
 *
 *     zn_device *d;
 *     ZN_TRY(zn_device_open("cuda", &d));
 *     ZN_TRY(zn_device_twin(d, x, bytes));             // from now on x has a twin in the device's memory; y likewise
 *     zn_device_send(d, x, bytes);
 *     zn_device_launch(d, zn_k_relu, count, &(zn_unary_args){ .x = x, .y = y });
 *     zn_device_fetch(d, y, bytes);
 *     ZN_TRY(zn_device_wait(d));                       // all of it is done, or the first thing that went wrong
 *     zn_device_drop(d, x);
 *     zn_device_close(d);
 *
 * A launch names the CPU's kernel and addresses of the host, wherever it is to run: the device has a table from kernels
 * to its own builds of them (cuda/kernels.def), which take the same argument struct and look up the twin of every
 * address in it. So nothing above this folder knows where it runs, and an address without a twin is an error, never
 * a wrong result.
 *
 * What is sent, launched and fetched happens in that order, while the caller goes on. One thread at a time: those that
 * share a device lock it. */
#ifndef ZN_DEVICE_H
#define ZN_DEVICE_H

#include "base/threads.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zenith/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_device zn_device;

/* NULL or "cpu": *out is NULL, which every place that takes a device understands as the CPU. "cuda": the first GPU. */
ZN_MUST_USE zn_status zn_device_open(const char *name, zn_device **out);
void zn_device_close(zn_device *d); /* NULL is fine */

/* Around calls that belong together, up to the wait. NULL is fine: the CPU needs no lock. */
void zn_device_lock(zn_device *d);
void zn_device_unlock(zn_device *d);

const char *zn_device_kind(const zn_device *d); /* "CUDA", for messages */
/* What it is and can do by its data sheet: GFLOP/s of fp32 multiply-adds without matrix units, GB/s. */
void zn_device_describe(const zn_device *d, char *text, size_t size, double *gflops, double *bandwidth);
size_t zn_device_free_memory(const zn_device *d);
/* ZN_CPU_ flags that kernels may need: of this CPU for NULL, else ZN_CPU_CUDA alone. */
uint32_t zn_device_flags(const zn_device *d);

/* Gives a block of the host a twin, of undefined content. The same block again counts its users. */
ZN_MUST_USE zn_status zn_device_twin(zn_device *d, const void *host, size_t bytes);
/* One user less; the last takes the twin with it. Blocks without one are ignored. */
void zn_device_drop(zn_device *d, const void *host);
/* Memory of the host that is copied to and fro fastest, with a twin; dropping it frees both. */
ZN_MUST_USE zn_status zn_device_room(zn_device *d, size_t bytes, void **host);

void zn_device_send(zn_device *d, const void *host, size_t bytes);
void zn_device_fetch(zn_device *d, void *host, size_t bytes);
void zn_device_launch(zn_device *d, zn_body body, int64_t units, const void *args);
/* The first failure since the last call, whoever caused it. */
ZN_MUST_USE zn_status zn_device_wait(zn_device *d);

/* Between these two nothing is launched; the second tells whether there is a build of everything that was asked for. */
void zn_device_rehearse(zn_device *d);
ZN_MUST_USE bool zn_device_rehearsed(zn_device *d);

#ifdef __cplusplus
}
#endif
#endif
