/* Libraries that are opened when the first file needs them, so that a program without such files neither loads nor
 * needs them. Functions are called through a struct of pointers, filled from one list:
 *
 *     #define CALLS(CALL) CALL(TIFFClose) CALL(TIFFGetField)
 *     static struct { CALLS(ZN_LIBRARY_POINTER) } tiff;
 *     static const zn_library_call calls[] = { CALLS(ZN_LIBRARY_ENTRY(tiff)) };
 *     static zn_library library = { .name = "libtiff.so.6", .calls = calls, .count = ... };
 *     ZN_TRY(zn_library_open(&library, source->name, "TIFF")); */
#ifndef ZN_LIBRARY_H
#define ZN_LIBRARY_H

#include <pthread.h>
#include <stdbool.h>
#include <zenith/status.h>

typedef struct zn_library_call {
    const char *name;
    void *pointer; /* of a pointer to the function */
} zn_library_call;

typedef struct zn_library {
    const char *name; /* of the file, as the loader finds it */
    const zn_library_call *calls;
    int count;
    pthread_mutex_t lock; /* PTHREAD_MUTEX_INITIALIZER */
    bool opened;
} zn_library;

#define ZN_LIBRARY_POINTER(function) __typeof__(function) *function;

/* May be called again, and by several threads. Fails with ZN_EUNSUPPORTED, naming the file and what it needs. */
ZN_MUST_USE zn_status zn_library_open(zn_library *library, const char *file, const char *format);

#endif
