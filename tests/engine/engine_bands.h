/* The tests of memory budgets in test_engine.c. */
#ifndef ZN_TESTS_ENGINE_BANDS_H
#define ZN_TESTS_ENGINE_BANDS_H

void bands_equal_the_whole(void **state);
void threads_do_not_change_bands(void **state);
void bands_cost_little(void **state);
void squares_fit_small_budgets(void **state);
void packed_weights_count(void **state);
void nan_in_a_band_names_its_stage(void **state);

#endif
