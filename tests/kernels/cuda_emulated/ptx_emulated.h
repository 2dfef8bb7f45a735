/* The instructions of src/kernels/cuda/ptx.h in plain C++. */
#ifndef ZN_PTX_EMULATED_H
#define ZN_PTX_EMULATED_H

#include <stdint.h>

/* An asynchronous copy may complete early or late. Tests cover both: emulated.cpp copies at once, or when the kernel
 * waits for it. */
void emulated_copy(float *to, const float *from, int bytes, bool is_there);
void emulated_copy_commit(void);
void emulated_copy_wait(int groups);
float emulated_tf32(float x);
void emulated_multiply_add(float *c, const float *a, const float *b);

template <int BYTES> static void copy_async(float *to, const float *from, bool is_there)
{
    emulated_copy(to, from, BYTES, is_there);
}
static inline void copy_commit(void) { emulated_copy_commit(); }
template <int N> static void copy_wait(void) { emulated_copy_wait(N); }
static inline float to_tf32(float x) { return emulated_tf32(x); }
static inline void multiply_add(float c[4], const float a[4], const float b[2]) { emulated_multiply_add(c, a, b); }

#endif
