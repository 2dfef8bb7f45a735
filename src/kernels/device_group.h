/* Devices of several processes that add up numbers among themselves, without host memory (NCCL, where the build found
 * its header and the machine has its library).
 *
 *     zn_device_group_id id;
 *     if (rank == 0 && !zn_device_group_make(&id)) ...             // there is no such library
 *     send_to_all(&id);
 *     ZN_TRY(zn_device_group_join(d, &id, rank, count, &g));       // all processes, each with a device of its own
 *     zn_device_group_sum(g, x, 1000);                             // x has a twin; in the order of other launches
 *     zn_device_group_leave(g);
 *
 * The order of additions is the library's: the same in every run of as many processes. */
#ifndef ZN_DEVICE_GROUP_H
#define ZN_DEVICE_GROUP_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_device_group zn_device_group;
typedef struct zn_device_group_id {
    char bytes[128];
} zn_device_group_id;

/* Number of GPUs of this machine. */
int zn_device_count(void);

ZN_MUST_USE bool zn_device_group_make(zn_device_group_id *out);
ZN_MUST_USE zn_status zn_device_group_join(zn_device *d, const zn_device_group_id *id, int rank, int count,
                                           zn_device_group **out);
void zn_device_group_leave(zn_device_group *g); /* NULL is fine */
/* A failure is reported by zn_device_wait. The caller holds the device's lock. */
void zn_device_group_sum(zn_device_group *g, float *values, int64_t count);

#ifdef __cplusplus
}
#endif
#endif
