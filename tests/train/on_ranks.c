/* Tests that run on every rank. */
#include "on_ranks.h"

#include "train/ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>

enum { SKIPPED = 77 };

zn_ranks *ranks;
int rank, count;

void together(void) { assert_int_equal(zn_ranks_agree(ranks, ZN_OK), ZN_OK); }

int run_on_ranks(const char *name, const struct CMUnitTest *tests, size_t number, CMFixtureFunction set_up,
                 CMFixtureFunction tear_down)
{
    if (zn_ranks_open(&ranks) != ZN_OK) {
        printf("skipped: %s\n", zn_error_text());
        return getenv("ZENITH_MUST_RUN") ? EXIT_FAILURE : SKIPPED; /* scripts/deps.sh installs MPI */
    }
    rank = zn_ranks_rank(ranks);
    count = zn_ranks_count(ranks);
    for (size_t i = 0; i < number;
         i++) /* one by one: where one fails, the others may be waiting, and mpirun ends them */
        if (_cmocka_run_group_tests(name, tests + i, 1, i == 0 ? set_up : NULL, i == number - 1 ? tear_down : NULL))
            _Exit(1);
    zn_ranks_close(ranks);
    return 0;
}
