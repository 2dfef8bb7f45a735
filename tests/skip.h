/* Skips a cmocka test that cannot run here, with the reason. If everything that tests need is installed
 * (scripts/test.sh sets ZENITH_MUST_RUN), skipping is a failure, so that no run passes by skipping. Include after
 * cmocka.h. */
#ifndef ZN_TESTS_SKIP_H
#define ZN_TESTS_SKIP_H

#include <stdlib.h>

static inline void skip_because(const char *why)
{
    if (getenv("ZENITH_MUST_RUN"))
        fail_msg("not run: %s", why);
    print_message("skipped: %s\n", why);
    skip();
}

#endif
