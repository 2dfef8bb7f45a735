/* CUDA: optimiser steps, averages, and reductions of parameters and gradients. */
#include "cuda_case.h"

#include "kernels/kernels.h"
#include "kernels/optim.h"

#include <math.h>
#include <string.h>

static const int64_t counts[] = { 1, 1000, ZN_REDUCE_BLOCK + 77 };
enum { COUNTS = sizeof counts / sizeof *counts };

/* ---- steps: they read and write several tensors, which lie one after the other here ---- */

enum { PARTS = 5 };

/* fields: the tensors' addresses in args, or NULL. */
static void bind(float **const fields[PARTS], float *state, int64_t count)
{
    for (int i = 0; i < PARTS; i++)
        if (fields[i])
            *fields[i] = state + i * count;
}

static void check_step(const char *name, zn_body body, int64_t count, const void *args, float **const fields[PARTS])
{
    if (!strstr(name, cuda_filter))
        return;
    zn_rng rng = zn_rng_new(11);
    const int64_t all = PARTS * count;
    float *want = fenced_new(all, false), *state = cuda_result_new(all);
    fill_normal(&rng, want, all, 1);
    for (int64_t i = 3 * count; i < all; i++)
        want[i] = fabsf(want[i]); /* second moments */
    memcpy(state, want, sizeof(float) * (size_t)all);
    zn_device_send(cuda_device, state, sizeof(float) * (size_t)all);
    bind(fields, state, count);
    cuda_start(body, count, args);
    bind(fields, want, count);
    body(args, (zn_range){ 0, count, NULL });
    cuda_compare(name, state, want, all, 1e-6);
    fenced_free(want);
    cuda_result_free(state);
}

static void check_adam(int64_t count)
{
    zn_adam_args a = { .lr = 0.01f,
                       .beta1 = 0.9f,
                       .beta2 = 0.99f,
                       .eps = 1e-8f,
                       .decay = 0.1f,
                       .penalty = 0.2f,
                       .correction1 = 0.5f,
                       .correction2 = 0.25f };
    float **fields[PARTS] = { &a.w, (float **)&a.g, &a.m, &a.v, NULL };
    check_step("adam", zn_k_adam, count, &a, fields);
    fields[4] = &a.v_max;
    check_step("adam (amsgrad)", zn_k_adam, count, &a, fields);
}

static void check_sgd(int64_t count)
{
    for (int kind = 0; kind < 3; kind++) {
        zn_sgd_args a = { .lr = 0.1f, .momentum = 0.9f, .penalty = 0.2f, .nesterov = kind == 2 };
        check_step("sgd", zn_k_sgd, count, &a,
                   (float **[PARTS]){ &a.w, (float **)&a.g, kind ? &a.m : NULL, NULL, NULL });
    }
}

static void check_average(int64_t count)
{
    zn_average_args a = { .keep = 0.9f };
    check_step("average", zn_k_average, count, &a, (float **[PARTS]){ &a.average, (float **)&a.w, NULL, NULL, NULL });
    zn_swap_args s = { 0 };
    check_step("swap", zn_k_swap, count, &s, (float **[PARTS]){ &s.x, &s.y, NULL, NULL, NULL });
}

/* ---- reductions ---- */

static void check_square_sums(int64_t count)
{
    if (!strstr("square_sums", cuda_filter))
        return;
    zn_rng rng = zn_rng_new(12);
    double want[2];
    float *x = cuda_shared_normal(&rng, count, 3), *memory = cuda_shared_new(4, NAN);
    zn_square_sums_args a = { .x = x, .y = want, .count = count };
    const int64_t blocks = zn_reduce_blocks(count);
    zn_k_square_sums(&a, (zn_range){ 0, blocks, NULL });
    a.y = (double *)memory;
    cuda_start(zn_k_square_sums, blocks, &a);
    zn_device_fetch(cuda_device, memory, sizeof(double) * (size_t)blocks);
    cuda_must(zn_device_wait(cuda_device));
    for (int64_t i = 0; i < blocks; i++)
        if (!(fabs(a.y[i] - want[i]) <= 1e-13 * want[i]))
            cuda_fail("square_sums", "differs from the scalar one");
    cuda_shared_free(x);
    cuda_shared_free(memory);
}

static void check_extreme(int64_t count, float value)
{
    if (!strstr("any_extreme", cuda_filter))
        return;
    zn_rng rng = zn_rng_new(13);
    float *x = cuda_shared_normal(&rng, count, 3);
    x[count - 1] = value;
    zn_device_send(cuda_device, x, sizeof(float) * (size_t)count);
    zn_extreme_args a = { .x = x, .count = count, .limit = 1e15f };
    cuda_check("any_extreme", zn_k_any_extreme, zn_reduce_blocks(count), &a, &a.y, NULL, zn_reduce_blocks(count), 0);
    cuda_shared_free(x);
}

/* ---- groups: more launches than fit into one, of more kernels than there are queues ---- */

enum { TENSORS = 100, SIZE = 45 }; /* tensor i begins at i * SIZE */

static void run_one(zn_body body, bool on_device, int64_t units, const void *args)
{
    if (on_device)
        cuda_start(body, units, args);
    else
        body(args, (zn_range){ 0, units, NULL });
}

/* x: seven arrays of all tensors; each kernel writes one of the last six. */
static void run_tensor(int i, float *x, bool on_device)
{
    const int64_t all = TENSORS * SIZE, count = 1 + i % SIZE;
    float *at = x + i * SIZE;
    run_one(zn_k_scale, on_device, count, &(zn_unary_args){ .x = at, .y = at + all, .a = (float)i });
    run_one(zn_k_accumulate, on_device, count, &(zn_unary_args){ .x = at, .y = at + 2 * all });
    run_one(zn_k_average, on_device, count, &(zn_average_args){ .average = at + 3 * all, .w = at, .keep = 0.75f });
    run_one(zn_k_fill, on_device, count, &(zn_unary_args){ .y = at + 4 * all, .a = (float)i });
    run_one(zn_k_any_extreme, on_device, 1,
            &(zn_extreme_args){ .x = at, .y = x + 5 * all + i, .count = count, .limit = 2 });
    run_one(zn_k_add, on_device, count, &(zn_binary_args){ .a = at, .b = at, .y = at + 6 * all });
}

static void check_group(void)
{
    if (!strstr("group", cuda_filter))
        return;
    const int64_t all = 7 * TENSORS * SIZE;
    zn_rng rng = zn_rng_new(14);
    float *want = fenced_new(all, false), *x = cuda_result_new(all);
    fill_normal(&rng, want, all, 1);
    memcpy(x, want, sizeof(float) * (size_t)all);
    zn_device_send(cuda_device, x, sizeof(float) * (size_t)all);
    zn_device_group_begin(cuda_device);
    for (int i = 0; i < TENSORS; i++) {
        run_tensor(i, x, true);
        run_tensor(i, want, false);
    }
    zn_device_group_end(cuda_device);
    cuda_compare("group", x, want, all, 1e-7);
    fenced_free(want);
    cuda_result_free(x);
}

void cuda_check_optim(void)
{
    check_group();
    static const float values[] = { 0, NAN, -INFINITY, 1e15f, -9.99e14f };
    for (int i = 0; i < COUNTS; i++) {
        check_adam(counts[i]);
        check_sgd(counts[i]);
        check_average(counts[i]);
        check_square_sums(counts[i]);
        for (int k = 0; k < 5; k++)
            check_extreme(counts[i], values[k]);
    }
}
