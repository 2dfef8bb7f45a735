/* What the checks of CUDA kernels share: memory of both sides, results between guards, and the count. */
#ifndef ZN_CUDA_CASE_H
#define ZN_CUDA_CASE_H

#include "fence.h"
#include "kernels/device.h"

extern zn_device *cuda_device;
extern bool cuda_is_emulated;
extern const char *cuda_filter; /* only kernels whose name holds it */
extern int cuda_failures;

void cuda_fail(const char *name, const char *what);
void cuda_must(zn_status status); /* or it is over */

/* Memory of both sides that holds the same: one value everywhere, normal numbers, or a copy. */
float *cuda_shared_new(int64_t count, float value);
float *cuda_shared_normal(zn_rng *rng, int64_t count, float scale);
float *cuda_shared_copy(const float *from, int64_t count);
void cuda_shared_free(float *x);

/* A result on the device between numbers that no kernel gives; cuda_compare fetches it. */
float *cuda_result_new(int64_t count);
void cuda_result_free(float *y);
void cuda_compare(const char *name, float *y, const float *want, int64_t count, double allowed);

/* Launches, and remembers which kernels of the list were. */
void cuda_start(zn_body body, int64_t units, const void *args);

void cuda_check_convs(void); /* check_cuda_conv.c */

/* One line; the exit status. */
int cuda_summary(void);

#endif
