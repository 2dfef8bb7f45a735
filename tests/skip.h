/* Skips a cmocka test that cannot run here, with the reason. Include after cmocka.h. */
#ifndef ZN_TESTS_SKIP_H
#define ZN_TESTS_SKIP_H

#include <stdlib.h>
#include <unistd.h>

/* For programs and libraries that scripts/deps.sh installs: if they should be there (scripts/test.sh sets
 * ZENITH_MUST_RUN), skipping is a failure, so that no run passes by skipping. */
static inline void skip_because(const char *why)
{
    if (getenv("ZENITH_MUST_RUN"))
        fail_msg("not run: %s", why);
    print_message("skipped: %s\n", why);
    skip();
}

/* For a file of the reference data, which is not part of the repository: without it the test is always skipped. */
static inline void skip_without_data(const char *path)
{
    if (access(path, R_OK) == 0)
        return;
    print_message("skipped: there is no %s (reference data outside the repository)\n", path);
    skip();
}

#endif
