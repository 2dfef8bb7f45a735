/* Shared by the weight tests: cmocka, opening, comparing. */
#ifndef WEIGHTS_TEST_H
#define WEIGHTS_TEST_H

#include "base/alloc.h"
#include "weights_make.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zenith/weights.h>

static inline zn_weights *must_open(const char *path)
{
    zn_weights *w;
    if (zn_weights_open(path, &w) != ZN_OK)
        fail_msg("%s", zn_error_text());
    return w;
}

static inline zn_weights *must_open_bytes(const bytes *b)
{
    zn_weights *w;
    if (zn_weights_open_memory(b->data, b->size, "bytes", &w) != ZN_OK)
        fail_msg("%s", zn_error_text());
    return w;
}

/* Opens the file repeatedly while each allocation in turn fails, until none fails. Every failure must set an error text
 * and leak nothing. Returns the number of allocations. */
static inline int open_short_of_memory(const char *path, const bytes *b, zn_weights **w)
{
    for (int failures = 0;; failures++) {
        *w = NULL;
        zn_alloc_fail_at(failures + 1);
        const zn_status status = b ? zn_weights_open_memory(b->data, b->size, path, w) : zn_weights_open(path, w);
        zn_alloc_fail_at(0);
        if (status == ZN_OK)
            return failures;
        assert_int_equal(status, ZN_ENOMEM);
        assert_null(*w);
        assert_non_null(strstr(zn_error_text(), "memory"));
    }
}

static inline void assert_same_tensor(const zn_weight *a, const zn_weight *b)
{
    assert_non_null(a);
    assert_non_null(b);
    assert_string_equal(a->name, b->name);
    assert_string_equal(zn_dtype_name(a->dtype), zn_dtype_name(b->dtype));
    assert_int_equal(a->rank, b->rank);
    assert_memory_equal(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
    assert_int_equal(a->bytes, b->bytes);
    assert_memory_equal(a->data, b->data, a->bytes);
}

/* Both files must have the same tensors by name, in any order. */
static inline void assert_same_tensors(const zn_weights *a, const zn_weights *b)
{
    assert_int_equal(zn_weights_count(a), zn_weights_count(b));
    for (int64_t i = 0; i < zn_weights_count(a); i++)
        assert_same_tensor(zn_weights_at(a, i), zn_weights_find(b, zn_weights_at(a, i)->name));
}

#endif
