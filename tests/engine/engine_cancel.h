/* The tests of engine_cancel.c. */
#ifndef ZN_TESTS_ENGINE_CANCEL_H
#define ZN_TESTS_ENGINE_CANCEL_H

void progress_can_cancel(void **state);
void a_cancelled_run_leaves_no_trace(void **state);

#endif
