/* For checkers without cmocka: what must not fail ends the program. */
#ifndef ZN_TESTS_MUST_H
#define ZN_TESTS_MUST_H

#include "base/fail.h"

#include <stdio.h>
#include <stdlib.h>

static inline void must(zn_status status)
{
    if (status == ZN_OK)
        return;
    printf("FAIL %s\n", zn_error_text());
    exit(EXIT_FAILURE);
}

#endif
