/* A small encoder and denoiser of sparse fields, for tests. */
#ifndef ZN_TEST_MAMBA_NET_H
#define ZN_TEST_MAMBA_NET_H

#include "graph/exec.h"
#include "models/mamba/mamba_field.h"

extern const zn_field tiny;

/* An encoder and a denoiser, each with its own points; their results, and gradients if requested. */
typedef struct net {
    zn_graph *graph;
    zn_exec *exec;
    zn_pool *pool;
    zn_node *points, *values, *orders, *query, *noisy, *query_orders, *time; /* inputs */
    zn_node *cond, *eps, *target, *loss;
    zn_node *parameters[256], *gradients[256];
    int count;
} net;

/* Fails the test unless status is ZN_OK. */
void check(zn_status status);

zn_node *tokens(zn_graph *g, const char *name, int64_t n, int64_t length, int64_t c);
zn_status build(net *t, const zn_field *k, int64_t n, int64_t length, int64_t queries);
/* Sets initial values of the parameters. Those that start at 0 get other values, so that all of them affect the
 * results. */
void start(net *t, const zn_field *k);

/* Training of a net: none, or with all activations kept, or with activations recomputed. */
typedef enum lesson { NONE, KEPT, AGAIN } lesson;
void net_new(net *t, const zn_field *k, int64_t n, int64_t length, int64_t queries, int threads, lesson teach);
void net_free(net *t);

/* Inputs: fill sets one to random numbers, fill_all sets all of a net, sort sets the orders of its points (counts may
 * be NULL). */
void fill(zn_node *n, uint64_t seed, float scale, bool normal);
void fill_all(net *t, const zn_field *k);
void sort(net *t, const zn_field *k, const int64_t *counts, const int64_t *queries);

/* mamba_runs.c */
void the_order_of_points_does_not_matter(void **state);
void padding_does_not_matter(void **state);
void padded_tokens_give_zero(void **state);
void threads_do_not_change_a_bit(void **state);
void computing_again_does_not_change_a_bit(void **state);
void no_values_are_zeros(void **state);
void every_allocation_may_fail(void **state);
void encoder_and_denoiser_learn_together(void **state);

#endif
