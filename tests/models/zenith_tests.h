/* The tests of zenith_files.c and zenith_runs.c. */
#ifndef ZENITH_TESTS_H
#define ZENITH_TESTS_H

void networks_come_back_from_their_files(void **state);
void a_bad_permutation_is_refused(void **state);
void what_does_not_fit_is_refused(void **state);
void parts_of_two_networks_are_refused(void **state);

void other_sizes_give_one_sentence(void **state);
void tiles_equal_the_whole(void **state);
void threads_do_not_change_a_bit(void **state);
void fusion_only_rounds(void **state);
void open_gates_equal_the_dense_path(void **state);
void shut_gates_skip(void **state);
void every_allocation_may_fail(void **state);
void a_small_network_learns(void **state);

/* zenith_prune.c */
void an_open_mask_gives_the_dense_bits(void **state);
void what_is_skipped_is_zero(void **state);
void noise_of_another_shape_is_refused(void **state);
void gates_learn_to_prune(void **state);

#endif
