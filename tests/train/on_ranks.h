/* Tests that run alone, or on every rank under mpirun.
 *
 *     int main(void) { return run_on_ranks("ranks", tests, sizeof tests / sizeof *tests, NULL, NULL); } */
#ifndef ZN_TESTS_ON_RANKS_H
#define ZN_TESTS_ON_RANKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <zenith/ranks.h>

extern zn_ranks *ranks; /* all */
extern int rank, count;

/* Waits for the other ranks. */
void together(void);
/* Returns the exit status of main: 77 (skipped) if ranks are not available. */
int run_on_ranks(const char *name, const struct CMUnitTest *tests, size_t number, CMFixtureFunction set_up,
                 CMFixtureFunction tear_down);

#endif
