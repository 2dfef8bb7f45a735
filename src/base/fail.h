/* How a function fails: the detector writes the sentence, callers pass it on unchanged.
 *
 *     if (end > size)
 *         return ZN_FAIL(ZN_EFORMAT, "%s: tensor '%s' ends at %zu of %zu", path, name, end, size);
 *     ZN_TRY(read_header(f)); */
#ifndef ZN_FAIL_H
#define ZN_FAIL_H

#include <zenith/status.h>

__attribute__((format(printf, 2, 3))) zn_status zn_fail(zn_status code, const char *format, ...);

/* Puts the path before the sentence of a failure that does not name it: for readers that know only tensors or bytes. */
zn_status zn_fail_in_file(zn_status code, const char *path);

#define ZN_FAIL(code, ...) zn_fail((code), __VA_ARGS__)
#define ZN_TRY(call)                                                                                                   \
    do {                                                                                                               \
        zn_status zn_try_status_ = (call);                                                                             \
        if (zn_try_status_ != ZN_OK)                                                                                   \
            return zn_try_status_;                                                                                     \
    } while (0)
/* As ZN_TRY in a function that cleans up under a `done:` label and returns `status`. */
#define ZN_TRY_DONE(call)                                                                                              \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != ZN_OK)                                                                                           \
            goto done;                                                                                                 \
    } while (0)

#endif
