/* Error reporting: the function that detects an error writes its text, callers return the status unchanged.
 *
 *     if (end > size)
 *         return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s' ends at %zu of %zu", path, name, end, size);
 *     ZN_TRY(read_header(f)); */
#ifndef ZN_FAIL_H
#define ZN_FAIL_H

#include <zenith/status.h>

__attribute__((format(printf, 2, 3))) zn_status zn_fail(zn_status code, const char *format, ...);

/* Prepends the path to the error text if the text does not contain it. For readers that get only tensors or bytes, not
 * a path. */
zn_status zn_fail_in_file(zn_status code, const char *path);

#define ZN_FAIL(code, ...) zn_fail((code), __VA_ARGS__)
#define ZN_TRY(call)                                                                                                   \
    do {                                                                                                               \
        zn_status zn_try_status_ = (call);                                                                             \
        if (zn_try_status_ != ZN_OK)                                                                                   \
            return zn_try_status_;                                                                                     \
    } while (0)
/* Like ZN_TRY, for functions that clean up at a `done:` label and return `status`. */
#define ZN_TRY_DONE(call)                                                                                              \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != ZN_OK)                                                                                           \
            goto done;                                                                                                 \
    } while (0)

#endif
