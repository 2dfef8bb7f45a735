/* Shared by the checks of CUDA kernels: memory on host and device, results between guards, the number of failures. */
#ifndef ZN_CUDA_CASE_H
#define ZN_CUDA_CASE_H

#include "fence.h"
#include "kernels/device.h"
#include "kernels/type.h"

extern zn_device *cuda_device;
extern bool cuda_is_emulated;
extern const char *cuda_filter; /* run only kernels whose name contains it */
extern int cuda_failures;

void cuda_fail(const char *name, const char *what);
void cuda_must(zn_status status); /* exits if status is not ZN_OK */

/* Memory with the same content on host and device: one value everywhere, normally distributed numbers, or a copy. */
float *cuda_shared_new(int64_t count, float value);
float *cuda_shared_normal(zn_rng *rng, int64_t count, float scale);
float *cuda_shared_copy(const float *from, int64_t count);
void cuda_shared_free(float *x);

/* A result on the device between guard values that no kernel writes. cuda_compare fetches it. */
float *cuda_result_new(int64_t count);
void cuda_result_free(float *y);
void cuda_compare(const char *name, float *y, const float *want, int64_t count, double allowed);

/* A copy of x in a 16-bit type, which x is rounded to (F32: of x itself); cuda_shared_free. And a result of the device
 * in a 16-bit type as floats; cuda_result_free. */
float *cuda_map_new(float *x, int64_t count, zn_type type);
float *cuda_map_fetch(float *y, int64_t count, zn_type type);

/* Launches a kernel and records which kernels of the list were launched. */
void cuda_start(zn_body body, int64_t units, const void *args);

/* Runs a kernel on the CPU and on the device, and compares the results. result: the field of args that has its address;
 * start: what the result holds before the kernel runs, or NULL. */
void cuda_check(const char *name, zn_body body, int64_t units, const void *args, float **result, const float *start,
                int64_t count, double allowed);

/* Runs a kernel on the CPU with all threads; each has `scratch` bytes of its own. */
void cuda_reference(zn_body body, int64_t units, const void *args, size_t scratch);

bool cuda_has(zn_body body);    /* whether the list has it */
bool cuda_runs(uint32_t needs); /* whether these flags of a kernel are for a GPU, and the device has them */

void cuda_check_channels(void);    /* check_cuda_channels.c */
void cuda_check_losses(void);      /* check_cuda_loss.c */
void cuda_check_elementwise(void); /* check_cuda_elementwise.c */
void cuda_check_resample(void);    /* check_cuda_resample.c */
void cuda_check_optim(void);       /* check_cuda_optim.c */
void cuda_check_convs(void);       /* check_cuda_conv.c */
void cuda_check_norm_convs(void);  /* check_cuda_norm_conv.c */
void cuda_check_attention(void);   /* check_cuda_attention.c */
void cuda_check_conv_grads(void);  /* check_cuda_conv_grad.c */
void cuda_check_matrix(void);      /* check_cuda_matrix.c */
void cuda_check_tokens(void);      /* check_cuda_token.c */
void cuda_check_fp8(void);         /* check_cuda_fp8.c */
void cuda_check_sequences(void);   /* check_cuda_sequence.c */
void cuda_check_samples(void);     /* check_cuda_sample.c */
void cuda_check_norms(void);       /* check_cuda_norm.c */
void cuda_check_prune(void);       /* check_cuda_prune.c */
void cuda_check_simd(void);        /* check_cuda_simd.c */
void cuda_check_spectral(void);    /* check_cuda_spectral.c */

/* The number of comparisons so far. */
int cuda_compared(void);

/* Prints one line and returns the exit status. whole: every kernel should have been launched. */
int cuda_summary(bool whole);

#endif
