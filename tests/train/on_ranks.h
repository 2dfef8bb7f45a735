/* Tests that run alone or under mpirun, on every rank.
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

/* Waits for the others. */
void together(void);
/* The status of main: 77 where there are no ranks to be had. */
int run_on_ranks(const char *name, const struct CMUnitTest *tests, size_t number, CMFixtureFunction set_up,
                 CMFixtureFunction tear_down);

#endif
